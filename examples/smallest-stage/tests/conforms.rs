//! What `bailiff conformance node-health-monitor -- smallest-stage` says, as a test.

use std::time::Duration;

use bailiff_conformance::{Options, Suite};
use bailiff_runtime::Seed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smallest_stage_conforms() {
    let logs = tempfile::tempdir().expect("a directory");
    let options = Options {
        command: vec![env!("CARGO_BIN_EXE_smallest-stage").into()],
        only: Vec::new(),
        patience: Duration::from_secs(60),
        jobs: 3,
        logs: logs.path().to_owned(),
    };
    let suite = Suite::of("node-health-monitor").expect("there is such a stage");
    let report = suite.judge(&options, &Seed::new(1), &mut ()).await.expect("a stand");
    assert!(report.conforms(), "{}", report.text());
}
