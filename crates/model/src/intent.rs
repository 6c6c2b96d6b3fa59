//! Domain form of topic `eviction-intents`; field meanings are those of `proto/bailiff/v1/intents.proto`.

use std::sync::Arc;

use crate::ids::{NodeRef, PodRef};
use crate::taint::{self, Effect, Taint, Toleration};
use crate::time::Wall;
use crate::wellknown;
use crate::zone::Zone;

/// One of the two NoExecute taints that health causes (NL-070).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthTaint {
    /// For Ready=False.
    NotReady,
    /// For Ready=Unknown.
    Unreachable,
}

impl HealthTaint {
    /// Taint key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::NotReady => wellknown::TAINT_NOT_READY,
            Self::Unreachable => wellknown::TAINT_UNREACHABLE,
        }
    }

    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Self::NotReady => Self::Unreachable,
            Self::Unreachable => Self::NotReady,
        }
    }

    /// The health taint that `taint` is, if it is one with effect NoExecute.
    pub fn of(taint: &Taint) -> Option<Self> {
        if taint.effect != Effect::NoExecute {
            return None;
        }
        [Self::NotReady, Self::Unreachable]
            .into_iter()
            .find(|health| health.key() == &*taint.key)
    }
}

/// A node should carry a NoExecute health taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIsolation {
    /// The node.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// The taint wanted.
    pub taint: HealthTaint,
    /// One sentence for people.
    pub cause: String,
    /// When it was decided.
    pub decided_at: Wall,
}

/// All pods of a node should go (node mode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEviction {
    /// The node.
    pub node: NodeRef,
    /// Its zone.
    pub zone: Zone,
    /// When it is due, by the producer's clock: information.
    pub not_before: Wall,
    /// It may be acted on.
    pub due: bool,
    /// One sentence for people.
    pub cause: String,
    /// When it was decided.
    pub decided_at: Wall,
}

/// Why a pod should go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionCause {
    /// NoExecute taints, each with its start in `time_added`, and the tolerations that applied.
    Taints {
        /// The taints; `time_added` carries the start the taint-manager counted from.
        taints: Vec<Taint>,
        /// The tolerations used, in the order of the pod: which of them is used for which taint can be found out again.
        tolerations: Vec<Toleration>,
    },
    /// The whole node is evicted.
    Node,
}

/// Why an eviction was called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WithdrawnReason {
    /// No NoExecute taint is left on the node (TE-032).
    TaintsGone,
    /// Every taint is tolerated without limit now (TE-054).
    Tolerated,
    /// The node recovered (node mode).
    NodeRecovered,
}

/// Where a pod's eviction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntentState {
    /// A toleration time runs.
    Scheduled,
    /// Act.
    Due,
    /// Called off.
    Withdrawn(WithdrawnReason),
}

/// What made, or will make, the eviction due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A taint that nothing tolerates (TE-052).
    Untolerated,
    /// A toleration time that ran out (TE-055).
    Expired,
    /// The eviction timeout of the node (NL-202); the only one that goes with [`EvictionCause::Node`].
    Node,
}

/// A pod should be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// The pod.
    pub pod: PodRef,
    /// The node it is bound to.
    pub node: NodeRef,
    /// The node's zone, the last that was known.
    pub zone: Zone,
    /// Why. Many pods go for the same reason.
    pub cause: Arc<EvictionCause>,
    /// Where it stands.
    pub state: IntentState,
    /// What made or makes it due.
    pub trigger: Trigger,
    /// When it is due; information.
    pub due_at: Wall,
    /// When it was decided.
    pub decided_at: Wall,
}

// === impl PodEviction ===

impl PodEviction {
    /// The taints that the pod has to go for: those that it does not tolerate, or whose toleration ends first. The record names all that
    /// stand on the node, also those that it may live with. None in node mode.
    pub fn decisive_taints(&self) -> Vec<&Taint> {
        let EvictionCause::Taints { taints, tolerations } = &*self.cause else {
            return Vec::new();
        };
        let end = |taint: &Taint| {
            let limit = taint::limit(taint::used(taint, tolerations)?.seconds?);
            Some(taint.time_added?.checked_add(limit).unwrap_or(Wall::MAX))
        };
        let first = taints.iter().filter_map(end).min();
        let is_decisive = |taint: &&Taint| match self.trigger {
            Trigger::Untolerated => taint::used(taint, tolerations).is_none(),
            Trigger::Expired => first.is_some() && end(taint) == first,
            Trigger::Node => true,
        };
        let found: Vec<&Taint> = taints.iter().filter(is_decisive).collect();
        if found.is_empty() { taints.iter().collect() } else { found }
    }
}

/// A record of topic `eviction-intents`. Each kind takes what it needs, not what the largest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Key `node/<name>`, taint mode.
    Isolation(Box<NodeIsolation>),
    /// Key `node/<name>`, node mode.
    NodeEviction(Box<NodeEviction>),
    /// Key `pod/<uid>`.
    Pod(Box<PodEviction>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_eviction(trigger: Trigger, cause: EvictionCause) -> PodEviction {
        PodEviction {
            pod: PodRef::default(),
            node: NodeRef::default(),
            zone: Zone::default(),
            cause: cause.into(),
            state: IntentState::Due,
            trigger,
            due_at: Wall::UNIX_EPOCH,
            decided_at: Wall::UNIX_EPOCH,
        }
    }

    /// A NoExecute taint since this second.
    fn mk_taint(key: &str, second: i64) -> Taint {
        Taint {
            time_added: Wall::from_second(second).ok(),
            ..Taint::new(key, Effect::NoExecute)
        }
    }

    fn mk_toleration(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            seconds,
            ..Toleration::exists(key, Effect::NoExecute)
        }
    }

    #[test]
    fn the_decisive_taints_are_not_tolerated_or_end_first() {
        let taints = || vec![mk_taint("a", 0), mk_taint("b", 50), mk_taint("c", 0)];
        let (untolerated, expired) = (Trigger::Untolerated, Trigger::Expired);
        let cases = [
            (untolerated, vec![mk_toleration("a", Some(0))], vec!["b", "c"]),
            (
                expired,
                vec![mk_toleration("a", Some(100)), mk_toleration("", Some(40))],
                vec!["c"],
            ),
            (
                expired,
                vec![mk_toleration("b", Some(10)), mk_toleration("", Some(60))],
                vec!["a", "b", "c"],
            ),
            (
                expired,
                vec![
                    mk_toleration("a", None),
                    mk_toleration("c", Some(i64::MAX)),
                    mk_toleration("b", Some(1)),
                ],
                vec!["b"],
            ),
            // A record that does not bear its trigger out names what stands.
            (expired, vec![mk_toleration("", None)], vec!["a", "b", "c"]),
        ];
        for (trigger, tolerations, wanted) in cases {
            let said = format!("{trigger:?} {tolerations:?}");
            let taints = taints();
            let eviction = mk_eviction(trigger, EvictionCause::Taints { taints, tolerations });
            let keys: Vec<&str> = eviction.decisive_taints().iter().map(|taint| &*taint.key).collect();
            assert_eq!(keys, wanted, "{said}");
        }
        assert!(mk_eviction(Trigger::Node, EvictionCause::Node).decisive_taints().is_empty());
    }
}
