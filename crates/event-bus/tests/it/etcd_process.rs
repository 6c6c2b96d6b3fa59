//! Real etcd processes on ports that nobody else takes, with their data in temporary directories.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use bailiff_event_bus::engine::etcd;
use bailiff_processes::free_address;
use bailiff_runtime::args::Address;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Between two looks whether a process has stopped, and how many there are at most: a minute's.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: usize = 60_000;

/// etcd processes that are one cluster. They end with this value, and with the process of the test at the latest.
pub struct Cluster {
    members: Vec<Member>,
    files: Option<[PathBuf; 3]>,
}

struct Member {
    client: SocketAddr,
    peer: SocketAddr,
    directory: TempDir,
    /// What it alone is told, which counts more than what all are told.
    arguments: Vec<String>,
    running: Option<Running>,
}

struct Running {
    /// A shell that ends etcd when its input ends.
    keeper: Child,
    input: ChildStdin,
    etcd: Pid,
}

/// True if etcd is installed; says so if it is not.
pub fn is_installed() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let asked = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    if !*found {
        eprintln!("skipped: there is no program 'etcd' (Debian: etcd-server)");
    }
    *found
}

impl Cluster {
    /// Starts a cluster of so many members.
    pub fn start(count: usize) -> Self {
        Self::start_with(count, None)
    }

    /// The same, whose clients need a certificate: these are its own, its key and the CA.
    pub fn start_with(count: usize, files: Option<[PathBuf; 3]>) -> Self {
        let mut cluster = Self::prepare(count, files);
        for index in 0..count {
            cluster.run(index);
        }
        cluster
    }

    /// The same, none of which runs yet.
    pub fn prepare(count: usize, files: Option<[PathBuf; 3]>) -> Self {
        let members = Self::mk_members(count);
        Self { members, files }
    }

    fn mk_members(count: usize) -> Vec<Member> {
        let mk_member = || Member {
            client: free_address().unwrap(),
            peer: free_address().unwrap(),
            directory: mk_directory(),
            arguments: Vec::new(),
            running: None,
        };
        std::iter::repeat_with(mk_member).take(count).collect()
    }

    /// What a member is called.
    pub fn name(index: usize) -> String {
        format!("m{index}")
    }

    /// Arguments of a member that count more than what all are told.
    pub fn set_arguments(&mut self, index: usize, arguments: &[String]) {
        self.members[index].arguments = arguments.to_vec();
    }

    pub fn addresses(&self) -> Vec<Address> {
        self.members.iter().map(|member| member.client.into()).collect()
    }

    /// Where members reach each other.
    #[allow(dead_code, reason = "the tests of faults need it, which share this file")]
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.peer).collect()
    }

    pub fn endpoints(&self) -> Vec<etcd::Member> {
        let addresses = self.addresses();
        addresses
            .iter()
            .map(|address| etcd::Member::plain(address).unwrap())
            .collect()
    }

    /// Starts a member that was killed, on its data.
    pub fn run(&mut self, index: usize) {
        let peers: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| format!("{}=http://{}", Self::name(index), member.peer))
            .collect();
        let member = &mut self.members[index];
        let scheme = if self.files.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://{}", member.client);
        let mut tls = Vec::new();
        if let Some([certificate, key, ca]) = &self.files {
            for (flag, file) in [("--cert-file", certificate), ("--key-file", key), ("--trusted-ca-file", ca)] {
                tls.push(OsString::from(flag));
                tls.push(file.into());
            }
            tls.push("--client-cert-auth".into());
        }
        let peer = format!("http://{}", member.peer);
        // Unless it is told to keep the data, they go with it: a test that ends by leaving its process drops nothing.
        let script = "exec 3<&0; etcd \"$@\" </dev/null >/dev/null 2>&1 & etcd=$!; echo $etcd; read -r word <&3; \
                      kill -9 $etcd; wait $etcd; [ \"$word\" = keep ] || rm -rf \"$4\"";
        let mut keeper = Command::new("sh")
            .args(["-c", script, "sh", "--name", &Self::name(index), "--data-dir"])
            .arg(member.directory.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &peers.join(",")])
            .args(tls)
            .args(&member.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let etcd = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        let input = keeper.stdin.take().unwrap();
        member.running = Some(Running { keeper, input, etcd });
    }

    /// Kills a member; its data are kept.
    pub fn kill(&mut self, index: usize) {
        if let Some(running) = self.members[index].running.take() {
            running.end();
        }
    }

    /// Kills a member and deletes its data.
    pub fn wipe(&mut self, index: usize) {
        self.kill(index);
        self.members[index].directory = mk_directory();
    }

    /// What a member holds on disk; it must not run.
    pub fn backup(&self, index: usize) -> TempDir {
        let copy = mk_directory();
        copy_all(self.members[index].directory.path(), copy.path());
        copy
    }

    /// Puts a member that does not run back to what it held then.
    pub fn restore(&mut self, index: usize, backup: TempDir) {
        assert!(self.members[index].running.is_none());
        self.members[index].directory = backup;
    }

    /// A cluster of one, on other ports, that holds this.
    pub fn elsewhere(backup: TempDir) -> Self {
        let mut cluster = Self::start(0);
        cluster.members = Self::mk_members(1);
        cluster.restore(0, backup);
        cluster.run(0);
        cluster
    }

    /// Ends a cluster of one and keeps what it holds.
    pub fn into_backup(mut self) -> TempDir {
        self.kill(0);
        self.backup(0)
    }

    /// Stops a member as SIGSTOP does. Nothing of it runs any more then: the signal is sent before that is so, and a thread that runs on
    /// could still confirm what is written.
    #[expect(
        clippy::disallowed_methods,
        reason = "Linux tells nobody but its parent that a process has stopped"
    )]
    pub fn stop(&self, index: usize) {
        self.signal(index, Signal::STOP);
        let etcd = self.members[index].running.as_ref().unwrap().etcd;
        let has_stopped = (0..LOOKS).any(|_| {
            std::thread::sleep(LOOK);
            has_stopped(etcd)
        });
        assert!(has_stopped, "etcd does not stop");
    }

    /// Lets a stopped member go on.
    pub fn go_on(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    fn signal(&self, index: usize, signal: Signal) {
        let running = self.members[index].running.as_ref().unwrap();
        kill_process(running.etcd, signal).unwrap();
    }
}

impl Running {
    fn end(mut self) {
        // Killed by itself first: a stopped process ends with SIGKILL too.
        let _ = kill_process(self.etcd, Signal::KILL);
        let _ = self.input.write_all(b"keep\n");
        drop(self.input);
        let _ = self.keeper.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            self.kill(index);
        }
    }
}

/// True if all threads of a process have stopped. They are listed once one has: there are no new ones then.
fn has_stopped(process: Pid) -> bool {
    let process = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
    let is_stopped = |directory: &Path| {
        // One that has ended meanwhile does nothing any more.
        std::fs::read_to_string(directory.join("stat")).map_or(true, |stat| {
            // Behind the name, which may have brackets in it.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    };
    is_stopped(&process)
        && std::fs::read_dir(process.join("task"))
            .unwrap()
            .all(|thread| is_stopped(&thread.unwrap().path()))
}

/// In memory where there is such a place: tests wait for every write.
fn mk_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
