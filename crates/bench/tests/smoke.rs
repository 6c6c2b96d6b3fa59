//! The whole path with few nodes: processes are started, situations played, figures reported. How fast anything was is not asked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use bailiff_processes::{BINARY, Server};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// The program of another package stands beside ours.
fn binaries() -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_bailiff-bench")).parent().unwrap().to_owned();
    assert!(
        directory.join(BINARY).exists(),
        "{BINARY} was not built: cargo build --workspace --bins"
    );
    directory
}

fn bench(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bailiff-bench"));
    command.args(flags).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// What every situation has whatever it is.
fn check(played: &Value, processes: &[&str]) {
    let names: Vec<&str> = played["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, processes, "{played}");
    assert!(played["sum"]["memoryMiB"].as_f64().unwrap() > 1.0, "{played}");
    assert!(played["seconds"].as_f64().unwrap() > 0.0, "{played}");
    assert_eq!(played["early"], Value::Array(Vec::new()));
}

fn kinds(played: &Value) -> BTreeSet<String> {
    let kind = |request: &Value| {
        let part = |name: &str| request[name].as_str().unwrap().to_owned();
        format!("{} {} {}", part("process"), part("verb"), part("resource"))
    };
    played["requests"].as_array().unwrap().iter().map(kind).collect()
}

const BAILIFF: [&str; 7] = [
    "daemonset-syncer",
    "event-bus",
    "node-health-monitor",
    "taint-manager",
    "zone-evictor",
    "bench",
    "sandbox",
];

#[test]
fn every_situation_is_played_in_a_sandbox_and_told_to_programs() {
    let (directory, pictures) = (binaries(), tempfile::tempdir().unwrap());
    let plot = pictures.path().join("bench.svg");
    let output = bench(&[
        "--nodes=10",
        "--pods=20",
        "--rest=1s",
        "--tainted=2",
        "--toleration-seconds=1",
        "--node-monitor-grace-period=20s",
        "--output=json",
        &format!("--plot={}", plot.display()),
        &format!("--binaries={}", directory.display()),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let report = report(&output);
    let situations = report["runs"][0]["situations"].as_array().unwrap();
    let names: Vec<&str> = situations
        .iter()
        .map(|played| played["situation"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "rest",
            "node-failure",
            "mass-failure",
            "taint",
            "plain-eviction",
            "rollout",
            "update"
        ]
    );
    for played in situations {
        check(played, &BAILIFF);
        let mib = |figure: &Value| figure.as_f64().unwrap();
        let measured = played["processes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["isMeasured"] == true);
        let added: f64 = measured.map(|one| mib(&one["memoryMiB"])).sum();
        let shared = mib(&played["sharedMiB"]);
        assert!(shared > 1.0, "five processes of one program: {played}");
        assert!((added - shared - mib(&played["sum"]["memoryMiB"])).abs() < 0.001, "{played}");
    }

    let failure = &situations[1];
    assert_eq!(
        (&failure["detection"]["count"], &failure["eviction"]["count"]),
        (&1.into(), &2.into())
    );
    assert!(kinds(failure).contains("zone-evictor delete pods"), "{failure}");
    assert!(kinds(failure).contains("node-health-monitor patch nodes/status"), "{failure}");
    assert!(failure["requestsPerEviction"].as_f64().unwrap() >= 2.0, "{failure}");
    assert_eq!(
        (&situations[3]["nodes"], &situations[3]["eviction"]["count"]),
        (&2.into(), &4.into())
    );
    let plain = &situations[4];
    assert_eq!((&plain["nodes"], &plain["eviction"]["count"]), (&2.into(), &4.into()));
    assert!(!kinds(plain).contains("zone-evictor delete pods"), "{plain}");
    // So few pods may take less than can be told.
    let told = situations.iter().map(|played| played["plainCpuSeconds"].is_f64());
    assert_eq!(told.collect::<Vec<_>>(), [false, false, false, false, true, false, false]);
    assert!(plain["evictionsPerSecond"].as_f64().unwrap() > 0.0, "{plain}");
    // So few pods may have gone before the last taint was seen: then they have no rate, and nothing is held against the plain one.
    let (rate, share) = (&situations[3]["evictionsPerSecond"], &report["runs"][0]["shareOfPlainRate"]);
    assert_eq!(share.as_f64().is_some_and(|share| share > 0.0), rate.is_f64(), "{report}");
    assert_eq!(report["runs"][0]["earlyBetween"], Value::Array(Vec::new()));
    for rollout in &situations[5..] {
        assert_eq!(rollout["creation"]["count"], 10, "{rollout}");
    }
    assert!(std::fs::read_to_string(plot).unwrap().ends_with("</svg>\n"));
}

#[test]
fn all_of_it_in_one_process_is_played_too() {
    let output = bench(&[
        "--together",
        "--nodes=10",
        "--pods=20",
        "--tainted=2",
        "--situations=taint,rollout",
        "--output=json",
        &format!("--binaries={}", binaries().display()),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let report = report(&output);
    let situations = report["runs"][0]["situations"].as_array().unwrap();
    situations
        .iter()
        .for_each(|played| check(played, &["bailiff-run", "bench", "sandbox"]));
    assert_eq!(
        (&situations[0]["eviction"]["count"], &situations[1]["creation"]["count"]),
        (&4.into(), &10.into())
    );
}

/// An API server in which nothing lives. Dropping it kills it.
struct Bare(Child);

impl Bare {
    fn start(kubeconfig: &Path) -> Self {
        let mut command = Command::new(binaries().join("bailiff"));
        command.args(["sandbox", "--bare", "--listen=127.0.0.1:0"]);
        command.arg(format!("--write-kubeconfig={}", kubeconfig.display()));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        // It ends with the process, whatever it says later: little.
        assert!(log.any(|line| line.unwrap().contains("Served the sandbox")));
        std::thread::spawn(move || log.count());
        Self(child)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kubelets_of_an_api_server_are_a_process_that_removes_what_it_made() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let _server = Bare::start(&kubeconfig);
    let output = bench(&[
        "--nodes=10",
        "--pods=20",
        "--tainted=2",
        "--situations=taint,plain-eviction,rollout",
        "--output=json",
        &format!("--kubeconfig={}", kubeconfig.display()),
        &format!("--binaries={}", binaries().display()),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let report = report(&output);
    let situations = report["runs"][0]["situations"].as_array().unwrap();
    let mut processes = BAILIFF;
    processes[6] = "kubelets";
    situations.iter().for_each(|played| check(played, &processes));
    // Over TLS, and so over a shared connection.
    assert!(situations[1]["plainCpuSeconds"].is_f64(), "{}", situations[1]);
    assert_eq!(
        [0, 1].map(|nth| situations[nth]["eviction"]["count"].as_u64()),
        [Some(4), Some(4)]
    );
    assert_eq!(situations[2]["creation"]["count"], 10);

    let api = Server::of(&kubeconfig).unwrap();
    for path in [
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/apps/v1/daemonsets",
        "/apis/coordination.k8s.io/v1/leases",
    ] {
        let list: Value = serde_json::from_str(&api.get(path).unwrap()).unwrap();
        assert_eq!(list["items"], Value::Array(Vec::new()), "{path}");
    }
}

/// A benchmark that plays. Dropping it ends it.
struct Playing(Child);

impl Playing {
    fn tell_to_end(&self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        // The number of one that was waited for may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            self.tell_to_end();
        }
        let _ = self.0.wait();
    }
}

/// Nothing that it started outlives it: another run would meet it.
#[test]
fn who_is_told_to_end_ends_what_it_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bailiff-bench"));
    command.args(["--nodes=10", "--pods=20", "--situations=rest", "--rest=2m"]);
    command.arg(format!("--binaries={}", binaries().display()));
    let mut playing = Playing(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(playing.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("playing rest")));
    let started = started_by(playing.0.id());
    assert_eq!(started.len(), 6, "a sandbox, a bus and four stages");
    playing.tell_to_end();
    assert!(log.any(|line| line == "error: interrupted"));
    assert_eq!(playing.0.wait().unwrap().code(), Some(1));
    let left = started.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(left.count(), 0);
}

/// Processes whose parent is this one.
fn started_by(parent: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let of_thread = |thread: PathBuf| std::fs::read_to_string(thread.join("children")).unwrap_or_default();
    let children: Vec<String> = threads.map(|thread| of_thread(thread.unwrap().path())).collect();
    children.join(" ").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_wrong_flag_ends_with_64_and_a_missing_binary_says_how_to_build_it() {
    assert_eq!(bench(&["--mass=2"]).status.code(), Some(64));
    let empty = tempfile::tempdir().unwrap();
    let output = bench(&[&format!("--binaries={}", empty.path().display())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("cargo build --profile dist -p bailiff-cli"),
        "{}",
        said(&output)
    );
}
