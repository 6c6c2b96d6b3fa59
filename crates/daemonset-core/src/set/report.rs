//! What is published of a DaemonSet: counters, and for each node without an available current pod why not.

use std::time::Duration;

use bailiff_model::Mono;
use bailiff_model::rollout::{DaemonSetSync, NodeReason, WhyNot};

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
                reason: self.shown(pair.judgement.reason?),
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
            reasons: self.reasons(),
            nodes: nodes.take(DaemonSetSync::MAX_NODES).collect(),
            held: cx.held.or(cx.holds.on_everything()).cloned(),
            synced_at: now.wall,
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
