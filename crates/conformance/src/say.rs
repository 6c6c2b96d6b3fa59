//! What stand-ins say: records as the stages before would make them of what the API shows.

use std::time::Duration;

use bailiff_event_bus::{Body, Draft};
use bailiff_model::intent::{EvictionCause, HealthTaint, Intent, IntentState, NodeIsolation, PodEviction, Trigger};
use bailiff_model::{
    Effect, NodeHealth, NodeRef, PodRef, Ready, ReadyStatus, SignOfLife, Signal, Taint, Topic, Verdict, Wall, Zone,
};
use serde_json::Value;

use crate::stand::Stand;
use crate::timeline::condition;

/// The grace that stand-ins say applies.
const GRACE: Duration = Duration::from_secs(40);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A Node as records name it.
pub fn node_ref(node: &Value) -> NodeRef {
    let metadata = &node["metadata"];
    NodeRef {
        name: text(&metadata["name"]).into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
    }
}

/// A Pod as records name it.
pub fn pod_ref(pod: &Value) -> PodRef {
    let metadata = &pod["metadata"];
    PodRef {
        namespace: text(&metadata["namespace"]).into(),
        name: text(&metadata["name"]).into(),
        uid: text(&metadata["uid"]).into(),
        resource_version: text(&metadata["resourceVersion"]).into(),
        disruption_target: false,
        generation: metadata["generation"].as_i64().unwrap_or_default(),
    }
}

/// The zone that a Node's labels put it in.
pub fn zone_of(node: &Value) -> Zone {
    Zone::from_labels(|label| node["metadata"]["labels"][label].as_str())
}

/// Key of what is said of a pod.
pub fn pod_key(pod: &Value) -> String {
    format!("pod/{}", text(&pod["metadata"]["uid"]))
}

/// What the node-health-monitor says of a node.
pub fn health(stand: &Stand, name: &str, verdict: Verdict) -> Draft {
    let node = stand.look().node(name);
    let now: Wall = stand.clock().wall();
    let ready = condition(&node, "Ready");
    Draft::new(Body::NodeHealth(Box::new(NodeHealth {
        node: node_ref(&node),
        zone: zone_of(&node),
        excluded_from_disruption: false,
        ready: Ready {
            status: ready["status"].as_str().map_or(ReadyStatus::Absent, ReadyStatus::parse),
            reason: text(&ready["reason"]).to_owned(),
            since: text(&ready["lastTransitionTime"]).parse().ok(),
        },
        verdict,
        last_sign_of_life: Some(SignOfLife {
            time: now,
            signal: Signal::Lease,
            renew_time: None,
        }),
        late_since: matches!(verdict, Verdict::Late | Verdict::Unreachable).then_some(now),
        counted_from: now,
        grace: GRACE,
        decided_at: now,
        held: None,
    })))
}

/// What the taint-manager says of a node that is unreachable.
pub fn isolation(stand: &Stand, name: &str) -> Draft {
    let node = stand.look().node(name);
    let intent = Intent::Isolation(Box::new(NodeIsolation {
        node: node_ref(&node),
        zone: zone_of(&node),
        taint: HealthTaint::Unreachable,
        cause: "the node is unreachable".to_owned(),
        decided_at: stand.clock().wall(),
    }));
    Draft::new(Body::Intent(intent)).derived_from(stand.origin(Topic::NodeHealth, name))
}

/// What the taint-manager says of a pod, because of the NoExecute taints that its node has.
pub fn eviction(stand: &Stand, pod: &Value, state: IntentState) -> Draft {
    let name = text(&pod["spec"]["nodeName"]);
    let node = stand.look().node(name);
    let now = stand.clock().wall();
    let taints = no_execute(&node);
    // Of what fails here all pods tolerate the health taints, for no time at all (`Stand::set_up`), and no other.
    let is_health = |taint: &Taint| HealthTaint::of(taint).is_some();
    let trigger = if taints.iter().all(is_health) {
        Trigger::Expired
    } else {
        Trigger::Untolerated
    };
    let intent = Intent::Pod(Box::new(PodEviction {
        pod: pod_ref(pod),
        node: node_ref(&node),
        zone: zone_of(&node),
        cause: EvictionCause::Taints {
            taints,
            tolerations: Vec::new(),
        }
        .into(),
        state,
        trigger,
        due_at: now,
        decided_at: now,
    }));
    Draft::new(Body::Intent(intent)).derived_from(stand.origin(Topic::NodeHealth, name))
}

/// The NoExecute taints of a Node.
fn no_execute(node: &Value) -> Vec<Taint> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let evicting = taints.filter(|taint| taint["effect"] == "NoExecute");
    evicting
        .map(|taint| Taint {
            key: text(&taint["key"]).into(),
            value: text(&taint["value"]).into(),
            effect: Effect::NoExecute,
            time_added: text(&taint["timeAdded"]).parse().ok(),
        })
        .collect()
}
