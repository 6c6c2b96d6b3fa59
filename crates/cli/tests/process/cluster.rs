//! `bailiff run` against `bailiff sandbox`: two processes that know of each other what the kubeconfig says.

use serde_json::{Value, json};

use crate::support::{ApiServer, Serving, bailiff, bailiff_on_full_disk, bailiff_unread, field, mk_pod};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    found["status"].as_str().map(str::to_owned)
}

fn has_taint(node: &Value, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.is_some_and(|taints| {
        taints
            .iter()
            .any(|taint| taint["key"] == UNREACHABLE && taint["effect"] == effect)
    })
}

/// NL-050, NL-071, NL-110, TE-071, TE-075: the whole way, over the network.
#[test]
fn a_silent_node_is_found_and_emptied_by_way_of_a_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let write = format!("--write-kubeconfig={}", file.display());
    let sandbox = Serving::start(&["sandbox", "--listen=127.0.0.1:0", "--nodes=4", "--zones=2", &write]);
    sandbox.until("Served the sandbox");
    let api = ApiServer::of(&file);
    for node in ["node-a-000", "node-a-001", "node-b-000", "node-b-001"] {
        api.annotate(node, &json!({"sandbox.bailiff.dev/lease-interval": "500ms"}));
    }
    api.request("POST", PODS, "application/json", &mk_pod("victim", "node-a-000"));

    let kubeconfig = format!("--kubeconfig={}", file.display());
    let run = Serving::start(&[
        "run",
        &kubeconfig,
        "--bus-listen=127.0.0.1:0",
        "--node-monitor-period=500ms",
        "--node-monitor-grace-period=3s",
        "--node-startup-grace-period=6s",
        "--node-eviction-rate=10",
    ]);
    let bus = format!("--bus={}", field(&run.until("Event bus is open"), "address"));
    api.annotate("node-a-000", &json!({"sandbox.bailiff.dev/alive": "false"}));

    let is_silent = |node: &Value| node["metadata"]["name"] == "node-a-000";
    api.until(NODES, "Ready=Unknown", |node| {
        is_silent(node) && condition(node, "Ready").as_deref() == Some("Unknown")
    });
    api.until(NODES, "both taints", |node| {
        is_silent(node) && has_taint(node, "NoSchedule") && has_taint(node, "NoExecute")
    });
    let pod = api.until(PODS, "the deletion of the pod", |pod| {
        pod["metadata"]["name"] == "victim" && pod["metadata"]["deletionTimestamp"].is_string()
    });
    assert_eq!(condition(&pod, "DisruptionTarget").as_deref(), Some("True"), "{pod}");

    let status = bailiff(&["bus", &bus, "status", "--output=json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    let status = status.json().remove(0);
    let topic = |name: &str| {
        let topics = status["topics"].as_array().unwrap();
        topics.iter().find(|topic| topic["topic"] == name).unwrap().clone()
    };
    for name in ["node-health", "eviction-intents", "eviction-outcomes"] {
        let shards = topic(name)["shards"].clone();
        assert_eq!(
            (&shards[0]["shardCount"], &shards[0]["complete"]),
            (&json!(1), &json!(true)),
            "{name}: {shards}"
        );
    }
    assert_eq!(topic("node-health")["keys"], 4, "{status}");
    let text = bailiff(&["bus", &bus, "status"]);
    assert!(text.stdout.contains("node-health              4 keys"), "{text:?}");

    let overview = bailiff(&["status", &bus, "--output=json"]);
    assert_eq!(overview.code, Some(0), "{overview:?}");
    let overview = overview.json().remove(0);
    assert_eq!(
        (&overview["nodes"]["unreachable"], &overview["isolation"]["isolated"]),
        (&json!(1), &json!(1)),
        "{overview}"
    );
    let text = bailiff(&["status", &bus]);
    assert!(text.stdout.contains("1 unreachable"), "{text:?}");
    let story = bailiff(&["explain", &bus, "pod", "victim", "--output=json"]);
    let story = story.json().remove(0);
    let past: Vec<&str> = story["past"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|line| line["text"].as_str())
        .collect();
    for wanted in ["is unreachable", "is isolated", "should go", "was deleted"] {
        assert!(past.iter().any(|text| text.contains(wanted)), "{wanted}: {past:?}");
    }
    assert_eq!(story["traceId"].as_str().map(str::len), Some(32), "{story}");
    let story = bailiff(&["explain", &bus, "node", "node-a-000"]);
    assert!(
        story.stdout.contains("Next:\n  the NoExecute taint is taken off"),
        "{story:?}"
    );
    let nobody = bailiff(&["explain", &bus, "pod", "nobody"]);
    assert!(
        nobody.code == Some(1) && nobody.stdout.contains("No stage has said anything"),
        "{nobody:?}"
    );
    let events = bailiff(&["events", &bus, "--output=json", "--grep=victim"]).json();
    let said: Vec<&str> = events.iter().filter_map(|event| event["says"].as_str()).collect();
    assert!(
        said.contains(&"pod default/victim on node node-a-000 was deleted"),
        "{said:?}"
    );
    let text = bailiff(&["events", &bus, "--topic=node-health"]);
    assert_eq!(text.stdout.lines().count(), 4, "{text:?}");

    // Whoever waits for something is not told that it was said because nobody reads any more, or because it could not be printed.
    assert_eq!(bailiff_unread(&["events", &bus, "--follow"]).code, Some(0));
    assert_eq!(bailiff_unread(&["events", &bus, "--until=never"]).code, Some(1));
    let compare = [
        "diff",
        "--against-cluster",
        "--for=1s",
        "--min-agreement=0",
        &kubeconfig,
        &bus,
    ];
    for args in [&["events", &bus, "--until=never"][..], &["events", &bus], &compare] {
        let lost = bailiff_on_full_disk(args);
        assert_eq!(lost.code, Some(1), "{args:?}: {lost:?}");
        assert!(
            lost.stderr.contains("cannot write to the standard output"),
            "{args:?}: {lost:?}"
        );
    }

    assert_eq!(run.stop(), Some(0), "SIGTERM is a reason to end, not a failure");
    assert_eq!(sandbox.stop(), Some(0));
}
