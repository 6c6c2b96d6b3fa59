//! What a trace is told of a node: each state that it has left, since when, and why it was in it.
//!
//! A wait is told in the trace that the node was in when it began: by the time it ends the record that carried it may be gone. What is
//! over in the moment it began is not told.

use std::time::Duration;

use bailiff_model::{Hold, HoldReason, NodeName, NodeRef, Now, TraceContext, Wall, Zone};

use super::super::Evictor;
use super::super::inherit::Earlier;
use super::{Node, Said, Told};
use crate::effect::{Effect, Purpose};
use crate::fact::NodeFacts;
use crate::input::{Failure, FailureKind};
use crate::span::{Span, SpanEnd, SpanKind, SpanReason, Why};

/// Since when something lasts, whose it is, and in which trace.
#[derive(Clone, Debug)]
pub(super) struct Since {
    pub(super) at: Wall,
    trace: Option<TraceContext>,
    pub(super) node: NodeRef,
}

/// The wait in a zone's queue.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    since: Since,
    /// Its place when it came.
    position: usize,
}

/// The health taints are to go, which waits for something.
#[derive(Clone, Debug)]
pub(super) struct Clearing {
    since: Since,
    reason: HoldReason,
    detail: &'static str,
}

impl Evictor {
    /// From now on.
    pub(super) fn since_now(&self, name: &NodeName, now: Now) -> Since {
        let node = self.nodes.get(name);
        let unknown = || NodeRef {
            name: name.clone(),
            ..NodeRef::default()
        };
        Since {
            at: now.wall,
            trace: node.and_then(|node| node.trace()),
            node: node.and_then(|node| node.reference()).unwrap_or_else(unknown),
        }
    }

    fn tell(&mut self, kind: SpanKind, since: Since, outcome: SpanEnd, why: Why, now: Now) {
        self.tell_until(kind, since, now.wall, outcome, why);
    }

    fn tell_until(&mut self, kind: SpanKind, since: Since, end: Wall, outcome: SpanEnd, why: Why) {
        let present = || self.nodes.get(&since.node.name).and_then(|node| node.trace());
        let span = Span {
            kind,
            trace: since.trace.or_else(present),
            start: since.at,
            end,
            node: since.node,
            pod: None,
            outcome,
            why,
        };
        self.effects.push(Effect::Span(span));
    }

    /// Where the node stands, now that it does not go on to be isolated or evicted.
    fn standing(&self, name: &NodeName) -> SpanEnd {
        let Some((node, facts)) = self
            .nodes
            .get(name)
            .and_then(|node| node.facts.as_ref().map(|facts| (node, facts)))
        else {
            return SpanEnd::Gone;
        };
        if node.is_ready() {
            SpanEnd::Recovered
        } else if facts.health_taints().next().is_some() {
            SpanEnd::Isolated
        } else if !self.owns(name) {
            SpanEnd::Moved
        } else if node.valid_wish().is_none() {
            SpanEnd::Withdrawn
        } else {
            SpanEnd::Held
        }
    }
}

// === impl Evictor: the queue ===

impl Evictor {
    /// The node is in the queue of `zone`; if it waits already it goes on waiting. The wait of another one of its name ends.
    pub(super) fn begin_queue_wait(&mut self, name: &NodeName, zone: &Zone, now: Now) {
        let uid = self.nodes.get(name).and_then(|node| node.reference()).map(|node| node.uid);
        let waits = self.nodes.get(name).and_then(|node| node.queued.as_ref());
        if waits.is_some_and(|queued| Some(&queued.since.node.uid) != uid.as_ref()) {
            self.tell_queue_wait(name, zone, SpanEnd::Gone, now);
        }
        let node = self.nodes.get(name).filter(|node| node.queued.is_none());
        let Some(place) = node.and_then(|node| node.place.as_deref()) else {
            return;
        };
        let position = self.zones.get(zone).map_or(0, |entry| entry.queue.position(&place.1));
        let mut since = self.since_now(name, now);
        if let Some(earlier) = self.inherited.waited(name, &since.node.uid) {
            since.at = earlier.since;
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.queued = Some(Box::new(Queued { since, position }));
        }
    }

    /// The node waits no longer, as its turn has come in `zone`.
    pub(in crate::evictor) fn end_queue_wait(&mut self, name: &NodeName, zone: &Zone, now: Now) {
        self.tell_queue_wait(name, zone, SpanEnd::Granted, now);
    }

    /// The node waits no longer in `zone`, but not as its turn has come.
    pub(super) fn leave_queue_wait(&mut self, name: &NodeName, zone: &Zone, now: Now) {
        let elsewhere = |node: &Node| node.zone().is_some_and(|home| home != zone);
        let has_moved = self.nodes.get(name).is_some_and(|node| elsewhere(node));
        let end = match self.standing(name) {
            SpanEnd::Held | SpanEnd::Withdrawn if has_moved => SpanEnd::Moved,
            end => end,
        };
        self.tell_queue_wait(name, zone, end, now);
    }

    fn tell_queue_wait(&mut self, name: &NodeName, zone: &Zone, end: SpanEnd, now: Now) {
        let queued = self.nodes.get_mut(name).and_then(|node| node.queued.take());
        if let Some(queued) = queued {
            let why = self.why_queued(zone, &queued, now);
            self.tell(SpanKind::QueueWait, queued.since, end, why, now);
        }
    }

    /// The zone's rate, or what held the zone for most of the time, or does so still. Those behind the first who wait are told of it
    /// here only.
    fn why_queued(&self, zone: &Zone, queued: &Queued, now: Now) -> Why {
        let since = queued.since.at;
        let Some(entry) = self.zones.get(zone).filter(|_| since != now.wall) else {
            return Why::default();
        };
        let meanwhile = entry.holds_since(since, now.wall);
        let held: Duration = meanwhile
            .iter()
            .map(|(hold, until)| between(hold.since.max(since), *until))
            .sum();
        let counts = |(_, until): &&(Hold, Wall)| *until >= now.wall || held * 2 >= between(since, now.wall);
        let why = match meanwhile.last().filter(counts) {
            Some((hold, _)) => Why::held(hold.reason, format!("the zone was held: {}", hold.detail)),
            None => Why::held(
                HoldReason::RateLimited,
                format!(
                    "it came as number {} of its zone, which is granted {} nodes per second",
                    queued.position,
                    entry.rate()
                ),
            ),
        };
        Why { meanwhile, ..why }
    }
}

fn between(from: Wall, to: Wall) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

// === impl Evictor: holds ===

impl Evictor {
    /// What was said last of the node holds no longer: something else does, or nothing is said of it any more.
    pub(super) fn end_told(&mut self, told: Told, next: SpanEnd, now: Now) {
        let Said::Held(reason) = told.said else {
            return;
        };
        if told.since.at != now.wall {
            self.tell(SpanKind::Held, told.since, next, Why::held(reason, told.detail), now);
        }
    }

    /// The health taints are to go, and wait for something first.
    pub(super) fn begin_clearing(&mut self, name: &NodeName, reason: HoldReason, detail: &'static str, now: Now) {
        let since = self.since_now(name, now);
        if let Some(node) = self.nodes.get_mut(name) {
            node.clearing
                .get_or_insert_with(|| Box::new(Clearing { since, reason, detail }));
        }
    }

    pub(super) fn end_clearing(&mut self, name: &NodeName, end: SpanEnd, now: Now) {
        let clearing = self.nodes.get_mut(name).and_then(|node| node.clearing.take());
        if let Some(clearing) = clearing.filter(|clearing| clearing.since.at != now.wall) {
            let why = Why::held(clearing.reason, clearing.detail);
            self.tell(SpanKind::Held, clearing.since, end, why, now);
        }
    }
}

// === impl Evictor: what an earlier instance said ===

impl Evictor {
    /// What is said for the first time follows from what an earlier instance said last: the same goes on since then, and another state
    /// was left.
    pub(super) fn follow_earlier(&mut self, name: &NodeName, told: &mut Told, now: Now) {
        let Some(earlier) = self.inherited.take_waited(name, &told.since.node.uid) else {
            return;
        };
        let same = earlier.hold.as_ref().is_some_and(|hold| told.said == Said::Held(hold.reason));
        if same {
            told.since.at = earlier.since;
        } else if told.said == Said::Isolated {
            self.tell_earlier_grant(name, earlier, now);
        } else if let Some(hold) = &earlier.hold {
            let why = Why::held(hold.reason, hold.detail.clone());
            self.tell(SpanKind::Held, Since::of(earlier), told.said.as_end(), why, now);
        }
    }

    /// The taint stands on a node that was waiting: an earlier instance was granted and wrote it, and had no time to tell.
    fn tell_earlier_grant(&mut self, name: &NodeName, earlier: Earlier, now: Now) {
        let facts = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        let stamps = facts.into_iter().flat_map(NodeFacts::health_taints);
        let granted = stamps.filter_map(|(_, taint)| taint.time_added).max();
        // It is in whole seconds, and by a clock that may be another one. A taint from long before is no grant of that wait.
        let is_of_the_wait = |at: &Wall| between(*at, earlier.since) < Duration::from_secs(1) && *at <= now.wall;
        let Some(granted) = granted.filter(is_of_the_wait) else {
            return;
        };
        let at = granted.max(earlier.since);
        let (wait, why) = (Since::of(earlier.clone()), Self::why_waited(&earlier));
        let written = Since { at, ..wait.clone() };
        self.tell_until(SpanKind::QueueWait, wait, at, SpanEnd::Granted, why);
        let why = Why::new(None, "written by an earlier instance");
        self.tell_until(SpanKind::Isolation, written, at, SpanEnd::Isolated, why);
    }

    /// It waits no longer, and nobody saw when that ended.
    pub(in crate::evictor) fn tell_lost_wait(&mut self, name: &NodeName, earlier: Earlier, now: Now) {
        let (end, why) = (self.standing(name), Self::why_waited(&earlier));
        self.tell(SpanKind::QueueWait, Since::of(earlier), end, why, now);
    }

    fn why_waited(earlier: &Earlier) -> Why {
        match &earlier.hold {
            Some(hold) => Why::held(hold.reason, hold.detail.clone()),
            None => Why::held(HoldReason::RateLimited, "it was waiting when an earlier instance ended"),
        }
    }
}

impl Since {
    /// The incident goes on in this trace; true if it is another one than before.
    pub(super) fn follows(&mut self, trace: Option<TraceContext>) -> bool {
        let id = |trace: Option<TraceContext>| trace.map(|trace| trace.trace_id());
        let is_another = trace.is_some() && id(trace) != id(self.trace);
        if is_another {
            self.trace = trace;
        }
        is_another
    }

    fn of(earlier: Earlier) -> Self {
        Self {
            at: earlier.since,
            trace: earlier.trace,
            node: earlier.node,
        }
    }
}

// === impl Evictor: requests ===

impl Evictor {
    /// Taints are about to be written; a conflict that is answered with another try at once is part of the same request.
    pub(super) fn begin_request(&mut self, name: &NodeName, purpose: Purpose, now: Now) {
        if purpose == Purpose::Clear {
            self.end_clearing(name, SpanEnd::Released, now);
        }
        let since = self.since_now(name, now);
        if let Some(node) = self.nodes.get_mut(name) {
            node.request.get_or_insert_with(|| Box::new((since, purpose)));
        }
    }

    pub(super) fn end_request(&mut self, name: &NodeName, end: SpanEnd, why: Why, now: Now) {
        let request = self.nodes.get_mut(name).and_then(|node| node.request.take());
        if let Some((since, purpose)) = request.map(|request| *request) {
            let kind = match purpose {
                Purpose::Isolate | Purpose::Swap => SpanKind::Isolation,
                Purpose::Clear => SpanKind::Release,
            };
            self.tell(kind, since, end, why, now);
        }
    }

    /// The taints are as they were wanted.
    pub(super) fn end_request_well(&mut self, name: &NodeName, purpose: Purpose, now: Now) {
        let end = match purpose {
            Purpose::Isolate => SpanEnd::Isolated,
            Purpose::Swap => SpanEnd::Swapped,
            Purpose::Clear => SpanEnd::Released,
        };
        self.end_request(name, end, Why::default(), now);
    }

    /// The request failed, and is made again after `pause`, if it is still wanted then.
    pub(super) fn end_request_badly(&mut self, name: &NodeName, failure: &Failure, pause: Option<Duration>, now: Now) {
        let end = if failure.kind == FailureKind::Gone {
            SpanEnd::Gone
        } else {
            SpanEnd::Failed
        };
        let again = pause.map(|pause| format!("it may be tried again after {pause:?}"));
        let said = Some(failure.detail.clone()).filter(|detail| !detail.is_empty());
        let detail: Vec<String> = said.into_iter().chain(again).collect();
        self.end_request(name, end, Why::new(SpanReason::from(failure.kind), detail.join("; ")), now);
    }

    /// The taint that was granted does not stand, and is not tried again under this grant.
    pub(super) fn end_request_in_vain(&mut self, name: &NodeName, now: Now) {
        let end = self.standing(name);
        let detail = match end {
            SpanEnd::Isolated => "somebody else wrote it",
            _ => "",
        };
        self.end_request(name, end, Why::new(None, detail), now);
    }

    /// The incarnation that all this was about is gone.
    pub(super) fn end_with_incarnation(&mut self, name: &NodeName, now: Now) {
        self.end_clearing(name, SpanEnd::Gone, now);
        self.end_request(name, SpanEnd::Gone, Why::default(), now);
    }
}

impl Said {
    /// As what comes next.
    pub(super) const fn as_end(self) -> SpanEnd {
        match self {
            Self::Queued => SpanEnd::Queued,
            Self::Held(_) => SpanEnd::Held,
            Self::Isolated => SpanEnd::Isolated,
            Self::Released => SpanEnd::Released,
            Self::Evicted => SpanEnd::Evicted,
        }
    }
}
