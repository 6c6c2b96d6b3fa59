//! Revisions and pods as kube-controller-manager made them, in the recordings of the shared directory.
//!
//! The directory is named by `BAILIFF_SHARED`, else it is `shared` beside the workspace. Without it these tests fail and say so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bailiff_daemonset_core::canonical;
use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::template::{Blueprint, Template};
use bailiff_model::Namespace;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn recordings() -> Vec<(String, Value)> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("BAILIFF_SHARED").map_or_else(beside, PathBuf::from);
    let directory = shared.join("oracle");
    let entries = std::fs::read_dir(&directory);
    let entries = entries.unwrap_or_else(|error| unreachable!("set BAILIFF_SHARED: no recordings in {directory:?}: {error}"));
    let mut found: Vec<(String, Value)> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("ds-") && name.ends_with(".json"))
        .map(|name| {
            let text = std::fs::read_to_string(directory.join(&name)).expect("readable");
            (name, serde_json::from_str(&text).expect("a recording is JSON"))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() > 20, "only {} recordings in {directory:?}", found.len());
    found
}

/// What was created, as (identifier, entry).
fn created<'a>(recording: &'a Value, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let objects = recording["observed"].as_object().into_iter().flatten();
    let entries = objects.flat_map(|(id, changes)| {
        changes
            .as_array()
            .into_iter()
            .flatten()
            .map(move |change| (id.as_str(), change))
    });
    entries.filter(move |(id, change)| id.starts_with(prefix) && change["change"] == "created")
}

/// Compact JSON with sorted keys, by other means than the code under test. Recorded data holds nothing that Go escapes specially.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted_members: BTreeMap<&String, &Value> = members.iter().collect();
            let members: Vec<String> = sorted_members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", json!(key), sorted(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// The template that a revision's data was made of, with the keys of every object in reverse order.
fn template_of(data: &Value) -> Box<RawValue> {
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut reordered: Vec<_> = members.iter().map(|(key, value)| (key.clone(), reversed(value))).collect();
                reordered.reverse();
                Value::Object(reordered.into_iter().collect())
            }
            other => other.clone(),
        }
    }
    let mut template = data["spec"]["template"].clone();
    template.as_object_mut().expect("a template").shift_remove("$patch");
    serde_json::value::to_raw_value(&reversed(&template)).expect("JSON")
}

/// DS-151, DS-206
#[test]
fn recorded_revisions_are_canonical_and_so_are_ours() {
    let mut seen = 0;
    for (name, recording) in recordings() {
        for (id, revision) in created(&recording, "controllerrevision/") {
            assert_eq!(revision["data_keys_sorted"], true, "{name} {id}");
            let ours = canonical::data_of_template(&template_of(&revision["data"])).expect("canonical");
            assert_eq!(
                String::from_utf8(ours).expect("text"),
                sorted(&revision["data"]),
                "{name} {id}"
            );
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} revisions");
}

/// DS-090, DS-091, DS-092, DS-093, DS-094, DS-095, DS-157, DS-194
#[test]
fn recorded_pods_are_the_ones_we_would_create() {
    let mut seen = 0;
    for (name, recording) in recordings() {
        let revisions: BTreeMap<(String, String), &Value> = created(&recording, "controllerrevision/")
            .map(|(id, revision)| {
                let namespace = id.split('/').nth(1).unwrap_or_default();
                let hash = revision["labels"]["controller-revision-hash"].as_str().unwrap_or_default();
                ((namespace.to_owned(), hash.to_owned()), revision)
            })
            .collect();
        for (id, pod) in created(&recording, "pod/") {
            let namespace = id.split('/').nth(1).unwrap_or_default();
            let hash = pod["labels"]["controller-revision-hash"].as_str().unwrap_or_default();
            // A pod of a revision that somebody else made, or labelled anew, has no template in the recording.
            let Some(revision) = revisions.get(&(namespace.to_owned(), hash.to_owned())) else {
                continue;
            };
            assert_same_pod(&format!("{name} {id}"), namespace, pod, revision);
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} pods");
}

fn assert_same_pod(context: &str, namespace: &str, recorded: &Value, revision: &Value) {
    let owner_text = recorded["owner"][0].as_str().unwrap_or_default();
    let owner_name = owner_text.split([' ', '/']).nth(3).unwrap_or_default();
    let owner = Owner {
        namespace: Namespace::from(namespace),
        name: Arc::from(owner_name),
        uid: Arc::from("uid"),
    };
    let template = Template::parse(&template_of(&revision["data"])).expect("a template");
    let label = |key: &str| recorded["labels"][key].as_str();
    let generation = label("pod-template-generation").and_then(|text| text.parse().ok());
    let hash = label("controller-revision-hash").unwrap_or_default();
    let blueprint = Blueprint::new(&owner, &template, generation, hash).expect("a blueprint");
    let node = recorded["node"].as_str().unwrap_or_default();
    let pinned = recorded["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
        ["matchFields"][0]["values"][0]
        .as_str();
    let ours: Value = serde_json::from_str(&blueprint.render("", pinned.unwrap_or(node))).expect("JSON");
    let or = |value: &Value, otherwise: Value| if value.is_null() { otherwise } else { value.clone() };
    let (meta, spec) = (&ours["metadata"], &ours["spec"]);
    let containers = spec["containers"].as_array().into_iter().flatten();
    let containers: Vec<Value> = containers
        .map(|one| json!({"image": one["image"], "name": one["name"]}))
        .collect();
    let reference = &meta["ownerReferences"][0];
    let is = |field: &str| reference[field].as_bool().unwrap_or(false);
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (controller, blocks) = (is("controller"), is("blockOwnerDeletion"));
    let ours = json!({
        "affinity": spec["affinity"],
        "annotations": or(&meta["annotations"], json!({})),
        "bound": spec["nodeName"].is_string(),
        "containers": containers,
        "finalizers": or(&meta["finalizers"], json!([])),
        "generateName": meta["generateName"],
        "hostNetwork": or(&spec["hostNetwork"], json!(false)),
        "labels": meta["labels"],
        "nodeSelector": or(&spec["nodeSelector"], json!({})),
        "owner": [format!("{}/{}/{} controller={controller} blockOwnerDeletion={blocks}", text("apiVersion"), text("kind"), text("name"))],
        "schedulingGates": or(&spec["schedulingGates"], json!([])),
        "tolerations": spec["tolerations"],
    });
    for (field, value) in ours.as_object().expect("an object") {
        assert_eq!(sorted(&recorded[field]), sorted(value), "{context}: {field}");
    }
}
