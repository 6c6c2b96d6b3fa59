//! Each binary has an image from nothing and for nobody in particular, and what starts containers starts these images.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::{path, read};

/// What no image is made of: chores, measurements, and examples.
const WITHOUT: [&str; 4] = ["xtask", "bailiff-bench", "second-opinion", "smallest-stage"];

/// The binaries of the workspace with the packages they are in.
fn binaries() -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--locked",
            "--offline",
            "--manifest-path",
        ])
        .arg(path("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut binaries = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let is_binary = |target: &&Value| target["kind"].as_array().unwrap().iter().any(|kind| kind == "bin");
        for target in package["targets"].as_array().unwrap().iter().filter(is_binary) {
            let [target, package] = [target, package].map(|named| named["name"].as_str().unwrap().to_owned());
            binaries.insert(target, package);
        }
    }
    for name in WITHOUT {
        assert!(binaries.remove(name).is_some(), "there is no {name}");
    }
    binaries
}

/// The names after `word` in what a Dockerfile says, comments left out.
fn after(text: &str, word: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words
        .windows(2)
        .filter(|pair| pair[0] == word)
        .map(|pair| pair[1].to_owned())
        .collect()
}

#[test]
fn each_binary_has_an_image_from_scratch() {
    let text = read("deploy/Dockerfile");
    let binaries = binaries();
    assert_eq!(binaries.len(), 6, "{binaries:?}");
    for binary in binaries.keys() {
        let stage = format!(
            "FROM scratch AS {binary}\nCOPY --from=binaries /{binary} /{binary}\nUSER 65532:65532\nENTRYPOINT [\"/{binary}\"]\n"
        );
        assert!(text.contains(&stage), "{binary}");
    }
    let mut targets = after(&text, "AS");
    assert!(targets.remove("binaries"));
    assert_eq!(targets, binaries.keys().cloned().collect(), "an image of what there is not");
    assert_eq!(after(&text, "--package"), binaries.values().cloned().collect());
    let mut lines = text.lines();
    let copied = lines.find_map(|line| line.strip_prefix(" && cp ")?.strip_suffix(" /"));
    let copied: BTreeSet<&str> = copied.unwrap().split(' ').collect();
    assert_eq!(copied, binaries.keys().map(String::as_str).collect());
}

#[test]
fn the_image_of_a_binary_that_is_there_already_is_from_scratch_too() {
    let text = read("deploy/Dockerfile.prebuilt");
    let wanted = "FROM scratch\nARG BINARY\nCOPY ${BINARY} /service\nUSER 65532:65532\nENTRYPOINT [\"/service\"]\n";
    assert!(text.ends_with(wanted), "{text}");
}

/// Each service of ours runs an image that the Dockerfile makes, under the name of this version; each image is run.
#[test]
fn docker_compose_runs_each_image() {
    let compose: Value = serde_saphyr::from_str(&read("docker-compose.yml")).unwrap();
    let mut run = BTreeSet::new();
    for (name, service) in compose["services"].as_object().unwrap() {
        let Some(target) = service.pointer("/build/target").and_then(Value::as_str) else {
            assert_eq!(name, "jaeger", "not ours");
            continue;
        };
        assert_eq!(service["build"]["dockerfile"], "deploy/Dockerfile", "{name}");
        let image = format!("localhost/bailiff/{target}:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(service["image"], image, "{name}");
        run.insert(target.to_owned());
    }
    assert_eq!(run, binaries().into_keys().collect());
}

#[test]
fn docker_compose_accepts_its_file() {
    let compose = |args: &[&str]| {
        Command::new("docker")
            .arg("compose")
            .args(args)
            .current_dir(path("."))
            .output()
    };
    if !compose(&["version"]).is_ok_and(|version| version.status.success()) {
        println!("skipped: docker compose is not installed");
        return;
    }
    for profile in ["sandbox", "cluster"] {
        let output = compose(&["--profile", profile, "config", "--quiet"]).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
