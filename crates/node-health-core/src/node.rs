//! What is remembered of one node, and the arithmetic of its grace.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{
    Mono, NodeName, NodeRef, NodeUid, Now, Profile, ReadyStatus, ResourceVersion, Signal, Stamp, TraceContext, Verdict, Wall, Zone,
};

use crate::config::Config;
use crate::facts::{LeaseFacts, NodeFacts, Pressures, ReadyFacts};
use crate::incident::Incident;
use crate::votes::Vote;

/// Into so many parts a grace is divided, at whose ends nodes become late: of the default one each is 0.25 s.
const LATE_INSTANTS: u32 = 200;

/// A sign of life, when it came as far as that is known, else when it was noticed (NL-040).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sign {
    pub(crate) wall: Stamp,
    pub(crate) mono: Mono,
    pub(crate) signal: Signal,
}

/// What grace is counted from.
///
/// The count runs on the monotonic clock from `mono`. Silence before that, where there was any, is in `spent`: the monotonic clock
/// begins with the process and cannot express it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) mono: Mono,
    pub(crate) spent: Duration,
    /// The moment for people.
    pub(crate) wall: Stamp,
}

impl Count {
    /// Counted from `mono`, which is now, a little later, or as long ago as a renewal may have waited.
    pub(crate) fn anew(mono: Mono, wall: Wall) -> Self {
        Self {
            mono,
            spent: Duration::ZERO,
            wall: wall.into(),
        }
    }

    /// Counted from a wall time that was read, clamped to now; at most `at_most` of the time since then counts.
    pub(crate) fn since(wall: Wall, now: Now, at_most: Duration) -> Self {
        let ahead = now.wall.duration_since(wall);
        let spent = if ahead.is_negative() {
            Duration::ZERO
        } else {
            ahead.unsigned_abs()
        };
        Self {
            mono: now.mono,
            spent: spent.min(at_most),
            wall: wall.min(now.wall).into(),
        }
    }

    /// When `grace` has passed.
    pub(crate) fn ends(&self, grace: Duration) -> Mono {
        self.mono + grace.saturating_sub(self.spent)
    }
}

/// What is known of a node's lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseTrack {
    seen: bool,
    /// It is in the API now.
    present: bool,
    version: u64,
    /// renewTime of the last renewal.
    saved: Option<Stamp>,
    /// renewTime as it is; differs from `saved` only while upstream ignores it (NL-048).
    latest: Option<Stamp>,
}

impl LeaseTrack {
    /// Takes a lease as it is now; true if that is a sign of life. A lease older than what is known is ignored unless it is part of
    /// a `snapshot`: then the server itself went back, and so do we.
    pub(crate) fn take(&mut self, lease: &LeaseFacts, snapshot: bool, profile: Profile) -> bool {
        let version = lease.resource_version.number().unwrap_or(0);
        if version < self.version && version > 0 && !snapshot {
            return false;
        }
        self.version = version;
        self.latest = lease.renewed.map(Stamp::from);
        self.present = true;
        let first = !std::mem::replace(&mut self.seen, true);
        let renewed = first || is_renewal(self.saved.map(Stamp::wall), lease.renewed, profile);
        if renewed {
            self.saved = self.latest;
        }
        renewed
    }

    /// A lease is known.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen
    }

    /// It is in the API.
    pub(crate) fn is_present(&self) -> bool {
        self.present
    }

    /// The lease was deleted. What was seen of it stays: created again with the same renewTime it is no sign of life.
    pub(crate) fn set_gone(&mut self) {
        self.present = false;
    }

    /// renewTime as it stands in the API, if it does.
    pub(crate) fn renew_time(&self) -> Option<Wall> {
        self.latest.filter(|_| self.present).map(Stamp::wall)
    }

    /// `metadata.resourceVersion` of the state known.
    pub(crate) fn version(&self) -> ResourceVersion {
        ResourceVersion::from(self.version)
    }

    /// The lease that stays when the node goes: it is not new to the next node of that name.
    pub(crate) fn left_behind(&self, name: &NodeName) -> Option<LeaseFacts> {
        self.present.then(|| LeaseFacts {
            name: name.clone(),
            resource_version: self.version(),
            renewed: self.latest.map(Stamp::wall),
        })
    }

    /// Upstream drops the saved lease when a status comes (NL-045), so a renewTime it ignored counts from then on.
    pub(crate) fn drop_saved(&mut self) {
        self.saved = self.latest;
    }
}

/// The last multiple of `every` since the origin that is not after `at`; `at` itself if `every` is zero.
fn instant_before(at: Mono, every: Duration) -> Mono {
    let past = at.as_nanos().checked_rem(Mono::from_origin(every).as_nanos());
    Mono::from_nanos(at.as_nanos() - past.unwrap_or(0))
}

/// NL-047, NL-048: later is a renewal. Unless told to be as upstream, earlier is one too: somebody wrote it, and a clock that was
/// stepped back must not kill a node. No renewTime is none.
fn is_renewal(old: Option<Wall>, new: Option<Wall>, profile: Profile) -> bool {
    match (old, new, profile) {
        (_, None, _) => false,
        (None, Some(_), profile) => profile == Profile::Bailiff,
        (Some(old), Some(new), Profile::Bailiff) => new != old,
        (Some(old), Some(new), Profile::Upstream) => new > old,
    }
}

/// Why a node is read.
#[derive(Debug)]
pub(crate) struct Suspicion {
    pub(crate) asked: Now,
    pub(crate) node: NodeRef,
    /// `metadata.resourceVersion` of its lease.
    pub(crate) lease: ResourceVersion,
    /// The incident it is in.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) counted_from: Wall,
    pub(crate) grace_ended: Wall,
}

/// A read that showed no sign of life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    pub(crate) asked: Now,
    pub(crate) answered: Now,
}

/// A status write under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) read: Confirmation,
    pub(crate) since: Wall,
    pub(crate) version: ResourceVersion,
    pub(crate) was: ReadyStatus,
}

/// Where a node is between its grace and a verdict. What belongs to a few nodes at a time is boxed: every node has a phase.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    /// Nothing is under way; a timer says when to look again.
    #[default]
    Watched,
    /// Its grace ended; it waits to be read. Left by reading, or by a sign of life.
    Queued,
    /// It is being read. Left by the answer.
    Reading(Box<Suspicion>),
    /// The read showed no sign of life; it waits to be written. Left by writing, or by a sign of life.
    Confirmed(Box<Confirmation>),
    /// It is being written. Left by the answer, or by the condition's arrival through the watch.
    Writing(Box<Attempt>),
}

/// Condition Ready as it stands: [`ReadyFacts`], kept.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) status: ReadyStatus,
    /// Shared with other nodes.
    pub(crate) reason: Arc<str>,
    pub(crate) heartbeat: Option<Stamp>,
    pub(crate) since: Option<Stamp>,
}

/// A node. Its deadline is in the timers, at the place that it has among the nodes.
#[derive(Debug)]
pub(crate) struct Node {
    /// `metadata.uid`.
    pub(crate) uid: NodeUid,
    /// `metadata.resourceVersion`.
    pub(crate) version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    pub(crate) created: Stamp,
    /// Its zone, shared with the others there.
    pub(crate) zone: Arc<Zone>,
    /// It has no vote (NL-091).
    pub(crate) excluded: bool,
    /// Condition Ready.
    pub(crate) ready: Ready,
    /// The pressure conditions.
    pub(crate) pressures: Pressures,
    /// Its lease.
    pub(crate) lease: LeaseTrack,
    /// Its last sign of life.
    pub(crate) sign: Option<Sign>,
    /// `sign` was observed: a renewal or a status that came while somebody watched, not the first sight of a lease that may be old.
    pub(crate) heard: bool,
    /// What its grace is counted from.
    pub(crate) count: Count,
    /// Since when it is late.
    pub(crate) late_since: Option<Stamp>,
    /// The incident that it is in.
    pub(crate) incident: Option<Box<Incident>>,
    /// Where it is between its grace and a verdict.
    pub(crate) phase: Phase,
    /// Failed requests in a row.
    pub(crate) failures: u32,
    /// Not to be tried again before.
    pub(crate) not_before: Mono,
    /// Nothing can be said about it (NL-057): it has no vote until a request succeeds or a sign of life comes.
    pub(crate) unsaid: bool,
    /// What Ready was when a write was tried whose end is not known.
    pub(crate) doubtful: Option<ReadyStatus>,
    /// Its vote, as it is counted.
    pub(crate) vote: Vote,
    /// Verdict of the record published last.
    pub(crate) said: Option<Verdict>,
    /// Grace is counted from another moment than the record published last says.
    pub(crate) recounted: bool,
    /// The record published last is not what would be published now.
    pub(crate) changed: bool,
}

impl Node {
    /// A node seen for the first time, in the shared form of its zone. The reason is to be interned by the caller.
    pub(crate) fn new(facts: NodeFacts, zone: Arc<Zone>, now: Now) -> (NodeName, Self) {
        let node = Self {
            uid: facts.uid,
            version: facts.resource_version,
            created: facts.created.into(),
            zone,
            excluded: facts.excluded,
            ready: facts.ready.into(),
            pressures: facts.pressures,
            lease: LeaseTrack::default(),
            sign: None,
            heard: false,
            count: Count::anew(now.mono, now.wall),
            late_since: None,
            incident: None,
            phase: Phase::Watched,
            failures: 0,
            not_before: Mono::ORIGIN,
            unsaid: false,
            doubtful: None,
            vote: Vote::None,
            said: None,
            recounted: true,
            changed: false,
        };
        (facts.name, node)
    }

    /// The reference to it, as of the state known.
    pub(crate) fn reference(&self, name: &NodeName) -> NodeRef {
        NodeRef {
            name: name.clone(),
            uid: self.uid.clone(),
            resource_version: self.version.clone(),
        }
    }

    /// The trace of the incident that it is in.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.incident.as_deref().map(|incident| incident.trace)
    }

    /// Counts its grace from another moment.
    pub(crate) fn count_from(&mut self, count: Count) {
        self.recounted |= (self.count.mono, self.count.spent) != (count.mono, count.spent);
        self.count = count;
    }

    /// NL-041, NL-042, NL-059: the startup grace holds as long as there is no Ready.
    pub(crate) fn grace(&self, config: &Config) -> Duration {
        match self.ready.status {
            ReadyStatus::Absent => config.startup_grace,
            ReadyStatus::True | ReadyStatus::False | ReadyStatus::Unknown => config.grace,
        }
    }

    /// From when on it is late: after three quarters of its grace, or up to one of [`LATE_INSTANTS`] earlier. Those who become late
    /// meanwhile do so together, so that not each of them is a wake here, a message to the bus, and a wake of whoever reads it.
    pub(crate) fn late_at(&self, config: &Config) -> Mono {
        let grace = self.grace(config);
        instant_before(self.count.ends(grace - grace / 4), grace / LATE_INSTANTS)
    }

    /// When its grace ends; it is over strictly after (NL-052).
    pub(crate) fn grace_ends(&self, config: &Config) -> Mono {
        self.count.ends(self.grace(config))
    }

    /// The judgement that the API's condition stands for.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.ready.status {
            ReadyStatus::Unknown => Verdict::Unreachable,
            ReadyStatus::False => Verdict::NotReady,
            ReadyStatus::Absent => Verdict::NoStatus,
            ReadyStatus::True if self.late_since.is_some() => Verdict::Late,
            ReadyStatus::True => Verdict::Healthy,
        }
    }

    /// NL-044, NL-045, NL-046: a status that a kubelet posted, seen by its heartbeat. Ready that appears as Unknown was written by a
    /// monitor, this one or another.
    pub(crate) fn is_posted(&self, new: &ReadyFacts) -> bool {
        match (self.ready.status, new.status) {
            (_, ReadyStatus::Absent) | (ReadyStatus::Absent, ReadyStatus::Unknown) => false,
            (ReadyStatus::Absent, ReadyStatus::True | ReadyStatus::False) => true,
            (_, ReadyStatus::True | ReadyStatus::False | ReadyStatus::Unknown) => {
                self.ready.heartbeat != new.heartbeat.map(Stamp::from)
            }
        }
    }

    /// True if `facts` are of an older state than the one known.
    pub(crate) fn is_ahead_of(&self, facts: &NodeFacts) -> bool {
        facts.resource_version.is_older_than(&self.version)
    }

    /// True if a record made of `facts` differs from one made now.
    pub(crate) fn says_otherwise(&self, facts: &NodeFacts) -> bool {
        let (ready, new) = (&self.ready, &facts.ready);
        self.excluded != facts.excluded
            || *self.zone != facts.zone
            || (ready.status, &ready.reason, ready.since) != (new.status, &new.reason, new.since.map(Stamp::from))
    }

    /// Back to what a node is before leadership: facts stay, what was made of them goes.
    pub(crate) fn stand_by(&mut self) {
        self.sign = None;
        self.heard = false;
        self.late_since = None;
        self.incident = None;
        self.phase = Phase::Watched;
        self.failures = 0;
        self.not_before = Mono::ORIGIN;
        self.unsaid = false;
        self.doubtful = None;
        self.vote = Vote::None;
        self.said = None;
        self.changed = false;
    }
}

impl From<ReadyFacts> for Ready {
    fn from(facts: ReadyFacts) -> Self {
        Self {
            status: facts.status,
            reason: facts.reason,
            heartbeat: facts.heartbeat.map(Stamp::from),
            since: facts.since.map(Stamp::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: [Profile; 2] = [Profile::Bailiff, Profile::Upstream];

    fn lease(version: u64, renewed: Option<i64>) -> LeaseFacts {
        LeaseFacts {
            name: NodeName::from("n1"),
            resource_version: ResourceVersion::from(version),
            renewed: renewed.map(|second| Wall::from_second(second).unwrap()),
        }
    }

    /// NL-047, NL-048: leases one after the other, and which are signs of life in each profile.
    #[test]
    fn which_leases_are_signs_of_life() {
        type Step = (LeaseFacts, bool, [bool; 2]);
        let watched = |version, renewed, is_sign| -> Step { (lease(version, renewed), false, is_sign) };
        let cases: [(&str, Vec<Step>); 6] = [
            ("the first, of whatever time", vec![watched(5, None, [true; 2])]),
            (
                "later, the same, and no time",
                vec![
                    watched(5, Some(10), [true; 2]),
                    watched(6, Some(20), [true; 2]),
                    watched(7, Some(20), [false; 2]),
                    watched(8, None, [false; 2]),
                ],
            ),
            (
                "earlier",
                vec![watched(5, Some(10), [true; 2]), watched(6, Some(9), [true, false])],
            ),
            (
                "a time after none",
                vec![watched(5, None, [true; 2]), watched(6, Some(10), [true, false])],
            ),
            (
                "an older state, and one that cannot be compared",
                vec![
                    watched(5, Some(10), [true; 2]),
                    watched(4, Some(20), [false; 2]),
                    watched(5, Some(30), [true; 2]),
                    watched(0, Some(40), [true; 2]),
                ],
            ),
            (
                "an older state in a list: the server went back",
                vec![watched(5, Some(10), [true; 2]), (lease(4, Some(20)), true, [true; 2])],
            ),
        ];
        for (what, steps) in cases {
            for (which, profile) in PROFILES.into_iter().enumerate() {
                let mut track = LeaseTrack::default();
                for (lease, in_list, is_sign) in &steps {
                    assert_eq!(
                        track.take(lease, *in_list, profile),
                        is_sign[which],
                        "{what}: {lease:?} {profile:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_lease_that_is_gone_has_no_renew_time_and_stays_known() {
        let mut track = LeaseTrack::default();
        let first = lease(5, Some(10));
        assert!(track.take(&first, false, Profile::Bailiff));
        assert_eq!(
            (track.renew_time(), track.left_behind(&first.name)),
            (first.renewed, Some(first.clone()))
        );
        track.set_gone();
        assert_eq!(
            (track.renew_time(), track.left_behind(&first.name), track.is_seen()),
            (None, None, true)
        );
        assert!(
            !track.take(&lease(6, Some(10)), false, Profile::Bailiff),
            "created again with the same time"
        );
    }
}
