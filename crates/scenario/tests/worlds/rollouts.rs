//! What annotations ask of a rollout, in a whole system.

use bailiff_sandbox::cluster::{ClusterSpec, build};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_scenario::StageOptions;
use serde_json::Value;

use super::*;

const DAEMONSETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";

fn mk_daemonset() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "staged", "annotations": {
            "bailiff.dev/rollout-order": "topology.kubernetes.io/zone",
            "bailiff.dev/rollout-partition": "2",
            "bailiff.dev/rollout-conditions": "true",
        }},
        "spec": {
            "selector": {"matchLabels": {"app": "staged"}},
            "template": {
                "metadata": {"labels": {"app": "staged"}},
                "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.9"}]},
            },
        },
    })
}

fn request(fixture: &Fixture, verb: Verb, path: &str, body: &Value) -> Value {
    fixture.sandbox.request(&User::admin(), verb, path, body).expect("accepted")
}

fn annotate(fixture: &Fixture, annotation: &str, value: &Value) {
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    request(fixture, Verb::MergePatch, &format!("{DAEMONSETS}/staged"), &patch);
}

/// Zone and name of nodes, in order, that run a pod of this image.
fn running(fixture: &Fixture, image: &str) -> Vec<(String, String)> {
    let items = |path: &str| {
        let list = request(fixture, Verb::Get, path, &Value::Null);
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = items("/api/v1/nodes");
    let zone = |name: &str| {
        let node = nodes.iter().find(|node| node["metadata"]["name"] == name);
        node.map(|node| text(&node["metadata"]["labels"]["topology.kubernetes.io/zone"]))
            .unwrap_or_default()
    };
    let pods = items("/api/v1/namespaces/default/pods");
    let ours = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "staged");
    let mut found: Vec<(String, String)> = ours
        .filter(|pod| pod["spec"]["containers"][0]["image"] == image)
        .map(|pod| text(&pod["spec"]["nodeName"]))
        .map(|node| (zone(&node), node))
        .collect();
    found.sort();
    found
}

fn reason(fixture: &Fixture) -> Value {
    let ds = request(fixture, Verb::Get, &format!("{DAEMONSETS}/staged"), &Value::Null);
    ds["status"]["conditions"][0]["reason"].clone()
}

/// Zone by zone, as far as the partition lets it; what is malformed is said, and holds.
#[test]
fn a_rollout_goes_as_far_as_annotations_let_it() {
    world::run(async |clock| {
        let options = StageOptions::parse(Vec::<String>::new()).expect("allowed");
        let mut fixture = Fixture::start(Transport::InProcess, &ClusterOptions::cluster(), options, clock, Seed::new(5))
            .await
            .expect("a world");
        let spec = ClusterSpec {
            nodes: 6,
            zones: 3,
            ..ClusterSpec::default()
        };
        build(&fixture.sandbox, &spec).expect("a cluster");
        fixture.create(DAEMONSETS, &mk_daemonset()).expect("created");
        fixture.start_stages().await.expect("stages can start");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (old, new) = ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10");
        let all = running(&fixture, old);
        assert_eq!((all.len(), reason(&fixture)), (6, json!("Complete")));

        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": new}]}}}});
        request(&fixture, Verb::MergePatch, &format!("{DAEMONSETS}/staged"), &image);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(
            (running(&fixture, new), running(&fixture, old)),
            (all[..4].to_vec(), all[4..].to_vec())
        );
        assert_eq!(reason(&fixture), json!("RolloutPartition"));

        annotate(&fixture, "bailiff.dev/rollout-partition", &json!("none"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(running(&fixture, new).len(), 4);
        let events = request(
            &fixture,
            Verb::Get,
            "/apis/events.k8s.io/v1/namespaces/default/events",
            &Value::Null,
        );
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let is_complaint = |event: &&Value| event["reason"] == "InvalidAnnotation" && event["type"] == "Warning";
        assert_eq!(events.iter().filter(is_complaint).count(), 1);

        annotate(&fixture, "bailiff.dev/rollout-partition", &Value::Null);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!((running(&fixture, new), reason(&fixture)), (all, json!("Complete")));
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
    });
}
