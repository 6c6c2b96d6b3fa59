//! The pods that are due by where they stand, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{HoldReason, IndexMap, NodeName, Now, PodUid, Window};

use super::super::{Evictor, Timer};
use super::{Awaited, Gone, Pods, Stage, Untold};
use crate::config::Config;
use crate::rate::Bucket;

// === impl Pods ===

impl Pods {
    pub(in crate::evictor) fn new(config: &Config) -> Self {
        Self {
            all: IndexMap::default(),
            by_node: IndexMap::default(),
            dirty: BTreeSet::new(),
            held: BTreeSet::new(),
            fresh: BTreeMap::new(),
            overdue: BTreeMap::new(),
            next_place: 0,
            in_flight: BTreeSet::new(),
            gone: Gone::new(),
            pace: Bucket::full(config.overdue_per_second),
            slots: Window::new(Config::default().max_evictions_in_flight, config.max_evictions_in_flight),
            untold: Untold::default(),
        }
    }

    pub(in crate::evictor) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.all.keys()
    }

    pub(in crate::evictor) fn has_any_of(&self, node: &NodeName) -> bool {
        self.by_node.contains_key(node)
    }

    /// True if a read of the node may decide what becomes of a pod of it.
    pub(in crate::evictor) fn wait_for_a_read_of(&self, node: &NodeName) -> bool {
        let waits = |uid: &PodUid| {
            let stage = self.all.get(uid).map(|pod| pod.stage);
            matches!(stage, Some(Stage::Confirming | Stage::Held(HoldReason::OutdatedIntent)))
        };
        self.by_node.get(node).is_some_and(|uids| uids.iter().any(waits))
    }

    pub(in crate::evictor) fn wake(&mut self, uid: PodUid) {
        self.dirty.insert(uid);
    }

    /// What a gate decides: who waits for it, and whose request may not be sent yet.
    pub(in crate::evictor) fn look_again_at_gates(&mut self) {
        self.dirty.extend(self.held.iter().cloned());
        self.dirty.extend(self.in_flight.iter().cloned());
    }

    pub(in crate::evictor) fn look_again_at_node(&mut self, node: &NodeName) {
        if let Some(uids) = self.by_node.get(node) {
            self.dirty.extend(uids.iter().cloned());
        }
    }

    pub(super) fn set_stage(&mut self, uid: &PodUid, stage: Stage) {
        let Some(pod) = self.all.get_mut(uid) else {
            return;
        };
        let before = std::mem::replace(&mut pod.stage, stage);
        match before {
            Stage::Waiting(place) => {
                self.fresh.remove(&place);
                self.overdue.remove(&place);
            }
            Stage::Held(_) => {
                self.held.remove(uid);
            }
            Stage::Confirming => self.untold.remove_unsure(uid),
            _ => {}
        }
        match stage {
            Stage::Waiting(place) => {
                let line = if pod.overdue { &mut self.overdue } else { &mut self.fresh };
                line.insert(place, uid.clone());
            }
            Stage::Held(_) => {
                self.held.insert(uid.clone());
            }
            Stage::Confirming => self.untold.add_unsure(uid),
            _ => {}
        }
        if stage.is_in_flight() {
            self.in_flight.insert(uid.clone());
        } else if before.is_in_flight() {
            self.in_flight.remove(uid);
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        self.set_stage(uid, Stage::Done);
        self.dirty.remove(uid);
        let Some(pod) = self.all.swap_remove(uid) else {
            return;
        };
        let node = pod.intent.node;
        if let Some(uids) = self.by_node.get_mut(&node.name) {
            uids.remove(uid);
            if uids.is_empty() {
                self.by_node.swap_remove(&node.name);
            }
        }
        self.forget_gone(&node);
    }
}

// === impl Evictor ===

impl Evictor {
    /// Pods that are due: held, waiting for a slot, with a request under way.
    pub fn due_pods(&self) -> (usize, usize, usize) {
        let waiting = self.pods.fresh.len() + self.pods.overdue.len();
        (self.pods.held.len(), waiting, self.pods.in_flight.len())
    }

    /// From now on it waits for its turn; if nobody is before it that is at once.
    pub(super) fn line_up(&mut self, uid: &PodUid, freed: bool, now: Now) {
        self.pods.next_place += 1;
        let place = self.pods.next_place;
        if let Some(pod) = self.pods.all.get_mut(uid) {
            pod.overdue |= freed;
        }
        self.pods.set_stage(uid, Stage::Waiting(place));
        self.pod_waits(uid, now);
        if !self.is_blocked(uid) {
            self.await_for_pod(uid, Awaited::Turn, String::new(), now);
        }
    }

    pub(super) fn next_pod(&mut self, now: Now) -> Option<PodUid> {
        if self.pods.in_flight.len() >= self.pods.slots.size() {
            return None;
        }
        if let Some(uid) = self.pods.fresh.values().next() {
            return Some(uid.clone());
        }
        let uid = self.pods.overdue.values().next()?.clone();
        let at = self.pods.pace.available_at(f64::INFINITY);
        if at > now.mono {
            self.timers.set(Timer::Pace, at);
            return None;
        }
        self.pods.pace.take(now.mono);
        Some(uid)
    }
}
