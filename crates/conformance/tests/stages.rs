//! Our own stages conform, and what breaks its contract is found out by the item that has to.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bailiff_conformance::{Options, Report, Suite};
use bailiff_runtime::Seed;
use futures::StreamExt as _;

/// Far beyond the few seconds that a stage takes, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long something that does not happen is waited for. Whoever needs longer than this is found out for another reason.
const BRIEF: Duration = Duration::from_secs(20);

/// A program of the workspace, beside the directory of tests.
fn built(name: &str, how: &str) -> OsString {
    let tests = std::env::current_exe().expect("a test has a path");
    let directory = tests.parent().and_then(|deps| deps.parent()).expect("target/debug/deps");
    let path = directory.join(name);
    assert!(path.exists(), "{name} was not built: {how}");
    path.into_os_string()
}

fn stage(name: &str) -> OsString {
    built(name, "cargo build --workspace --bins")
}

async fn judge(stage: &str, only: &[&str], patience: Duration, command: Vec<OsString>) -> Report {
    let logs = tempfile::tempdir().expect("a directory");
    let options = Options {
        command,
        only: only.iter().map(|name| (*name).to_owned()).collect(),
        patience,
        jobs: 4,
        logs: PathBuf::from(logs.path()),
    };
    let suite = Suite::of(stage).expect("there is such a stage");
    suite.judge(&options, &Seed::new(1), &mut ()).await.expect("a stand")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_stages_conform() {
    for suite in Suite::all() {
        let report = judge(suite.stage, &[], PATIENCE, vec![stage(suite.stage)]).await;
        assert!(report.conforms(), "{}", report.text());
        assert_eq!(report.broken().count(), 0, "{}", report.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_nothing_conforms_to_nothing() {
    for suite in Suite::all() {
        let idle = ["sleep", "3600"].map(OsString::from).to_vec();
        let report = judge(suite.stage, &[], Duration::from_secs(2), idle).await;
        assert!(!report.conforms(), "{}", report.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_is_told_with_what_it_said() {
    let command = ["sh", "-c", "echo no such flag; exit 64"].map(OsString::from).to_vec();
    let text = judge("zone-evictor", &["node-fails"], PATIENCE, command).await.text();
    assert!(
        text.contains("the program ended: exit status: 64") && text.contains("no such flag"),
        "{text}"
    );
    let text = judge("zone-evictor", &["node-fails"], PATIENCE, vec!["false".into()])
        .await
        .text();
    assert!(
        text.contains("the program ended: exit status: 1; it said nothing\n"),
        "{text}"
    );
}

/// A way to break the contract: its name, the situation that brings it out, and the item that finds it.
struct Mutant(&'static str, &'static str, &'static str, &'static str);

const MUTANTS: [Mutant; 21] = [
    Mutant("node-health-monitor", "impatient", "node-has-a-long-grace", "judges-early"),
    Mutant(
        "node-health-monitor",
        "late-is-silent",
        "node-has-a-long-grace",
        "judges-early",
    ),
    Mutant("node-health-monitor", "never-heals", "node-fails", "finds-return"),
    Mutant("node-health-monitor", "forgets-node-uids", "nodes-change", "knows-uids"),
    Mutant("node-health-monitor", "only-publishes", "node-fails", "finds-silence"),
    Mutant("taint-manager", "never-withdraws", "node-is-tainted", "withdraws"),
    Mutant("taint-manager", "forgets-pod-uids", "node-is-tainted", "knows-uids"),
    Mutant("taint-manager", "always-due", "node-is-tainted", "due-early"),
    Mutant("taint-manager", "names-no-origin", "node-fails", "wants-isolation"),
    Mutant("taint-manager", "forgets-starts", "it-is-killed", "keeps-time-over-restart"),
    Mutant("zone-evictor", "scheduled-is-due", "node-fails", "evicts-early"),
    Mutant("zone-evictor", "withdrawn-is-due", "monitor-is-silent", "evicts-withdrawn"),
    Mutant("zone-evictor", "ignores-holds", "monitor-is-silent", "ignores-holds"),
    Mutant("zone-evictor", "trusts-intents", "intents-are-wrong", "evicts-unjustified"),
    Mutant("zone-evictor", "says-before", "many-nodes-fail", "publishes-before-writing"),
    Mutant("zone-evictor", "hurries", "many-nodes-fail-in-a-turn", "exceeds-the-rate"),
    Mutant("zone-evictor", "marks-nothing", "node-fails", "marks"),
    Mutant(
        "zone-evictor",
        "forgets-grants",
        "it-is-killed-in-its-turn",
        "free-node-after-restart",
    ),
    Mutant("zone-evictor", "begins-anew", "it-is-killed", "strips-taints-on-restart"),
    Mutant("daemonset-syncer", "takes-all", "template-changes", "exceeds-max-unavailable"),
    Mutant("daemonset-syncer", "ignores-taints", "nodes-come-and-go", "misplaces"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mutant_is_found_by_the_item_that_has_to_find_it() {
    let judged = MUTANTS.into_iter().map(async |Mutant(name, mutation, situation, item)| {
        let mutant = built("examples/mutant", "cargo build -p bailiff-conformance --examples");
        let command = vec![mutant, mutation.into(), "--".into(), stage(name)];
        let report = judge(name, &[situation], BRIEF, command).await;
        let broken: BTreeSet<&str> = report.broken().map(|item| item.id).collect();
        let missed = format!(
            "{name}: {mutation} was not found by {item}, but by {broken:?}\n{}",
            report.text()
        );
        (!broken.contains(item)).then_some(missed)
    });
    let missed: Vec<Option<String>> = futures::stream::iter(judged).buffer_unordered(6).collect().await;
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
