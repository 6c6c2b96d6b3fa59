//! What is told of pods that are due and wait for nothing but others, for their turn or for a read of their node; and of those that are
//! being evicted.
//!
//! Once, when the wait has begun, with when it is expected to end; not as the line moves, which would make each eviction cost the length
//! of the line. Who waits for a budget, in line or not, is blocked by that, as was said. What is mostly over before anybody looks is not
//! told at all, unless what was told before, other than that it waits for its turn, is not so any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Hold, HoldReason, Mono, NodeName, Now, PodUid};

use super::super::holds::Reason;
use super::super::{Evictor, Timer};
use super::{Pod, Pods, Stage};
use crate::rate::interval;

/// Nobody is told sooner that it waits, but in the first view.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// The same of who waits for a slot and was told nothing, and of those who came after it: an intent that is due says all there is to say.
/// Thousands go within this time, with an API that answers, and each that is told costs a record, for those who follow the topic and in
/// what the bus keeps.
const WORTH_TELLING_OF_SLOTS: Duration = Duration::from_secs(30);

/// A pod that is deleted sooner is not said before to be evicted. That takes two requests, which are milliseconds; where they are
/// seconds, the server is slow or the client's limit has them wait, and so many are told a second as that lets through. A process that
/// is killed within this time loses no more than since when it was.
const WORTH_TELLING_GOES: Duration = Duration::from_secs(2);

/// Pods that wait for others, or are being evicted, and were not told so.
#[derive(Clone, Debug, Default)]
pub(super) struct Untold {
    /// Those in line up to this place were told.
    told: u64,
    /// Those that wait for a read of their node and were not.
    unsure: BTreeSet<PodUid>,
    /// When they are told, if there are any.
    at: Option<Mono>,
    /// Those that are being evicted, in this order, and since when; the attempt of some is over already.
    going: VecDeque<(Mono, PodUid)>,
}

impl Untold {
    pub(super) fn add_unsure(&mut self, uid: &PodUid) {
        self.unsure.insert(uid.clone());
    }

    /// Somebody waits, and is told by then, with all others.
    fn tell_by(&mut self, at: Mono) {
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(super) fn remove_unsure(&mut self, uid: &PodUid) {
        self.unsure.remove(uid);
    }
}

impl Pods {
    fn has_untold(&self) -> bool {
        let is_told = |line: &BTreeMap<u64, PodUid>| line.last_key_value().is_none_or(|(place, _)| *place <= self.untold.told);
        !(self.untold.unsure.is_empty() && is_told(&self.fresh) && is_told(&self.overdue))
    }
}

/// Why a pod waits for a read of its node.
pub(super) fn unsure(node: &NodeName) -> Reason {
    let detail = format!("node {node}, as it is known, does not justify it; the node is read to be sure");
    Reason::new(HoldReason::OutdatedIntent, detail)
}

impl Pod {
    /// It was told something else than that it waits for its turn.
    fn is_told_otherwise(&self) -> bool {
        match self.told().map(|told| &told.state) {
            None => false,
            Some(PodOutcomeState::Held(hold)) => hold.reason != HoldReason::RateLimited,
            Some(_) => true,
        }
    }
}

impl Evictor {
    /// A pod begins to wait for others. Nobody knows yet for how long.
    pub(super) fn pod_waits(&mut self, uid: &PodUid, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        let is_of_slots = matches!(pod.stage, Stage::Waiting(_)) && !pod.overdue && !pod.is_told_otherwise();
        let untold = if is_of_slots { WORTH_TELLING_OF_SLOTS } else { WORTH_TELLING };
        self.pods.untold.tell_by(now.mono + untold);
    }

    /// Tells the pods that began to wait for others, those of the first view at once: what is not said then counts as withdrawn.
    pub(super) fn tell_who_waits(&mut self, now: Now) {
        if !self.pods.has_untold() {
            self.pods.untold.at = None;
            return self.timers.clear(&Timer::Line);
        }
        let later = self.pods.untold.at.filter(|at| *at > now.mono);
        if let Some(at) = later.filter(|_| self.completed) {
            return self.timers.set(Timer::Line, at);
        }
        self.timers.clear(&Timer::Line);
        let going = std::mem::take(&mut self.pods.untold.going);
        let next = Untold {
            told: self.pods.next_place,
            going,
            ..Untold::default()
        };
        let untold = std::mem::replace(&mut self.pods.untold, next);
        let begun = untold.told + 1..;
        let fresh: Vec<PodUid> = self.pods.fresh.range(begun.clone()).map(|(_, uid)| uid.clone()).collect();
        let overdue: Vec<PodUid> = self.pods.overdue.range(begun).map(|(_, uid)| uid.clone()).collect();
        let ahead = self.pods.overdue.len() - overdue.len();
        for uid in fresh {
            self.tell_of_slots(&uid, now);
        }
        for (nth, uid) in overdue.into_iter().enumerate() {
            self.tell_of_pace(&uid, ahead + nth, now);
        }
        for uid in untold.unsure {
            let node = self.pods.all.get(&uid).map(|pod| pod.intent.node.name.clone());
            if let Some(node) = node {
                self.say_pod_waits(&uid, unsure(&node), now);
            }
        }
    }

    /// A request for the pod is about to be made: that it is being evicted is told in a while, but at once if it was told that
    /// something else than the length of the line keeps it, and in the first view.
    pub(super) fn pod_goes(&mut self, uid: &PodUid, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        if pod.is_told_otherwise() || !self.completed {
            self.say_pod(uid, PodOutcomeState::Evicting, String::new(), now);
        } else if pod.asked_at.is_none() {
            self.pods.untold.going.push_back((now.mono, uid.clone()));
        }
    }

    /// Tells of the pods whose eviction takes long.
    pub(super) fn tell_who_goes(&mut self, now: Now) {
        while let Some((since, uid)) = self.pods.untold.going.front() {
            let asked_at = self.pods.all.get(uid).and_then(|pod| pod.asked_at);
            let goes_on = asked_at.is_some_and(|asked| asked.mono == *since);
            let at = *since + WORTH_TELLING_GOES;
            if goes_on && at > now.mono {
                return self.timers.set(Timer::Going, at);
            }
            let uid = uid.clone();
            self.pods.untold.going.pop_front();
            if goes_on {
                self.say_pod(&uid, PodOutcomeState::Evicting, String::new(), now);
            }
        }
        // Room for more than go at a time on most days is not kept.
        self.pods.untold.going.shrink_to(256);
        self.timers.clear(&Timer::Going);
    }

    /// Nobody knows how long the requests under way take.
    fn tell_of_slots(&mut self, uid: &PodUid, now: Now) {
        let most = self.config.max_evictions_in_flight;
        let detail = format!("as many are under way as the API server takes, of {most} evictions at most (--concurrent-evictions)");
        self.say_pod_waits(uid, Reason::new(HoldReason::RateLimited, detail), now);
    }

    /// `ahead` others are overdue and go first. The turn is expected then unless slots are missing, too, which nobody knows of beforehand.
    fn tell_of_pace(&mut self, uid: &PodUid, ahead: usize, now: Now) {
        let rate = self.pods.pace.rate();
        let next = self.pods.pace.available_at(f64::INFINITY).max(now.mono);
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let turn = interval(rate).map(|interval| next + interval.saturating_mul(ahead));
        let reason = Reason {
            until: turn.map(|turn| now.wall_of(turn)),
            ..Reason::new(
                HoldReason::RateLimited,
                format!("it is overdue, and {rate} of those go per second (--overdue-eviction-rate)"),
            )
        };
        self.say_pod_waits(uid, reason, now);
    }

    /// It waits since its wait began, which an earlier instance may have seen; if that one said the same, it is what is said again.
    fn say_pod_waits(&mut self, uid: &PodUid, reason: Reason, now: Now) {
        let Some(pod) = self.pods.all.get(uid) else {
            return;
        };
        if matches!(pod.said(), Some(PodOutcomeState::Blocked { .. })) {
            return;
        }
        let before = pod.earlier.as_ref().and_then(|earlier| earlier.as_hold());
        let same = |hold: &&Hold| {
            (hold.reason, &hold.detail) == (reason.reason, &reason.detail) && hold.until.is_none_or(|until| until > now.wall)
        };
        let hold = match before.filter(same) {
            Some(hold) => hold.clone(),
            None => reason.since(pod.waits_since().unwrap_or(now.wall)),
        };
        self.say_pod(uid, PodOutcomeState::Held(hold), String::new(), now);
    }
}
