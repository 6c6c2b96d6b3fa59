//! What follows from a node's state: its vote, its timer, its record; and the level "everything is down".

use std::time::Duration;

use bailiff_model::timers::Place;
use bailiff_model::{Hold, Mono, NodeHealth, NodeName, Now, Ready, ReadyStatus, SignOfLife, Stamp, Verdict, Zone};

use super::{Monitor, slot};
use crate::effect::{Effect, EventKind, Measurement, NodeEvent};
use crate::node::{Count, Node, Phase};
use crate::votes::Vote;

/// How far ahead timers are looked at when one is due, and how often at most. With it whoever renews costs a wake a second together, and
/// a wake with thousands of silent nodes looks at each of them once.
const SOON: Duration = Duration::from_secs(1);

impl Monitor {
    /// Brings everything that follows from a node's state up to date. Doing it twice does nothing the second time.
    pub(super) fn refresh(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let settling = self.is_settling(now);
        let Some(node) = self.nodes.get_mut(name) else { return };
        let has_verdict = node.ready.status == ReadyStatus::Unknown;
        if !has_verdict && node.late_since.is_none() && !settling && now.mono >= node.late_at(&self.config) {
            node.late_since = Some(now.wall.into());
        }
        self.count_loss(name, now);
        let Some(node) = self.nodes.get_mut(name) else { return };
        let vote = if node.unsaid {
            Vote::None
        } else {
            Vote::of(node.ready.status, node.excluded)
        };
        self.votes.change(&mut node.vote, vote);

        let verdict = node.verdict();
        let before = node.said;
        if node.changed || before != Some(verdict) {
            let is_healthy = verdict == Verdict::Healthy;
            // A pause does not travel on the bus (docs/adr/0002): whoever reads the record watches it itself, and would hold the whole zone
            // for one of this node.
            let held = self.losses.hold_after(&node.zone).filter(|_| !is_healthy).cloned();
            let trace = Self::follow_incident(name, node, verdict, now, out);
            let health = Self::record(name, node, verdict, held, now, &self.config);
            out.push(Effect::Publish { health, trace });
            self.list_unhealthy(name, !is_healthy);
            self.count_verdict(before, Some(verdict));
        }
        self.arm(name, now);
    }

    /// Sets the timer of a node for what comes next. A timer that is set for earlier stays: it fires and looks again. So signs of
    /// life, which only move deadlines away, move no timer.
    fn arm(&mut self, name: &NodeName, now: Now) {
        let Some((place, _, node)) = self.nodes.get_full(name) else {
            return;
        };
        let next = match &node.phase {
            Phase::Queued | Phase::Reading(_) | Phase::Confirmed(_) | Phase::Writing(_) => None,
            // Signs of life of a node that stays Unknown (NL-058) cross the bus only now and then.
            Phase::Watched if node.ready.status == ReadyStatus::Unknown => {
                node.recounted.then(|| now.mono + (self.config.grace - self.config.grace / 4))
            }
            Phase::Watched => Some(self.looked_at(node)),
        };
        let place = place as Place;
        let next = match (self.timers.get(place), next) {
            (Some(set), Some(next)) => Some(set.min(next)),
            (None, next) | (_, next @ None) => next,
        };
        self.timers.set(place, next);
    }

    /// When a node is to be looked at that is not Unknown, if it gives no sign of life.
    fn looked_at(&self, node: &Node) -> Mono {
        match node.late_since {
            None => node.late_at(&self.config),
            Some(_) => self.cadence.acts_after(node.grace_ends(&self.config)).max(node.not_before),
        }
    }

    /// Sets timers again that come soon: nearly all are of nodes that gave a sign of life since they were set, each of which would be
    /// a wake for nothing.
    pub(super) fn put_off(&mut self, now: Now) {
        if now.mono < self.looked_ahead {
            return;
        }
        let end = now.mono + SOON;
        self.looked_ahead = end;
        let mut soon = Vec::new();
        while let Some(at) = self.timers.first().filter(|at| *at <= end) {
            soon.extend(self.timers.pop_due(at).map(|place| (place, at)));
        }
        for (place, at) in soon {
            let node = self.nodes.get_index(place as usize).map(|(_, node)| node);
            let node = node.filter(|node| node.ready.status != ReadyStatus::Unknown);
            let next = node.map_or(at, |node| self.looked_at(node).max(at));
            self.timers.set(place, Some(next));
        }
    }

    fn record(
        name: &NodeName,
        node: &mut Node,
        verdict: Verdict,
        held: Option<Hold>,
        now: Now,
        config: &crate::Config,
    ) -> Box<NodeHealth> {
        node.said = Some(verdict);
        node.recounted = false;
        node.changed = false;
        let late = matches!(verdict, Verdict::Late | Verdict::Unreachable);
        Box::new(NodeHealth {
            node: node.reference(name),
            zone: Zone::clone(&node.zone),
            excluded_from_disruption: node.excluded,
            ready: Ready {
                status: node.ready.status,
                reason: node.ready.reason.as_ref().to_owned(),
                since: node.ready.since.map(Stamp::wall),
            },
            verdict,
            last_sign_of_life: node.sign.filter(|_| node.heard).map(|sign| SignOfLife {
                time: sign.wall.wall(),
                signal: sign.signal,
                renew_time: node.lease.renew_time(),
            }),
            late_since: node.late_since.filter(|_| late).map(Stamp::wall),
            counted_from: node.count.wall.wall(),
            grace: node.grace(config),
            decided_at: now.wall,
            held,
        })
    }

    pub(super) fn event(name: &NodeName, node: &Node, kind: EventKind) -> Effect {
        Effect::Event(NodeEvent {
            node: node.reference(name),
            kind,
            trace: node.trace(),
        })
    }

    pub(super) fn count_verdict(&mut self, before: Option<Verdict>, after: Option<Verdict>) {
        if let Some(verdict) = before {
            self.verdicts[slot(verdict)] -= 1;
        }
        if let Some(verdict) = after {
            self.verdicts[slot(verdict)] += 1;
        }
    }

    /// "Everything is down" is a level, watched over the votes of all shards. While a shard is missing it stays as it was. It does
    /// not begin amid a list: whoever is ready may be in the rest of it.
    pub(super) fn watch_level(&mut self, now: Now, out: &mut Vec<Effect>) {
        let all_known = self.config.shard.count <= 1 || self.seen.topic_complete;
        let may_be = |down: &bool| all_known && !(*down && self.seen.unlisted_nodes.is_under_way());
        let Some(down) = self.votes.everything_down().filter(may_be) else {
            return;
        };
        let before = std::mem::replace(&mut self.everything_down, down);
        if before == down {
            return;
        }
        if down {
            out.push(Effect::Measure(Measurement::EverythingDown));
        } else {
            self.recount(now, out);
        }
    }

    /// NL-099: grace is counted from now. Nodes that are Unknown stay so.
    fn recount(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut silent = Vec::new();
        let mono = self.cadence.notices(now.mono);
        for (place, (name, node)) in self.nodes.iter_mut().enumerate() {
            Self::note_recounted(name, node, now, out);
            node.count_from(Count::anew(mono, now.wall));
            if node.ready.status != ReadyStatus::Unknown {
                node.late_since = None;
            }
            if matches!(node.phase, Phase::Queued | Phase::Confirmed(_)) {
                node.phase = Phase::Watched;
                self.queue.remove(name);
            }
            let tells = matches!(node.said, Some(Verdict::Late | Verdict::NotReady | Verdict::Unreachable));
            if tells {
                node.changed = true;
            }
            if tells || self.timers.get(place as Place).is_none() {
                silent.push(name.clone());
            }
        }
        out.push(Effect::Measure(Measurement::NoLongerEverythingDown {
            recounted: silent.len(),
        }));
        for name in silent {
            self.refresh(&name, now, out);
        }
    }
}
