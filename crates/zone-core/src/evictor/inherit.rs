//! What survives a restart: each zone's last grant, and which nodes are evicted already (node mode).
//!
//! A restart never gives a free node (NL-034). The last grant is the later of what the stage's own topic remembers and of the
//! youngest `timeAdded` of a health NoExecute taint in the zone. A zone that is remembered as stopped leaves the stop now, which
//! costs a whole interval (NL-082). Where the bus remembers nothing and nodes are unhealthy already, somebody may just have been
//! granted: the zone begins without a token. Where all its nodes are ready, it begins with one, as upstream's (NL-024).

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::outcome::{NodeOutcomeState, Outcome, ZoneStatus};
use bailiff_model::{NodeName, NodeUid, Now, Topic, Wall, Zone};

use super::Evictor;
use crate::rate::Bucket;

/// `timeAdded` has whole seconds: the grant may have been up to this much later (NL-066).
const TIME_ADDED_RESOLUTION: Duration = Duration::from_secs(1);

/// What an earlier instance said.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    zones: BTreeMap<Zone, ZoneStatus>,
    evicted: BTreeMap<NodeName, NodeUid>,
}

impl Inherited {
    /// True, once, if this incarnation of the node was evicted by an earlier instance.
    pub(super) fn take_evicted(&mut self, name: &NodeName, uid: &NodeUid) -> bool {
        self.evicted.remove(name).is_some_and(|evicted| evicted == *uid)
    }

    /// When the zone was last granted, as far as an earlier instance said.
    pub(super) fn last_grant(&self, zone: &Zone) -> Option<Wall> {
        self.zones.get(zone).and_then(|status| status.last_grant)
    }
}

impl Evictor {
    pub(super) fn inherit(&mut self, outcome: Outcome, now: Now) {
        match outcome {
            Outcome::Zone(status) if self.begun => self.heed_other_grant(&status, now),
            Outcome::Zone(status) => {
                if let Some(entry) = self.zones.get_mut(&status.zone) {
                    entry.last_grant = status.last_grant;
                }
                self.inherited.zones.insert(status.zone.clone(), status);
            }
            Outcome::Node(node) if !self.begun && node.state == NodeOutcomeState::Evicted => {
                self.inherited.evicted.insert(node.node.name, node.node.uid);
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

    /// Starts to hand out rates, once it is known who is where, who is healthy, and what was granted before.
    pub(super) fn begin(&mut self, now: Now) {
        if self.begun || !self.topics.is_connected_once() || !self.is_complete(Topic::NodeHealth) {
            return;
        }
        self.begun = true;
        let mut youngest: BTreeMap<Zone, Wall> = BTreeMap::new();
        for facts in self.nodes.values().filter_map(|node| node.facts.as_ref()) {
            if let Some(added) = facts.health_taints().filter_map(|(_, taint)| taint.time_added).max() {
                let latest = youngest.entry(facts.zone.clone()).or_insert(added);
                *latest = added.max(*latest);
            }
        }
        for (zone, entry) in &mut self.zones {
            let remembered = self.inherited.zones.remove(zone);
            let added = youngest
                .get(zone)
                .map(|added| added.checked_add(TIME_ADDED_RESOLUTION).unwrap_or(*added));
            let last = remembered.as_ref().and_then(|status| status.last_grant).max(added);
            entry.last_grant = last.map(|last| last.min(now.wall));
            let granted = entry.last_grant.map(|last| now.mono_of(last));
            let primary = self.config.rates.primary;
            let may_be_recent = match &remembered {
                Some(status) => status.rate_per_second <= 0.0,
                None => self.votes.tally(zone).not_ready > 0,
            };
            entry.bucket = match granted {
                _ if may_be_recent => Bucket::empty(primary, now.mono),
                Some(granted) => Bucket::empty(primary, granted),
                None => Bucket::full(primary),
            };
            self.changed_zones.insert(zone.clone());
        }
        self.inherited.zones.clear();
    }
}
