//! Topic `daemon-rollouts`.

use bailiff_model::rollout::{Counts, DaemonSetSync, NodeReason, WhyNot};
use bailiff_model::{Namespace, NodeName};
use bailiff_proto::v1 as pb;

use super::{Error, Twin, Wire, list, optional, scalar, twins, values};

/// As many as there are reasons.
const REASONS_MAX: usize = 17;

twins!(
    pb::WhyNot,
    WhyNot,
    [
        NodeBadBefore,
        NodeBadAfter,
        Unscheduled,
        Image,
        CrashLoop,
        MinReady,
        WaitingForBudget,
        Deleting,
        NoRoom,
        FailedBackoff,
        RequestPending,
        NotReady,
        OnDelete,
        RolloutPaused,
        RolloutPartition,
        RolloutHalted,
        Held
    ]
);

/// One line of [`DaemonSetSync::reasons`].
struct Reason(WhyNot, u32);

impl TryFrom<Wire<pb::ReasonCount>> for Reason {
    type Error = Error;

    fn try_from(Wire(count): Wire<pb::ReasonCount>) -> Result<Self, Error> {
        Ok(Self(WhyNot::from_wire("reason", count.reason)?, count.nodes))
    }
}

impl TryFrom<Wire<pb::NodeReason>> for NodeReason {
    type Error = Error;

    fn try_from(Wire(reason): Wire<pb::NodeReason>) -> Result<Self, Error> {
        Ok(Self {
            node: NodeName::from(scalar::name("node", reason.node)?),
            reason: WhyNot::from_wire("reason", reason.reason)?,
            since: scalar::time("since", reason.since)?,
        })
    }
}

impl TryFrom<Wire<pb::DaemonSetSync>> for DaemonSetSync {
    type Error = Error;

    fn try_from(Wire(sync): Wire<pb::DaemonSetSync>) -> Result<Self, Error> {
        let reasons: Vec<Reason> = list("reasons", sync.reasons, REASONS_MAX)?;
        Ok(Self {
            namespace: Namespace::from(scalar::name("namespace", sync.namespace)?),
            name: scalar::name("name", sync.name)?,
            uid: scalar::uid("uid", sync.uid)?,
            observed_generation: sync.observed_generation,
            current_revision: scalar::label("current_revision", sync.current_revision)?,
            revision: sync.revision,
            counts: Counts {
                desired: sync.desired,
                current: sync.current,
                ready: sync.ready,
                available: sync.available,
                unavailable: sync.unavailable,
                updated: sync.updated,
                misscheduled: sync.misscheduled,
            },
            reasons: reasons.into_iter().map(|Reason(reason, nodes)| (reason, nodes)).collect(),
            nodes: list("nodes", sync.nodes, Self::MAX_NODES)?,
            held: optional("held", sync.held)?,
            synced_at: scalar::time("synced_at", sync.synced_at)?,
            revision_since: scalar::time_if_any("revision_since", sync.revision_since)?,
            rolled_out_at: scalar::time_if_any("rolled_out_at", sync.rolled_out_at)?,
        })
    }
}

/// The wire form of a sync.
pub fn to_daemon_set_sync(sync: &DaemonSetSync) -> pb::DaemonSetSync {
    pb::DaemonSetSync {
        namespace: sync.namespace.to_string(),
        name: sync.name.clone(),
        uid: sync.uid.clone(),
        observed_generation: sync.observed_generation,
        current_revision: sync.current_revision.clone(),
        revision: sync.revision,
        desired: sync.counts.desired,
        current: sync.counts.current,
        ready: sync.counts.ready,
        available: sync.counts.available,
        unavailable: sync.counts.unavailable,
        updated: sync.counts.updated,
        misscheduled: sync.counts.misscheduled,
        reasons: sync
            .reasons
            .iter()
            .map(|(reason, nodes)| to_reason(*reason, *nodes))
            .collect(),
        nodes: sync.nodes.iter().map(to_node_reason).collect(),
        held: sync.held.as_ref().map(values::to_hold),
        synced_at: Some(scalar::to_time(sync.synced_at)),
        revision_since: sync.revision_since.map(scalar::to_time),
        rolled_out_at: sync.rolled_out_at.map(scalar::to_time),
    }
}

fn to_reason(reason: WhyNot, nodes: u32) -> pb::ReasonCount {
    pb::ReasonCount {
        reason: reason.to_wire(),
        nodes,
    }
}

fn to_node_reason(reason: &NodeReason) -> pb::NodeReason {
    pb::NodeReason {
        node: reason.node.to_string(),
        reason: reason.reason.to_wire(),
        since: Some(scalar::to_time(reason.since)),
    }
}
