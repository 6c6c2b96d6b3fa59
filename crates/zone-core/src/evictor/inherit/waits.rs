//! Since when what still waits has been waiting, as an earlier instance said. It is for traces alone, which would show shorter waits
//! after a restart: nothing is decided by these times, which are by the clock of whoever said so.

use std::collections::BTreeMap;

use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, PodOutcome};
use bailiff_model::{Hold, NodeName, NodeRef, NodeUid, Now, PodUid, TraceContext, Wall};

use super::super::Evictor;

/// What an earlier instance said of who waited.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    nodes: BTreeMap<NodeName, Earlier>,
    pods: BTreeMap<PodUid, PodOutcome>,
}

/// A node that was waiting.
#[derive(Clone, Debug)]
pub(in crate::evictor) struct Earlier {
    pub(in crate::evictor) node: NodeRef,
    pub(in crate::evictor) since: Wall,
    /// What held it, if it was not only the rate.
    pub(in crate::evictor) hold: Option<Hold>,
    pub(in crate::evictor) trace: Option<TraceContext>,
}

impl Waits {
    /// A node of which nothing else is to be remembered.
    pub(super) fn take_node(&mut self, outcome: NodeOutcome, trace: Option<TraceContext>, now: Now) {
        let hold = match outcome.state {
            NodeOutcomeState::Queued { .. } => None,
            NodeOutcomeState::Held(hold) => Some(hold),
            NodeOutcomeState::Isolated | NodeOutcomeState::Released | NodeOutcomeState::Evicted => return,
        };
        let earlier = Earlier {
            node: outcome.node,
            since: outcome.since.min(now.wall),
            hold,
            trace,
        };
        self.nodes.insert(earlier.node.name.clone(), earlier);
    }

    /// A pod whose eviction is not over.
    pub(super) fn take_pod(&mut self, outcome: PodOutcome) {
        self.pods.insert(outcome.pod.uid.clone(), outcome);
    }
}

impl super::Inherited {
    /// Since when this incarnation of the node was waiting.
    pub(in crate::evictor) fn waited(&self, name: &NodeName, uid: &NodeUid) -> Option<&Earlier> {
        self.waits.nodes.get(name).filter(|earlier| earlier.node.uid == *uid)
    }

    /// The same, once.
    pub(in crate::evictor) fn take_waited(&mut self, name: &NodeName, uid: &NodeUid) -> Option<Earlier> {
        self.waits.nodes.remove(name).filter(|earlier| earlier.node.uid == *uid)
    }

    /// What was said of the pod, once.
    pub(in crate::evictor) fn take_pod_waited(&mut self, uid: &PodUid) -> Option<PodOutcome> {
        self.waits.pods.remove(uid)
    }
}

impl Evictor {
    /// All intents are known, and every node was looked at: who waited and does so no longer went on while nobody looked.
    pub(in crate::evictor) fn close_waits(&mut self, now: Now) {
        self.inherited.waits.pods.clear();
        while let Some((name, earlier)) = self.inherited.waits.nodes.pop_first() {
            if self.owns(&name) {
                self.tell_lost_wait(&name, earlier, now);
            }
        }
    }
}
