//! One rollout: from a revision that became current to its last node.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::rollout::{DaemonSetSync, NodeReason, WhyNot};
use bailiff_model::{Hold, TraceContext, Wall};

use super::{Outcome, Part, Told};

/// So many waits of single nodes are told of a rollout, however short. A trace of more is no longer read.
const WAITS: u32 = 1_000;

/// After those only the ones that lasted so long: they are what a rollout is late for.
const LONG: Duration = Duration::from_secs(60);

/// Of these, too, no more than this altogether: a trace is held in memory by whoever shows it.
const LONG_WAITS: u32 = 5_000;

/// A rollout, as what was published last has it.
#[derive(Debug)]
pub(super) struct Rollout {
    /// Over once `rolled_out_at` is set.
    last: DaemonSetSync,
    /// Since when its nodes wait, as the core said; nothing of what a former process published.
    said: Vec<Wall>,
    /// Set once its root was told.
    trace: Option<TraceContext>,
    /// What more nodes wait for than a record names: since when, and how many did at most.
    shared: BTreeMap<WhyNot, (Wall, u32)>,
    told: u32,
    untold: u32,
}

impl Rollout {
    /// What a former process published, under that trace.
    pub(super) fn remembered(sync: DaemonSetSync, trace: Option<TraceContext>) -> Self {
        let trace = trace.filter(|trace| *trace == trace_of(&sync) && sync.revision_since.is_some());
        let mut rollout = Self::new(sync, trace);
        rollout.share();
        rollout
    }

    /// The first that is seen of a DaemonSet, and nothing is known of its past. What was done before anybody looked is over.
    pub(super) fn find(sync: &mut DaemonSetSync, told: &mut Vec<Told>) -> Self {
        if is_complete(sync) || sync.counts.updated >= sync.counts.desired {
            sync.rolled_out_at = Some(sync.synced_at);
            return Self::new(sync.clone(), None);
        }
        Self::begin(sync, told)
    }

    /// A revision became current.
    pub(super) fn begin(sync: &mut DaemonSetSync, told: &mut Vec<Told>) -> Self {
        if is_complete(sync) {
            // There was nothing to do.
            sync.rolled_out_at = Some(sync.synced_at);
            return Self::new(sync.clone(), None);
        }
        let mut rollout = Self::new(sync.clone(), None);
        rollout.said = sync.nodes.iter().map(|node| node.since).collect();
        rollout.open(told);
        rollout.share();
        rollout
    }

    fn new(last: DaemonSetSync, trace: Option<TraceContext>) -> Self {
        Self {
            last,
            said: Vec::new(),
            trace,
            shared: BTreeMap::new(),
            told: 0,
            untold: 0,
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.last.uid
    }

    /// The trace it is told in; none where there was nothing to tell.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    pub(super) fn is_open(&self) -> bool {
        self.last.rolled_out_at.is_none()
    }

    /// True if this is another state of the same rollout. A revision of long ago that is current again has a number of its own.
    pub(super) fn is_of(&self, sync: &DaemonSetSync) -> bool {
        identity(&self.last) == identity(sync)
    }

    /// The next state of it, which this completes by what is known of the past.
    pub(super) fn go_on(mut self, sync: &mut DaemonSetSync, told: &mut Vec<Told>) -> Self {
        sync.revision_since = self.last.revision_since.or(sync.revision_since);
        sync.rolled_out_at = self.last.rolled_out_at;
        if !self.is_open() {
            self.last = sync.clone();
            return self;
        }
        let before = std::mem::replace(&mut self.last, sync.clone());
        self.open(told);
        self.tell_holds(&before, told);
        self.tell_waits(&before, told);
        self.share();
        self.tell_shared(told);
        if is_complete(&self.last) {
            self.last.rolled_out_at = Some(self.last.synced_at);
            self.tell_end(Outcome::Completed, self.last.synced_at, told);
        }
        *sync = self.last.clone();
        self
    }

    /// It is over before it was done.
    pub(super) fn end(mut self, outcome: Outcome, now: Wall, told: &mut Vec<Told>) {
        if !self.is_open() || self.trace.is_none() {
            return;
        }
        let before = self.last.clone();
        self.last = DaemonSetSync {
            reasons: Vec::new(),
            nodes: Vec::new(),
            held: None,
            synced_at: now,
            ..before.clone()
        };
        self.tell_holds(&before, told);
        self.tell_waits(&before, told);
        self.tell_shared(told);
        self.tell_end(outcome, now, told);
    }

    // === what is over ===

    /// Tells the root, once: not before it is known when it began, so that nothing below it began earlier.
    fn open(&mut self, told: &mut Vec<Told>) {
        if self.trace.is_some() || self.last.revision_since.is_none() {
            return;
        }
        self.trace = Some(trace_of(&self.last));
        let now = self.last.synced_at;
        self.tell(Part::Rollout, Wall::MIN, now, told);
    }

    /// Tells a part of it, if there is a root to tell it below. What was begun before the revision was current counts from then on.
    fn tell(&self, what: Part, since: Wall, until: Wall, told: &mut Vec<Told>) -> bool {
        let (Some(trace), Some(begun)) = (self.trace, self.last.revision_since) else {
            return false;
        };
        let start = since.max(begun);
        told.push(Told {
            namespace: self.last.namespace.clone(),
            name: self.last.name.clone(),
            uid: self.last.uid.clone(),
            revision: self.last.revision,
            trace,
            start,
            end: until.max(start),
            what,
        });
        true
    }

    fn tell_holds(&self, before: &DaemonSetSync, told: &mut Vec<Told>) {
        let Some(Hold {
            reason, detail, since, ..
        }) = &before.held
        else {
            return;
        };
        let stands = self.last.held.as_ref();
        if stands.is_some_and(|hold| (hold.reason, hold.since) == (*reason, *since)) {
            return;
        }
        let what = Part::Held {
            reason: *reason,
            detail: detail.clone(),
        };
        self.tell(what, *since, self.last.synced_at, told);
    }

    /// Tells what single nodes wait for no longer, and since when they wait for what they do: a reason that is another one only because
    /// the whole rollout is in another state began with that.
    fn tell_waits(&mut self, before: &DaemonSetSync, told: &mut Vec<Told>) {
        let (now, is_cut) = (self.last.synced_at, is_cut(&self.last));
        let said = self.last.nodes.iter().map(|node| node.since).collect();
        let said = std::mem::replace(&mut self.said, said);
        let end = self.last.nodes.last().map(|node| node.node.clone());
        let mut over = Vec::new();
        for (at, was) in before.nodes.iter().enumerate() {
            let said = said.get(at);
            let found = self.last.nodes.binary_search_by(|node| node.node.cmp(&was.node));
            let is = found.ok().and_then(|at| self.last.nodes.get_mut(at));
            let ended = match is {
                Some(is) if is.reason == was.reason && said.is_none_or(|said| *said == is.since) => {
                    is.since = was.since;
                    continue;
                }
                Some(is) if said == Some(&is.since) => {
                    is.since = now;
                    now
                }
                Some(is) => is.since,
                // Behind the last that is named: nobody knows.
                None if is_cut && end.as_ref().is_some_and(|end| was.node > *end) => continue,
                None => now,
            };
            if !(is_cut_at(before, was.reason)) {
                over.push((was, ended));
            }
        }
        for (was, ended) in over {
            self.tell_wait(was, ended, told);
        }
    }

    fn tell_wait(&mut self, was: &NodeReason, ended: Wall, told: &mut Vec<Told>) {
        let is_long = Duration::try_from(ended.duration_since(was.since)).is_ok_and(|lasted| lasted >= LONG);
        if self.told >= WAITS && !(is_long && self.told < LONG_WAITS) {
            self.untold += 1;
            return;
        }
        let what = Part::Wait {
            node: was.node.clone(),
            reason: was.reason,
        };
        self.told += u32::from(self.tell(what, was.since, ended, told));
    }

    /// Notes what more nodes share than the record names.
    fn share(&mut self) {
        for (reason, nodes) in &self.last.reasons {
            if !is_cut_at(&self.last, *reason) {
                continue;
            }
            let named = self.last.nodes.iter().filter(|node| node.reason == *reason);
            let since = named.map(|node| node.since).min().unwrap_or(self.last.synced_at);
            let (_, most) = self.shared.entry(*reason).or_insert((since, 0));
            *most = (*most).max(*nodes);
        }
    }

    /// Tells what nobody waits for any more.
    fn tell_shared(&mut self, told: &mut Vec<Told>) {
        let waits = |reason: &WhyNot| self.last.reasons.iter().any(|(other, nodes)| other == reason && *nodes > 0);
        let over: Vec<WhyNot> = self.shared.keys().filter(|reason| !waits(reason)).copied().collect();
        for reason in over {
            let Some((since, most)) = self.shared.remove(&reason) else {
                continue;
            };
            let what = Part::SharedWait { reason, nodes: most };
            self.tell(what, since, self.last.synced_at, told);
        }
    }

    fn tell_end(&self, outcome: Outcome, now: Wall, told: &mut Vec<Told>) {
        let what = Part::End {
            outcome,
            nodes: self.last.counts.desired,
            untold: self.untold,
        };
        self.tell(what, Wall::MIN, now, told);
    }
}

/// Which rollout it is.
fn identity(sync: &DaemonSetSync) -> (&str, &str, i64) {
    (&sync.uid, &sync.current_revision, sync.revision)
}

/// One trace for each time that a revision becomes current.
fn trace_of(sync: &DaemonSetSync) -> TraceContext {
    let number = sync.revision.to_string();
    TraceContext::derived(&["rollout", &sync.uid, &sync.current_revision, &number])
}

/// Every node has an available pod of the current revision, but those that are bad themselves.
fn is_complete(sync: &DaemonSetSync) -> bool {
    nodes_of(sync, |reason| !is_of_the_node(reason)) == 0
}

fn nodes_of(sync: &DaemonSetSync, wanted: impl Fn(WhyNot) -> bool) -> u32 {
    let of = sync.reasons.iter().filter(|(reason, _)| wanted(*reason));
    of.fold(0, |sum, (_, nodes)| sum.saturating_add(*nodes))
}

const fn is_of_the_node(reason: WhyNot) -> bool {
    matches!(reason, WhyNot::NodeBadBefore | WhyNot::NodeBadAfter)
}

/// More nodes lack a pod than the record names.
fn is_cut(sync: &DaemonSetSync) -> bool {
    nodes_of(sync, |_| true) as usize > sync.nodes.len()
}

/// So many nodes share this reason that it is told of all of them at once.
fn is_cut_at(sync: &DaemonSetSync, reason: WhyNot) -> bool {
    let is_shared = matches!(
        reason,
        WhyNot::WaitingForBudget | WhyNot::OnDelete | WhyNot::RolloutPaused | WhyNot::RolloutPartition | WhyNot::RolloutHalted
    );
    is_shared && is_cut(sync)
}
