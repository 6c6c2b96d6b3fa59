//! What survives a restart: each zone's last grant, which nodes are evicted already (node mode), and which pods are.
//!
//! A restart never gives a free node (NL-034). The last grant is the later of what the stage's own topic remembers and of the
//! youngest `timeAdded` of a health NoExecute taint in the zone. A zone that is remembered as stopped leaves the stop now, which
//! costs a whole interval (NL-082).
//!
//! Where the bus remembers nothing, the API is asked whom somebody may have granted: a node that carries the taint, one that was
//! and is Ready again by now (it was granted before it recovered), and, where nodes that could be isolated are not, one that is
//! gone since: then the zone begins without a token, as if the grant was just now. Where none of this is so the start is a fresh
//! one, and the zone begins with its token, as upstream's (NL-024).
//!
//! Only the first view of the bus is inherited: later records of the own topic are our own echo, or the last words of an instance
//! that is being replaced, of which only the grant counts.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState, ZoneStatus};
use bailiff_model::{NodeName, NodeUid, Now, PodUid, ReadyStatus, Topic, Wall, Zone};

use super::Evictor;
use crate::rate::{Bucket, interval};

/// Times in the API have whole seconds: what they tell of may have been up to this much later (NL-066).
const TIME_RESOLUTION: Duration = Duration::from_secs(1);

/// What an earlier instance said.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    /// The first view of the bus was taken in.
    taken: bool,
    zones: BTreeMap<Zone, ZoneStatus>,
    evicted: BTreeMap<NodeName, NodeUid>,
    /// Pods whose deletion was accepted, or that were gone; until all intents are known, by which time those that matter took it.
    finished: BTreeMap<PodUid, PodOutcomeState>,
}

impl Inherited {
    /// What an earlier instance said of this pod, once, if it was done with it.
    pub(super) fn take_finished(&mut self, uid: &PodUid) -> Option<PodOutcomeState> {
        self.finished.remove(uid)
    }

    /// All intents are known.
    pub(super) fn forget_finished(&mut self) {
        self.finished.clear();
    }

    /// True, once, if this incarnation of the node was evicted by an earlier instance.
    pub(super) fn take_evicted(&mut self, name: &NodeName, uid: &NodeUid) -> bool {
        self.evicted.remove(name).is_some_and(|evicted| evicted == *uid)
    }

    /// When the zone was last granted, as far as an earlier instance said.
    pub(super) fn last_grant(&self, zone: &Zone) -> Option<Wall> {
        self.zones.get(zone).and_then(|status| status.last_grant)
    }

    /// What was said of a zone in which nothing was decided yet: it is said again until something is.
    pub(super) fn said_of(&self, zone: &Zone) -> Option<&ZoneStatus> {
        self.zones.get(zone)
    }
}

impl Evictor {
    pub(super) fn inherit(&mut self, outcome: Outcome, now: Now) {
        match outcome {
            Outcome::Zone(status) if self.begun => self.heed_other_grant(&status, now),
            Outcome::Zone(status) if !self.inherited.taken => {
                if let Some(entry) = self.zones.get_mut(&status.zone) {
                    entry.last_grant = status.last_grant;
                }
                self.inherited.zones.insert(status.zone.clone(), status);
            }
            Outcome::Zone(status) => {
                let remembered = self.inherited.zones.get_mut(&status.zone);
                if let Some(remembered) = remembered.filter(|remembered| remembered.last_grant < status.last_grant) {
                    *remembered = status;
                }
            }
            Outcome::Node(node) if !self.inherited.taken && node.state == NodeOutcomeState::Evicted => {
                self.inherited.evicted.insert(node.node.name, node.node.uid);
            }
            Outcome::Pod(pod) if !self.inherited.taken && is_finished(&pod.state) => {
                self.pods.was_finished(&pod.pod.uid, &pod.state);
                self.inherited.finished.insert(pod.pod.uid, pod.state);
            }
            Outcome::Node(_) | Outcome::Pod(_) => {}
        }
    }

    /// Another instance granted after we began: its last words before it was fenced. That token is gone for us too.
    fn heed_other_grant(&mut self, status: &ZoneStatus, now: Now) {
        let Some(entry) = self.zones.get_mut(&status.zone) else {
            return;
        };
        let theirs = status.last_grant.map(|grant| grant.min(now.wall));
        if theirs > entry.last_grant {
            entry.last_grant = theirs;
            entry.bucket.take(theirs.map_or(now.mono, |grant| now.mono_of(grant)));
            self.changed_zones.insert(status.zone.clone());
        }
    }

    /// The first view of the bus was taken in: what it did not tell, nobody remembers.
    pub(super) fn close_inheritance(&mut self, now: Now) {
        if std::mem::replace(&mut self.inherited.taken, true) {
            return;
        }
        // A zone whose nodes are all gone by now still owes the interval after its last grant (NL-025).
        let interval = interval(self.config.rates.primary).unwrap_or(Duration::MAX);
        let recent = |grant: Wall| now.mono < now.mono_of(grant) + interval;
        let owing = self
            .inherited
            .zones
            .values()
            .filter(|status| status.last_grant.is_some_and(recent));
        let zones: Vec<Zone> = owing.map(|status| status.zone.clone()).collect();
        for zone in zones {
            self.register_zone(&zone);
        }
    }

    /// Starts to hand out rates, once it is known who is where, who is healthy, and what was granted before.
    pub(super) fn begin(&mut self, now: Now) {
        if self.begun || !self.topics.is_connected_once() || !self.is_complete(Topic::NodeHealth) {
            return;
        }
        self.begun = true;
        let traces = self.traces(now);
        let primary = self.config.rates.primary;
        for (zone, entry) in &mut self.zones {
            let traces = traces.get(zone).copied().unwrap_or_default();
            let last = match self.inherited.zones.get(zone) {
                Some(status) if status.rate_per_second <= 0.0 => Some(now.wall),
                Some(status) => status.last_grant.max(traces.tainted),
                None if traces.waiting => Some(now.wall),
                None => traces.tainted.max(traces.recovered),
            };
            entry.last_grant = last.map(|last| last.min(now.wall));
            let bucket = match entry.last_grant {
                Some(granted) => Bucket::empty(primary, now.mono_of(granted)),
                None => Bucket::full(primary),
            };
            entry.bucket = bucket.of(self.config.profile);
            self.changed_zones.insert(zone.clone());
        }
        self.inherited.zones.clear();
    }

    /// What the API tells of earlier grants, per zone.
    fn traces(&self, now: Now) -> BTreeMap<Zone, Traces> {
        let mut zones: BTreeMap<Zone, Traces> = BTreeMap::new();
        for node in self.nodes.values() {
            let Some(facts) = &node.facts else { continue };
            let traces = zones.entry(facts.zone.clone()).or_default();
            let later = |wall: Wall| wall.checked_add(TIME_RESOLUTION).unwrap_or(wall);
            // One without time, or by a clock ahead of ours, may be of now.
            let tainted = facts
                .health_taints()
                .map(|(_, taint)| taint.time_added.map_or(now.wall, later))
                .max();
            traces.tainted = traces.tainted.max(tainted);
            traces.recovered = traces.recovered.max(facts.recovered_at.map(later));
            let can_wait = matches!(facts.ready, ReadyStatus::False | ReadyStatus::Unknown);
            traces.waiting |= can_wait && tainted.is_none();
        }
        zones
    }
}

/// True if nothing is left to be done about the pod: it terminates, for which a dead node's kubelet may need for ever, or is gone.
const fn is_finished(state: &PodOutcomeState) -> bool {
    matches!(state, PodOutcomeState::Deleted | PodOutcomeState::Gone)
}

/// What the API tells of earlier grants in a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Traces {
    /// The youngest health NoExecute taint is not younger than this.
    tainted: Option<Wall>,
    /// A node that is Ready was granted before this, if it was.
    recovered: Option<Wall>,
    /// A node that could be isolated is not.
    waiting: bool,
}
