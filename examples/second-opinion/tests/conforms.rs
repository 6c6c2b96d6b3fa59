//! Without results to go by it is held to what every node-health-monitor is held to.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use bailiff_conformance::{Options, Suite};
use bailiff_runtime::Seed;

async fn conforms(results: &Path) {
    let logs = tempfile::tempdir().expect("a directory");
    let flag = format!("--probe-results={}", results.display());
    let options = Options {
        command: vec![OsString::from(env!("CARGO_BIN_EXE_second-opinion")), flag.into()],
        only: Vec::new(),
        patience: Duration::from_secs(60),
        jobs: 3,
        logs: logs.path().to_owned(),
    };
    let suite = Suite::of("node-health-monitor").expect("there is such a stage");
    let report = suite.judge(&options, &Seed::new(1), &mut ()).await.expect("a stand");
    assert!(report.conforms(), "{}", report.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms_without_the_file_and_with_an_empty_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("probes");
    conforms(&results).await;
    std::fs::write(&results, "").expect("a file");
    conforms(&results).await;
}
