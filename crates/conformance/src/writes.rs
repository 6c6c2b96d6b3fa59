//! Who may write what (`docs/contract.md`), judged by what the API's history shows.

use std::collections::BTreeSet;

use bailiff_sandbox::{Change, Observation};
use serde_json::Value;

use crate::timeline::subject;

/// A part of an object that a stage may write.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Storage name of the resource.
    pub resource: &'static str,
    /// What may be done to it.
    pub what: Part,
}

/// What may be done to an object.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Everything, creation and deletion included.
    All,
    /// It may be deleted, or its deletion may begin.
    Deletion,
    /// What begins with this path may change. Conditions are named by their type, taints by key and effect:
    /// `status/conditions/Ready`, `spec/taints/key:NoExecute`.
    Field(&'static str),
}

/// What every stage may write for itself.
const OWN: [Right; 3] = [
    Right {
        resource: "events",
        what: Part::All,
    },
    Right {
        resource: "events.events.k8s.io",
        what: Part::All,
    },
    Right {
        resource: "leases.coordination.k8s.io",
        what: Part::All,
    },
];

/// What no write is about: the server keeps these itself.
const KEPT_BY_THE_SERVER: [&str; 4] = [
    "metadata/resourceVersion",
    "metadata/managedFields",
    "metadata/generation",
    "metadata/selfLink",
];

/// What of `write` a stage with these rights must not do; `None`: it may.
pub fn overstepped(write: &Observation, rights: &[Right]) -> Option<String> {
    let mut rights = OWN
        .iter()
        .chain(rights)
        .filter(|right| *right.resource == *write.resource)
        .peekable();
    // A node's own Lease is the kubelet's.
    let is_nodes_own = &*write.resource == "leases.coordination.k8s.io" && write.event.object.namespace() == "kube-node-lease";
    if rights.peek().is_none() || is_nodes_own {
        return Some(format!("it wrote {}", subject(write)));
    }
    let rights: Vec<Part> = rights.map(|right| right.what).collect();
    let may = |wanted: fn(&Part) -> bool| rights.iter().any(|part| matches!(part, Part::All) || wanted(part));
    match (write.event.change, &write.event.previous) {
        (Change::Added, _) => (!may(|_| false)).then(|| format!("it created {}", subject(write))),
        (Change::Deleted, _) if may(|part| matches!(part, Part::Deletion)) => None,
        (Change::Deleted, _) => Some(format!("it deleted {}", subject(write))),
        (Change::Modified, before) => {
            let before = before.as_ref().map(|object| object.value()).unwrap_or_default();
            let changed = differences(&before, &write.event.object.value());
            let allowed = |path: &String| rights.iter().any(|part| allows(part, path));
            let forbidden: Vec<String> = changed.into_iter().filter(|path| !allowed(path)).collect();
            (!forbidden.is_empty()).then(|| format!("it changed {} of {}", forbidden.join(", "), subject(write)))
        }
    }
}

fn allows(part: &Part, path: &str) -> bool {
    match part {
        Part::All => true,
        Part::Deletion => path.starts_with("metadata/deletion"),
        Part::Field(allowed) => path == *allowed || path.strip_prefix(allowed).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// The paths at which two states of an object differ.
fn differences(before: &Value, after: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    compare("", before, after, &mut found);
    found.retain(|path| !KEPT_BY_THE_SERVER.iter().any(|kept| path.starts_with(kept)));
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut BTreeSet<String>) {
    if before == after {
        return;
    }
    let parts = |value: &Value| named_parts(path, value);
    let (Some(old), Some(new)) = (parts(before), parts(after)) else {
        found.insert(path.to_owned());
        return;
    };
    let names: BTreeSet<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    let part = |parts: &[(String, Value)], name: &String| {
        let found = parts.iter().find(|(other, _)| other == name);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    for name in names {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}/{name}")
        };
        compare(&below, &part(&old, name), &part(&new, name), found);
    }
}

/// The parts of a value by name, down to where a write is told: fields, conditions, taints. An absent list or map has no parts.
fn named_parts(path: &str, value: &Value) -> Option<Vec<(String, Value)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (path, value) {
        (
            "status/conditions" | "spec/taints" | "metadata/labels" | "metadata/annotations" | "metadata" | "spec" | "status",
            Value::Null,
        ) => Some(Vec::new()),
        ("status/conditions", Value::Array(all)) => Some(all.iter().map(|one| (text(&one["type"]), one.clone())).collect()),
        ("spec/taints", Value::Array(all)) => {
            let name = |taint: &Value| format!("{}:{}", text(&taint["key"]), text(&taint["effect"]));
            Some(all.iter().map(|taint| (name(taint), taint.clone())).collect())
        }
        ("" | "metadata" | "spec" | "status" | "metadata/labels" | "metadata/annotations", Value::Object(fields)) => {
            Some(fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_told_by_condition_taint_and_field() {
        let before = json!({
            "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "1", "b": "2"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]},
        });
        let after = json!({
            "metadata": {"name": "n", "resourceVersion": "2", "labels": {"a": "1", "b": "3"}, "deletionTimestamp": "now"},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "False"}]},
        });
        let found: Vec<String> = differences(&before, &after).into_iter().collect();
        assert_eq!(
            found,
            [
                "metadata/deletionTimestamp",
                "metadata/labels/b",
                "spec/taints/k:NoExecute",
                "status/conditions/Ready"
            ]
        );
    }

    #[test]
    fn the_first_taint_and_the_last_are_told_by_name_too() {
        let bare = json!({"spec": {}});
        let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        for (before, after) in [(&bare, &tainted), (&tainted, &bare)] {
            assert_eq!(
                differences(before, after).into_iter().collect::<Vec<_>>(),
                ["spec/taints/k:NoExecute"]
            );
        }
    }

    #[test]
    fn a_right_reaches_what_lies_below_its_path_and_nothing_beside_it() {
        let part = Part::Field("metadata/labels");
        for (path, allowed) in [
            ("metadata/labels", true),
            ("metadata/labels/a", true),
            ("metadata/labelsx", false),
            ("metadata", false),
        ] {
            assert_eq!(allows(&part, path), allowed, "{path}");
        }
    }
}
