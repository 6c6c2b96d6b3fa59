//! Holds the arrows between crates, and that cores stay pure (ARCHITECTURE.md, invariants).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What each package may depend on, of this workspace.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    const SHARED: &[&str] = &["model", "runtime", "cluster", "event-bus", "stage"];
    const MONITOR: &[&str] = &["model", "runtime", "cluster", "event-bus", "stage", "node-health-core"];
    const TAINT: &[&str] = &["model", "runtime", "cluster", "event-bus", "stage", "taint-core"];
    const ZONE: &[&str] = &["model", "runtime", "cluster", "event-bus", "stage", "zone-core"];
    const DAEMONSET: &[&str] = &["model", "runtime", "cluster", "event-bus", "stage", "daemonset-core"];
    const WORLD: &[&str] = &[
        "model",
        "runtime",
        "cluster",
        "event-bus",
        "stage",
        "sandbox",
        "node-health-monitor",
        "taint-manager",
        "zone-evictor",
        "daemonset-syncer",
        "node-health-core",
        "taint-core",
        "zone-core",
        "daemonset-core",
        "explain",
    ];
    const CLI: &[&str] = &[
        "model",
        "runtime",
        "cluster",
        "event-bus",
        "stage",
        "sandbox",
        "scenario",
        "explain",
        "conformance",
        "diff",
        "node-health-monitor",
        "taint-manager",
        "zone-evictor",
        "daemonset-syncer",
    ];
    BTreeMap::from([
        ("proto", &[] as &[&str]),
        ("model", &[]),
        ("runtime", &["model"]),
        ("cluster", &["model", "runtime"]),
        ("event-bus", &["model", "runtime", "proto"]),
        ("stage", &SHARED[..4]),
        ("node-health-core", &["model"]),
        ("taint-core", &["model"]),
        ("zone-core", &["model"]),
        ("daemonset-core", &["model"]),
        ("node-health-monitor", MONITOR),
        ("taint-manager", TAINT),
        ("zone-evictor", ZONE),
        ("daemonset-syncer", DAEMONSET),
        ("explain", &["model"]),
        ("conformance", &["model", "runtime", "event-bus", "sandbox"]),
        ("diff", &["model", "runtime", "cluster", "event-bus", "explain"]),
        ("cel", &[]),
        ("sandbox", &["model", "runtime", "cel"]),
        ("processes", &[]),
        ("footprint", &["model"]),
        ("bench", &["model", "runtime", "cluster", "processes"]),
        ("scenario", WORLD),
        ("cli", CLI),
    ])
}

/// What an example may depend on: what a stage is made of, ours included. Nothing may depend on an example.
const EXAMPLE: &[&str] = &[
    "model",
    "runtime",
    "cluster",
    "event-bus",
    "stage",
    "node-health-core",
    "taint-core",
    "zone-core",
    "daemonset-core",
    "node-health-monitor",
    "taint-manager",
    "zone-evictor",
    "daemonset-syncer",
];

/// What a core may never reach, however indirectly.
const IMPURE: [&str; 12] = [
    "tokio",
    "kube",
    "kube-client",
    "tonic",
    "hyper",
    "rand",
    "rand_core",
    "getrandom",
    "prost",
    "tracing",
    "chrono",
    "time",
];

/// The platform this runs on: packages of others may never have been downloaded.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc says its host").to_owned()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            &host(),
            "--manifest-path",
        ])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Normal dependencies of each package, by name: dev and build dependencies are nobody's arrows.
fn normal_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let names: BTreeMap<&str, &str> = list(metadata, "packages")
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"], "nodes") {
        let name = names[node["id"].as_str().expect("an id")];
        let normal = list(node, "deps").filter(|dep| list(dep, "dep_kinds").any(|kind| kind["kind"].is_null()));
        let dependencies = normal
            .filter_map(|dep| names.get(dep["pkg"].as_str()?))
            .map(|name| (*name).to_owned());
        // Two versions of a package are one name here: their dependencies are joined.
        found.entry(name.to_owned()).or_default().extend(dependencies);
    }
    found
}

#[test]
fn arrows_between_crates_point_one_way() {
    let dependencies = normal_dependencies(&metadata());
    let allowed = allowed();
    let mut checked = 0;
    for (package, wanted) in &dependencies {
        let Some(own) = package.strip_prefix("bailiff-") else {
            continue;
        };
        let may = if own.starts_with("example-") {
            EXAMPLE
        } else {
            allowed
                .get(own)
                .unwrap_or_else(|| panic!("package {package} has no arrows declared here"))
        };
        for used in wanted.iter().filter_map(|name| name.strip_prefix("bailiff-")) {
            assert!(may.contains(&used), "{package} must not depend on bailiff-{used}");
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} arrows were seen");
}

#[test]
fn cores_reach_neither_a_runtime_nor_a_client_nor_randomness() {
    let dependencies = normal_dependencies(&metadata());
    let cores: Vec<&String> = dependencies
        .keys()
        .filter(|name| name.starts_with("bailiff-") && (name.ends_with("-core") || *name == "bailiff-model"))
        .collect();
    assert_eq!(cores.len(), 5, "{cores:?}");
    for core in cores {
        let (mut reached, mut open) = (BTreeSet::new(), vec![core.clone()]);
        while let Some(name) = open.pop() {
            for next in dependencies.get(&name).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        for impure in IMPURE {
            assert!(!reached.contains(impure), "{core} reaches {impure}");
        }
    }
}

#[test]
fn cores_name_no_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut read = 0;
    for core in ["model", "node-health-core", "taint-core", "zone-core", "daemonset-core"] {
        let mut open = vec![crates.join(core).join("src")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(
                    std::fs::read_dir(&path)
                        .expect("a folder")
                        .map(|entry| entry.expect("an entry").path()),
                );
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            read += 1;
            for clock in ["std::time::Instant", "SystemTime", "Timestamp::now", "Zoned::now"] {
                assert!(!text.contains(clock), "{} names {clock}", path.display());
            }
        }
    }
    assert!(read > 20, "only {read} files were read");
}
