//! Topic `eviction-outcomes`.

use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, PodOutcome, PodOutcomeState, RefusedReason, ZoneStatus};
use bailiff_model::{Hold, ZoneState};
use bailiff_proto::v1 as pb;

use super::{Error, Twin, Wire, optional, required, scalar, twins, values};

twins!(pb::ZoneState, ZoneState, [Initial, Normal, PartialDisruption, FullDisruption]);
twins!(
    pb::RefusedReason,
    RefusedReason,
    [NoTaint, Tolerated, OtherNode, NodeReplaced, NodeReady, Api, DaemonSet]
);

impl TryFrom<Wire<pb::ZoneStatus>> for ZoneStatus {
    type Error = Error;

    fn try_from(Wire(status): Wire<pb::ZoneStatus>) -> Result<Self, Error> {
        let rate = status.rate_per_second;
        if !rate.is_finite() || rate < 0.0 {
            return Err(Error::new("rate_per_second", rate, "a finite number, zero or more"));
        }
        Ok(Self {
            zone: required("zone", status.zone)?,
            state: ZoneState::from_wire("state", status.state)?,
            voting: status.voting,
            not_ready: status.not_ready,
            late: status.late,
            rate_per_second: rate,
            last_grant: scalar::time_if_any("last_grant", status.last_grant)?,
            queue_length: status.queue_length,
            held: optional("held", status.held)?,
        })
    }
}

impl TryFrom<Wire<pb::NodeOutcome>> for NodeOutcome {
    type Error = Error;

    fn try_from(Wire(outcome): Wire<pb::NodeOutcome>) -> Result<Self, Error> {
        Ok(Self {
            node: required("node", outcome.node)?,
            zone: required("zone", outcome.zone)?,
            state: node_state(outcome.state, outcome.position, outcome.expected_at, outcome.held)?,
            since: scalar::time("since", outcome.since)?,
            unhealthy_since: scalar::time_if_any("unhealthy_since", outcome.unhealthy_since)?,
        })
    }
}

fn node_state(
    state: i32,
    position: u32,
    expected_at: Option<prost_types::Timestamp>,
    held: Option<pb::Hold>,
) -> Result<NodeOutcomeState, Error> {
    use pb::NodeOutcomeState as State;
    let known = State::try_from(state).unwrap_or_default();
    if known != State::Queued && (position != 0 || expected_at.is_some()) {
        let allowed = "no position and no expected_at but in state NODE_OUTCOME_STATE_QUEUED";
        return Err(Error::new("position", position, allowed));
    }
    if known != State::Held && held.is_some() {
        return Err(Error::new("held", "present", "absent but in state NODE_OUTCOME_STATE_HELD"));
    }
    match known {
        State::Queued if position == 0 => Err(Error::new("position", position, "1 or more when queued")),
        State::Queued => Ok(NodeOutcomeState::Queued {
            position,
            expected_at: scalar::time_if_any("expected_at", expected_at)?,
        }),
        State::Isolated => Ok(NodeOutcomeState::Isolated),
        State::Released => Ok(NodeOutcomeState::Released),
        State::Evicted => Ok(NodeOutcomeState::Evicted),
        State::Held => required::<_, Hold>("held", held).map(NodeOutcomeState::Held),
        State::Unspecified => {
            let allowed = [State::Queued, State::Isolated, State::Released, State::Evicted, State::Held];
            Err(Error::new(
                "state",
                state,
                allowed.map(|state| state.as_str_name()).join(", "),
            ))
        }
    }
}

impl TryFrom<Wire<pb::PodOutcome>> for PodOutcome {
    type Error = Error;

    fn try_from(Wire(outcome): Wire<pb::PodOutcome>) -> Result<Self, Error> {
        Ok(Self {
            pod: required("pod", outcome.pod)?,
            node: required("node", outcome.node)?,
            zone: required("zone", outcome.zone)?,
            state: pod_state(outcome.state, outcome.blocked_by, outcome.refused_reason, outcome.held)?,
            failed_attempts: outcome.failed_attempts,
            detail: scalar::sentence("detail", outcome.detail)?,
            since: scalar::time("since", outcome.since)?,
            next_try_at: scalar::time_if_any("next_try_at", outcome.next_try_at)?,
        })
    }
}

fn pod_state(state: i32, blocked_by: String, refused: i32, held: Option<pb::Hold>) -> Result<PodOutcomeState, Error> {
    use pb::PodOutcomeState as State;
    let known = State::try_from(state).unwrap_or_default();
    if known != State::Blocked && !blocked_by.is_empty() {
        let allowed = "empty but in state POD_OUTCOME_STATE_BLOCKED";
        return Err(Error::new("blocked_by", blocked_by, allowed));
    }
    if known != State::Refused && refused != i32::from(pb::RefusedReason::Unspecified) {
        let allowed = "unspecified but in state POD_OUTCOME_STATE_REFUSED";
        return Err(Error::new("refused_reason", refused, allowed));
    }
    if known != State::Held && held.is_some() {
        return Err(Error::new("held", "present", "absent but in state POD_OUTCOME_STATE_HELD"));
    }
    match known {
        State::Evicting => Ok(PodOutcomeState::Evicting),
        State::Deleted => Ok(PodOutcomeState::Deleted),
        State::Blocked => Ok(PodOutcomeState::Blocked {
            by: scalar::token("blocked_by", blocked_by, 1, scalar::KEY_MAX)?,
        }),
        State::Refused => RefusedReason::from_wire("refused_reason", refused).map(PodOutcomeState::Refused),
        State::Cancelled => Ok(PodOutcomeState::Cancelled),
        State::Gone => Ok(PodOutcomeState::Gone),
        State::Held => required::<_, Hold>("held", held).map(PodOutcomeState::Held),
        State::Unspecified => {
            let allowed = "POD_OUTCOME_STATE_EVICTING, _DELETED, _BLOCKED, _REFUSED, _CANCELLED, _GONE or _HELD";
            Err(Error::new("state", state, allowed))
        }
    }
}

/// The wire form of a zone's status.
pub fn to_zone_status(status: &ZoneStatus) -> pb::ZoneStatus {
    pb::ZoneStatus {
        zone: Some(values::to_zone(&status.zone)),
        state: status.state.to_wire(),
        voting: status.voting,
        not_ready: status.not_ready,
        late: status.late,
        rate_per_second: status.rate_per_second,
        last_grant: status.last_grant.map(scalar::to_time),
        queue_length: status.queue_length,
        held: status.held.as_ref().map(values::to_hold),
    }
}

/// The wire form of a node's outcome.
pub fn to_node_outcome(outcome: &NodeOutcome) -> pb::NodeOutcome {
    use pb::NodeOutcomeState as State;
    let mut wire = pb::NodeOutcome {
        node: Some(values::to_node_ref(&outcome.node)),
        zone: Some(values::to_zone(&outcome.zone)),
        since: Some(scalar::to_time(outcome.since)),
        unhealthy_since: outcome.unhealthy_since.map(scalar::to_time),
        ..pb::NodeOutcome::default()
    };
    let state = match &outcome.state {
        NodeOutcomeState::Queued { position, expected_at } => {
            wire.position = *position;
            wire.expected_at = expected_at.map(scalar::to_time);
            State::Queued
        }
        NodeOutcomeState::Isolated => State::Isolated,
        NodeOutcomeState::Released => State::Released,
        NodeOutcomeState::Evicted => State::Evicted,
        NodeOutcomeState::Held(hold) => {
            wire.held = Some(values::to_hold(hold));
            State::Held
        }
    };
    wire.state = state.into();
    wire
}

/// The wire form of a pod's outcome.
pub fn to_pod_outcome(outcome: &PodOutcome) -> pb::PodOutcome {
    use pb::PodOutcomeState as State;
    let mut wire = pb::PodOutcome {
        pod: Some(values::to_pod_ref(&outcome.pod)),
        node: Some(values::to_node_ref(&outcome.node)),
        zone: Some(values::to_zone(&outcome.zone)),
        failed_attempts: outcome.failed_attempts,
        detail: scalar::to_sentence(&outcome.detail),
        since: Some(scalar::to_time(outcome.since)),
        next_try_at: outcome.next_try_at.map(scalar::to_time),
        ..pb::PodOutcome::default()
    };
    let state = match &outcome.state {
        PodOutcomeState::Evicting => State::Evicting,
        PodOutcomeState::Deleted => State::Deleted,
        PodOutcomeState::Blocked { by } => {
            wire.blocked_by = by.clone();
            State::Blocked
        }
        PodOutcomeState::Refused(reason) => {
            wire.refused_reason = reason.to_wire();
            State::Refused
        }
        PodOutcomeState::Cancelled => State::Cancelled,
        PodOutcomeState::Gone => State::Gone,
        PodOutcomeState::Held(hold) => {
            wire.held = Some(values::to_hold(hold));
            State::Held
        }
    };
    wire.state = state.into();
    wire
}
