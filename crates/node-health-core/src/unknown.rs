//! Which conditions a silent node gets (NL-053, NL-054).

use std::sync::Arc;

use bailiff_model::{NodeRef, ReadyStatus, ResourceVersion, Wall, wellknown};

use crate::node::Node;

/// Reason of a condition that the kubelet posted once.
const REASON_UNKNOWN: &str = "NodeStatusUnknown";
/// Reason of a condition that it never posted.
const REASON_NEVER: &str = "NodeStatusNeverUpdated";
const MESSAGE_UNKNOWN: &str = "Kubelet stopped posting node status.";
const MESSAGE_NEVER: &str = "Kubelet never posted node status.";

/// One condition to be written; its status is Unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionWrite {
    /// `type`.
    pub kind: &'static str,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: &'static str,
    /// `lastHeartbeatTime` of a condition that did not exist; `None` keeps what is there.
    pub heartbeat: Option<Wall>,
    /// `lastTransitionTime`, whole seconds (NL-066). The same in all conditions of one write.
    pub since: Wall,
}

/// A write of a node's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// The node; uid and resourceVersion are preconditions.
    pub node: NodeRef,
    /// The conditions, in the order in which absent ones are to be appended. Others stay as they are.
    pub conditions: Vec<ConditionWrite>,
}

/// What is to be written about a node that fell silent; `None` if Ready is Unknown already (NL-054).
pub(crate) fn conditions(node: &Node, now: Wall) -> Option<Vec<ConditionWrite>> {
    if node.ready.status == ReadyStatus::Unknown {
        return None;
    }
    let since = whole_seconds(now);
    let present = [
        (wellknown::CONDITION_READY, node.ready.status),
        (wellknown::CONDITION_MEMORY_PRESSURE, node.pressures.memory),
        (wellknown::CONDITION_DISK_PRESSURE, node.pressures.disk),
        (wellknown::CONDITION_PID_PRESSURE, node.pressures.pid),
    ];
    let writes = present.into_iter().filter_map(|(kind, status)| match status {
        ReadyStatus::Unknown => None,
        ReadyStatus::Absent => Some(ConditionWrite {
            kind,
            reason: REASON_NEVER,
            message: MESSAGE_NEVER,
            heartbeat: Some(node.created.wall()),
            since,
        }),
        ReadyStatus::True | ReadyStatus::False => Some(ConditionWrite {
            kind,
            reason: REASON_UNKNOWN,
            message: MESSAGE_UNKNOWN,
            heartbeat: None,
            since,
        }),
    });
    Some(writes.collect())
}

/// Makes `node` what it is once a write of [`conditions`] at `since` is stored, so that its echo from the watch changes nothing.
pub(crate) fn take_written(node: &mut Node, since: Wall, stored: ResourceVersion) {
    if node.ready.status == ReadyStatus::Absent {
        node.ready.reason = Arc::from(REASON_NEVER);
        node.ready.heartbeat = Some(node.created);
    } else {
        node.ready.reason = Arc::from(REASON_UNKNOWN);
    }
    node.ready.status = ReadyStatus::Unknown;
    node.ready.since = Some(since.into());
    node.pressures.memory = ReadyStatus::Unknown;
    node.pressures.disk = ReadyStatus::Unknown;
    node.pressures.pid = ReadyStatus::Unknown;
    node.version = stored;
}

/// Kubernetes stores condition times in whole seconds; written that way the echo of a write equals what was decided.
pub(crate) fn whole_seconds(wall: Wall) -> Wall {
    Wall::from_second(wall.as_second()).unwrap_or(wall)
}
