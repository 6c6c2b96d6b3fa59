//! Zones: their states, why they are held, and the rate they are granted.

use std::collections::VecDeque;

use bailiff_model::outcome::{Outcome, ZoneStatus};
use bailiff_model::{EvictionMode, Hold, HoldReason, Moment, Mono, NodeName, Now, Origin, Profile, Topic, Wall, Zone, ZoneState};

use super::holds::Reason;
use super::{Evictor, Timer};
use crate::queue::{Place, Queue};
use crate::rate::{Bucket, interval};
use crate::votes::{Tally, View};

/// So many waiting nodes of a zone are told that the zone is held, or no longer; for those behind them the zone's own record says it.
/// A hold that flips in a zone of thousands must not cost thousands of records.
const TOLD_ABOUT_ZONE_HOLDS: usize = 100;

/// So many ended holds of a zone are remembered. A node that waited through more is told of the last ones.
const PAST_HOLDS: usize = 8;

/// A grant that is being carried out: nobody else in the zone is granted meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) node: NodeName,
    /// The bucket before, in case the grant turns out to be for nothing.
    before: (Option<Mono>, Option<Moment>),
}

/// What is kept of a zone. Entries are never dropped: their number is that of zones ever seen (NL-025, NL-142).
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: ZoneState,
    /// Slower than the bucket's rate if late nodes would make the zone partially disrupted.
    ceiling: f64,
    pub(super) bucket: Bucket,
    pub(super) last_grant: Option<Moment>,
    pub(super) queue: Queue,
    pub(super) granted: Option<Grant>,
    pub(super) held: Option<Hold>,
    /// The last holds that ended, and when.
    past: VecDeque<(Hold, Wall)>,
    /// The newest health record that was counted here.
    origin: Origin,
    said: Option<Said>,
}

/// What was published last of a zone.
#[derive(Clone, Debug)]
struct Said {
    status: ZoneStatus,
    /// The last grant, apart from what the clock says to it.
    last_grant: Option<Moment>,
}

/// A zone, for metrics and readiness.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneView {
    /// Zone.
    pub zone: Zone,
    /// State.
    pub state: ZoneState,
    /// Voting nodes.
    pub voting: u32,
    /// Of these, not ready.
    pub not_ready: u32,
    /// Of these, late.
    pub late: u32,
    /// Waiting nodes.
    pub waiting: usize,
    /// Nodes per second, the brake included.
    pub rate: f64,
    /// Why nothing is granted.
    pub held: Option<Hold>,
}

impl ZoneView {
    /// Percentage of voting nodes that are ready; 100 without votes (NL-140, NL-095).
    pub fn health(&self) -> f64 {
        if self.voting == 0 {
            return 100.0;
        }
        100.0 * f64::from(self.voting - self.not_ready.min(self.voting)) / f64::from(self.voting)
    }
}

// === impl Entry ===

impl Entry {
    fn new(bucket: Bucket, last_grant: Option<Moment>) -> Self {
        Self {
            state: ZoneState::Initial,
            ceiling: f64::INFINITY,
            bucket,
            last_grant,
            queue: Queue::default(),
            granted: None,
            held: None,
            past: VecDeque::new(),
            origin: Origin::default(),
            said: None,
        }
    }

    /// A node's vote was counted, or is no longer, because of this record.
    pub(super) fn counted(&mut self, health: Option<&Origin>) {
        let Some(health) = health else { return };
        let is_older = health.is_comparable(&self.origin) && health.revision < self.origin.revision;
        if !is_older {
            self.origin = health.clone();
        }
    }

    /// The hold is as it is from now on; one that ends is remembered, for the traces of those who waited.
    fn hold(&mut self, held: Option<Hold>, now: Wall) {
        let reason = held.as_ref().map(|hold| hold.reason);
        let ended = std::mem::replace(&mut self.held, held).filter(|before| Some(before.reason) != reason && before.since != now);
        if let Some(ended) = ended {
            if self.past.len() >= PAST_HOLDS {
                self.past.pop_front();
            }
            self.past.push_back((ended, now));
        }
    }

    /// The holds in force since then, as far as they are remembered, and when each ended; the present one has not.
    pub(super) fn holds_since(&self, since: Wall, now: Wall) -> Vec<(Hold, Wall)> {
        let past = self.past.iter().filter(|(_, until)| *until > since).cloned();
        past.chain(self.held.iter().map(|hold| (hold.clone(), now))).collect()
    }

    pub(super) fn rate(&self) -> f64 {
        self.bucket.rate().min(self.ceiling)
    }

    /// When the node at `position` is expected to have its turn.
    pub(super) fn expected_at(&self, position: usize, now: Now) -> Option<Wall> {
        let interval = interval(self.rate())?;
        let first = self.bucket.available_at(self.ceiling).max(now.mono);
        let before = u32::try_from(position.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(now.wall_of(first + interval.saturating_mul(before)))
    }

    /// Takes in what is to be said; false if it is what was said already. The last grant is told by the clock as it is now.
    fn says(&mut self, status: &ZoneStatus) -> bool {
        let is_said = self.said.as_ref().is_some_and(|said| {
            let at_that_time = ZoneStatus {
                last_grant: said.status.last_grant,
                ..status.clone()
            };
            said.last_grant == self.last_grant && said.status == at_that_time
        });
        if !is_said {
            self.said = Some(Said {
                status: status.clone(),
                last_grant: self.last_grant,
            });
        }
        !is_said
    }

    fn status(&self, zone: &Zone, tally: Tally, now: Now) -> ZoneStatus {
        ZoneStatus {
            zone: zone.clone(),
            state: self.state,
            voting: tally.voting,
            not_ready: tally.not_ready,
            late: tally.late,
            rate_per_second: self.rate(),
            last_grant: self.last_grant.map(|grant| now.wall_at(grant)),
            queue_length: u32::try_from(self.queue.len()).unwrap_or(u32::MAX),
            held: self.held.clone(),
        }
    }
}

// === impl Evictor ===

impl Evictor {
    /// The zones this instance works on.
    pub fn zones(&self) -> impl Iterator<Item = ZoneView> + '_ {
        self.zones.iter().map(|(zone, entry)| {
            let tally = self.votes.tally(zone);
            ZoneView {
                zone: zone.clone(),
                state: entry.state,
                voting: tally.voting,
                not_ready: tally.not_ready,
                late: tally.late,
                waiting: entry.queue.len(),
                rate: entry.rate(),
                held: entry.held.clone(),
            }
        })
    }

    /// Registers a zone at the sight of a node in it. One that appears later begins with its token (NL-024); those known at the
    /// start get theirs when it is known what was granted before.
    pub(super) fn register_zone(&mut self, zone: &Zone) {
        if self.zones.contains_key(zone) || !self.config.shard.owns_zone(zone) || !self.config.duties.node_lifecycle {
            return;
        }
        let bucket = if self.begun {
            Bucket::full(self.config.rates.primary).of(self.config.profile)
        } else {
            // Placeholder: nothing is granted before.
            Bucket::empty(0.0, Mono::ORIGIN)
        };
        let entry = Entry::new(bucket, self.inherited.last_grant(zone));
        self.zones.insert(zone.clone(), entry);
        self.changed_zones.insert(zone.clone());
    }

    /// The same, without its token, at the sight of a node that is gone: whoever saw it when it was there may have granted just now. Zones
    /// were judged and gates were looked at already: whatever stops the others stops it too.
    pub(super) fn register_zone_late(&mut self, zone: &Zone, now: Now) {
        if self.zones.contains_key(zone) {
            return;
        }
        self.register_zone(zone);
        if let Some(entry) = self.zones.get_mut(zone).filter(|_| self.begun) {
            entry.bucket.take(now.mono);
            entry.last_grant = Some(now.mono.into());
            if self.all_down {
                entry.bucket.set_rate(0.0, now.mono);
            }
        }
        self.hold_zone(zone, now);
    }

    /// States and rates follow the votes, once all of them are known (NL-092, NL-093, NL-096).
    pub(super) fn judge_zones(&mut self, now: Now) {
        if !self.begun || !self.is_complete(Topic::NodeHealth) {
            return;
        }
        if !self.gates.had_all_health() {
            // Of what was voted meanwhile no zone was judged.
            self.changed_zones.extend(self.zones.keys().cloned());
        }
        let all_down = self.votes.all_down(View::Actual);
        self.all_down_for_brake = self.votes.all_down(View::Brake);
        let level_changed = all_down != self.all_down;
        if level_changed {
            self.all_down = all_down;
            self.changed_zones.extend(self.zones.keys().cloned());
            self.touch_disrupted();
        }
        let rates_follow = level_changed && !self.begins_in_a_new_zone();
        for zone in &self.changed_zones {
            let Some(entry) = self.zones.get_mut(zone) else {
                continue;
            };
            let (tally, rates) = (self.votes.tally(zone), &self.config.rates);
            let state = tally.state(View::Actual, rates);
            let for_brake = tally.state(View::Brake, rates);
            entry.ceiling = if for_brake == state {
                f64::INFINITY
            } else {
                tally.rate(for_brake, rates)
            };
            let rate = if all_down { 0.0 } else { tally.rate(state, rates) };
            // Upstream looks at the rate only when the state changes; a zone that grows keeps the old one (NL-094).
            if state != entry.state || rates_follow || self.config.profile == Profile::Bailiff {
                entry.bucket.set_rate(rate, now.mono);
            }
            if state == ZoneState::Initial && entry.state != state && self.config.profile == Profile::Upstream {
                // Upstream forgets a zone without votes, and registers it anew when it has some (NL-024, NL-095).
                entry.bucket = Bucket::full(rates.primary).of(Profile::Upstream);
            }
            entry.state = state;
        }
    }

    /// As upstream has it: a recovery that begins in a zone that was just registered is none of the whole cluster, and the other zones
    /// keep what rate they have until their own states change (NL-102).
    fn begins_in_a_new_zone(&self) -> bool {
        let is_new = |(zone, entry): (&Zone, &Entry)| {
            let state = self.votes.tally(zone).state(View::Actual, &self.config.rates);
            entry.state == ZoneState::Initial && !matches!(state, ZoneState::Initial | ZoneState::FullDisruption)
        };
        self.config.profile == Profile::Upstream && !self.all_down && self.zones.iter().any(is_new)
    }

    /// Works out why nothing is granted in `zone`, and tells the first of those who wait if that changed.
    pub(super) fn hold_zone(&mut self, zone: &Zone, now: Now) {
        let reason = self.zone_hold(zone);
        let Some(entry) = self.zones.get_mut(zone) else {
            return;
        };
        let told = |hold: &Hold| (hold.reason, hold.until);
        let before = entry.held.as_ref().map(told);
        let same = entry
            .held
            .as_ref()
            .filter(|hold| Some(hold.reason) == reason.as_ref().map(|reason| reason.reason));
        let since = same.map_or(now.wall, |hold| hold.since);
        entry.hold(reason.map(|reason| reason.since(since)), now.wall);
        if entry.held.as_ref().map(told) != before {
            let told = entry.queue.iter().take(TOLD_ABOUT_ZONE_HOLDS).map(|(_, name)| name.clone());
            self.touched.extend(told);
        }
    }

    fn zone_hold(&self, zone: &Zone) -> Option<Reason> {
        let entry = self.zones.get(zone)?;
        let of_rate = || {
            (entry.rate() <= 0.0 && entry.bucket.available_at(entry.ceiling) == Mono::FAR_FUTURE).then(|| {
                let tally = self.votes.tally(zone);
                let braked = entry.bucket.rate() > 0.0;
                let brake = format!(", as {} that are late count as not ready", tally.late);
                let detail = format!(
                    "no node is granted in a zone of {} nodes in state {}{}",
                    tally.voting,
                    entry.state,
                    if braked { brake.as_str() } else { "" }
                );
                Reason::new(HoldReason::RateZero, detail)
            })
        };
        self.health_hold(zone)
            .or_else(|| self.all_down_hold())
            .or_else(of_rate)
            .or_else(|| self.observer_hold())
    }

    /// Hands out what the zones' rates allow.
    pub(super) fn grant(&mut self, now: Now) {
        for zone in self.changed_zones.clone() {
            while let Some(place) = self.next_grant(&zone, now) {
                match self.config.mode {
                    EvictionMode::Taint => self.isolate(&zone, &place.1, now),
                    EvictionMode::Node => self.evict_node(&zone, &place.1, now),
                }
            }
        }
    }

    /// Takes the zone's token for the node whose turn it is, if both are there.
    fn next_grant(&mut self, zone: &Zone, now: Now) -> Option<Place> {
        let entry = self.zones.get_mut(zone)?;
        if entry.held.is_some() || entry.granted.is_some() {
            return None;
        }
        let place = entry.queue.first()?.clone();
        let at = entry.bucket.available_at(entry.ceiling);
        if at > now.mono {
            self.timers.set(Timer::Zone(zone.clone()), at);
            return None;
        }
        entry.granted = Some(Grant {
            node: place.1.clone(),
            before: (entry.bucket.empty_since(), entry.last_grant),
        });
        entry.bucket.take(now.mono);
        entry.last_grant = Some(Moment::from(now.mono));
        Some(place)
    }

    /// The granted node's turn is over. `Spent`: the token counts from now on, when the API has the taint. `Kept`: as taken.
    /// `Void`: nothing was done with it, so it is given back.
    pub(super) fn end_grant(&mut self, zone: &Zone, node: &NodeName, end: GrantEnd, now: Now) {
        let Some(entry) = self.zones.get_mut(zone) else {
            return;
        };
        if entry.granted.as_ref().is_none_or(|grant| grant.node != *node) {
            return;
        }
        let Some(grant) = entry.granted.take() else {
            return;
        };
        match end {
            // Upstream spends a token on whatever it looks at (NL-081).
            GrantEnd::Void if self.config.profile == Profile::Upstream => {}
            GrantEnd::Spent => {
                entry.bucket.take(now.mono);
                entry.last_grant = Some(Moment::from(now.mono));
            }
            GrantEnd::Kept => {}
            GrantEnd::Void => {
                entry.bucket.give_back(grant.before.0);
                entry.last_grant = grant.before.1;
            }
        }
        self.changed_zones.insert(zone.clone());
    }

    pub(super) fn say_zones(&mut self, now: Now) {
        // Before a view of the bus was received, what it remembers would be overwritten with less.
        if !self.topics.is_connected_once() {
            return;
        }
        for zone in std::mem::take(&mut self.changed_zones) {
            let tally = self.votes.tally(&zone);
            let remembered = self.inherited.said_of(&zone).map(|status| status.rate_per_second);
            if !self.begun && remembered.is_none() {
                // That nobody remembers anything must still be known to who comes after us, should we not get as far as deciding.
                continue;
            }
            let Some(entry) = self.zones.get_mut(&zone) else {
                continue;
            };
            let mut status = entry.status(&zone, tally, now);
            status.rate_per_second = remembered.unwrap_or(status.rate_per_second);
            if entry.says(&status) {
                let (key, origin) = (zone.to_string(), entry.origin.clone());
                self.publish(format!("zone/{key}"), key, origin, None, Outcome::Zone(Box::new(status)));
            }
        }
    }

    /// Looks again at all nodes that full disruption concerns: those with health taints, and (node mode) those evicted.
    fn touch_disrupted(&mut self) {
        let concerned = |node: &super::nodes::Node| {
            node.evicted.is_some()
                || node
                    .facts
                    .as_ref()
                    .is_some_and(|facts| facts.health_taints().next().is_some())
        };
        let names = self
            .nodes
            .iter()
            .filter(|(_, node)| concerned(node))
            .map(|(name, _)| name.clone());
        let names: Vec<NodeName> = names.collect();
        if self.all_down {
            names.iter().for_each(|name| self.disrupt(name));
        }
        self.touched.extend(names);
    }

    pub(super) fn touch_waiting(&mut self) {
        for entry in self.zones.values() {
            self.touched.extend(entry.queue.iter().map(|(_, name)| name.clone()));
        }
    }
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantEnd {
    Spent,
    Kept,
    Void,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// NL-140, NL-095
    #[test]
    fn zone_health_is_the_share_of_ready_voters() {
        let mk = |voting, not_ready| ZoneView {
            zone: Zone::default(),
            state: ZoneState::Normal,
            voting,
            not_ready,
            late: 0,
            waiting: 0,
            rate: 0.1,
            held: None,
        };
        assert!((mk(4, 1).health() - 75.0).abs() < 1e-9);
        assert!((mk(0, 0).health() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_expected_turn_counts_intervals_from_the_next_token() {
        let now = Now {
            mono: Mono::from_origin(Duration::from_secs(100)),
            wall: Wall::UNIX_EPOCH,
        };
        let mut entry = Entry::new(Bucket::empty(0.1, now.mono), None);
        let in_seconds = |entry: &Entry, position| entry.expected_at(position, now).map(|wall| wall.as_second());
        assert_eq!(
            [1, 2, 3].map(|position| in_seconds(&entry, position)),
            [Some(10), Some(20), Some(30)]
        );
        entry.bucket = Bucket::full(0.0);
        assert_eq!(in_seconds(&entry, 1), None);
    }
}
