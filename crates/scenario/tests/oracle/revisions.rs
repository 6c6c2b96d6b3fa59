//! Revisions whose bytes no recording has.

use bailiff_scenario::oracle::{Profile, Scenario, play};
use serde_json::json;

/// DS-150, DS-151, DS-171, DS-207
#[test]
fn texts_that_go_escapes_make_one_revision_and_pods() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}});
    let template = json!({
        "metadata": {"labels": {"app": "a"}, "annotations": {"k": "v<>&"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "<a>&\u{2028}\""}]}]},
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default", "annotations": {"deprecated.daemonset.template.generation": "5"}},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    });
    let file = json!({
        "id": "x", "controllers": ["daemonset-controller"], "activation": ["daemonset"], "duration": 3, "tolerance_s": 1,
        "objects": [node, set],
    });
    let scenario: Scenario = serde_json::from_value(file).expect("a scenario");
    let observed = play(&scenario, Profile::Bailiff, 1).expect("it plays to its end").observed;
    let is_revision = |object: &&String| object.starts_with("controllerrevision/");
    assert_eq!(
        observed.finals.keys().filter(is_revision).count(),
        1,
        "{:?}",
        observed.finals.keys()
    );
    let pod = &observed.finals["pod/default/d@n#1"];
    assert_eq!(
        (&pod["labels"]["pod-template-generation"], &pod["phase"]),
        (&json!("5"), &json!("Running"))
    );
    assert_eq!(observed.finals["daemonset/default/d"]["status"]["collisionCount"], 0);
}
