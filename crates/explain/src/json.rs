//! The same records as JSON, for programs: every field, named after those of the contract (`proto/bailiff/v1`) in lowerCamelCase;
//! times in RFC 3339, durations in seconds, absent fields left out.

use bailiff_model::health::{NodeHealth, Signal};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger, WithdrawnReason};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{Hold, NodeRef, PodRef, Taint, Toleration, Wall, Zone};
use serde_json::{Map, Value, json};

use crate::Said;

/// What it says.
pub fn json(said: Said<'_>) -> Value {
    match said {
        Said::Health(health) => of_health(health),
        Said::Intent(intent) => of_intent(intent),
        Said::Outcome(outcome) => of_outcome(outcome),
        Said::Rollout(sync) => of_sync(sync),
    }
}

/// An object without the fields that are null.
fn object(fields: Value) -> Value {
    match fields {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect::<Map<_, _>>(),
        ),
        other => other,
    }
}

fn time(wall: Wall) -> Value {
    json!(wall.to_string())
}

fn node(node: &NodeRef) -> Value {
    json!({"name": node.name.as_str(), "uid": node.uid.to_string(), "resourceVersion": node.resource_version.to_string()})
}

fn pod(pod: &PodRef) -> Value {
    json!({
        "namespace": pod.namespace.as_str(), "name": pod.name.as_str(), "uid": pod.uid.to_string(),
        "resourceVersion": pod.resource_version.to_string(),
    })
}

fn zone(zone: &Zone) -> Value {
    json!({"region": &*zone.region, "zone": &*zone.zone})
}

fn hold(hold: &Hold) -> Value {
    object(json!({
        "reason": hold.reason.as_str(), "detail": hold.detail, "since": time(hold.since), "until": hold.until.map(time),
    }))
}

fn taint(taint: &Taint) -> Value {
    object(json!({
        "key": &*taint.key, "value": &*taint.value, "effect": taint.effect.as_str(), "timeAdded": taint.time_added.map(time),
    }))
}

fn toleration(toleration: &Toleration) -> Value {
    object(json!({
        "key": &*toleration.key, "operator": toleration.operator.as_str(), "value": &*toleration.value,
        "effect": toleration.effect.map(|effect| effect.as_str()), "tolerationSeconds": toleration.seconds,
    }))
}

fn of_health(health: &NodeHealth) -> Value {
    let sign = health.last_sign_of_life.map(|sign| {
        let by = match sign.signal {
            Signal::Lease => "lease",
            Signal::Status => "status",
        };
        object(json!({"time": time(sign.time), "signal": by, "renewTime": sign.renew_time.map(time)}))
    });
    let ready = object(json!({
        "status": health.ready.status.as_str(), "reason": health.ready.reason, "since": health.ready.since.map(time),
    }));
    object(json!({
        "node": node(&health.node), "zone": zone(&health.zone), "excludedFromDisruption": health.excluded_from_disruption,
        "ready": ready, "verdict": health.verdict.as_str(), "lastSignOfLife": sign, "lateSince": health.late_since.map(time),
        "countedFrom": time(health.counted_from), "graceSeconds": health.grace.as_secs_f64(), "decidedAt": time(health.decided_at),
        "held": health.held.as_ref().map(hold),
    }))
}

fn of_intent(intent: &Intent) -> Value {
    match intent {
        Intent::Isolation(isolation) => json!({"nodeIsolation": {
            "node": node(&isolation.node), "zone": zone(&isolation.zone), "taint": isolation.taint.key(), "cause": isolation.cause,
            "decidedAt": time(isolation.decided_at),
        }}),
        Intent::NodeEviction(eviction) => json!({"nodeEviction": {
            "node": node(&eviction.node), "zone": zone(&eviction.zone), "notBefore": time(eviction.not_before), "due": eviction.due,
            "cause": eviction.cause, "decidedAt": time(eviction.decided_at),
        }}),
        Intent::Pod(eviction) => json!({"podEviction": of_pod_eviction(eviction)}),
    }
}

fn of_pod_eviction(eviction: &PodEviction) -> Value {
    let cause = match &*eviction.cause {
        EvictionCause::Taints { taints, tolerations } => json!({
            "taints": taints.iter().map(taint).collect::<Vec<_>>(),
            "tolerations": tolerations.iter().map(toleration).collect::<Vec<_>>(),
        }),
        EvictionCause::Node => json!({"node": true}),
    };
    let (state, withdrawn) = match eviction.state {
        IntentState::Scheduled => ("scheduled", None),
        IntentState::Due => ("due", None),
        IntentState::Withdrawn(reason) => ("withdrawn", Some(reason)),
    };
    let withdrawn = withdrawn.map(|reason| match reason {
        WithdrawnReason::TaintsGone => "taints_gone",
        WithdrawnReason::Tolerated => "tolerated",
        WithdrawnReason::NodeRecovered => "node_recovered",
    });
    let trigger = match eviction.trigger {
        Trigger::Untolerated => "untolerated",
        Trigger::Expired => "expired",
        Trigger::Node => "node",
    };
    object(json!({
        "pod": pod(&eviction.pod), "node": node(&eviction.node), "zone": zone(&eviction.zone), "cause": cause, "state": state,
        "withdrawnReason": withdrawn, "trigger": trigger, "dueAt": time(eviction.due_at), "decidedAt": time(eviction.decided_at),
    }))
}

fn of_outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Zone(status) => json!({"zoneStatus": of_zone(status)}),
        Outcome::Node(outcome) => {
            let (state, more) = match &outcome.state {
                NodeOutcomeState::Queued { position, expected_at } => (
                    "queued",
                    object(json!({"position": position, "expectedAt": expected_at.map(time)})),
                ),
                NodeOutcomeState::Isolated => ("isolated", Value::Null),
                NodeOutcomeState::Released => ("released", Value::Null),
                NodeOutcomeState::Evicted => ("evicted", Value::Null),
                NodeOutcomeState::Held(why) => ("held", hold(why)),
            };
            json!({"nodeOutcome": object(json!({
                "node": node(&outcome.node), "zone": zone(&outcome.zone), "state": state, state: more, "since": time(outcome.since),
                "unhealthySince": outcome.unhealthy_since.map(time),
            }))})
        }
        Outcome::Pod(outcome) => {
            let (state, more) = match &outcome.state {
                PodOutcomeState::Evicting => ("evicting", Value::Null),
                PodOutcomeState::Deleted => ("deleted", Value::Null),
                PodOutcomeState::Blocked { by } => ("blocked", json!({"by": by})),
                PodOutcomeState::Refused(reason) => ("refused", json!({"reason": reason.as_str()})),
                PodOutcomeState::Cancelled => ("cancelled", Value::Null),
                PodOutcomeState::Gone => ("gone", Value::Null),
                PodOutcomeState::Held(why) => ("held", hold(why)),
            };
            json!({"podOutcome": object(json!({
                "pod": pod(&outcome.pod), "node": node(&outcome.node), "zone": zone(&outcome.zone), "state": state, state: more,
                "failedAttempts": outcome.failed_attempts, "detail": outcome.detail, "since": time(outcome.since),
                "nextTryAt": outcome.next_try_at.map(time),
            }))})
        }
    }
}

fn of_zone(status: &ZoneStatus) -> Value {
    object(json!({
        "zone": zone(&status.zone), "state": status.state.to_string(), "voting": status.voting, "notReady": status.not_ready,
        "late": status.late, "ratePerSecond": status.rate_per_second, "lastGrant": status.last_grant.map(time),
        "queueLength": status.queue_length, "held": status.held.as_ref().map(hold),
    }))
}

fn of_sync(sync: &DaemonSetSync) -> Value {
    let counts = &sync.counts;
    let reasons: Map<String, Value> = sync
        .reasons
        .iter()
        .map(|(reason, nodes)| (reason.as_str().to_owned(), json!(nodes)))
        .collect();
    let nodes: Vec<Value> = sync
        .nodes
        .iter()
        .map(|node| json!({"node": node.node.as_str(), "reason": node.reason.as_str(), "since": time(node.since)}))
        .collect();
    object(json!({
        "namespace": sync.namespace.as_str(), "name": sync.name, "uid": sync.uid, "observedGeneration": sync.observed_generation,
        "currentRevision": sync.current_revision, "revision": sync.revision,
        "counts": {
            "desired": counts.desired, "current": counts.current, "ready": counts.ready, "available": counts.available,
            "unavailable": counts.unavailable, "updated": counts.updated, "misscheduled": counts.misscheduled,
        },
        "reasons": reasons, "nodes": nodes, "held": sync.held.as_ref().map(hold), "syncedAt": time(sync.synced_at),
        "revisionSince": sync.revision_since.map(time), "rolledOutAt": sync.rolled_out_at.map(time),
    }))
}
