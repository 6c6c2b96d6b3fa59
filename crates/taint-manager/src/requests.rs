//! Reads and writes: what goes over the wire, and what its answer means to the core.

use bailiff_cluster::error::Kind;
use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::Source;
use bailiff_cluster::{Api, Decode, Error, Patch, Precondition};
use bailiff_model::{NodeName, PodRef, Taint, Wall, wellknown};
use bailiff_taint_core::{Answer, Input, NodePatch, PodMark, Reading};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::views::{NodeView, PodView};

/// Path of all nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";
/// All pods that are on a node: no other is ever judged (TE-021).
pub(crate) const PODS: Source = Source::all("/api/v1/pods").with_fields("spec.nodeName!=");

/// Patches a node's taints and labels.
pub(crate) async fn patch_node(api: Api, patch: NodePatch) -> Input {
    let path = format!("{NODES}/{}", patch.node.name);
    let written = api.patch::<Written>(&path, &Patch::Strategic(node_body(&patch))).await;
    let answer = answer(
        written,
        || tracing::debug!(node = %patch.node.name, "Patched node taints or labels"),
        |error| {
            tracing::warn!(node = %patch.node.name, %error, "Node taints or labels could not be patched");
        },
    );
    Input::NodePatched {
        name: patch.node.name,
        answer,
    }
}

/// Reads a node from the server's store.
pub(crate) async fn read_node(api: Api, name: NodeName) -> Input {
    let reading = match api.get::<NodeView>(&format!("{NODES}/{name}")).await {
        Ok(node) => Reading::Found(node.into_facts()),
        Err(error) => failed_reading(
            &error,
            || tracing::warn!(node = %name, %error, "Node could not be read again"),
        ),
    };
    Input::NodeRead { name, reading }
}

/// Sets a pod's Ready to False.
pub(crate) async fn mark_pod(api: Api, mark: PodMark) -> Input {
    let path = format!("{}/status", pod_path(&mark.pod));
    let written = api.patch::<Written>(&path, &Patch::Strategic(PodPatch::from(&mark))).await;
    let answer = answer(
        written,
        || tracing::debug!(pod = %mark.pod, node = %mark.node, "Marked pod not ready"),
        |error| {
            tracing::warn!(pod = %mark.pod, node = %mark.node, %error, "Pod could not be marked not ready");
        },
    );
    Input::PodMarked {
        uid: mark.pod.uid,
        answer,
    }
}

/// Reads a pod from the server's store.
pub(crate) async fn read_pod(api: Api, pod: PodRef) -> Input {
    let reading = match api.get::<PodView>(&pod_path(&pod)).await {
        Ok(found) => Reading::Found(found.into_facts()),
        Err(error) => failed_reading(&error, || tracing::warn!(%pod, %error, "Pod could not be read again")),
    };
    Input::PodRead { uid: pod.uid, reading }
}

/// What a write came to; a conflict is tried again from a fresh read like every other failure.
fn answer(written: Result<Written, Error>, said: impl FnOnce(), failed: impl FnOnce(&Error)) -> Answer {
    match written {
        Ok(written) => {
            said();
            Answer::Done(written.metadata.resource_version.as_str().into())
        }
        Err(error) if error.kind == Kind::NotFound => Answer::Gone,
        Err(error) if error.kind == Kind::CalledOff => Answer::CalledOff,
        Err(error) => {
            if !matches!(error.kind, Kind::Conflict | Kind::NotLeading | Kind::Observing) {
                failed(&error);
            }
            Answer::Failed {
                retry_after: error.retry_after,
                load: error.kind.load(),
            }
        }
    }
}

fn failed_reading<T>(error: &Error, said: impl FnOnce()) -> Reading<T> {
    if error.kind == Kind::NotFound {
        return Reading::Gone;
    }
    said();
    Reading::Failed {
        retry_after: error.retry_after,
        load: error.kind.load(),
    }
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// The uid is a precondition. Where the list of taints is replaced so is the resourceVersion: what somebody else did to the list in
/// between must not be lost (NL-077). Labels are set one by one and need none (NL-121).
fn node_body(patch: &NodePatch) -> Value {
    let mut metadata = json!({"uid": patch.node.uid.to_string()});
    let mut body = Map::new();
    if let Some(taints) = &patch.taints {
        metadata["resourceVersion"] = json!(patch.node.resource_version.to_string());
        let taints: Vec<Value> = taints.iter().map(taint).collect();
        body.insert("spec".to_owned(), json!({"taints": taints}));
    }
    if !patch.labels.is_empty() {
        let labels = patch.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(&**value)));
        metadata["labels"] = Value::Object(labels.collect());
    }
    body.insert("metadata".to_owned(), metadata);
    Value::Object(body)
}

fn taint(taint: &Taint) -> Value {
    let mut entry = json!({"key": &*taint.key, "effect": taint.effect.as_str()});
    if !taint.value.is_empty() {
        entry["value"] = json!(&*taint.value);
    }
    if let Some(added) = taint.time_added {
        entry["timeAdded"] = json!(seconds(added));
    }
    entry
}

/// A patch of `pods/status`. Conditions merge by type: reason, message and the rest of the condition stay as they are (NL-087).
#[derive(Serialize)]
struct PodPatch {
    metadata: Precondition,
    status: ConditionsPatch,
}

#[derive(Serialize)]
struct ConditionsPatch {
    conditions: [ConditionPatch; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionPatch {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    last_transition_time: String,
}

impl From<&PodMark> for PodPatch {
    fn from(mark: &PodMark) -> Self {
        let condition = ConditionPatch {
            kind: wellknown::CONDITION_READY,
            status: "False",
            last_transition_time: seconds(mark.since),
        };
        Self {
            metadata: Precondition {
                uid: Some(mark.pod.uid.to_string()),
                resource_version: Some(mark.pod.resource_version.to_string()),
            },
            status: ConditionsPatch { conditions: [condition] },
        }
    }
}

/// metav1.Time has no fraction (NL-066).
fn seconds(wall: Wall) -> String {
    format!("{wall:.0}")
}

#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

impl Decode for Written {
    const MESSAGE: Option<&'static Message> = Some(&schema::OBJECT);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_model::{Effect, Load, NodeRef};

    use super::*;

    fn mk_node() -> NodeRef {
        NodeRef {
            name: "n1".into(),
            uid: "u1".into(),
            resource_version: "7".into(),
        }
    }

    fn mk_wall() -> Wall {
        "2024-05-01T10:00:00.75Z".parse().expect("a time")
    }

    /// NL-112, NL-077, NL-066
    #[test]
    fn taints_are_replaced_under_both_preconditions() {
        let patch = NodePatch {
            node: mk_node(),
            taints: Some(vec![
                Taint {
                    value: "v".into(),
                    ..Taint::new("k", Effect::NoExecute)
                },
                Taint {
                    time_added: Some(mk_wall()),
                    ..Taint::new("l", Effect::NoSchedule)
                },
            ]),
            labels: Vec::new(),
        };
        let wanted = json!({
            "metadata": {"uid": "u1", "resourceVersion": "7"},
            "spec": {"taints": [
                {"key": "k", "effect": "NoExecute", "value": "v"},
                {"key": "l", "effect": "NoSchedule", "timeAdded": "2024-05-01T10:00:00Z"},
            ]},
        });
        assert_eq!(node_body(&patch), wanted);
    }

    /// NL-121
    #[test]
    fn labels_alone_are_set_without_resource_version() {
        let patch = NodePatch {
            node: mk_node(),
            taints: None,
            labels: vec![(wellknown::LABEL_OS_BETA, "linux".into())],
        };
        let wanted = json!({"metadata": {"uid": "u1", "labels": {"beta.kubernetes.io/os": "linux"}}});
        assert_eq!(node_body(&patch), wanted);
    }

    /// NL-087
    #[test]
    fn a_mark_changes_status_and_transition_only() {
        let mark = PodMark {
            pod: PodRef {
                namespace: "d".into(),
                name: "p".into(),
                uid: "u".into(),
                resource_version: "9".into(),
                ..PodRef::default()
            },
            node: "n1".into(),
            since: mk_wall(),
        };
        let wanted = json!({
            "metadata": {"uid": "u", "resourceVersion": "9"},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2024-05-01T10:00:00Z"}]},
        });
        assert_eq!(serde_json::to_value(PodPatch::from(&mark)).expect("JSON"), wanted);
    }

    /// NL-088, NL-115
    #[test]
    fn answers_are_told_apart() {
        let failed = |kind| {
            let mut error = Error::new(kind, "no");
            error.retry_after = Some(Duration::from_secs(3));
            answer(Err(error), || {}, |_| {})
        };
        assert_eq!(failed(Kind::NotFound), Answer::Gone);
        assert_eq!(failed(Kind::CalledOff), Answer::CalledOff);
        for (kind, load) in [
            (Kind::Conflict, Load::Answered),
            (Kind::TooManyRequests, Load::Overloaded),
            (Kind::Timeout, Load::Overloaded),
            (Kind::Forbidden, Load::Answered),
            (Kind::NotLeading, Load::None),
        ] {
            let retry_after = Some(Duration::from_secs(3));
            assert_eq!(failed(kind), Answer::Failed { retry_after, load }, "{kind:?}");
        }
    }
}
