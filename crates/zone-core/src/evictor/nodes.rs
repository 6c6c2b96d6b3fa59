//! Nodes: what is known of each, its vote, and (taint mode) which health NoExecute taint it should carry.
//!
//! ```text
//!                    wish, not ready            token                  answer
//! nothing wanted ─────────────────▶ waiting ──────────▶ taint written ────────▶ isolated
//!       ▲                              │                                           │
//!       └── ready / wish withdrawn ────┴────────── ready, or all zones down ◀──────┘
//! ```
//! The plan is made from what is known now, each time something about the node changed; there is nothing to be undone when it changes
//! again. A taint that stands is never stripped because we restarted (NL-034): only Ready=True, or full disruption, removes it.

mod answers;
mod confirm;
mod recall;
mod say;
mod taints;
mod upstream;
mod waits;

use bailiff_model::intent::{HealthTaint, Intent};
use bailiff_model::{
    Hold, HoldReason, IndexMap, Listed, Mono, NodeHealth, NodeName, NodeRef, NodeUid, Now, Origin, Profile, ReadyStatus,
    TraceContext,
};
use bailiff_model::{Stamp, Wall, Zone};
use std::sync::Arc;

use super::Evictor;
use crate::effect::{Purpose, Ticket};
use crate::fact::NodeFacts;
use crate::queue::Place;
use crate::votes::Vote;
pub(super) use confirm::Confirm;
use upstream::Turns;
use waits::{Clearing, Queued, Since};

/// The monitor's word about a node, as far as it is used.
#[derive(Clone, Debug)]
pub(super) struct Health {
    pub(super) origin: Origin,
    /// Of the incident that it is in.
    trace: Option<Box<TraceContext>>,
    uid: NodeUid,
    vote: Vote,
    since: Stamp,
    /// Ready is True, as far as the monitor knows.
    is_ready: bool,
    received_at: Mono,
    /// The zone it was in, and why that is held.
    pub(super) held: Option<Box<(Zone, Hold)>>,
}

/// What the taint-manager wants for a node.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) origin: Origin,
    derived_from: Origin,
    pub(super) trace: Option<TraceContext>,
    pub(super) node: NodeRef,
    pub(super) zone: Zone,
    pub(super) kind: WishKind,
    pub(super) decided_at: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WishKind {
    Isolate(HealthTaint),
    /// Node mode; its time is over. When that is, is the taint-manager's word: its clock is never compared with ours (design §2).
    Evict {
        due: bool,
    },
}

/// A request about the node that is under way, or why there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Work {
    #[default]
    Idle,
    /// The taints are being written. Left by the answer.
    Writing {
        ticket: Ticket,
        purpose: Purpose,
        conflicts: u32,
    },
    /// It is being found out what became of a write. Left by the answer.
    Reading {
        ticket: Ticket,
        purpose: Purpose,
        conflicts: u32,
        unknown: bool,
    },
    /// A write failed; the next one for the same purpose waits. Left by time.
    Backoff { until: Mono, purpose: Purpose },
}

/// What was last said about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Queued,
    Held(HoldReason),
    Isolated,
    Released,
    Evicted,
}

/// What was last said about a node, as what was said.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) said: Said,
    zone: Zone,
    since: Since,
    /// Why it is held, and until when.
    detail: String,
    until: Option<Wall>,
    /// By which it has its place in the queue, if it waits there.
    unhealthy_since: Option<Wall>,
}

/// What is kept of a node. It exists as long as anything is known of it: facts, a health record or a wish. What belongs to few nodes at a
/// time is boxed.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) facts: Option<NodeFacts>,
    /// `facts` were read from the server's store, on demand, by a read that was asked for then.
    pub(super) confirmed_at: Option<Mono>,
    pub(super) health: Option<Health>,
    pub(super) wish: Option<Box<Wish>>,
    /// Its vote as it is counted, and in which zone.
    vote: Option<(Arc<Zone>, Vote)>,
    /// Since when it is unhealthy: its place in the queue, kept as long as it is.
    pub(super) unhealthy_since: Option<Stamp>,
    pub(super) place: Option<Box<(Zone, Place)>>,
    /// What upstream's queues remember of it, in its profile.
    pub(super) upstream: Option<Box<Turns>>,
    /// Since when it waits in a queue.
    queued: Option<Box<Queued>>,
    /// None: it is idle.
    work: Option<Box<Work>>,
    /// Since when the request about its taints is made, and what for.
    request: Option<Box<(Since, Purpose)>>,
    /// For what the removal of its taints waits.
    clearing: Option<Box<Clearing>>,
    failures: u32,
    /// What is wanted of the taints, and since when: the wait for the NoSchedule counterpart is counted from there.
    wanted_since: Option<Box<(Option<HealthTaint>, Now)>>,
    /// Node mode: the pods of this incarnation may go.
    pub(super) evicted: Option<Box<NodeUid>>,
    /// Node mode: that its pods are deleted was said in an Event.
    pub(super) announced: bool,
    pub(super) said: Option<Box<Told>>,
}

// === impl Health ===

impl Health {
    /// Upstream takes a node that says that it is ready at its word, late, heard or not (NL-097).
    pub(super) fn new(origin: Origin, trace: Option<TraceContext>, health: NodeHealth, profile: Profile, now: Now) -> Self {
        let vote = match Vote::of(health.verdict, health.ready.status, health.last_sign_of_life.is_some()) {
            Vote::Late if profile == Profile::Upstream => Vote::Ready,
            vote => vote,
        };
        Self {
            origin,
            trace: trace.map(Box::new),
            uid: health.node.uid,
            vote,
            since: health.ready.since.unwrap_or(health.decided_at).into(),
            is_ready: health.ready.status == ReadyStatus::True,
            received_at: now.mono,
            held: health.held.map(|hold| Box::new((health.zone, hold))),
        }
    }

    /// Since when the node is unhealthy, if it is; `before` is kept.
    pub(super) fn unhealthy_since(&self, before: Option<Stamp>) -> Option<Stamp> {
        self.is_not_ready().then(|| before.unwrap_or(self.since))
    }

    pub(super) fn is_of_the_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    pub(super) fn is_not_ready(&self) -> bool {
        self.vote == Vote::NotReady
    }
}

// === impl Wish ===

impl Wish {
    /// The wish in a node intent; `None` for a pod intent.
    pub(super) fn new(origin: Origin, derived_from: Origin, trace: Option<TraceContext>, intent: Intent) -> Option<Self> {
        let (node, zone, kind, decided_at) = match intent {
            Intent::Isolation(wish) => (wish.node, wish.zone, WishKind::Isolate(wish.taint), wish.decided_at),
            Intent::NodeEviction(wish) => (wish.node, wish.zone, WishKind::Evict { due: wish.due }, wish.decided_at),
            Intent::Pod(_) => return None,
        };
        Some(Self {
            origin,
            derived_from,
            trace,
            node,
            zone,
            kind,
            decided_at,
        })
    }
}

// === impl Node ===

impl Node {
    /// Its zone; that of its wish if the node is gone.
    pub(super) fn zone(&self) -> Option<&Zone> {
        let of_facts = self.facts.as_ref().map(|facts| &facts.zone);
        of_facts.or_else(|| self.wish.as_ref().map(|wish| &wish.zone))
    }

    /// As outcomes name it; if it is gone as its wish did.
    fn reference(&self) -> Option<NodeRef> {
        let of_facts = self.facts.as_ref().map(NodeFacts::reference);
        of_facts.or_else(|| self.wish.as_ref().map(|wish| wish.node.clone()))
    }

    fn work(&self) -> Work {
        self.work.as_deref().copied().unwrap_or_default()
    }

    fn set_work(&mut self, work: Work) {
        self.work = (work != Work::Idle).then(|| Box::new(work));
    }

    pub(super) fn is_ready(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.ready == ReadyStatus::True)
    }

    pub(super) fn trace(&self) -> Option<TraceContext> {
        let of_wish = self.wish.as_ref().and_then(|wish| wish.trace);
        of_wish.or_else(|| self.health.as_ref()?.trace.as_deref().copied())
    }

    /// The trace of the incident that this incarnation is in: by the monitor's word, as a wish may be from before it.
    pub(super) fn incident(&self, uid: &NodeUid) -> Option<TraceContext> {
        let own = self.health.as_ref().filter(|health| health.uid == *uid);
        let of_health = own.and_then(|health| health.trace.as_deref().copied());
        of_health.or_else(|| self.wish.as_ref()?.trace)
    }

    /// The wish, if it means this incarnation of the node (NL-035, NL-036).
    pub(super) fn valid_wish(&self) -> Option<&Wish> {
        let facts = self.facts.as_ref()?;
        self.wish.as_deref().filter(|wish| wish.node.uid == facts.uid)
    }

    /// The node's vote: the monitor's word about this incarnation, unless it is excluded (NL-090, NL-091).
    fn counted(&self) -> Option<(&Zone, Vote)> {
        let (facts, health) = (self.facts.as_ref()?, self.health.as_ref()?);
        let votes = health.uid == facts.uid && !facts.excluded_from_disruption;
        votes.then_some((&facts.zone, health.vote))
    }

    /// True if the monitor says that this incarnation is Ready and the watch does not show it: one of the two is behind. A read made
    /// after the record came tells which.
    pub(super) fn is_ready_elsewhere(&self) -> bool {
        let (Some(facts), Some(health)) = (&self.facts, &self.health) else {
            return false;
        };
        let sure = self.confirmed_at.is_some_and(|at| at >= health.received_at);
        health.is_ready && health.uid == facts.uid && facts.ready != ReadyStatus::True && !sure
    }

    /// The taint wished for, as long as the node itself says that it is not ready. One without Ready is left alone (NL-073).
    fn taint_wanted(&self) -> Option<HealthTaint> {
        let not_ready = matches!(self.facts.as_ref()?.ready, ReadyStatus::False | ReadyStatus::Unknown);
        match self.valid_wish()?.kind {
            WishKind::Isolate(taint) if not_ready => Some(taint),
            WishKind::Isolate(_) | WishKind::Evict { .. } => None,
        }
    }

    /// True if the wish was overtaken by events: an older one than the node's newest health record, whatever that says (design §2; the
    /// taint-manager derives its wish anew from every record), one of a node that is ready by that record, one without any record behind
    /// it, or one that the node's own Ready condition does not bear out. One that was derived from a record of another bus is of unknown
    /// age: it stands again once it was derived anew, which the taint-manager does with every record of the new bus.
    fn is_wish_outdated(&self, taint: HealthTaint) -> bool {
        let own = match self.facts.as_ref().map(|facts| facts.ready) {
            Some(ReadyStatus::False) => Some(HealthTaint::NotReady),
            Some(ReadyStatus::Unknown) => Some(HealthTaint::Unreachable),
            _ => None,
        };
        let (Some(health), Some(wish)) = (&self.health, &self.wish) else {
            return true;
        };
        let stranger = self.facts.as_ref().is_none_or(|facts| facts.uid != health.uid);
        let unknown = !wish.derived_from.is_comparable(&health.origin);
        let older = wish.derived_from.revision < health.origin.revision;
        stranger || own != Some(taint) || unknown || older || !health.is_not_ready()
    }

    /// Forgets what belonged to the incarnation that is gone.
    fn become_another(&mut self) {
        *self = Self {
            health: self.health.take(),
            wish: self.wish.take(),
            vote: self.vote.take(),
            place: self.place.take(),
            queued: self.queued.take(),
            upstream: self.upstream.take(),
            said: self.said.take(),
            // Node mode: a node object that is gone leaves its intents standing (NL-205), so it stays what and where it was. The
            // next plan takes both away if another incarnation is there.
            unhealthy_since: self.unhealthy_since,
            evicted: self.evicted.take(),
            ..Self::default()
        };
    }

    /// The health taints that it had are off.
    fn cleared(&mut self) {
        if let Some(turns) = &mut self.upstream {
            turns.cleared();
        }
    }

    /// Something was said of it that does not hold once nothing is wanted of it.
    fn was_told_otherwise(&self) -> bool {
        self.said.as_ref().is_some_and(|told| told.said != Said::Released)
    }

    fn is_queued(&self) -> bool {
        self.place.is_some() || self.upstream.as_ref().is_some_and(|turns| turns.is_waiting())
    }

    fn is_empty(&self) -> bool {
        self.facts.is_none() && self.health.is_none() && self.wish.is_none() && self.vote.is_none() && !self.is_queued()
    }
}

// === impl Evictor: facts ===

impl Evictor {
    /// Some of a list. Each node is taken by itself; who is gone shows only in the end.
    pub(super) fn some_nodes_listed(&mut self, begins: bool, nodes: Vec<NodeFacts>, now: Now) {
        if begins {
            self.unlisted.begin(known_nodes(&self.nodes));
        }
        for facts in nodes {
            self.unlisted.saw(&facts.name);
            self.take_facts(facts, true, now);
        }
    }

    pub(super) fn nodes_listed(&mut self, list: Listed<NodeFacts, NodeName>, now: Now) {
        self.nodes_synced = true;
        self.api_fresh = true;
        let named = list.all.iter().map(|facts| &facts.name).chain(&list.unreadable);
        for name in self.unlisted.end(|| known_nodes(&self.nodes), named) {
            self.node_deleted(&name, None, now);
        }
        for facts in list.all {
            self.take_facts(facts, true, now);
        }
    }

    pub(super) fn node_applied(&mut self, facts: NodeFacts, now: Now) {
        self.take_facts(facts, false, now);
    }

    /// A list is how things are: if versions go back in it, the server itself did (its store was restored), and so do we.
    fn take_facts(&mut self, mut facts: NodeFacts, of_list: bool, now: Now) {
        // As they are kept already.
        if let Some((name, _)) = self.nodes.get_key_value(&facts.name) {
            facts.name = name.clone();
        }
        for text in [&mut facts.zone.region, &mut facts.zone.zone] {
            self.common.share(text);
        }
        let name = facts.name.clone();
        let node = self.nodes.entry(name.clone()).or_default();
        let same = node.facts.as_ref().filter(|known| known.uid == facts.uid);
        let is_known =
            |known: &NodeFacts| *known == facts || (!of_list && facts.resource_version.is_older_than(&known.resource_version));
        if same.is_some_and(is_known) {
            return;
        }
        let is_another = same.is_none();
        if is_another && node.facts.is_some() {
            self.leave_incarnation(&name, now);
            self.leave_queue(&name, now);
        }
        if is_another {
            self.confirm.came(&name);
            self.pods.node_came(&name);
        }
        self.register_zone(&facts.zone);
        let node = self.nodes.entry(name.clone()).or_default();
        if node.facts.is_none() {
            // Its place is by what was said of itself; that of another one of its name is none of its own.
            let own = node.health.as_ref().filter(|health| health.uid == facts.uid);
            node.unhealthy_since = own.and_then(|health| health.unhealthy_since(None));
        }
        if node.facts.is_none() && facts.health_taints().next().is_some() {
            node.upstream.get_or_insert_default().had_one(&facts.zone);
        }
        let judged_alike = node.facts.as_ref().is_some_and(|known| known.is_judged_as(&facts));
        let has_taints = |facts: &NodeFacts| facts.health_taints().next().is_some();
        if node.facts.as_ref().is_some_and(has_taints) && !has_taints(&facts) {
            // Whoever took them off: what is put there from now on is no part of them.
            node.cleared();
        }
        node.facts = Some(facts);
        if !judged_alike {
            self.look_again_at_refused(&name, now);
        }
        self.touched.insert(name);
    }

    pub(super) fn node_deleted(&mut self, name: &NodeName, uid: Option<&NodeUid>, now: Now) {
        let known = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        if known.is_none_or(|facts| uid.is_some_and(|uid| *uid != facts.uid)) {
            return;
        }
        self.leave_incarnation(name, now);
        self.look_again_at_all_refused(name, now);
        self.touched.insert(name.clone());
    }

    fn leave_incarnation(&mut self, name: &NodeName, now: Now) {
        if let Some(facts) = self.nodes.get(name).and_then(|node| node.facts.as_ref()) {
            self.confirm.left(name, &facts.uid);
        }
        self.void_grant(name, now);
        self.end_with_incarnation(name, now);
        if self.nodes.get(name).is_some_and(|node| !node.was_told_otherwise()) {
            // Nobody says anything of the next one before there is something to say.
            self.unsay(name, now);
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.become_another();
        }
    }

    /// Keeps the tallies; runs before anything is granted.
    pub(super) fn count_votes(&mut self) {
        for name in &self.touched {
            let Some(node) = self.nodes.get_mut(name) else {
                continue;
            };
            let before = node.vote.as_ref().map(|(zone, vote)| (&**zone, *vote));
            let after = node.counted();
            if before == after {
                continue;
            }
            let origin = node.health.as_ref().map(|health| health.origin.clone());
            let after = after.map(|(zone, vote)| (self.common.zone(zone), vote));
            let before = std::mem::replace(&mut node.vote, after.clone());
            for (vote, is_new) in [(before, false), (after, true)] {
                let Some((zone, vote)) = vote else {
                    continue;
                };
                if is_new {
                    self.votes.add(&zone, vote)
                } else {
                    self.votes.remove(&zone, vote)
                }
                if let Some(entry) = self.zones.get_mut(&*zone) {
                    entry.counted(origin.as_ref());
                }
                self.changed_zones.insert(Zone::clone(&zone));
            }
        }
    }
}

/// The nodes there are in the API, as far as is known.
fn known_nodes(nodes: &IndexMap<NodeName, Box<Node>>) -> impl Iterator<Item = NodeName> {
    let there = nodes.iter().filter(|(_, node)| node.facts.is_some());
    there.map(|(name, _)| name.clone())
}
