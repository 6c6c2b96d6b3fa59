//! Taking over what the bus remembers of the own topic, and beginning to decide.
//!
//! A restart does not start toleration times again (TE-057, TE-102): since when a taint was counted, and until when a pod may stay, is
//! in the intents that were published before. Under the upstream profile none of that is used.
//!
//! They tell it by the clock of who decided, as it was then, and say when that was by the same clock; the bus says how long ago that
//! is. Only these differences are used: no clock has to be right, or to have stayed as it was, for a time to be over no earlier than it
//! is (TE-060). Where the bus does not know how old an intent is, it counts as just decided, which makes nothing earlier.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::{ClockReading, EvictionMode, NodeName, Origin, PodUid, Profile, Taint, TraceContext};

use super::Manager;
use super::evict::Word;
use crate::deadlines::Timer;
use crate::effect::Effect;
use crate::input::Inherited;
use crate::judge::Armed;
use crate::pods::Why;
use crate::start::{Standing, Start, follow};
use crate::told::{Ending, Part, Told};

/// How long `node-health` is waited for: another monitor takes over within the 15 s of its lease and 10 s for what it inherits. Longer
/// would hold evictions for hand-made taints, which need no verdicts; without these, what health causes is held anyway.
pub(super) const HEALTH_WAIT: Duration = Duration::from_secs(30);

/// What was said of a pod before this process.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    eviction: PodEviction,
    /// Of the clock that its times are told by, from when it was decided.
    reading: ClockReading,
    derived_from: Origin,
    trace: Option<TraceContext>,
}

impl Manager {
    /// What the own topic held when this process came to it. Later snapshots of it are this process's own words.
    pub(super) fn inherit(&mut self, records: Vec<Inherited>) {
        if self.knows_past() {
            return;
        }
        let mut pods = Vec::new();
        for record in records {
            let Inherited {
                intent,
                age,
                derived_from,
                trace,
            } = record;
            match intent {
                Intent::Pod(eviction) => pods.push(Remembered {
                    reading: ClockReading::new(eviction.decided_at, age.unwrap_or_default(), self.now),
                    eviction: *eviction,
                    derived_from,
                    trace,
                }),
                wish => self.inherit_wish(wish, derived_from, trace),
            }
        }
        self.progress.inherited = Some(pods);
        self.health.undecided.clear();
    }

    /// True once it is known what was said before this process.
    pub(super) fn knows_past(&self) -> bool {
        self.progress.begun.is_some() || self.progress.inherited.is_some()
    }

    /// Begins to decide intents once Nodes, Pods and the past are known; says so when all that there is to say is said.
    pub(super) fn begin(&mut self) {
        self.begin_to_decide();
        self.complete();
    }

    /// A wish that is missing means something once this is said, so all verdicts must have been answered (NL-034, NL-205).
    fn complete(&mut self) {
        let Some(begun) = self.progress.begun.filter(|_| !self.progress.completed) else {
            return;
        };
        let until = begun + HEALTH_WAIT;
        if self.config.duties.node_lifecycle && !self.health.complete && self.now.mono < until {
            return self.deadlines.set(Timer::Complete, until);
        }
        self.deadlines.cancel(&Timer::Complete);
        self.progress.completed = true;
        self.effects.push(Effect::Complete);
    }

    fn begin_to_decide(&mut self) {
        let known = self.progress.nodes_listed && self.progress.pods_listed;
        if self.progress.begun.is_some() || !known {
            return;
        }
        let Some(inherited) = self.progress.inherited.take() else {
            return;
        };
        let takes_over = self.config.mode == EvictionMode::Taint && self.config.profile == Profile::Bailiff;
        let remembered = if takes_over {
            self.take_over(&inherited)
        } else {
            BTreeMap::new()
        };
        self.progress.begun = Some(self.now.mono);
        // No pod comes or goes meanwhile, so each stays at its place.
        for (place, bound) in (0..).zip(self.pods.take_bound()) {
            let Some((uid, pod)) = self.pods.get_at(place) else { continue };
            let node_gone = self.nodes.get(&pod.node).is_some_and(|node| !node.present);
            let uid = uid.clone();
            match remembered.get(&uid) {
                Some(record) if node_gone => self.stand_by(record),
                _ => self.judge_pod(&uid, bound),
            }
        }
    }

    /// The Node is gone; what was decided because of it stands as it was (TE-034). Its times are told by the clock as it is now.
    fn stand_by(&mut self, record: &Remembered) {
        if !self.config.duties.taint_eviction {
            return;
        }
        let eviction = &record.eviction;
        let (uid, due) = (&eviction.pod.uid, record.reading.moment_of(eviction.due_at).mono());
        if eviction.state == IntentState::Scheduled {
            self.deadlines.set(Timer::Pod(uid.clone()), due);
        }
        let (mut cause, mut starts) = (eviction.cause.clone(), Vec::new());
        if let EvictionCause::Taints { taints, .. } = Arc::make_mut(&mut cause) {
            for since in taints.iter_mut().filter_map(|taint| taint.time_added.as_mut()) {
                let start = Start::told(*since, record.reading, self.now);
                *since = start.told_at(self.now);
                starts.push(start);
            }
        }
        let why = why(eviction, &cause);
        let word = Word {
            state: eviction.state,
            trigger: eviction.trigger,
            due,
            cause,
            starts,
            derived_from: record.derived_from.clone(),
            trace: record.trace,
            why,
        };
        self.publish_pod(uid, word);
    }

    /// Takes over starts and times; returns what there was to take over, by pod.
    fn take_over<'a>(&mut self, inherited: &'a [Remembered]) -> BTreeMap<PodUid, &'a Remembered> {
        let mut pods = BTreeMap::new();
        let mut nodes: BTreeMap<NodeName, Vec<Standing>> = BTreeMap::new();
        for record in inherited {
            let eviction = &record.eviction;
            self.take_over_leaving(record);
            if let EvictionCause::Taints { taints, .. } = &*eviction.cause
                && matches!(eviction.state, IntentState::Scheduled | IntentState::Due)
                && self.is_about_present(eviction)
            {
                pods.insert(eviction.pod.uid.clone(), record);
                self.take_over_time(record, taints);
                let known = nodes.entry(eviction.node.name.clone()).or_default();
                // Which of several taints the trace is of is not on record.
                let by_hand = record.derived_from.is_none() && taints.len() == 1;
                let trace = record.trace.filter(|_| by_hand);
                for taint in taints {
                    self.remember(known, taint, record.reading, trace);
                }
            }
        }
        for (name, known) in nodes {
            self.take_over_starts(&name, &known);
        }
        pods
    }

    /// A pod that was due and was called off on its way out: that it goes is told when it is gone.
    fn take_over_leaving(&mut self, record: &Remembered) {
        let eviction = &record.eviction;
        let IntentState::Withdrawn(reason) = eviction.state else {
            return;
        };
        let (uid, was_due) = (&eviction.pod.uid, eviction.due_at <= eviction.decided_at);
        let is_leaving = self.pods.get(uid).is_some_and(|pod| pod.terminating);
        if let Some(trace) = record.trace.filter(|_| was_due && is_leaving) {
            let at = |wall| self.now.wall_of(record.reading.moment_of(wall).mono());
            let told = Told {
                node: eviction.node.clone(),
                trace,
                start: at(eviction.due_at),
                end: at(eviction.decided_at),
                what: Part::Termination {
                    pod: eviction.pod.clone(),
                    taint: why(eviction, &eviction.cause).map(|why| why.taint),
                    ending: Ending::Withdrawn(reason),
                },
            };
            self.leaving.insert(uid.clone(), told);
        }
    }

    /// The pod is there, on that node, and the Node is the same one, or gone. Makes room for one that is gone.
    fn is_about_present(&mut self, eviction: &PodEviction) -> bool {
        let Some(pod) = self.pods.get(&eviction.pod.uid) else {
            return false;
        };
        if pod.node != eviction.node.name {
            return false;
        }
        let node = self.nodes.entry(pod.node.clone()).or_default();
        if node.facts.node.uid.is_empty() {
            node.facts.node = eviction.node.clone();
            node.facts.zone = eviction.zone.clone();
        }
        node.facts.node.uid == eviction.node.uid
    }

    /// The time that ran, or was over. What was due because nothing tolerated it had none.
    fn take_over_time(&mut self, record: &Remembered, taints: &[Taint]) {
        let (eviction, reading) = (&record.eviction, record.reading);
        let since = taints.iter().filter_map(|taint| taint.time_added).min();
        let now = self.now;
        if let Some(pod) = self.pods.get_mut(&eviction.pod.uid)
            && let Some(since) = since
            && eviction.trigger == Trigger::Expired
        {
            pod.armed = Some(Box::new(Armed {
                since: Start::told(since, reading, now),
                due: reading.moment_of(eviction.due_at).mono(),
            }));
            pod.told = eviction.state == IntentState::Due;
        }
    }

    /// Keeps the earliest start of a taint that any pod's time counted from.
    fn remember(&self, known: &mut Vec<Standing>, taint: &Taint, reading: ClockReading, trace: Option<TraceContext>) {
        let Some(since) = taint.time_added else { return };
        let since = Start::told(since, reading, self.now);
        match known.iter_mut().find(|standing| standing.is_of(taint)) {
            Some(standing) => {
                standing.since = standing.since.min(since);
                standing.trace = standing.trace.or(trace);
            }
            None => known.push(Standing {
                taint: Arc::new(taint.clone()),
                since,
                live: false,
                trace,
            }),
        }
    }

    /// Gives the taints of a node the starts that are remembered, except those that were seen to appear since.
    fn take_over_starts(&mut self, name: &NodeName, known: &[Standing]) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if !node.present {
            node.taints = known.to_vec();
            return;
        }
        let before = std::mem::take(&mut node.taints);
        let taints: Vec<Taint> = before.iter().map(|standing| Taint::clone(&standing.taint)).collect();
        let at = |taint: &Taint| before.iter().find(|standing| *standing.taint == *taint);
        let fallback = |taint: &Taint| at(taint).map_or((Start::at(self.now), true), |standing| (standing.since, standing.live));
        let mut taken = follow(known, &taints, fallback);
        for (taken, before) in taken.iter_mut().zip(before) {
            if before.live {
                *taken = before;
            }
        }
        node.taints = taken;
    }
}

/// The taint that decided, with its start as `cause` tells it: that of the record by the clock as it is now.
fn why(eviction: &PodEviction, cause: &EvictionCause) -> Option<Why> {
    let EvictionCause::Taints { taints, .. } = cause else {
        return None;
    };
    let decided = eviction.decisive_taints().into_iter().next()?;
    let taint = taints
        .iter()
        .find(|taint| (&taint.key, &taint.value) == (&decided.key, &decided.value))?;
    Some(Why {
        taint: Arc::new(taint.clone()),
        since: taint.time_added?,
    })
}
