//! Becoming and ceasing to be the one who judges: what is inherited, and what a node starts with.

use std::time::Duration;

use bailiff_model::{Mono, NodeHealth, NodeName, Now, ReadyStatus, Signal, Stamp, Verdict};

use super::{INHERIT_WAIT, Monitor};
use crate::cadence::Cadence;
use crate::effect::{Effect, EventKind, Measurement};
use crate::incident::{Closing, Incident, Outcome};
use crate::input::Inherited;
use crate::loss::Losses;
use crate::node::{Count, Node, Sign};
use crate::votes::Votes;

impl Monitor {
    /// Leadership begins or ends. It ends at once; what is under way is no longer heeded.
    pub(super) fn lead(&mut self, leads: bool, now: Now) {
        if leads == self.leading_since.is_some() {
            return;
        }
        self.leading_since = leads.then_some(now.mono);
        self.running = false;
        self.everything_down = false;
        self.settle_until = now.mono;
        self.wake = None;
        self.timers.clear();
        self.queue.clear();
        self.losses = Losses::default();
        self.unhealthy.clear();
        self.votes = Votes::default();
        self.inherited.clear();
        self.seen.topic = false;
        self.seen.topic_complete = false;
        self.verdicts = [0; 5];
        for node in self.nodes.values_mut() {
            node.stand_by();
        }
    }

    pub(super) fn waits_for(&self) -> Option<&'static str> {
        match () {
            () if self.running => None,
            () if self.leading_since.is_none() => Some("leadership"),
            () if !self.seen.nodes => Some("the list of nodes"),
            () if !self.seen.leases => Some("the list of leases"),
            () => Some("the records of its own topic"),
        }
    }

    /// Begins once everything is there that a judgement can depend on. The own topic is waited for, but not for ever: without it
    /// everybody gets a full grace, which is safe.
    pub(super) fn begin_if_complete(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(since) = self.leading_since else { return };
        if self.running || !self.seen.nodes || !self.seen.leases {
            return;
        }
        if !self.seen.topic && now.mono < since + INHERIT_WAIT {
            return;
        }
        self.running = true;
        self.cadence = Cadence::beginning_at(now.mono, &self.config);
        let mut inherited = std::mem::take(&mut self.inherited);
        let names: Vec<NodeName> = self.nodes.keys().cloned().collect();
        // An event and a record of each, at once: grown by and by, it would be there several times.
        out.reserve(2 * names.len());
        for name in names {
            let record = inherited.remove(&name);
            self.register(&name, record.as_ref(), now, out);
        }
        // Of a node that is there and cannot be read nobody knows.
        let is_gone = |(name, _): &(&NodeName, &Inherited)| !self.seen.unreadable.contains(*name);
        for (_, record) in inherited.iter().filter(is_gone) {
            close_incident_of(record, Outcome::Deleted, now, out);
        }
        self.wait_for_signs(now);
        // Before the set is whole: a reader that acts on it must not see for a moment that nothing is held.
        self.tell_losses(now, out);
        out.push(Effect::Complete);
    }

    /// A node of which nothing was made yet: says that it is there (NL-031, NL-034), starts its grace, publishes it.
    pub(super) fn register(&mut self, name: &NodeName, inherited: Option<&Inherited>, now: Now, out: &mut Vec<Effect>) {
        let noticed = self.cadence.notices(now.mono);
        let Some(node) = self.nodes.get_mut(name) else { return };
        start_grace(node, noticed, now, self.config.startup_grace);
        match inherited {
            Some(record) if record.health.node.uid == node.uid => {
                if was_ready_since(node, &record.health) {
                    close_incident_of(record, Outcome::Recovered, now, out);
                } else {
                    node.incident = goes_on(record);
                }
                inherit(node, record, now, self.config.grace, self.config.period);
            }
            // Another node took its name.
            Some(record) => close_incident_of(record, Outcome::Deleted, now, out),
            None => {}
        }
        out.push(Self::event(name, node, EventKind::RegisteredNode));
        self.refresh(name, now, out);
    }
}

/// NL-041, NL-043, NL-049: from now if there is a Ready or a lease, else from creation. The lease is no sign of life that anybody heard:
/// after total silence all leases are as old as that.
fn start_grace(node: &mut Node, noticed: Mono, now: Now, startup_grace: Duration) {
    node.count_from(Count::anew(noticed, now.wall));
    if node.lease.is_seen() {
        node.sign = Some(Sign {
            wall: now.wall.into(),
            mono: now.mono,
            signal: Signal::Lease,
        });
    } else if node.ready.status == ReadyStatus::Absent {
        node.count_from(Count::since(node.created.wall(), now, startup_grace));
    }
}

/// Goes on where the record of this very node left off: with its grace if it was late or judged, and did not speak since. Everybody else
/// has a full one: of a judged node that matters once another hand than the kubelet's takes its condition away. Of one that only seems to
/// have spoken, by the clocks of others, sign and count stay on record: whoever begins next finds the same.
fn inherit(node: &mut Node, record: &Inherited, now: Now, grace: Duration, period: Duration) {
    let health = &record.health;
    let spoke = spoke_since(node, record);
    let judged = node.ready.status == ReadyStatus::Unknown;
    let late = health.verdict == Verdict::Late && node.ready.status == ReadyStatus::True && !spoke;
    if !judged && !late {
        return;
    }
    node.late_since = health.late_since.or_else(|| late.then_some(now.wall)).map(Stamp::from);
    if has_renewed(node, record) {
        return;
    }
    node.sign = health.last_sign_of_life.map(|sign| Sign {
        wall: sign.time.into(),
        mono: now.mono,
        signal: sign.signal,
    });
    node.heard = node.sign.is_some();
    let credit = if spoke {
        Duration::ZERO
    } else {
        longest_credit(grace, period)
    };
    node.count_from(Count::since(health.counted_from, now, credit));
}

/// The incident of the record; none if that was the last of its incident. If its node is found healthy, that ends it: nobody told so.
fn goes_on(record: &Inherited) -> Option<Box<Incident>> {
    let health = &record.health;
    let trace = record.trace.filter(|_| health.verdict != Verdict::Healthy)?;
    let began = health.last_sign_of_life.map_or(health.counted_from, |sign| sign.time);
    let incident = Incident {
        said: Some(health.verdict),
        ..Incident::new(trace, began)
    };
    Some(Box::new(incident))
}

/// The incident of the record, if it was in one, ended while nobody judged.
fn close_incident_of(record: &Inherited, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
    let Some(incident) = goes_on(record) else { return };
    out.push(Effect::Measure(Measurement::Closed(Closing {
        node: record.health.node.clone(),
        trace: incident.trace,
        began: incident.began,
        closed: now.wall,
        was: incident.said,
        outcome,
    })));
}

/// The kubelet said that it is not ready, as on record, and said in between that it is: since the record it became so anew.
fn was_ready_since(node: &Node, health: &NodeHealth) -> bool {
    let says = health.verdict == Verdict::NotReady && node.ready.status == ReadyStatus::False;
    says && health.ready.since != node.ready.since.map(Stamp::wall)
}

/// How much silence a late node is credited with that another process counted: three quarters of the grace, which that process
/// measured on its own monotonic clock, and never more. The wall clocks of the two can only make it less. What is left is long
/// enough for a kubelet to renew its lease once, and is at least two periods.
fn longest_credit(grace: Duration, period: Duration) -> Duration {
    let rest = (grace / 4).max(period.saturating_mul(2)).min(grace);
    grace - rest
}

/// True if the node's lease was renewed while nobody listened: a record that has a sign of life has the renewTime that its maker saw last,
/// if there was any, and another one is a sign of life, whatever the clocks say.
fn has_renewed(node: &Node, record: &Inherited) -> bool {
    let renewed = node.lease.renew_time();
    let known = record.health.last_sign_of_life.map(|sign| sign.renew_time);
    renewed.is_some() && known.is_some_and(|known| known != renewed)
}

/// True if the node spoke while nobody listened: its lease was renewed, or its status was posted.
///
/// Of the lease, if there is no sign of life on record, and of the status a time after the last sign of life counts. Then both clocks are
/// others'. If they disagree a dead node gets one grace more, or one that speaks has to do so within the rest of its grace, which is long
/// enough for that.
fn spoke_since(node: &Node, record: &Inherited) -> bool {
    let sign = record.health.last_sign_of_life;
    let last = sign.map_or(record.health.counted_from, |sign| sign.time);
    let renewed = node.lease.renew_time().filter(|_| sign.is_none());
    let posted = node.ready.heartbeat.map(Stamp::wall);
    has_renewed(node, record) || renewed.into_iter().chain(posted).any(|time| time > last)
}
