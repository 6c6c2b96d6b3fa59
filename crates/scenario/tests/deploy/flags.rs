//! Every flag in what is deployed is one that the binary has, with a value that it takes.

use std::collections::BTreeMap;

use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_sandbox::args::SandboxArgs;
use bailiff_stage::Stage;
use bailiff_stage::service::Args as StageArgs;
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use clap::{Args, Command, CommandFactory};
use serde_json::Value;

use super::{documents, read};

fn stage<S: Stage>() -> Command {
    StageArgs::<S::Options>::command()
}

/// The command line of a binary, by its name.
fn command(name: &str) -> Command {
    let command = match name {
        "event-bus" => bailiff_event_bus::service::Args::command(),
        "node-health-monitor" => stage::<NodeHealthMonitor>(),
        "taint-manager" => stage::<TaintManager>(),
        "zone-evictor" => stage::<ZoneEvictor>(),
        "daemonset-syncer" => stage::<DaemonsetSyncer>(),
        // Of `bailiff` only this is deployed.
        "bailiff" => {
            let sandbox = SandboxArgs::augment_args(Command::new("sandbox"));
            Command::new("bailiff").subcommand(sandbox)
        }
        other => panic!("no binary is called {other}"),
    };
    // Whoever runs the tests has variables of his own.
    command.mut_args(|arg| arg.env(None::<&str>))
}

fn check(what: &str, binary: &str, args: &Value) {
    let args = args.as_array().into_iter().flatten().map(|arg| arg.as_str().unwrap());
    let line: Vec<&str> = [binary].into_iter().chain(args).collect();
    if let Err(error) = command(binary).try_get_matches_from(&line) {
        panic!("{what}: {error}");
    }
}

#[test]
fn manifests_have_only_flags_that_there_are() {
    let mut seen = 0;
    for manifest in ["deploy/manifests/bailiff.yaml", "deploy/manifests/observe.yaml"] {
        for object in documents(manifest) {
            let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                check(manifest, container["name"].as_str().unwrap(), &container["args"]);
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 10);
}

/// Those of the chart, whatever the values are.
#[test]
fn templates_have_only_flags_that_there_are() {
    let has = |binary: &str, flag: &str| command(binary).get_arguments().any(|arg| arg.get_long() == Some(flag));
    let files: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("bus.yaml", &["event-bus"] as &[&str]),
        (
            "stages.yaml",
            &["node-health-monitor", "taint-manager", "zone-evictor", "daemonset-syncer"],
        ),
        (
            "_helpers.tpl",
            &[
                "event-bus",
                "node-health-monitor",
                "taint-manager",
                "zone-evictor",
                "daemonset-syncer",
            ],
        ),
    ]);
    for (file, binaries) in files {
        let text = read(&format!("deploy/chart/bailiff/templates/{file}"));
        let flags: Vec<&str> = text
            .split("\"--")
            .skip(1)
            .map(|rest| rest.split(['=', '"']).next().unwrap_or_default())
            .filter(|flag| !flag.starts_with('%'))
            .collect();
        assert!(!flags.is_empty(), "{file}");
        for flag in flags {
            for binary in binaries {
                assert!(has(binary, flag), "{file}: {binary} has no flag --{flag}");
            }
        }
    }
}

#[test]
fn docker_compose_has_only_flags_that_there_are() {
    let compose: Value = serde_saphyr::from_str(&read("docker-compose.yml")).unwrap();
    let services = compose["services"].as_object().unwrap();
    let mut seen = 0;
    for (name, service) in services {
        let Some(target) = service.pointer("/build/target").and_then(Value::as_str) else {
            continue;
        };
        check(name, target, &service["command"]);
        // From scratch: no shell could probe it.
        assert!(service["healthcheck"].is_null() && service["read_only"] == true, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 11, "the sandbox, and the bus and four stages for each profile");
}
