//! What one write changed, in the vocabulary of recordings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Kind, What, Write, at};
use crate::oracle::lines::Fields;

/// Conditions that are not recorded.
pub const UNRECORDED: [&str; 3] = ["PodScheduled", "Initialized", "ContainersReady"];

/// The fields of a DaemonSet's status that are recorded.
pub const COUNTERS: [&str; 9] = [
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "observedGeneration",
    "collisionCount",
];

/// The transitions of a write, in a fixed order.
pub fn of(write: &Write) -> Vec<Fields> {
    let Write {
        kind, object, previous, ..
    } = write;
    let previous = previous.as_ref().unwrap_or(&Value::Null);
    match write.what {
        What::Created => created(*kind, object).into_iter().collect(),
        What::Gone => gone(object, previous).into_iter().collect(),
        What::Changed => {
            let mut changes = Vec::new();
            metadata(object, previous, &mut changes);
            match kind {
                Kind::Node => node(object, previous, &mut changes),
                Kind::Pod => pod(object, previous, &mut changes),
                Kind::DaemonSet => daemon_set(object, previous, &mut changes),
                Kind::ControllerRevision => revision(object, previous, &mut changes),
                Kind::Event => {}
            }
            changes.extend(marked(object, previous));
            changes
        }
    }
}

fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

fn created(kind: Kind, object: &Value) -> Option<Fields> {
    let made = match kind {
        Kind::Pod => json!({
            "change": "created", "node": target(object), "bound": !at(object, "/spec/nodeName").is_empty(),
            "generateName": at(object, "/metadata/generateName"), "labels": map(object, "/metadata/labels"),
            "annotations": map(object, "/metadata/annotations"), "finalizers": list(object, "/metadata/finalizers"),
            "owner": owners(object), "affinity": map(object, "/spec/affinity"), "nodeSelector": map(object, "/spec/nodeSelector"),
            "tolerations": list(object, "/spec/tolerations"), "hostNetwork": flag(object, "/spec/hostNetwork"),
            "schedulingGates": list(object, "/spec/schedulingGates"), "containers": containers(object),
        }),
        Kind::ControllerRevision => json!({
            "change": "created", "name": at(object, "/metadata/name"), "revision": object.get("revision"),
            "labels": map(object, "/metadata/labels"), "annotations": map(object, "/metadata/annotations"),
            "owner": owners(object), "data": object.get("data"),
            "data_keys_sorted": object.get("data").is_none_or(has_sorted_keys),
        }),
        Kind::Node | Kind::DaemonSet => json!({"change": "created"}),
        Kind::Event => return None,
    };
    Some(fields(made))
}

/// A deletion that left nothing to wait for.
fn gone(object: &Value, previous: &Value) -> Option<Fields> {
    let was_marked = previous.pointer("/metadata/deletionTimestamp").is_some();
    (!was_marked).then(|| delete(object, true))
}

/// A deletion that waits for something.
fn marked(object: &Value, previous: &Value) -> Option<Fields> {
    let is_new =
        object.pointer("/metadata/deletionTimestamp").is_some() && previous.pointer("/metadata/deletionTimestamp").is_none();
    is_new.then(|| delete(object, false))
}

fn delete(object: &Value, is_gone: bool) -> Fields {
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let grace = if is_gone { 0 } else { grace.unwrap_or(0) };
    fields(json!({"change": "delete", "grace": grace}))
}

fn metadata(object: &Value, previous: &Value, changes: &mut Vec<Fields>) {
    for (change, pointer) in [("label", "/metadata/labels"), ("annotation", "/metadata/annotations")] {
        let (new, old) = (entries(object, pointer), entries(previous, pointer));
        for key in keys(&new, &old) {
            if new.get(key) != old.get(key) {
                changes.push(fields(
                    json!({"change": change, "key": key, "from": old.get(key), "to": new.get(key)}),
                ));
            }
        }
    }
    let (new, old) = (owners(object), owners(previous));
    if new != old {
        changes.push(fields(json!({"change": "owner", "from": old, "to": new})));
    }
}

fn node(object: &Value, previous: &Value, changes: &mut Vec<Fields>) {
    conditions(object, previous, true, changes);
    let (new, old) = (taints(object), taints(previous));
    for key in keys(&new, &old) {
        let change = |change: &str| fields(json!({"change": change, "effect": key.1, "key": key.0}));
        match (new.get(key), old.get(key)) {
            (Some(taint), None) => {
                let mut added = change("taint-added");
                let time = if taint.get("timeAdded").is_some() { "set" } else { "absent" };
                added.insert("timeAdded".to_owned(), time.into());
                added.insert("value".to_owned(), at(taint, "/value").into());
                changes.push(added);
            }
            (None, Some(_)) => changes.push(change("taint-removed")),
            (Some(new), Some(old)) => {
                if at(new, "/value") != at(old, "/value") {
                    changes.push(change("taint-value"));
                }
                if new.get("timeAdded") != old.get("timeAdded") {
                    changes.push(change("taint-restamped"));
                }
            }
            (None, None) => {}
        }
    }
}

fn pod(object: &Value, previous: &Value, changes: &mut Vec<Fields>) {
    plain(
        object,
        previous,
        &["phase", "reason", "message"].map(|field| (field, format!("/status/{field}"))),
        changes,
    );
    conditions(object, previous, false, changes);
    plain(object, previous, &[("tolerations", "/spec/tolerations".to_owned())], changes);
}

fn daemon_set(object: &Value, previous: &Value, changes: &mut Vec<Fields>) {
    plain(
        object,
        previous,
        &[("generation", "/metadata/generation".to_owned())],
        changes,
    );
    for field in COUNTERS {
        let pointer = format!("/status/{field}");
        let count = |object: &Value| object.pointer(&pointer).cloned().unwrap_or_else(|| 0.into());
        let (new, old) = (count(object), count(previous));
        if new != old {
            changes.push(fields(json!({"change": "status", "field": field, "to": new})));
        }
    }
    plain(object, previous, &[("conditions", "/status/conditions".to_owned())], changes);
}

fn revision(object: &Value, previous: &Value, changes: &mut Vec<Fields>) {
    plain(
        object,
        previous,
        &[("revision", "/revision".to_owned()), ("data", "/data".to_owned())],
        changes,
    );
}

/// Fields of which only the value is told.
fn plain(object: &Value, previous: &Value, pointers: &[(&str, String)], changes: &mut Vec<Fields>) {
    for (change, pointer) in pointers {
        let (new, old) = (object.pointer(pointer), previous.pointer(pointer));
        if new != old {
            changes.push(fields(json!({"change": change, "from": old, "to": new})));
        }
    }
}

fn conditions(object: &Value, previous: &Value, is_node: bool, changes: &mut Vec<Fields>) {
    let (new, old) = (by_type(object), by_type(previous));
    for kind in keys(&new, &old) {
        if UNRECORDED.contains(kind) {
            continue;
        }
        let (new, old) = (
            new.get(kind).copied().unwrap_or(&Value::Null),
            old.get(kind).copied().unwrap_or(&Value::Null),
        );
        let told = ["/status", "/reason", "/message"];
        if told.iter().all(|field| at(new, field) == at(old, field)) {
            continue;
        }
        let time = |field: &str| match (new.get(field), old.get(field)) {
            (None, _) => "none",
            (Some(new), Some(old)) if new == old => "kept",
            _ => "set",
        };
        let mut change = fields(json!({
            "change": "condition", "type": kind, "from": old.get("status"), "to": new.get("status"),
            "reason": at(new, "/reason"), "message": at(new, "/message"), "lastTransitionTime": time("lastTransitionTime"),
        }));
        if is_node {
            let is_creation = new
                .get("lastHeartbeatTime")
                .is_some_and(|beat| Some(beat) == object.pointer("/metadata/creationTimestamp"));
            let beat = match time("lastHeartbeatTime") {
                "set" if is_creation => "creationTimestamp",
                other => other,
            };
            change.insert("lastHeartbeatTime".to_owned(), beat.into());
        } else {
            let current = object.pointer("/metadata/generation");
            let generation = match new.get("observedGeneration") {
                None => "absent".into(),
                Some(generation) if Some(generation) == current => "current".into(),
                Some(generation) => generation.clone(),
            };
            change.insert("observedGeneration".to_owned(), generation);
        }
        changes.push(change);
    }
}

/// `spec.nodeName`, else the node that a required affinity term names.
pub fn target(pod: &Value) -> String {
    let bound = at(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound.to_owned();
    }
    let terms = items(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    let requirements = terms.iter().flat_map(|term| items(term, "/matchFields"));
    let mut named = requirements.filter(|one| at(one, "/key") == "metadata.name" && at(one, "/operator") == "In");
    let values = named.next().map(|one| items(one, "/values")).unwrap_or_default();
    match values {
        [Value::String(name)] => name.clone(),
        _ => String::new(),
    }
}

/// The owners of an object, as recordings write them.
pub fn owners(object: &Value) -> Vec<String> {
    let owner = |owner: &Value| {
        format!(
            "{}/{}/{} controller={} blockOwnerDeletion={}",
            at(owner, "/apiVersion"),
            at(owner, "/kind"),
            at(owner, "/name"),
            flag(owner, "/controller"),
            flag(owner, "/blockOwnerDeletion")
        )
    };
    items(object, "/metadata/ownerReferences").iter().map(owner).collect()
}

/// Conditions by type.
pub fn by_type(object: &Value) -> BTreeMap<&str, &Value> {
    items(object, "/status/conditions")
        .iter()
        .map(|one| (at(one, "/type"), one))
        .collect()
}

/// A map of the object, empty if there is none.
pub fn map(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .filter(|value| value.is_object())
        .cloned()
        .unwrap_or_else(|| json!({}))
}

/// A flag of the object.
pub fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list of the object.
pub fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn list(object: &Value, pointer: &str) -> Value {
    Value::Array(items(object, pointer).to_vec())
}

fn containers(object: &Value) -> Vec<Value> {
    let container = |one: &Value| json!({"image": at(one, "/image"), "name": at(one, "/name")});
    items(object, "/spec/containers").iter().map(container).collect()
}

fn entries<'a>(object: &'a Value, pointer: &str) -> BTreeMap<&'a str, &'a Value> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect()
}

fn taints(node: &Value) -> BTreeMap<(&str, &str), &Value> {
    let taints = items(node, "/spec/taints").iter();
    taints
        .map(|taint| ((at(taint, "/key"), at(taint, "/effect")), taint))
        .collect()
}

/// The keys of both maps, in order.
fn keys<'a, K: Ord, V>(new: &'a BTreeMap<K, V>, old: &'a BTreeMap<K, V>) -> Vec<&'a K> {
    let mut keys: Vec<&K> = new.keys().chain(old.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn has_sorted_keys(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.keys().is_sorted_by(|a, b| a.as_bytes() <= b.as_bytes()) && map.values().all(has_sorted_keys),
        Value::Array(items) => items.iter().all(has_sorted_keys),
        _ => true,
    }
}
