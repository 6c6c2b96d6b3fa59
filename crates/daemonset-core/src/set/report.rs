//! What is published of a DaemonSet: counters, and for each node without an available current pod why not.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_model::rollout::{DaemonSetSync, NodeReason, WhyNot};
use bailiff_model::{Hold, Mono, NodeName};

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
    /// Nodes that wait for the budget while somebody holds them by themselves or by their zone.
    held: BTreeSet<NodeName>,
    /// Other holds are in force than those that `held` was found by.
    holds_changed: bool,
}

impl Set {
    /// Nodes by reason.
    fn reasons(&self) -> Vec<(WhyNot, u32)> {
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
    fn shown_on(&self, node: &NodeName, reason: WhyNot) -> WhyNot {
        match self.shown(reason) {
            WhyNot::WaitingForBudget if self.report.held.contains(node) => WhyNot::Held,
            other => other,
        }
    }

    /// Other holds are in force.
    pub(crate) fn holds_changed(&mut self) {
        self.report.holds_changed = true;
    }

    /// Looks at every node that lacks a pod, once after holds have changed. Between that it is [`Set::note_held`] who keeps up.
    pub(super) fn note_holds(&mut self, cx: &Cx<'_>) {
        if !std::mem::take(&mut self.report.holds_changed) {
            return;
        }
        let held = self.tally.lacking.iter().filter(|node| self.is_held_apart(node, cx));
        self.report.held = held.cloned().collect();
    }

    /// A pair was judged: it may wait for something else than before, and its node may be in another zone.
    pub(super) fn note_held(&mut self, node: &NodeName, cx: &Cx<'_>) {
        if self.is_held_apart(node, cx) {
            self.report.held.insert(node.clone());
        } else {
            self.report.held.remove(node);
        }
    }

    /// It waits for the budget, and somebody holds it by itself or by its zone.
    fn is_held_apart(&self, node: &NodeName, cx: &Cx<'_>) -> bool {
        if cx.holds.is_empty() || cx.holds.on_everything().is_some() {
            return false;
        }
        let reason = self.pairs.get(node).and_then(|pair| pair.judgement.reason);
        reason == Some(WhyNot::WaitingForBudget) && cx.is_held(node)
    }

    /// Nodes by reason, those of them apart that somebody holds by themselves or by their zone.
    pub(super) fn reasons_told(&self) -> Vec<(WhyNot, u32)> {
        let mut reasons = self.reasons();
        let Some(waiting) = reasons.iter().position(|(reason, _)| *reason == WhyNot::WaitingForBudget) else {
            return reasons;
        };
        let held = u32::try_from(self.report.held.len()).unwrap_or(u32::MAX);
        if held > 0 {
            reasons[waiting].1 = reasons[waiting].1.saturating_sub(held);
            reasons.push((WhyNot::Held, held));
            reasons.retain(|(_, nodes)| *nodes > 0);
        }
        reasons
    }

    /// Publishes what holds it if that changed, at once, beside what was published last: nothing else is known to be so.
    pub(super) fn report_hold(&mut self, held: Option<&Hold>, cx: &mut Cx<'_>) {
        let Some((at, last)) = &mut self.report.last else { return };
        if last.held.as_ref() != held {
            last.held = held.cloned();
            *at = cx.now.mono;
            cx.out.effects.push(Effect::Publish(Box::new(last.clone())));
        }
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
                reason: self.shown_on(node, pair.judgement.reason?),
                since: pair.since?.wall(),
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
            reasons: self.reasons_told(),
            nodes: nodes.take(DaemonSetSync::MAX_NODES).collect(),
            held: cx.held_as_a_whole().cloned(),
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
