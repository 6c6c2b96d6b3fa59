//! Exit codes, and output for programs.

use serde_json::{Value, json};

use crate::support::{ApiServer, Serving, bailiff, bailiff_on_full_disk, bailiff_unheard, bailiff_unread, field, until};

/// What is said of output that was lost.
const UNWRITTEN: &str = "error: cannot write to the standard output: ";

/// A port that nobody listens on: it is reserved.
const NOBODY: &str = "--bus=127.0.0.1:1";

#[test]
fn what_is_not_accepted_ends_with_64_and_says_what_is() {
    let cases: [(&[&str], &str); 16] = [
        (&[], "Usage"),
        (&["hold"], "hold"),
        (&["demo", "--output=yaml"], "json"),
        (
            &["demo", "--seed", "-1"],
            "'--seed <NUMBER>': allowed is a whole number, and none below 0",
        ),
        (&["scenario", "soak", "--seeds=0"], "allowed is a whole number from 1 to"),
        (&["sandbox", "--zones=0"], "Usage: bailiff sandbox"),
        (&["explain", "daemonset", "kube-system/cni", NOBODY], "--namespace"),
        (&["explain", "node", "", NOBODY], "the name of a node"),
        (
            &["explain", "pod", "web-1", "--namespace=", NOBODY],
            "the name of a namespace",
        ),
        (&["run", "--kubeconfig=/nonexistent/kubeconfig"], "/nonexistent/kubeconfig"),
        (&["run", "--node-monitor-period=0s"], "--node-monitor-period"),
        (&["zone-evictor", "--node-eviction-rate=-1"], "--node-eviction-rate"),
        (&["event-bus", "--listen=0.0.0.0:7460"], "--insecure"),
        (&["sandbox", "--listen=nowhere"], "--listen"),
        (&["bus", "reset-epoch", "node-wealth", "0"], "node-health"),
        (
            &["scenario", "run", "/nonexistent/scenario.json"],
            "/nonexistent/scenario.json",
        ),
    ];
    for (args, wanted) in cases {
        let ended = bailiff(args);
        assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[test]
fn help_and_version_are_no_failures() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["bus", "status", "--help"],
    ] {
        let ended = bailiff(args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(ended.stdout.contains("bailiff"), "{args:?}: {ended:?}");
    }
}

#[test]
fn the_bus_and_each_stage_are_commands() {
    for name in [
        "event-bus",
        "node-health-monitor",
        "taint-manager",
        "zone-evictor",
        "daemonset-syncer",
    ] {
        let ended = bailiff(&[name, "--help"]);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        let words: String = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.starts_with(&format!("The {}", name.replace("event-bus", "event bus"))),
            "{words}"
        );
        assert!(words.contains(&format!("Usage: bailiff {name} [OPTIONS]")), "{words}");
    }
}

#[test]
fn what_fails_ends_with_1_and_says_why() {
    for args in [
        &["bus", NOBODY, "status", "--output=json"][..],
        &["bus", "status", "--output=json", NOBODY],
        &["bus", NOBODY, "reset-epoch", "node-health", "0"],
        &["status", NOBODY],
        &["events", NOBODY],
        &["explain", "node", "n", NOBODY],
        &["diff", "--stage=zone-evictor", NOBODY],
    ] {
        let ended = bailiff(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {ended:?}");
        let wanted = "error: cannot reach the event bus at '127.0.0.1:1' (--bus): Connection refused";
        assert!(ended.stderr.starts_with(wanted), "{args:?}: {ended:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let ended = bailiff(&["sandbox", "--bare", &listen]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("cannot listen on 127.0.0.1:"), "{ended:?}");
    let ended = bailiff(&["run", "--admin-listen=127.0.0.1:0", &listen.replace("--", "--bus-")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("' for '--bus-listen'"), "{ended:?}");
}

#[test]
fn what_is_wrong_with_what_a_command_is_given_ends_with_64_and_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("tokens"), "a\n").unwrap();
    std::fs::write(path("ca.crt"), "").unwrap();
    let (absent, malformed) = (path("absent"), path("tokens"));
    let cases = [
        (vec!["sandbox", "--bare", "--token-auth-file", &absent], "--token-auth-file"),
        (
            vec!["sandbox", "--bare", "--token-auth-file", &malformed],
            "--token-auth-file",
        ),
        (vec!["certs", directory.path().to_str().unwrap()], "'<DIR>'"),
        // Of a variable that is not set.
        (vec!["pause", "--node=", "--for=1h", "--reason=r"], "--node"),
        (vec!["explain", "zone", "a"], "<region>:<zone>"),
        (vec!["sandbox", "apply", &absent, "--kubeconfig", &absent], "absent"),
        (
            vec!["sandbox", "apply", &malformed, "--kubeconfig", &absent],
            "tokens, document 1: it is no object",
        ),
    ];
    for (args, name) in cases {
        let ended = bailiff(&args);
        assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(name), "{args:?}: {ended:?}");
    }
}

#[test]
fn an_api_server_that_cannot_be_reached_is_named_by_what_leads_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let commands = [
        &["pauses", &kubeconfig][..],
        &["pause", "--node=n", "--for=1h", "--reason=r", &kubeconfig],
        &["resume", "--all", &kubeconfig],
        &["sandbox", "set", "--all", "alive-", &kubeconfig],
    ];
    for args in commands {
        let ended = bailiff(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {ended:?}");
        let wanted = format!("error: cannot reach the API server of '{}' (--kubeconfig): ", file.display());
        assert!(ended.stderr.starts_with(&wanted), "{args:?}: {ended:?}");
    }
}

#[test]
fn what_is_told_to_be_typed_next_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let certs = directory.path().join("certs");
    let made = bailiff(&["certs", certs.to_str().unwrap()]);
    let bus = ["event-bus", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"];
    let line = |command: &str| {
        let line = made
            .stdout
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("bailiff ")?.strip_prefix(command));
        line.unwrap().split_whitespace().collect::<Vec<_>>()
    };
    let serving = Serving::start(&[&bus[..], &line("event-bus ")].concat());
    let bus = format!("--bus={}", field(&serving.until("Event bus is open"), "address"));
    let status = bailiff(&[&["bus", "status", &bus][..], &line("bus status ")].concat());
    assert_eq!(status.code, Some(0), "{status:?}");
    let plain = bailiff(&["status", &bus]);
    assert!(
        plain.stderr.contains("one that speaks TLS wants --tls-cert-file"),
        "{plain:?}"
    );
    let other = directory.path().join("other");
    assert_eq!(bailiff(&["certs", other.to_str().unwrap()]).code, Some(0));
    let strange: Vec<String> = line("bus status ")
        .iter()
        .map(|word| word.replace("/certs/", "/other/"))
        .collect();
    let strange: Vec<&str> = strange.iter().map(String::as_str).collect();
    let status = bailiff(&[&["bus", "status", &bus][..], &strange].concat());
    assert!(
        status.stderr.contains("are --tls-ca-file and --tls-server-name"),
        "{status:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("directory").display().to_string();
    let painted = bailiff(&["certs", &format!("{below}\x1b[31m")]);
    let wanted = format!("error: cannot write {below}\\u001b[31m: ");
    assert!(
        painted.stderr.starts_with(&wanted),
        "a terminal obeys none of it: {painted:?}"
    );
    let cases = [
        vec!["certs", &below],
        vec!["conformance", "zone-evictor", "--logs", &below, "--", "true"],
    ];
    for args in cases {
        let ended = bailiff(&args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {ended:?}");
        let wanted = format!("error: cannot write {below}: Not a directory");
        assert!(ended.stderr.starts_with(&wanted), "{args:?}: {ended:?}");
    }
}

#[test]
fn whoever_stops_reading_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (file, certs) = (directory.path().join("kubeconfig"), directory.path().join("certs"));
    let made = bailiff_unread(&["certs", certs.to_str().unwrap()]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    assert!(certs.join("operator.key").exists(), "the last of them");

    let (write, read) = ["--write-kubeconfig", "--kubeconfig"]
        .map(|flag| format!("{flag}={}", file.display()))
        .into();
    let sandbox = Serving::start(&["sandbox", "--listen=127.0.0.1:0", "--nodes=3", "--zones=1", &write]);
    sandbox.until("Served the sandbox");
    let set = bailiff_unread(&["sandbox", "set", "--all", "alive=false", &read]);
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), ""));
    let nodes = ApiServer::of(&file).request("GET", "/api/v1/nodes", "application/json", &Value::Null);
    for node in nodes["items"].as_array().unwrap() {
        assert_eq!(
            node["metadata"]["annotations"]["sandbox.bailiff.dev/alive"], "false",
            "{node}"
        );
    }

    let serving = Serving::start_service("event-bus", &["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    let bus = format!("--bus={}", field(&serving.until("Event bus is open"), "address"));
    let commands = [
        (&["bus", "status", &bus][..], 0),
        (&["bus", "status", "--output=json", &bus], 0),
        (&["status", &bus], 1),
        (&["explain", "node", "n", &bus], 1),
        (&["top", &bus], 0),
        (&["pauses", &read], 0),
        (&["scenario", "soak", "--seed=1"], 0),
    ];
    let lost = bailiff_on_full_disk(&["top", "--output=json", &bus]);
    assert_eq!(lost.code, Some(1), "{lost:?}");
    assert!(lost.stderr.starts_with(UNWRITTEN), "{lost:?}");
    for (args, code) in commands {
        let ended = bailiff_unread(args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""), "{args:?}");
    }
    assert_eq!(bailiff_unheard(&["status", NOBODY]).code, Some(1), "nobody is told why");
}

#[test]
fn what_is_waited_for_and_was_not_said_is_a_failure() {
    let serving = Serving::start_service("event-bus", &["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    let bus = format!("--bus={}", field(&serving.until("Event bus is open"), "address"));
    let is_heard = || {
        let status = bailiff(&["bus", "status", "--output=json", &bus]).json().remove(0);
        status["topics"][0]["subscribers"] == 1
    };
    for (flag, code) in [("--follow", 0), ("--until=never", 1)] {
        let events = Serving::start(&["events", flag, &bus]);
        until("the bus is listened to", is_heard);
        assert_eq!(events.stop(), Some(code), "{flag}");
        until("nobody listens any more", || !is_heard());
    }
}

#[test]
fn a_role_that_may_not_read_what_is_shown_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let certs = directory.path().join("certs");
    let made = bailiff(&["certs", certs.to_str().unwrap()]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let tls = |role: &str| {
        let file = |flag: &str, name: String| format!("--tls-{flag}={}", certs.join(name).display());
        [
            file("cert-file", format!("{role}.crt")),
            file("private-key-file", format!("{role}.key")),
            file("ca-file", "ca.crt".to_owned()),
        ]
    };
    let listen = ["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"].map(str::to_owned);
    let serving = Serving::start_service("event-bus", &[&listen[..], &tls("event-bus")].concat());
    let address = field(&serving.until("Event bus is open"), "address");
    let reach = [&[format!("--bus={address}")][..], &tls("zone-evictor")].concat();
    let reach: Vec<&str> = reach.iter().map(String::as_str).collect();
    let commands = [
        &["top", "--once"][..],
        &["status"],
        &["events"],
        &["diff", "--stage=daemonset-syncer", "--for=1s"],
        &["diff", "--against-cluster", "--for=1s"],
    ];
    for command in commands {
        let ended = bailiff(&[command, &reach].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{command:?}: {ended:?}");
        assert_eq!(
            ended.stderr, "error: the bus does not let this role read daemon-rollouts\n",
            "{command:?}"
        );
    }
}

#[test]
fn a_demonstration_can_be_read_by_programs() {
    let ended = bailiff(&["demo", "--fast", "--output=json"]);
    let mut lines = ended.json();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let last = lines.pop().unwrap();
    assert_eq!((&last["ok"], &last["failures"]), (&json!(true), &json!([])));
    assert_eq!(last["figures"]["nodes_isolated"], 20, "{last}");
    assert!(lines.len() > 10);
    for line in lines {
        assert!(
            line["at"].is_number() && line["kind"].is_string() && line["text"].is_string(),
            "{line}"
        );
    }
}

/// Two nodes, one of which is not ready from the beginning.
fn mk_scenario() -> Value {
    let node = |name: &str, ready: &str| {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Kubelet", "message": "", "lastHeartbeatTime": "<now>",
            "lastTransitionTime": "<now>",
        });
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {"conditions": [condition]},
        })
    };
    json!({
        "id": "not-ready", "controllers": ["node-lifecycle-controller"], "duration": 10, "tolerance_s": 1,
        "objects": [node("n1", "True"), node("n2", "False")],
    })
}

#[test]
fn scenarios_pass_or_fail_by_exit_code_and_say_so_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write("new.json", &mk_scenario().to_string());
    let unjudged = bailiff(&["scenario", "run", &path("new.json")]);
    assert_eq!(unjudged.code, Some(64), "{unjudged:?}");
    assert!(unjudged.stderr.contains("--record"), "{unjudged:?}");

    let record = format!("--record={}", path("seen"));
    let recorded = bailiff(&["scenario", "run", &record, &path("new.json")]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let seen = std::fs::read_to_string(path("seen/not-ready.json")).unwrap();
    assert!(seen.contains("node.kubernetes.io/not-ready"), "{seen}");
    write("same.json", &seen);
    write(
        "other.json",
        &seen.replace("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"),
    );
    write("broken.json", "{}");

    let passed = bailiff(&["scenario", "run", "--output=json", &path("same.json")]);
    assert_eq!(passed.code, Some(0), "{passed:?}");
    let lines = passed.json();
    assert_eq!(
        (&lines[0]["scenario"], &lines[0]["passed"]),
        (&json!("not-ready"), &json!(true))
    );
    assert_eq!(lines[1], json!({"passed": 1, "failed": 0}));

    let failed = bailiff(&["scenario", "run", "--output=json", &path("same.json"), &path("other.json")]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let lines = failed.json();
    assert_eq!(lines.last(), Some(&json!({"passed": 1, "failed": 1})));
    let other = lines.iter().find(|line| line["passed"] == false).unwrap();
    assert!(
        other["differences"].as_array().is_some_and(|found| !found.is_empty()),
        "{other}"
    );

    for args in [
        &["scenario", "run", "--output=json", &path("same.json")][..],
        &["demo", "--fast", "--output=json"],
    ] {
        let lost = bailiff_on_full_disk(args);
        assert_eq!(lost.code, Some(1), "{args:?}: {lost:?}");
        assert!(lost.stderr.starts_with(UNWRITTEN), "{args:?}: {lost:?}");
    }

    let broken = bailiff(&["scenario", "run", &path("broken.json")]);
    assert_eq!((broken.code, broken.stdout.as_str()), (Some(64), ""), "{broken:?}");
    assert!(broken.stderr.contains("is no scenario"), "{broken:?}");
}
