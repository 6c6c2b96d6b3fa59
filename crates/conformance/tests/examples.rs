//! The programs in `examples/` that stand in for a stage conform. One whose language is not on this machine is not judged, and says so.
//!
//! Those in Rust are packages of the workspace, with a test of this kind of their own: Cargo then sees to it that they are built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bailiff_conformance::{Options, Suite};
use bailiff_runtime::Seed;

/// Far beyond the few seconds that a program takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// True if the command is there and succeeds.
fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

async fn conforms(stage: &str, command: Vec<OsString>) {
    let logs = tempfile::tempdir().expect("a directory");
    let options = Options {
        command,
        only: Vec::new(),
        patience: PATIENCE,
        jobs: 3,
        logs: logs.path().to_owned(),
    };
    let suite = Suite::of(stage).expect("there is such a stage");
    let report = suite.judge(&options, &Seed::new(1), &mut ()).await.expect("a stand");
    assert!(report.conforms(), "{}", report.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_zone_evictor_that_keeps_to_a_maintenance_window_conforms() {
    if !works("python3", &["-c", "import grpc, grpc_tools, requests, yaml, google.protobuf"]) {
        eprintln!("not judged: there is no python3 with examples/maintenance-window/requirements.txt");
        return;
    }
    let program = examples().join("maintenance-window/evictor.py");
    conforms("zone-evictor", vec!["python3".into(), program.into()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_taint_manager_with_defaults_by_namespace_conforms() {
    if !works("go", &["version"]) {
        eprintln!("not judged: there is no Go");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("namespace-defaults");
    let source = examples().join("namespace-defaults");
    let built = Command::new("go")
        .arg("build")
        .arg("-o")
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output();
    let built = built.expect("Go runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    conforms("taint-manager", vec![program.into()]).await;
}
