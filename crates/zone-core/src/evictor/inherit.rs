//! What survives a restart: each zone's last grant, which nodes are evicted already (node mode), and which pods are.
//!
//! A restart never gives a free node (NL-034). The last grant is the later of what the stage's own topic remembers and of the
//! youngest `timeAdded` of a health NoExecute taint in the zone. What the topic remembers is counted from how long before the record
//! the grant was, and how old the record is: no clock has to be right, or to have stayed as it was (NL-065). A zone that is remembered
//! as stopped leaves the stop now, which costs a whole interval (NL-082).
//!
//! Where the bus remembers nothing, or not how old what it remembers is, the API is asked whom somebody may have granted: a node that
//! carries the taint, one that was and is Ready again by now (it was granted before it recovered), and, where nodes that could be
//! isolated are not, one that is gone since: then the zone begins without a token, as if the grant was just now. Where none of this is
//! so the start is a fresh one, and the zone begins with its token, as upstream's (NL-024).
//!
//! A zone of which only nodes that are gone are left shows by their wishes alone, when all this was looked at: it begins without a token,
//! also where the bus remembers a grant from long ago. That costs an interval, and its record tells of a grant that there was not.
//!
//! Only the first view of the bus is inherited: later records of the own topic are the last words of an instance that is being replaced,
//! of which only the grant counts, or our own echo, where the bus cannot leave it out. Which of the two is told by who said it, never by
//! what: more than one word of ours may be on its way back, and if one of them passed for somebody else's we would answer it, and that
//! answer again, for ever.

mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState, ZoneStatus};
use bailiff_model::{ClockReading, Moment, NodeName, NodeUid, Now, PodUid, ReadyStatus, Topic, TraceContext, Wall, Zone};

use super::Evictor;
use crate::rate::{Bucket, interval};
pub(super) use waits::Earlier;
use waits::Waits;

/// Times in the API have whole seconds: what they tell of may have been up to this much later (NL-066).
const TIME_RESOLUTION: Duration = Duration::from_secs(1);

/// What an earlier instance said.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    /// The first view of the bus was taken in.
    taken: bool,
    zones: BTreeMap<Zone, Remembered>,
    /// Which incarnation, and in which incident.
    evicted: BTreeMap<NodeName, (NodeUid, Option<TraceContext>)>,
    /// Pods whose deletion was accepted, or that were gone; until all intents are known, by which time those that matter took it.
    finished: BTreeMap<PodUid, PodOutcomeState>,
    waits: Waits,
}

/// A zone as an earlier instance said.
#[derive(Clone, Debug)]
struct Remembered {
    status: ZoneStatus,
    last_grant: Option<Moment>,
    /// The age of what was said is known: otherwise the grant is by clocks that may be wrong.
    is_dated: bool,
}

impl Remembered {
    fn new(status: ZoneStatus, reading: Option<ClockReading>, now: Now) -> Self {
        Self {
            last_grant: status.last_grant.map(|grant| moment_of(grant, reading, now)),
            is_dated: reading.is_some(),
            status,
        }
    }

    /// When the zone's token was taken at the latest, with what the API tells of it; `None`: nobody may have taken it.
    fn taken_at(&self, traces: &Traces, now: Now) -> Option<Moment> {
        let present = Moment::from(now.mono);
        let told = self.last_grant.max(traces.tainted);
        match self.is_dated {
            _ if self.status.rate_per_second <= 0.0 => Some(present),
            true => told,
            false if traces.waiting || self.status.queue_length > 0 => Some(present),
            false => told.max(traces.recovered),
        }
    }
}

/// When that was by the clock that it is told by, or if that is not known, by ours; not later than now.
fn moment_of(grant: Wall, reading: Option<ClockReading>, now: Now) -> Moment {
    let moment = reading.map_or_else(|| now.moment_of(grant), |reading| reading.moment_of(grant));
    moment.min(Moment::from(now.mono))
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

    /// All is known, and every node was looked at: who is not wished away any more may be evicted again at its turn only.
    pub(super) fn forget_all_evicted(&mut self) {
        self.evicted.clear();
    }

    /// True if this incarnation of the node was evicted by an earlier instance, false if it is not evicted any more; once, or as long as
    /// the monitor's newest word about it may not be known (`!is_sure`). One that is in another incident by now may have been Ready in
    /// between, which nobody saw. An incident is told by its trace: no clock has to be right, and one that is told by another trace though
    /// it is the same costs a turn.
    pub(super) fn take_evicted(
        &mut self,
        name: &NodeName,
        uid: &NodeUid,
        trace: Option<TraceContext>,
        is_sure: bool,
    ) -> Option<bool> {
        let (evicted, of) = self.evicted.get(name)?;
        let is_another = of.zip(trace).is_some_and(|(of, trace)| of.trace_id() != trace.trace_id());
        let stays = evicted == uid && !is_another;
        if is_sure || !stays {
            self.forget_evicted(name);
        }
        Some(stays)
    }

    /// The node is Ready, or what was said of it was heeded.
    pub(super) fn forget_evicted(&mut self, name: &NodeName) {
        self.evicted.remove(name);
    }

    /// When the zone was last granted, as far as an earlier instance said.
    pub(super) fn last_grant(&self, zone: &Zone) -> Option<Moment> {
        self.zones.get(zone).and_then(|remembered| remembered.last_grant)
    }

    /// What was said of a zone in which nothing was decided yet: it is said again until something is.
    pub(super) fn said_of(&self, zone: &Zone) -> Option<&ZoneStatus> {
        self.zones.get(zone).map(|remembered| &remembered.status)
    }
}

impl Evictor {
    /// The first view of the bus was taken in: from now on our own words may come back.
    pub(super) const fn has_inherited(&self) -> bool {
        self.inherited.taken
    }

    /// Takes in what was said in the own topic; `reading` is of the clock that its times are told by, from when it was said.
    pub(super) fn inherit(&mut self, outcome: Outcome, trace: Option<TraceContext>, reading: Option<ClockReading>, now: Now) {
        match outcome {
            Outcome::Zone(status) if self.begun => self.heed_other_grant(&status, reading, now),
            Outcome::Zone(status) if !self.inherited.taken => {
                let zone = status.zone.clone();
                let remembered = Remembered::new(*status, reading, now);
                if let Some(entry) = self.zones.get_mut(&zone) {
                    entry.last_grant = remembered.last_grant;
                }
                self.inherited.zones.insert(zone, remembered);
            }
            Outcome::Zone(status) => {
                let newer = Remembered::new(*status, reading, now);
                let known = self.inherited.zones.get_mut(&newer.status.zone);
                if let Some(known) = known.filter(|known| known.last_grant < newer.last_grant) {
                    *known = newer;
                }
            }
            Outcome::Node(node) if !self.inherited.taken && node.state == NodeOutcomeState::Evicted => {
                self.inherited.evicted.insert(node.node.name, (node.node.uid, trace));
            }
            Outcome::Pod(pod) if !self.inherited.taken && is_finished(&pod.state) => {
                self.pods.was_finished(&pod.pod.uid, &pod.state);
                self.inherited.finished.insert(pod.pod.uid, pod.state);
            }
            Outcome::Node(node) if !self.inherited.taken => self.inherited.waits.take_node(*node, trace, now),
            Outcome::Pod(pod) if !self.inherited.taken && !pod.state.is_terminal() => {
                if let Some(pod) = self.pods.went_on(*pod) {
                    self.inherited.waits.take_pod(pod);
                }
            }
            Outcome::Node(_) | Outcome::Pod(_) => {}
        }
    }

    /// Another instance granted after we began: its last words before it was fenced. That token is gone for us too.
    fn heed_other_grant(&mut self, status: &ZoneStatus, reading: Option<ClockReading>, now: Now) {
        let Some(entry) = self.zones.get_mut(&status.zone) else {
            return;
        };
        let Some(theirs) = status.last_grant.map(|grant| moment_of(grant, reading, now)) else {
            return;
        };
        if entry.last_grant.is_none_or(|ours| ours < theirs) {
            entry.last_grant = Some(theirs);
            entry.bucket.take(theirs.mono());
            self.changed_zones.insert(status.zone.clone());
        }
    }

    /// The first view of the bus was taken in: what it did not tell, nobody remembers.
    pub(super) fn close_inheritance(&mut self, now: Now) {
        if std::mem::replace(&mut self.inherited.taken, true) {
            return;
        }
        // A zone whose nodes are all gone by now still owes the interval after its last grant, and the one that leaving a stop costs
        // (NL-025, NL-082).
        let interval = interval(self.config.rates.primary).unwrap_or(Duration::MAX);
        let recent = |grant: Moment| now.mono < grant.plus(interval);
        let nobody = Traces::default();
        let owing = self.inherited.zones.iter();
        let owing = owing.filter(|(_, remembered)| remembered.taken_at(&nobody, now).is_some_and(recent));
        let zones: Vec<Zone> = owing.map(|(zone, _)| zone.clone()).collect();
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
                Some(remembered) => remembered.taken_at(&traces, now),
                None if traces.waiting => Some(Moment::from(now.mono)),
                None => traces.tainted.max(traces.recovered),
            };
            entry.last_grant = last;
            let bucket = match last {
                Some(granted) => Bucket::empty(primary, granted.mono()),
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
            let Some(facts) = &node.facts else {
                if let Some((zone, _)) = node.place.as_deref() {
                    zones.entry(zone.clone()).or_default().waiting = true;
                }
                continue;
            };
            let traces = zones.entry(facts.zone.clone()).or_default();
            // One without time, or by a clock ahead of ours, may be of now.
            let later = |wall: Wall| moment_of(wall.checked_add(TIME_RESOLUTION).unwrap_or(wall), None, now);
            let tainted = facts
                .health_taints()
                .map(|(_, taint)| taint.time_added.map_or(Moment::from(now.mono), later))
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
    tainted: Option<Moment>,
    /// A node that is Ready was granted before this, if it was.
    recovered: Option<Moment>,
    /// A node that could be isolated is not, or one that is gone waits for its turn.
    waiting: bool,
}
