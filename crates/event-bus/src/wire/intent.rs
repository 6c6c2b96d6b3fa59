//! Topic `eviction-intents`.

use bailiff_model::intent::{
    EvictionCause, HealthTaint, IntentState, NodeEviction, NodeIsolation, PodEviction, Trigger, WithdrawnReason,
};
use bailiff_proto::v1 as pb;

use super::{Error, Twin, Wire, list, required, scalar, twins, values};

/// Most taints or tolerations in a cause. The API server sets no bound; what a person maintains stays far below.
const CAUSES_MAX: usize = 256;

twins!(pb::HealthTaint, HealthTaint, [NotReady, Unreachable]);
twins!(pb::EvictionTrigger, Trigger, [Untolerated, Expired, Node]);
twins!(pb::WithdrawnReason, WithdrawnReason, [TaintsGone, Tolerated, NodeRecovered]);

impl TryFrom<Wire<pb::NodeIsolation>> for NodeIsolation {
    type Error = Error;

    fn try_from(Wire(isolation): Wire<pb::NodeIsolation>) -> Result<Self, Error> {
        Ok(Self {
            node: required("node", isolation.node)?,
            zone: required("zone", isolation.zone)?,
            taint: HealthTaint::from_wire("taint", isolation.taint)?,
            cause: scalar::sentence("cause", isolation.cause)?,
            decided_at: scalar::time("decided_at", isolation.decided_at)?,
        })
    }
}

impl TryFrom<Wire<pb::NodeEviction>> for NodeEviction {
    type Error = Error;

    fn try_from(Wire(eviction): Wire<pb::NodeEviction>) -> Result<Self, Error> {
        Ok(Self {
            node: required("node", eviction.node)?,
            zone: required("zone", eviction.zone)?,
            not_before: scalar::time("not_before", eviction.not_before)?,
            due: eviction.due,
            cause: scalar::sentence("cause", eviction.cause)?,
            decided_at: scalar::time("decided_at", eviction.decided_at)?,
        })
    }
}

impl TryFrom<Wire<pb::EvictionCause>> for EvictionCause {
    type Error = Error;

    fn try_from(Wire(cause): Wire<pb::EvictionCause>) -> Result<Self, Error> {
        use pb::EvictionCauseKind as Kind;
        match Kind::try_from(cause.kind) {
            Ok(Kind::Taints) => Ok(Self::Taints {
                taints: list("taints", cause.taints, CAUSES_MAX)?,
                tolerations: list("tolerations", cause.tolerations, CAUSES_MAX)?,
            }),
            Ok(Kind::Node) if cause.taints.is_empty() && cause.tolerations.is_empty() => Ok(Self::Node),
            Ok(Kind::Node) => Err(Error::new(
                "taints",
                "not empty",
                "no taints and no tolerations with kind EVICTION_CAUSE_KIND_NODE",
            )),
            Ok(Kind::Unspecified) | Err(_) => {
                let allowed = [Kind::Taints.as_str_name(), Kind::Node.as_str_name()].join(", ");
                Err(Error::new("kind", cause.kind, allowed))
            }
        }
    }
}

impl TryFrom<Wire<pb::PodEviction>> for PodEviction {
    type Error = Error;

    fn try_from(Wire(eviction): Wire<pb::PodEviction>) -> Result<Self, Error> {
        let cause = required("cause", eviction.cause)?;
        Ok(Self {
            pod: required("pod", eviction.pod)?,
            node: required("node", eviction.node)?,
            zone: required("zone", eviction.zone)?,
            state: state(eviction.state, eviction.withdrawn_reason)?,
            trigger: trigger(&cause, eviction.trigger)?,
            cause: cause.into(),
            due_at: scalar::time("due_at", eviction.due_at)?,
            decided_at: scalar::time("decided_at", eviction.decided_at)?,
        })
    }
}

fn trigger(cause: &EvictionCause, trigger: i32) -> Result<Trigger, Error> {
    let found = Trigger::from_wire("trigger", trigger)?;
    if (*cause == EvictionCause::Node) == (found == Trigger::Node) {
        return Ok(found);
    }
    let allowed = "EVICTION_TRIGGER_NODE with kind EVICTION_CAUSE_KIND_NODE, and with no other";
    Err(Error::new("trigger", trigger, allowed))
}

fn state(state: i32, reason: i32) -> Result<IntentState, Error> {
    use pb::IntentState as State;
    let without_reason = |state| match pb::WithdrawnReason::try_from(reason) {
        Ok(pb::WithdrawnReason::Unspecified) => Ok(state),
        _ => Err(Error::new(
            "withdrawn_reason",
            reason,
            "WITHDRAWN_REASON_UNSPECIFIED in this state",
        )),
    };
    match State::try_from(state) {
        Ok(State::Scheduled) => without_reason(IntentState::Scheduled),
        Ok(State::Due) => without_reason(IntentState::Due),
        Ok(State::Withdrawn) => WithdrawnReason::from_wire("withdrawn_reason", reason).map(IntentState::Withdrawn),
        Ok(State::Unspecified) | Err(_) => {
            let allowed = [State::Scheduled, State::Due, State::Withdrawn].map(|state| state.as_str_name());
            Err(Error::new("state", state, allowed.join(", ")))
        }
    }
}

/// The wire form of an isolation.
pub fn to_node_isolation(isolation: &NodeIsolation) -> pb::NodeIsolation {
    pb::NodeIsolation {
        node: Some(values::to_node_ref(&isolation.node)),
        zone: Some(values::to_zone(&isolation.zone)),
        taint: isolation.taint.to_wire(),
        cause: scalar::to_sentence(&isolation.cause),
        decided_at: Some(scalar::to_time(isolation.decided_at)),
    }
}

/// The wire form of a node's eviction.
pub fn to_node_eviction(eviction: &NodeEviction) -> pb::NodeEviction {
    pb::NodeEviction {
        node: Some(values::to_node_ref(&eviction.node)),
        zone: Some(values::to_zone(&eviction.zone)),
        not_before: Some(scalar::to_time(eviction.not_before)),
        due: eviction.due,
        cause: scalar::to_sentence(&eviction.cause),
        decided_at: Some(scalar::to_time(eviction.decided_at)),
    }
}

/// The wire form of a pod's eviction.
pub fn to_pod_eviction(eviction: &PodEviction) -> pb::PodEviction {
    let unspecified: i32 = pb::WithdrawnReason::Unspecified.into();
    let (state, withdrawn_reason) = match eviction.state {
        IntentState::Scheduled => (pb::IntentState::Scheduled, unspecified),
        IntentState::Due => (pb::IntentState::Due, unspecified),
        IntentState::Withdrawn(reason) => (pb::IntentState::Withdrawn, reason.to_wire()),
    };
    pb::PodEviction {
        pod: Some(values::to_pod_ref(&eviction.pod)),
        node: Some(values::to_node_ref(&eviction.node)),
        zone: Some(values::to_zone(&eviction.zone)),
        cause: Some(to_cause(&eviction.cause)),
        state: state.into(),
        withdrawn_reason,
        trigger: eviction.trigger.to_wire(),
        due_at: Some(scalar::to_time(eviction.due_at)),
        decided_at: Some(scalar::to_time(eviction.decided_at)),
    }
}

fn to_cause(cause: &EvictionCause) -> pb::EvictionCause {
    match cause {
        EvictionCause::Taints { taints, tolerations } => pb::EvictionCause {
            kind: pb::EvictionCauseKind::Taints.into(),
            taints: taints.iter().map(values::to_taint).collect(),
            tolerations: tolerations.iter().map(values::to_toleration).collect(),
        },
        EvictionCause::Node => pb::EvictionCause {
            kind: pb::EvictionCauseKind::Node.into(),
            ..pb::EvictionCause::default()
        },
    }
}
