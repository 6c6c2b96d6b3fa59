//! What is told of pods that are due and wait for nothing but others: for their turn, or for a read of their node.
//!
//! Once, when the wait has begun, with when it is expected to end; not as the line moves, which would make each eviction cost the length
//! of the line. Who waits for a budget, in line or not, is blocked by that, as was said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Hold, HoldReason, Mono, NodeName, Now, PodUid};

use super::super::holds::Reason;
use super::super::{Evictor, Timer};
use super::Pods;
use crate::rate::interval;

/// Nobody is told sooner that it waits, but in the first view. Most of a burst goes within this time, with an API that answers, and nobody
/// who looks is as fast.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// Pods that wait for others and were not told so.
#[derive(Clone, Debug, Default)]
pub(super) struct Untold {
    /// Those in line up to this place were told.
    told: u64,
    /// Those that wait for a read of their node and were not.
    unsure: BTreeSet<PodUid>,
    /// When they are told, if there are any.
    at: Option<Mono>,
}

impl Untold {
    pub(super) fn add_unsure(&mut self, uid: &PodUid) {
        self.unsure.insert(uid.clone());
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

impl Evictor {
    /// Tells the pods that began to wait for others, those of the first view at once: what is not said then counts as withdrawn.
    pub(super) fn tell_who_waits(&mut self, now: Now) {
        if !self.pods.has_untold() {
            self.pods.untold.at = None;
            return self.timers.clear(&Timer::Line);
        }
        let at = *self.pods.untold.at.get_or_insert(now.mono + WORTH_TELLING);
        if self.completed && at > now.mono {
            return self.timers.set(Timer::Line, at);
        }
        self.timers.clear(&Timer::Line);
        let untold = std::mem::take(&mut self.pods.untold);
        self.pods.untold.told = self.pods.next_place;
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

    /// Nobody knows how long the requests under way take.
    fn tell_of_slots(&mut self, uid: &PodUid, now: Now) {
        let slots = self.config.max_evictions_in_flight;
        let detail = format!("{slots} evictions are under way, as many as may be at a time (--concurrent-evictions)");
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
