//! Taint mode: which health NoExecute taint a node should carry, and how it gets there.

use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::{Effect as TaintEffect, EvictionMode, HoldReason, NodeName, Now, Profile, ReadyStatus, Taint, Wall, Zone};

use super::super::zones::GrantEnd;
use super::super::{Asker, Evictor, Timer};
use super::{Node, Said, Work};
use crate::effect::{Effect, Purpose, TaintWrite};
use crate::fact::{NodeFacts, whole_seconds};
use crate::queue::Place;
use crate::span::SpanEnd;

impl Evictor {
    /// Does what the node's present state asks for.
    pub(in crate::evictor) fn plan(&mut self, name: &NodeName, now: Now) {
        if self.config.duties.node_lifecycle && self.owns(name) {
            match self.config.mode {
                EvictionMode::Taint => self.plan_taints(name, now),
                EvictionMode::Node => self.plan_eviction(name, now),
            }
        } else {
            self.leave_queue(name, now);
            // Whether it recovers there, nobody here sees: when it is back, it needs another turn.
            self.set_evicted(name, None);
            if self.nodes.get(name).is_some_and(|node| node.facts.is_some()) {
                self.inherited.forget_evicted(name);
            }
            if self.is_told_of_elsewhere(name) {
                self.leave_saying(name, now);
            } else {
                self.unsay(name, now);
            }
        }
        self.pods.look_again_at_node(name);
        if self.nodes.get(name).is_some_and(|node| node.is_empty()) {
            self.nodes.swap_remove(name);
            self.timers.clear(&Timer::Node(name.clone()));
        }
    }

    /// The instance whose zone the node is in by now says what there is to say of it, and takes that back. Of one that is gone nobody
    /// says anything, unless it is still to be evicted: where its wish has it is not where it was when it went, if it moved shortly before.
    fn is_told_of_elsewhere(&self, name: &NodeName) -> bool {
        let is_wanted = |node: &Node| self.config.mode == EvictionMode::Node && node.wish.is_some();
        let node = self.nodes.get(name);
        node.is_some_and(|node| node.facts.is_some() || is_wanted(node))
    }

    fn plan_taints(&mut self, name: &NodeName, now: Now) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let Some(facts) = &node.facts else {
            if !self.keeps_the_place_of_the_gone(name) {
                self.leave_queue(name, now);
            }
            return self.unsay(name, now);
        };
        if matches!(node.work(), Work::Writing { .. } | Work::Reading { .. }) {
            return;
        }
        let has_any = facts.health_taints().next().is_some();
        let ready = facts.ready == ReadyStatus::True;
        match node.taint_wanted() {
            _ if has_any && (ready || self.clears_for_disruption(name)) => self.clear(name, now),
            Some(taint) if !has_any => self.queue_for_isolation(name, taint, now),
            Some(taint) if facts.health_taints().all(|(standing, _)| standing == taint) => {
                if self.owes_a_turn(name) {
                    let open = self.isolation_hold(name, taint, now).is_none() && !self.must_back_off(name, Purpose::Isolate, now);
                    self.enter_queue(name, open, now);
                } else {
                    self.leave_queue(name, now);
                }
                self.want(name, None, now);
                self.say(name, Said::Isolated, now);
            }
            Some(taint) => self.swap(name, taint, now),
            None => {
                if ready {
                    self.forget_turns(name);
                }
                self.leave_own_queue(name, now);
                self.want(name, None, now);
                if !has_any {
                    self.take_back(name, now);
                }
            }
        }
    }

    /// Removes both health NoExecute taints, hand-made ones too (NL-074, NL-078). That is never held; on recovery the NoSchedule
    /// counterpart goes first, or a monitor period passes. Who only observes says that they go, and leaves it to whoever acts.
    fn clear(&mut self, name: &NodeName, now: Now) {
        self.forget_turns(name);
        self.leave_own_queue(name, now);
        self.want(name, Some((None, now)), now);
        let Some(facts) = self.nodes.get(name).and_then(|node| node.facts.as_ref()) else {
            return;
        };
        let order_kept = self.all_down || facts.health_taints().all(|(health, _)| !facts.has_no_schedule(health));
        let kept = |taint: &&Taint| HealthTaint::of(taint).is_none();
        let taints = facts.taints.iter().filter(kept).cloned().collect();
        if !order_kept && self.must_wait_for_order(name, now) {
            return self.begin_clearing(name, HoldReason::TaintOrder, "the NoSchedule counterpart goes first", now);
        }
        if self.must_wait_for_the_pass(name, now) {
            return self.begin_clearing(
                name,
                HoldReason::RateLimited,
                "upstream takes taints off in its next pass",
                now,
            );
        }
        if self.observer_hold().is_some() {
            self.blocked.insert(name.clone());
            self.end_clearing(name, SpanEnd::Released, now);
            return self.say(name, Said::Released, now);
        }
        if !self.must_back_off(name, Purpose::Clear, now) {
            self.write_taints(name, Purpose::Clear, taints, 0, now);
        }
    }

    /// One patch that keeps `timeAdded`, at once (NL-071, NL-076).
    fn swap(&mut self, name: &NodeName, taint: HealthTaint, now: Now) {
        self.leave_queue(name, now);
        self.want(name, Some((Some(taint), now)), now);
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let Some(facts) = &node.facts else {
            return;
        };
        let hold = self
            .external_for_node(name)
            .or_else(|| self.health_hold(&facts.zone))
            .or_else(|| self.unreadable_hold(name))
            .map(|hold| hold.reason);
        let hold = hold.or_else(|| node.is_wish_outdated(taint).then_some(HoldReason::OutdatedIntent));
        if let Some(reason) = hold {
            self.blocked.insert(name.clone());
            return self.say(name, Said::Held(reason), now);
        }
        let since = facts.health_taints().filter_map(|(_, standing)| standing.time_added).min();
        let taints = with_health_taint(facts, taint, since.unwrap_or_else(|| whole_seconds(now.wall)), false);
        if !facts.has_no_schedule(taint) && self.must_wait_for_order(name, now) {
            return self.say(name, Said::Held(HoldReason::TaintOrder), now);
        }
        if let Some(hold) = self.observer_hold() {
            self.blocked.insert(name.clone());
            return self.say(name, Said::Held(hold.reason), now);
        }
        if !self.must_back_off(name, Purpose::Swap, now) {
            self.write_taints(name, Purpose::Swap, taints, 0, now);
        }
    }

    /// Puts the node in its zone's queue, and says whether only the rate is missing.
    fn queue_for_isolation(&mut self, name: &NodeName, taint: HealthTaint, now: Now) {
        self.want(name, Some((Some(taint), now)), now);
        let hold = self.isolation_hold(name, taint, now);
        let backs_off = self.must_back_off(name, Purpose::Isolate, now);
        self.enter_queue(name, hold.is_none() && !backs_off, now);
        self.say(name, hold.map_or(Said::Queued, Said::Held), now);
    }

    /// Why this node, whatever its zone may do, is not isolated now.
    pub(super) fn isolation_hold(&mut self, name: &NodeName, taint: HealthTaint, now: Now) -> Option<HoldReason> {
        if let Some(hold) = self.external_for_node(name).or_else(|| self.unreadable_hold(name)) {
            return Some(hold.reason);
        }
        let node = self.nodes.get(name)?;
        if node.is_wish_outdated(taint) {
            return Some(HoldReason::OutdatedIntent);
        }
        let has_counterpart = node.facts.as_ref()?.has_no_schedule(taint);
        (!has_counterpart && self.must_wait_for_order(name, now)).then_some(HoldReason::TaintOrder)
    }

    /// Carries out a grant. `conflicts` counts the attempts that a conflict ended.
    pub(in crate::evictor) fn isolate(&mut self, zone: &Zone, name: &NodeName, now: Now) {
        let work = self.nodes.get(name).map(|node| node.work());
        if matches!(work, Some(Work::Writing { .. } | Work::Reading { .. })) {
            // Upstream's profile: its turn in a zone that it left comes while it has one elsewhere.
            self.take_place(zone, name, now);
            return self.end_grant(zone, name, GrantEnd::Kept, now);
        }
        self.end_queue_wait(name, zone, now);
        self.isolate_again(zone, name, 0, now);
    }

    pub(super) fn isolate_again(&mut self, zone: &Zone, name: &NodeName, conflicts: u32, now: Now) {
        self.take_place(zone, name, now);
        let node = self.nodes.get(name);
        let wanted = node
            .filter(|_| self.may_isolate(zone, name))
            .and_then(|node| node.taint_wanted());
        let (Some(taint), Some(facts)) = (wanted, node.and_then(|node| node.facts.as_ref())) else {
            return self.end_grant(zone, name, GrantEnd::Void, now);
        };
        let restamp = self.config.profile == Profile::Upstream;
        let taints = with_health_taint(facts, taint, whole_seconds(now.wall), restamp);
        self.write_taints(name, Purpose::Isolate, taints, conflicts, now);
    }

    /// True if the turn that the node had in `zone` is good where it is by now: what another zone may be granted that one does not tell.
    /// In upstream's profile it is isolated wherever it moved meanwhile (NL-026).
    pub(super) fn may_isolate(&self, zone: &Zone, name: &NodeName) -> bool {
        let home = self.nodes.get(name).and_then(|node| node.zone());
        let is_good = self.config.profile == Profile::Upstream || home == Some(zone);
        is_good && self.owns(name) && self.hold_of_taints(name).is_none()
    }

    fn write_taints(&mut self, name: &NodeName, purpose: Purpose, taints: Vec<Taint>, conflicts: u32, now: Now) {
        self.begin_request(name, purpose, now);
        let ticket = self.ticket(Asker::Node(name.clone()));
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let Some(facts) = &node.facts else {
            return;
        };
        let write = TaintWrite {
            ticket,
            node: facts.reference(),
            taints,
            purpose,
            trace: node.trace(),
        };
        node.set_work(Work::Writing {
            ticket,
            purpose,
            conflicts,
        });
        self.effects.push(Effect::WriteTaints(write));
    }

    /// Notes what is wanted of the node's taints; the time counts from when it was first wanted.
    fn want(&mut self, name: &NodeName, wanted: Option<(Option<HealthTaint>, Now)>, now: Now) {
        if !matches!(wanted, Some((None, _))) {
            self.end_clearing(name, SpanEnd::Withdrawn, now);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            let same = matches!((node.wanted_since.as_deref(), &wanted), (Some((was, _)), Some((is, _))) if was == is);
            if !same {
                node.wanted_since = wanted.map(Box::new);
            }
        }
    }

    /// True if the wait for the NoSchedule counterpart is not over; then its end is a timer.
    fn must_wait_for_order(&mut self, name: &NodeName, now: Now) -> bool {
        self.must_wait_for(name, self.config.monitor_period, now)
    }

    /// When the wait for the NoSchedule counterpart is over at the latest, by the clock as it was when the taint was first wanted: a time
    /// that is computed anew each time would move with it.
    pub(super) fn order_ends_at(&self, name: &NodeName) -> Option<Wall> {
        let (_, since) = self.nodes.get(name)?.wanted_since.as_deref()?;
        since.wall.checked_add(self.config.monitor_period).ok()
    }

    /// Upstream clears in its pass, by the clock of which nobody here knows: on average half a period after it could. What the taint
    /// means to pods they are told at once (TE-052).
    fn must_wait_for_the_pass(&mut self, name: &NodeName, now: Now) -> bool {
        let by_the_pass = self.config.profile == Profile::Upstream && !self.all_down;
        by_the_pass && self.must_wait_for(name, self.config.monitor_period.div_f64(2.0).min(LONGEST_TO_THE_PASS), now)
    }

    /// True until that long after what is wanted of the taints was first wanted; then the end is a timer.
    fn must_wait_for(&mut self, name: &NodeName, wait: Duration, now: Now) -> bool {
        let since = self
            .nodes
            .get(name)
            .and_then(|node| node.wanted_since.as_deref())
            .map_or(now.mono, |(_, since)| since.mono);
        let until = since + wait;
        let waits = until > now.mono;
        if waits {
            self.timers.set(Timer::Node(name.clone()), until);
        }
        waits
    }

    fn must_back_off(&mut self, name: &NodeName, purpose: Purpose, now: Now) -> bool {
        let work = self.nodes.get(name).map(|node| node.work());
        match work {
            Some(Work::Backoff { until, purpose: of }) if of == purpose && until > now.mono => {
                self.timers.set(Timer::Node(name.clone()), until);
                true
            }
            _ => false,
        }
    }

    /// Puts the node in its place in the queue of its zone, out of that of another one (NL-026).
    pub(in crate::evictor) fn enter_queue(&mut self, name: &NodeName, eligible: bool, now: Now) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let Some(zone) = node.zone().cloned() else {
            return;
        };
        let decided_at = node.wish.as_ref().map_or(Wall::UNIX_EPOCH, |wish| wish.decided_at);
        let since = node.unhealthy_since.get_or_insert(decided_at.into()).wall();
        let place = (since, name.clone());
        let home = Some(Box::new((zone.clone(), place.clone())));
        if node.place.is_some() && node.place != home {
            self.move_away(name, &zone, now);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.place = home;
        }
        if let Some(entry) = self.zones.get_mut(&zone) {
            let was_first = entry.queue.first().cloned();
            let is_new = entry.queue.put(&place, eligible);
            if is_new || entry.queue.first() != was_first.as_ref() {
                self.changed_zones.insert(zone.clone());
            }
        }
        self.begin_queue_wait(name, &zone, now);
    }

    pub(in crate::evictor) fn leave_queue(&mut self, name: &NodeName, now: Now) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let Some((zone, place)) = node.place.take().map(|place| *place) else {
            return;
        };
        self.leave_queue_wait(name, &zone, now);
        self.remove_place(zone, &place);
    }

    pub(super) fn remove_place(&mut self, zone: Zone, place: &Place) {
        if self.zones.get_mut(&zone).is_some_and(|entry| entry.queue.remove(place)) {
            self.changed_zones.insert(zone);
        }
    }
}

/// The longest that a pass is waited for. Long enough for a pod that is due to be told, short against what people notice.
const LONGEST_TO_THE_PASS: Duration = Duration::from_millis(500);

/// The node's list with `taint` as its only health NoExecute taint: in the place of one of that key, else last (NL-076).
fn with_health_taint(facts: &NodeFacts, taint: HealthTaint, since: Wall, restamp: bool) -> Vec<Taint> {
    let wanted = Taint {
        time_added: Some(since),
        ..Taint::new(taint.key(), TaintEffect::NoExecute)
    };
    let mut list: Vec<Taint> = facts.taints.clone();
    list.retain(|standing| HealthTaint::of(standing).is_none_or(|health| health == taint));
    match list.iter_mut().find(|standing| standing.is_same_entry(&wanted)) {
        Some(standing) if restamp => *standing = wanted,
        // It stands already: its own time and value stay.
        Some(_) => {}
        None => list.push(wanted),
    }
    list
}
