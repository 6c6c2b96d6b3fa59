//! What goes over the wire, and what its answer means to the core.
//!
//! Every write carries uid and resourceVersion, so that it changes what was judged or nothing.

use bailiff_cluster::{Api, Error, Patch, Precondition, error::Kind};
use bailiff_model::{NodeName, PodRef, Taint, wellknown};
use bailiff_zone_core::{
    Block, DISRUPTION_MESSAGE, DISRUPTION_REASON, Failure, FailureKind, Input, Mark, NODE_LOST, NodeFacts, PodAnswer, TaintWrite,
    Ticket,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::views::{NodeView, PodView};

/// Path of all nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";

/// Path of all DaemonSets.
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";

/// Replaces a node's taints (NL-077).
pub(crate) async fn write_taints(api: Api, write: TaintWrite) -> Input {
    let path = format!("{NODES}/{}", write.node.name);
    let taints: Vec<Value> = write.taints.iter().map(taint).collect();
    let body = json!({
        "metadata": {"uid": write.node.uid.to_string(), "resourceVersion": write.node.resource_version.to_string()},
        // The list has no merge key: a strategic merge patch replaces it. An empty one is written as upstream writes it.
        "spec": {"taints": if taints.is_empty() { Value::Null } else { Value::Array(taints) }},
    });
    let result = api.patch::<NodeView>(&path, &Patch::Strategic(body)).await;
    Input::NodeAnswer {
        ticket: write.ticket,
        result: facts(&write.node.name, result),
    }
}

/// Reads a node from the server's store.
pub(crate) async fn read_node(api: Api, ticket: Ticket, node: NodeName) -> Input {
    let result = api.get::<NodeView>(&format!("{NODES}/{node}")).await;
    Input::NodeAnswer {
        ticket,
        result: facts(&node, result),
    }
}

/// Reads a pod from the server's store.
pub(crate) async fn read_pod(api: Api, ticket: Ticket, pod: PodRef) -> Input {
    pod_answer(ticket, &pod, api.get::<PodView>(&pod_path(&pod)).await)
}

/// Patches a pod's status (TE-072 to TE-074, NL-206).
pub(crate) async fn mark_pod(api: Api, ticket: Ticket, pod: PodRef, mark: Mark) -> Input {
    let body = PodPatch {
        metadata: as_judged(&pod),
        status: StatusPatch::from(&mark),
    };
    let path = format!("{}/status", pod_path(&pod));
    let result = api.patch::<PodView>(&path, &Patch::Strategic(body)).await;
    Input::PodAnswer {
        ticket,
        result: result
            .map(|view| PodAnswer::Facts(view.into_facts()))
            .map_err(|error| failure("Pod", &pod, &error)),
    }
}

/// A patch of `pods/status`.
#[derive(Serialize)]
struct PodPatch<'a> {
    metadata: Precondition,
    status: StatusPatch<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StatusPatch<'a> {
    Marked { conditions: [ConditionPatch; 1] },
    NodeLost { reason: &'static str, message: &'a str },
}

/// An entry of `status.conditions`; its type is the key under which it is merged.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionPatch {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
    observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<String>,
}

impl<'a> From<&'a Mark> for StatusPatch<'a> {
    fn from(mark: &'a Mark) -> Self {
        match mark {
            Mark::DisruptionTarget { transition, generation } => Self::Marked {
                conditions: [ConditionPatch {
                    kind: wellknown::CONDITION_DISRUPTION_TARGET,
                    status: "True",
                    reason: DISRUPTION_REASON,
                    message: DISRUPTION_MESSAGE,
                    observed_generation: *generation,
                    // metav1.Time has no fraction.
                    last_transition_time: transition.map(|transition| format!("{transition:.0}")),
                }],
            },
            Mark::NodeLost { message } => Self::NodeLost {
                reason: NODE_LOST,
                message,
            },
        }
    }
}

/// Deletes a pod, with its own grace period (TE-071).
pub(crate) async fn delete_pod(api: Api, ticket: Ticket, pod: PodRef) -> Input {
    let result = api.delete(&pod_path(&pod), &as_judged(&pod)).await;
    Input::PodAnswer {
        ticket,
        result: result
            .map(|()| PodAnswer::Deleted)
            .map_err(|error| failure("Pod", &pod, &error)),
    }
}

/// Cause of a refusal that comes from a PodDisruptionBudget.
const CAUSE_BUDGET: &str = "DisruptionBudget";

/// Evicts a pod by the Eviction API, with its own grace period. Refused by a budget is an answer, not a failure.
pub(crate) async fn evict_pod(api: Api, ticket: Ticket, pod: PodRef) -> Input {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name.as_str(), "namespace": pod.namespace.as_str()},
        "deleteOptions": {"preconditions": as_judged(&pod)},
    });
    let answer = api
        .create::<serde::de::IgnoredAny>(&format!("{}/eviction", pod_path(&pod)), &body)
        .await;
    let result = match answer {
        Ok(_) => Ok(PodAnswer::Deleted),
        Err(error) => match block(&pod, &error) {
            Some(block) => Ok(PodAnswer::Blocked(block)),
            None => Err(failure("Pod", &pod, &error)),
        },
    };
    Input::PodAnswer { ticket, result }
}

/// The budget behind a refusal: `The disruption budget <name> needs …`, or `… is still being processed by the server.`
fn block(pod: &PodRef, error: &Error) -> Option<Block> {
    if error.kind != Kind::TooManyRequests {
        return None;
    }
    let (_, detail) = error.causes.iter().find(|(reason, _)| reason == CAUSE_BUDGET)?;
    let name = detail
        .strip_prefix("The disruption budget ")
        .and_then(|rest| rest.split(' ').next());
    Some(Block {
        by: format!(
            "{}/{}",
            pod.namespace,
            name.filter(|name| !name.is_empty()).unwrap_or("unknown")
        ),
        retry_after: error.retry_after,
        detail: detail.clone(),
    })
}

/// The pod that was judged, as it was then.
fn as_judged(pod: &PodRef) -> Precondition {
    Precondition {
        uid: Some(pod.uid.to_string()),
        resource_version: Some(pod.resource_version.to_string()),
    }
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

fn taint(taint: &Taint) -> Value {
    let mut value = json!({"key": &*taint.key, "effect": taint.effect.as_str()});
    if !taint.value.is_empty() {
        value["value"] = json!(&*taint.value);
    }
    if let Some(added) = taint.time_added {
        // metav1.Time has no fraction (NL-066).
        value["timeAdded"] = json!(format!("{added:.0}"));
    }
    value
}

fn facts(node: &NodeName, result: Result<NodeView, Error>) -> Result<NodeFacts, Failure> {
    result
        .map(NodeView::into_facts)
        .map_err(|error| failure("Node", node, &error))
}

fn pod_answer(ticket: Ticket, pod: &PodRef, result: Result<PodView, Error>) -> Input {
    Input::PodAnswer {
        ticket,
        result: result
            .map(|view| PodAnswer::Facts(view.into_facts()))
            .map_err(|error| failure("Pod", pod, &error)),
    }
}

fn failure(what: &str, name: &impl std::fmt::Display, error: &Error) -> Failure {
    let kind = match error.kind {
        Kind::NotFound => FailureKind::Gone,
        Kind::Conflict => FailureKind::Conflict,
        Kind::TooManyRequests => FailureKind::Throttled,
        Kind::NotSent | Kind::NotLeading | Kind::Observing => FailureKind::NotSent,
        Kind::Invalid | Kind::AlreadyExists | Kind::Expired => FailureKind::Invalid,
        Kind::Forbidden | Kind::NamespaceTerminating => FailureKind::Denied,
        Kind::CalledOff => FailureKind::CalledOff,
        Kind::Timeout | Kind::Unavailable => FailureKind::Unknown,
    };
    match kind {
        FailureKind::CalledOff => tracing::debug!(%name, "{what} request was called off before it was sent"),
        FailureKind::Gone | FailureKind::Conflict => tracing::debug!(%name, %error, "{what} request was overtaken"),
        _ => tracing::warn!(%name, %error, "{what} request failed"),
    }
    Failure {
        kind,
        retry_after: error.retry_after,
        load: error.kind.load(),
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::{Effect, Load};

    use super::*;

    fn status(mark: &Mark) -> Value {
        serde_json::to_value(StatusPatch::from(mark)).expect("JSON")
    }

    /// TE-072, TE-073, NL-206
    #[test]
    fn marks_have_exactly_the_fields_wanted() {
        let transition = Some("2024-01-01T00:00:00Z".parse().expect("a time"));
        let wanted = json!({"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint", "observedGeneration": 4,
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]});
        assert_eq!(
            status(&Mark::DisruptionTarget {
                transition,
                generation: 4
            }),
            wanted
        );
        let kept = status(&Mark::DisruptionTarget {
            transition: None,
            generation: 4,
        });
        assert!(kept["conditions"][0].get("lastTransitionTime").is_none());
        let lost = status(&Mark::NodeLost { message: "m".to_owned() });
        assert_eq!(lost, json!({"reason": "NodeLost", "message": "m"}));
    }

    /// NL-066, NL-070
    #[test]
    fn taints_are_written_without_empty_fields() {
        let bare = Taint::new("k", Effect::NoExecute);
        assert_eq!(taint(&bare), json!({"key": "k", "effect": "NoExecute"}));
        let full = Taint {
            value: "v".into(),
            time_added: Some("2024-01-01T00:00:00.4Z".parse().expect("a time")),
            ..bare
        };
        let wanted = json!({"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"});
        assert_eq!(taint(&full), wanted);
    }

    #[test]
    fn a_refusal_by_a_budget_names_it_and_another_429_does_not() {
        let mk = |kind, causes: &[(&str, &str)]| Error {
            causes: causes
                .iter()
                .map(|(reason, message)| ((*reason).to_owned(), (*message).to_owned()))
                .collect(),
            retry_after: Some(std::time::Duration::from_secs(10)),
            ..Error::new(kind, "Cannot evict pod as it would violate the pod's disruption budget.")
        };
        let pod = PodRef {
            namespace: "shop".into(),
            name: "web-0".into(),
            ..PodRef::default()
        };
        let by = |error: &Error| block(&pod, error).map(|block| block.by);
        let needs = "The disruption budget web needs 2 healthy pods and has 2 currently";
        let processed = "The disruption budget web is still being processed by the server.";
        for words in [needs, processed] {
            let error = mk(Kind::TooManyRequests, &[("DisruptionBudget", words)]);
            assert_eq!(by(&error), Some("shop/web".to_owned()));
            assert_eq!(block(&pod, &error).and_then(|block| block.retry_after), error.retry_after);
        }
        let other = mk(Kind::TooManyRequests, &[("DisruptionBudget", "no")]);
        assert_eq!(by(&other), Some("shop/unknown".to_owned()));
        assert_eq!(by(&mk(Kind::TooManyRequests, &[])), None);
        assert_eq!(by(&mk(Kind::Forbidden, &[("DisruptionBudget", needs)])), None);
    }

    #[test]
    fn every_error_means_something_to_the_core() {
        let retry_after = Some(std::time::Duration::from_secs(7));
        let cases = [
            (Kind::NotFound, FailureKind::Gone, Load::Answered),
            (Kind::Conflict, FailureKind::Conflict, Load::Answered),
            (Kind::TooManyRequests, FailureKind::Throttled, Load::Overloaded),
            (Kind::NotSent, FailureKind::NotSent, Load::Overloaded),
            (Kind::Invalid, FailureKind::Invalid, Load::Answered),
            (Kind::Forbidden, FailureKind::Denied, Load::Answered),
            (Kind::NotLeading, FailureKind::NotSent, Load::None),
            (Kind::CalledOff, FailureKind::CalledOff, Load::None),
            (Kind::Timeout, FailureKind::Unknown, Load::Overloaded),
            (Kind::Unavailable, FailureKind::Unknown, Load::Overloaded),
        ];
        for (kind, wanted, load) in cases {
            let error = Error {
                retry_after,
                ..Error::new(kind, "why")
            };
            let failure = failure("Pod", &"ns/p", &error);
            let told = (failure.kind, failure.retry_after, failure.load);
            assert_eq!(told, (wanted, retry_after, load), "{kind:?}");
        }
    }
}
