//! What comes next for one pod that is due, and by which request it goes.

use bailiff_model::Now;
use bailiff_model::intent::EvictionCause;
use bailiff_model::outcome::RefusedReason;

use super::super::Evictor;
use super::{Pod, Step};
use crate::config::{AcceptIntents, EvictionMethod};
use crate::effect::{Mark, NODE_LOST};
use crate::fact::whole_seconds;
use crate::judge::judge;

impl Evictor {
    pub(super) fn next_step(&self, pod: &Pod, now: Now) -> Step {
        if let Some(reason) = self.pod_hold(&pod.intent, pod.tolerations()) {
            return Step::Hold(reason);
        }
        if let Err(reason) = self.judge_pod(pod) {
            return if self.is_sure(pod) {
                Step::Refuse(reason)
            } else {
                Step::Confirm
            };
        }
        let node_mode = *pod.intent.cause == EvictionCause::Node;
        let by_budget = self.asks_budgets(pod, now);
        match &pod.seen {
            Some(seen) if node_mode && seen.reason == NODE_LOST && seen.terminating => Step::Leave,
            Some(seen) if node_mode && seen.reason == NODE_LOST && self.is_spared(seen) => Step::Refuse(RefusedReason::DaemonSet),
            Some(seen) if node_mode && seen.reason == NODE_LOST && by_budget => Step::Evict,
            Some(seen) if node_mode && seen.reason == NODE_LOST => Step::Delete,
            Some(_) if !node_mode && by_budget => Step::Evict,
            Some(seen) if !node_mode && seen.marked => Step::Delete,
            _ if pod.target.resource_version.is_empty() => Step::Read,
            _ if node_mode => Step::Mark(Mark::NodeLost {
                message: format!(
                    "Node {} which was running pod {} is unresponsive",
                    pod.intent.node.name, pod.intent.pod.name
                ),
            }),
            _ if by_budget => Step::Read,
            _ if pod.target.generation == 0 && pod.seen.is_none() => Step::Read,
            _ => Step::Mark(Mark::DisruptionTarget {
                transition: (!pod.target.disruption_target).then(|| whole_seconds(now.wall)),
                generation: pod.target.generation,
            }),
        }
    }

    pub(super) fn judge_pod(&self, pod: &Pod) -> Result<(), RefusedReason> {
        if pod.seen.as_ref().is_some_and(|seen| seen.node != pod.intent.node.name) {
            return Err(RefusedReason::OtherNode);
        }
        if self.config.accept == AcceptIntents::Any {
            return Ok(());
        }
        let name = &pod.intent.node.name;
        let node = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        if node.is_none() && !self.pods.is_gone(&pod.intent.node) {
            return Err(RefusedReason::NoTaint);
        }
        judge(&pod.intent, node, pod.tolerations(), self.config.profile)
    }

    /// True if the node was read from the store after the intent came: our cache is not behind what made it.
    pub(super) fn is_sure(&self, pod: &Pod) -> bool {
        let name = &pod.intent.node.name;
        if self.pods.is_gone(&pod.intent.node) {
            return true;
        }
        let confirmed_at = self.nodes.get(name).and_then(|node| node.confirmed_at);
        let other_node = pod.seen.as_ref().is_some_and(|seen| seen.node != pod.intent.node.name);
        other_node || confirmed_at.is_some_and(|at| at >= pod.received_at)
    }

    /// True if the pod goes by the Eviction API. Before it falls back to a delete a budget has forbidden it at least once: after a long
    /// hold nothing is deleted that nobody tried to evict.
    fn asks_budgets(&self, pod: &Pod, now: Now) -> bool {
        match self.config.method {
            EvictionMethod::Delete => false,
            EvictionMethod::Evict => true,
            EvictionMethod::EvictThenDelete { after } => !pod.blocked || now.mono < pod.due_since + after,
        }
    }
}
