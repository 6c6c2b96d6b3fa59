//! Template to pod, as whole JSON documents.

use bailiff_model::Namespace;

use super::*;

fn mk_owner(name: &str) -> Owner {
    Owner {
        namespace: Namespace::from("default"),
        name: Arc::from(name),
        uid: Arc::from("ds-uid"),
    }
}

fn mk_template(value: &Value) -> Template {
    Template::parse(&serde_json::value::to_raw_value(value).expect("JSON")).expect("a template")
}

fn render(template: &Value, generation: Option<i64>, hash: &str) -> Value {
    let blueprint = Blueprint::new(&mk_owner("ds"), &mk_template(template), generation, hash).expect("a blueprint");
    serde_json::from_str(&blueprint.render("ds-x", "n\"1")).expect("valid JSON")
}

fn automatic(on_host: bool) -> Vec<Value> {
    let all = TOLERATIONS.into_iter().chain(on_host.then_some(TOLERATION_HOST_NETWORK));
    all.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}))
        .collect()
}

/// DS-090, DS-091, DS-093, DS-094, DS-095
#[test]
fn a_pod_is_the_template_with_labels_tolerations_owner_and_pin() {
    let template = json!({
        "metadata": {
            "name": "ignored", "namespace": "ignored", "ownerReferences": [{"uid": "ignored"}],
            "labels": {"app": "ds", "pod-template-generation": "x"}, "annotations": {"a": "b"}, "finalizers": ["f/g"],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {}}],
            "nodeSelector": {"zone": "a"},
            "futureField": {"deep": [1, null]},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}, {}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                },
                "podAntiAffinity": {"x": 1},
            },
            "schedulingGates": [{"name": "g"}],
        },
    });
    let pinned = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n\"1"]}]}]});
    let wanted = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "ds-x", "generateName": "ds-", "namespace": "default",
            "labels": {"app": "ds", "pod-template-generation": "7", "controller-revision-hash": "h"},
            "annotations": {"a": "b"}, "finalizers": ["f/g"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {}}],
            "nodeSelector": {"zone": "a"},
            "futureField": {"deep": [1, null]},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": pinned,
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                },
                "podAntiAffinity": {"x": 1},
            },
            "schedulingGates": [{"name": "g"}],
            "tolerations": automatic(false),
        },
    });
    assert_eq!(render(&template, Some(7), "h"), wanted);
}

/// DS-090, DS-096
#[test]
fn labels_are_left_out_where_they_cannot_be_known() {
    let template = json!({"metadata": {"labels": {"app": "ds"}}, "spec": {}});
    assert_eq!(
        render(&template, None, "h")["metadata"]["labels"],
        json!({"app": "ds", "controller-revision-hash": "h"})
    );
    assert_eq!(
        render(&template, Some(1), "")["metadata"]["labels"],
        json!({"app": "ds", "pod-template-generation": "1"})
    );
    let bare = Blueprint::new(&mk_owner("ds"), &mk_template(&json!({})), None, "");
    assert!(matches!(bare, Err(Error::NoLabels)));
}

/// DS-093
#[test]
fn missing_or_odd_affinity_is_made() {
    for affinity in [
        json!(null),
        json!({}),
        json!({"nodeAffinity": null}),
        json!({"nodeAffinity": {}}),
        json!([]),
    ] {
        let pod = render(
            &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"affinity": affinity, "x": 1}}),
            None,
            "h",
        );
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchFields"][0]["values"], json!(["n\"1"]), "{affinity}");
        assert_eq!(pod["spec"]["x"], 1);
    }
}

/// DS-091, DS-092
#[test]
fn equal_tolerations_are_replaced_in_place() {
    let unreachable =
        json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let other = json!({"key": "node.kubernetes.io/unreachable", "operator": "Equal", "effect": "NoExecute"});
    let mine = json!({"key": "mine", "operator": "Exists"});
    let template = json!({
        "metadata": {"labels": {"app": "ds"}},
        "spec": {"hostNetwork": true, "tolerations": [mine, unreachable, other, unreachable]},
    });
    let mut rest = automatic(true);
    let plain = rest.remove(1);
    let wanted: Vec<Value> = [vec![mine, plain.clone(), other, plain], rest].concat();
    assert_eq!(render(&template, None, "h")["spec"]["tolerations"], Value::Array(wanted));
}

/// DS-095
#[test]
fn generated_names_begin_with_the_name() {
    assert_eq!(generate_name("ds"), "ds-");
    assert_eq!(generate_name("a"), "a-");
    assert_eq!(generate_name("log-2.example"), "log-2.example-");
    assert_eq!(generate_name(&"a".repeat(253)), "a".repeat(253) + "-");
    assert_eq!(generate_name(&"a".repeat(254)), "a".repeat(254));
}

/// What stands in a template may be secret, and is in no log.
#[test]
fn a_blueprint_is_shown_without_what_it_holds() {
    let template = json!({"metadata": {"labels": {"app": "ds"}}, "spec": {"containers": [{"env": [{"value": "secret"}]}]}});
    let blueprint = Blueprint::new(&mk_owner("ds"), &mk_template(&template), None, "h").expect("a blueprint");
    let shown = format!("{blueprint:?}");
    assert!(shown.starts_with("Blueprint") && !shown.contains("secret"), "{shown}");
}
