//! Holds docs/images/trace.svg to what is told of a node's incident: it is drawn from the spans of a world, which the same seed makes
//! the same.

#[path = "picture/waterfall.rs"]
mod waterfall;

use std::path::Path;
use std::time::Duration;

use bailiff_model::{HoldScope, NodeName, Zone, wellknown};
use bailiff_runtime::trace::Finished;
use bailiff_runtime::{Seed, Spans};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_sandbox::{User, Verb};
use bailiff_scenario::{Fixture, StageOptions, Transport, world};
use bailiff_stage::brake::{self, pauses::Pause};
use serde_json::{Value, json};

/// Set to have the picture written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";
/// The nodes that fall silent; the picture is of the second, which waits for its turn.
const SILENT: [&str; 2] = ["worker-1", "worker-2"];
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";
const PODS: &str = "/api/v1/namespaces/shop/pods";

fn zone_of(number: u32) -> &'static str {
    if number <= 4 { "b" } else { "c" }
}

/// Eight nodes in two zones, and some pods on one of them.
fn set_up(fixture: &Fixture) {
    for number in 1..=8 {
        let labels = json!({
            (wellknown::LABEL_REGION): "eu-1", (wellknown::LABEL_ZONE): zone_of(number),
            (wellknown::LABEL_OS): "linux", (wellknown::LABEL_ARCH): "amd64",
        });
        let node = json!({"metadata": {"name": format!("worker-{number}"), "labels": labels}});
        fixture.create("/api/v1/nodes", &node).expect("a node");
    }
    fixture
        .create("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}))
        .expect("a namespace");
    let budget = json!({
        "metadata": {"name": "cart"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "cart"}}},
    });
    fixture.create(BUDGETS, &budget).expect("a budget");
    for (name, tolerates) in [("batch-1", None), ("web-1", Some(30)), ("cart-1", Some(30))] {
        fixture.create(PODS, &pod(name, tolerates)).expect("a pod");
    }
}

/// A pod on the node of the picture that tolerates its silence for so many seconds; for none if not said.
fn pod(name: &str, tolerates: Option<u32>) -> Value {
    let key = wellknown::TAINT_UNREACHABLE;
    let seconds = tolerates.unwrap_or(0);
    let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let app = name.split('-').next();
    json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "nodeName": SILENT[1], "tolerations": [toleration],
            "containers": [{"name": "main", "image": "registry.example/app:v1"}],
        },
    })
}

async fn set_alive(fixture: &Fixture, alive: bool) {
    for node in SILENT {
        let change = Change::default().with("alive", &alive.to_string());
        let change = change.expect("kubelets have this setting");
        let target = Target::Node(NodeName::from(node));
        fixture.driver.change(target, change).await.expect("they run");
    }
}

/// A person pauses the zone for a while.
fn pause(fixture: &Fixture, span: Duration) {
    let since = fixture.clock.wall();
    let pause = Pause {
        scope: HoldScope::Zone(Zone::new("eu-1", "b")),
        since: Some(since),
        until: since + span,
        reason: "switch replacement".to_owned(),
        by: "mira@laptop".to_owned(),
    };
    let config = json!({"metadata": {"name": brake::NAME}, "data": {(pause.key()): pause.to_entry()}});
    fixture.create(brake::COLLECTION, &config).expect("a pause");
}

/// Two nodes of a zone fall silent. The second waits for its turn, is held by a pause, and is emptied; the last pod goes when its budget
/// does. Then they come back. Answers what was told.
fn play() -> Vec<Finished> {
    let flags = ["--node-eviction-rate=0.1", "--eviction-method=evict"].map(str::to_owned);
    let options = StageOptions::parse(flags).expect("flags of the stages");
    world::run(async |clock| {
        let mut fixture = Fixture::start(Transport::InProcess, &ClusterOptions::cluster(), options, clock, Seed::new(7))
            .await
            .expect("a world");
        let (spans, recorder) = Spans::recorded();
        fixture.trace(spans);
        set_up(&fixture);
        fixture.start_stages().await.expect("stages");
        let pass = async |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds)).await;
        pass(35).await;
        set_alive(&fixture, false).await;
        pass(50).await;
        pause(&fixture, Duration::from_secs(15));
        pass(55).await;
        let path = format!("{BUDGETS}/cart");
        let deleted = fixture.sandbox.request(&User::admin(), Verb::Delete, &path, &Value::Null);
        deleted.expect("the budget is there");
        pass(30).await;
        set_alive(&fixture, true).await;
        pass(60).await;
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
        recorder.take()
    })
}

#[test]
fn the_picture_in_the_documents_is_what_is_told() {
    let told = play();
    let is_root = |told: &&Finished| {
        let names = |key: &str, value: &str| {
            let found = told.span.attributes.iter().find(|kv| kv.key.as_str() == key);
            found.is_some_and(|kv| kv.value.as_str() == value)
        };
        told.span.name == "node incident" && names("k8s.node.name", SILENT[1])
    };
    let roots: Vec<&Finished> = told.iter().filter(is_root).collect();
    let [root] = roots[..] else {
        panic!("not one incident: {roots:#?}")
    };
    let id = root.context.trace_id();
    let trace: Vec<&Finished> = told.iter().filter(|told| told.context.trace_id() == id).collect();
    let drawn = waterfall::svg(root, &trace);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/trace.svg");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, drawn).expect("it can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/images/trace.svg is out of date: run this test with {UPDATE}=1 and look at what it wrote"
    );
}
