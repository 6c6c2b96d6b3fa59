//! The state of an object at the end.

use serde_json::{Value, json};

use super::changes::{COUNTERS, UNRECORDED, by_type, flag, items, map, owners};
use super::{Kind, at};
use crate::oracle::lines::Fields;

/// What recordings say of it.
pub fn of(kind: Kind, object: &Value) -> Fields {
    let is_terminating = object.pointer("/metadata/deletionTimestamp").is_some();
    let state = match kind {
        Kind::Node => json!({
            "labels": map(object, "/metadata/labels"), "unschedulable": flag(object, "/spec/unschedulable"),
            "taints": taints(object), "conditions": conditions(object),
        }),
        Kind::Pod => json!({
            "node": at(object, "/spec/nodeName"), "terminating": is_terminating, "labels": map(object, "/metadata/labels"),
            "owner": owners(object), "phase": at(object, "/status/phase"), "conditions": conditions(object),
        }),
        Kind::DaemonSet => json!({
            "generation": object.pointer("/metadata/generation"), "terminating": is_terminating,
            "finalizers": items(object, "/metadata/finalizers"), "status": counters(object),
        }),
        Kind::ControllerRevision => json!({
            "revision": object.get("revision"), "labels": map(object, "/metadata/labels"), "owner": owners(object),
        }),
        Kind::Event => Value::Null,
    };
    match state {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

fn taints(node: &Value) -> Vec<String> {
    let taint = |taint: &Value| format!("{}={}:{}", at(taint, "/key"), at(taint, "/value"), at(taint, "/effect"));
    let mut taints: Vec<String> = items(node, "/spec/taints").iter().map(taint).collect();
    taints.sort_unstable();
    taints
}

fn conditions(object: &Value) -> Fields {
    let recorded = by_type(object).into_iter().filter(|(kind, _)| !UNRECORDED.contains(kind));
    let state = |one: &Value| json!({"status": at(one, "/status"), "reason": at(one, "/reason"), "message": at(one, "/message")});
    recorded.map(|(kind, one)| (kind.to_owned(), state(one))).collect()
}

fn counters(set: &Value) -> Fields {
    let count = |field: &str| set.pointer(&format!("/status/{field}")).cloned().unwrap_or_else(|| 0.into());
    COUNTERS.iter().map(|field| ((*field).to_owned(), count(field))).collect()
}
