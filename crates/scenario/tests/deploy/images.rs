//! Each service has an image from nothing and for nobody in particular, and what starts containers starts these images.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::{path, read};

/// The bus and the stages: each is a pod.
const SERVICES: [&str; 5] = [
    "event-bus",
    "node-health-monitor",
    "taint-manager",
    "zone-evictor",
    "daemonset-syncer",
];

/// What images there are.
fn images() -> BTreeSet<String> {
    SERVICES.into_iter().chain(["bailiff"]).map(str::to_owned).collect()
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

/// The images of services share all layers: what differs is which service the program is.
#[test]
fn images_are_of_one_program_from_scratch() {
    for (file, from) in [("deploy/Dockerfile", "--from=binaries /"), ("deploy/Dockerfile.prebuilt", "")] {
        let text = read(file);
        let program =
            format!("\nFROM scratch AS bailiff\nCOPY {from}bailiff /bailiff\nUSER 65532:65532\nENTRYPOINT [\"/bailiff\"]\n");
        assert!(text.contains(&program), "{file}");
        assert!(
            text.ends_with("\nFROM bailiff\n"),
            "{file}: nobody who names no target gets a stage"
        );
        for service in SERVICES {
            let stage = format!("\nFROM bailiff AS {service}\nENTRYPOINT [\"/bailiff\", \"{service}\"]\n");
            assert!(text.contains(&stage), "{file}: {service}");
        }
        let mut targets = after(&text, "AS");
        targets.remove("binaries");
        assert_eq!(targets, images(), "{file}: an image of what there is not");
    }
    let text = read("deploy/Dockerfile");
    assert_eq!(after(&text, "--package"), BTreeSet::from(["bailiff-cli".to_owned()]));
    assert!(text.contains(" && cp target/dist/bailiff /\n"));
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
    assert_eq!(run, images());
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
