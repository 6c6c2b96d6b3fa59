//! What is published of a DaemonSet: counters, and for each node without an available current pod why not.

use std::time::Duration;

use bailiff_model::rollout::{DaemonSetSync, NodeReason, WhyNot};
use bailiff_model::{Mono, NodeName};

use super::{Cx, Set};
use crate::effect::Effect;

/// Shortest time between two reports of one DaemonSet: they are for people and dashboards, and a large rollout changes counters
/// hundreds of times a second.
const GAP: Duration = Duration::from_secs(1);

/// What was published last.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(super) dirty: bool,
    /// When the next report may go out, if one is wanted.
    pub(super) due: Option<Mono>,
    last: Option<(Mono, DaemonSetSync)>,
}

impl Set {
    /// Nodes by reason.
    pub(super) fn reasons(&self) -> Vec<(WhyNot, u32)> {
        let reasons = self.tally.reasons.iter();
        reasons.map(|(reason, nodes)| (self.shown(*reason), *nodes)).collect()
    }

    /// A reason of a pair, as the state of the whole rollout makes it.
    fn shown(&self, reason: WhyNot) -> WhyNot {
        match reason {
            WhyNot::WaitingForBudget if self.policy.paused => WhyNot::RolloutPaused,
            WhyNot::WaitingForBudget if self.is_halted() => WhyNot::RolloutHalted,
            other => other,
        }
    }

    /// A node's reason, where somebody may hold it by itself or by its zone. What holds everything is told of the DaemonSet.
    fn shown_on(&self, node: &NodeName, reason: WhyNot, cx: &Cx<'_>) -> WhyNot {
        match self.shown(reason) {
            WhyNot::WaitingForBudget if cx.holds.on_everything().is_none() && cx.is_held(node) => WhyNot::Held,
            other => other,
        }
    }

    /// Nodes by reason, those of them apart that somebody holds by themselves or by their zone.
    ///
    /// While somebody does, this looks at every node that lacks a pod, once in a [`GAP`].
    fn reasons_told(&self, cx: &Cx<'_>) -> Vec<(WhyNot, u32)> {
        let mut reasons = self.reasons();
        if cx.holds.is_empty() || cx.holds.on_everything().is_some() {
            return reasons;
        }
        let Some(waiting) = reasons.iter().position(|(reason, _)| *reason == WhyNot::WaitingForBudget) else {
            return reasons;
        };
        let waits = |node: &&NodeName| {
            let pair = self.pairs.get(*node);
            pair.is_some_and(|pair| pair.judgement.reason == Some(WhyNot::WaitingForBudget)) && cx.is_held(node)
        };
        let held = u32::try_from(self.tally.lacking.iter().filter(waits).count()).unwrap_or(u32::MAX);
        if held > 0 {
            reasons[waiting].1 = reasons[waiting].1.saturating_sub(held);
            reasons.push((WhyNot::Held, held));
            reasons.retain(|(_, nodes)| *nodes > 0);
        }
        reasons
    }

    /// Publishes if something changed.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        if let Some((at, _)) = &self.report.last
            && now.mono < *at + GAP
        {
            self.report.due = Some(*at + GAP);
            return;
        }
        self.report.due = None;
        self.report.dirty = false;
        let Some(current) = &self.current else { return };
        let nodes = self.tally.lacking.iter().filter_map(|node| {
            let pair = self.pairs.get(node)?;
            Some(NodeReason {
                node: node.clone(),
                reason: self.shown_on(node, pair.judgement.reason?, cx),
                since: pair.since?,
            })
        });
        let sync = DaemonSetSync {
            namespace: self.ds.namespace.clone(),
            name: self.ds.name.to_string(),
            uid: self.ds.uid.to_string(),
            observed_generation: self.ds.status.observed_generation,
            current_revision: current.hash.to_string(),
            revision: current.number,
            counts: self.tally.counts(),
            reasons: self.reasons_told(cx),
            nodes: nodes.take(DaemonSetSync::MAX_NODES).collect(),
            held: cx.held.or(cx.holds.on_everything()).cloned(),
            synced_at: now.wall,
            revision_since: Some(self.since),
            rolled_out_at: None,
        };
        let is_news = self.report.last.as_ref().is_none_or(|(_, last)| {
            let last = DaemonSetSync {
                synced_at: sync.synced_at,
                ..last.clone()
            };
            last != sync
        });
        if is_news {
            cx.out.effects.push(Effect::Publish(Box::new(sync.clone())));
            self.report.last = Some((now.mono, sync));
        }
    }
}
