//! Topic `node-health`.

use bailiff_model::health::{NodeHealth, Ready, ReadyStatus, SignOfLife, Signal, Verdict};
use bailiff_proto::v1 as pb;

use super::{Error, Twin, Wire, optional, required, scalar, twins, values};

twins!(pb::Verdict, Verdict, [Healthy, Late, NotReady, Unreachable, NoStatus]);
twins!(pb::ReadyStatus, ReadyStatus, [True, False, Unknown, Absent]);
twins!(pb::SignalKind, Signal, [Lease, Status]);

impl TryFrom<Wire<pb::Ready>> for Ready {
    type Error = Error;

    fn try_from(Wire(ready): Wire<pb::Ready>) -> Result<Self, Error> {
        Ok(Self {
            status: ReadyStatus::from_wire("status", ready.status)?,
            reason: scalar::sentence("reason", ready.reason)?,
            since: scalar::time_if_any("since", ready.since)?,
        })
    }
}

impl TryFrom<Wire<pb::SignOfLife>> for SignOfLife {
    type Error = Error;

    fn try_from(Wire(sign): Wire<pb::SignOfLife>) -> Result<Self, Error> {
        Ok(Self {
            time: scalar::time("time", sign.time)?,
            signal: Signal::from_wire("kind", sign.kind)?,
            renew_time: scalar::time_if_any("renew_time", sign.renew_time)?,
        })
    }
}

impl TryFrom<Wire<pb::NodeHealth>> for NodeHealth {
    type Error = Error;

    fn try_from(Wire(health): Wire<pb::NodeHealth>) -> Result<Self, Error> {
        Ok(Self {
            node: required("node", health.node)?,
            zone: required("zone", health.zone)?,
            excluded_from_disruption: health.excluded_from_disruption,
            ready: required("ready", health.ready)?,
            verdict: Verdict::from_wire("verdict", health.verdict)?,
            last_sign_of_life: optional("last_sign_of_life", health.last_sign_of_life)?,
            late_since: scalar::time_if_any("late_since", health.late_since)?,
            counted_from: scalar::time("counted_from", health.counted_from)?,
            grace: scalar::duration("grace", health.grace)?,
            decided_at: scalar::time("decided_at", health.decided_at)?,
            held: optional("held", health.held)?,
        })
    }
}

/// The wire form of a node's health.
pub fn to_node_health(health: &NodeHealth) -> pb::NodeHealth {
    pb::NodeHealth {
        node: Some(values::to_node_ref(&health.node)),
        zone: Some(values::to_zone(&health.zone)),
        excluded_from_disruption: health.excluded_from_disruption,
        ready: Some(pb::Ready {
            status: health.ready.status.to_wire(),
            reason: scalar::to_sentence(&health.ready.reason),
            since: health.ready.since.map(scalar::to_time),
        }),
        verdict: health.verdict.to_wire(),
        last_sign_of_life: health.last_sign_of_life.map(|sign| pb::SignOfLife {
            time: Some(scalar::to_time(sign.time)),
            kind: sign.signal.to_wire(),
            renew_time: sign.renew_time.map(scalar::to_time),
        }),
        late_since: health.late_since.map(scalar::to_time),
        counted_from: Some(scalar::to_time(health.counted_from)),
        grace: Some(scalar::to_duration(health.grace)),
        decided_at: Some(scalar::to_time(health.decided_at)),
        held: health.held.as_ref().map(values::to_hold),
    }
}
