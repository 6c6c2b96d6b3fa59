//! Why an act that is decided does not happen at the moment.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::NodeName;
use crate::time::Wall;
use crate::zone::Zone;

/// Closed set of reasons; the meaning of each is in `proto/bailiff/v1/types.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldReason {
    /// Not every shard of a topic that the act depends on is complete.
    Incomplete,
    /// A producer that the act depends on is not live.
    Stale,
    /// The Kubernetes watches that the act depends on are not fresh.
    ApiStale,
    /// All voting zones are fully disrupted (NL-096).
    AllZonesDisrupted,
    /// The zone's rate is zero in its present state (NL-093).
    RateZero,
    /// A person paused it.
    Paused,
    /// Another controller does the same duty.
    Rival,
    /// A large share of leases stopped together.
    CorrelatedLoss,
    /// The intent is older than the newest health record of its node; or the newest record of either cannot be read; or the node, as it is
    /// known, does not bear it out.
    OutdatedIntent,
    /// The process only observes.
    Observing,
    /// The NoSchedule counterpart of the taint has not been seen yet.
    TaintOrder,
    /// Others go first: at a rate, or as many as may at a time.
    RateLimited,
    /// A budget for disruption is used up.
    Budget,
}

impl HoldReason {
    /// Label value and log word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Stale => "stale",
            Self::ApiStale => "api_stale",
            Self::AllZonesDisrupted => "all_zones_disrupted",
            Self::RateZero => "rate_zero",
            Self::Paused => "paused",
            Self::Rival => "rival",
            Self::CorrelatedLoss => "correlated_loss",
            Self::OutdatedIntent => "outdated_intent",
            Self::Observing => "observing",
            Self::TaintOrder => "taint_order",
            Self::RateLimited => "rate_limited",
            Self::Budget => "budget",
        }
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason, with the moment it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// One sentence for people.
    pub detail: String,
    /// Since when.
    pub since: Wall,
    /// When it ends unless something changes, where that is known.
    pub until: Option<Wall>,
}

/// What a hold from outside covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldScope {
    /// Everything.
    All,
    /// One zone: its nodes and their pods.
    Zone(Zone),
    /// One node and its pods.
    Node(NodeName),
}

impl fmt::Display for HoldScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everything"),
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// All holds from outside that are in force: what a person paused, and who else does the same duty.
///
/// A core is told the whole set each time it changes; one that is not in it any more has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds(BTreeMap<(HoldScope, HoldReason), Hold>);

impl Holds {
    /// No holds.
    pub const NONE: Self = Self(BTreeMap::new());

    /// Puts a hold in force.
    pub fn insert(&mut self, scope: HoldScope, hold: Hold) {
        self.0.insert((scope, hold.reason), hold);
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by scope and reason.
    pub fn iter(&self) -> impl Iterator<Item = (&HoldScope, &Hold)> {
        self.0.iter().map(|((scope, _), hold)| (scope, hold))
    }

    /// The hold of this scope and reason.
    pub fn get(&self, scope: &HoldScope, reason: HoldReason) -> Option<&Hold> {
        self.0.get(&(scope.clone(), reason))
    }

    /// What holds everything.
    pub fn on_everything(&self) -> Option<&Hold> {
        self.of(HoldScope::All)
    }

    /// What holds the zone, or everything.
    pub fn on_zone(&self, zone: &Zone) -> Option<&Hold> {
        if self.is_empty() {
            return None;
        }
        self.on_everything().or_else(|| self.of(HoldScope::Zone(zone.clone())))
    }

    /// What holds the node by its name, whatever its zone.
    pub fn on_name(&self, name: &NodeName) -> Option<&Hold> {
        if self.is_empty() {
            return None;
        }
        self.of(HoldScope::Node(name.clone()))
    }

    /// What holds the node: by its name, its zone, or with everything.
    pub fn on_node(&self, zone: &Zone, name: &NodeName) -> Option<&Hold> {
        self.on_zone(zone).or_else(|| self.on_name(name))
    }

    /// The first hold of exactly this scope.
    fn of(&self, scope: HoldScope) -> Option<&Hold> {
        let from = (scope, HoldReason::Incomplete);
        let (found, hold) = self.0.range(&from..).next()?;
        (found.0 == from.0).then_some(hold)
    }
}

impl FromIterator<(HoldScope, Hold)> for Holds {
    fn from_iter<T: IntoIterator<Item = (HoldScope, Hold)>>(holds: T) -> Self {
        let mut all = Self::NONE;
        for (scope, hold) in holds {
            all.insert(scope, hold);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_hold(reason: HoldReason) -> Hold {
        Hold {
            reason,
            detail: String::new(),
            since: Wall::UNIX_EPOCH,
            until: None,
        }
    }

    #[test]
    fn a_hold_covers_its_scope_and_no_more() {
        let (zone, other) = (Zone::new("r", "a"), Zone::new("r", "b"));
        let (name, stranger) = (NodeName::from("n1"), NodeName::from("n2"));
        let cases = [
            (HoldScope::All, [true, true, true]),
            (HoldScope::Zone(zone.clone()), [true, true, false]),
            (HoldScope::Node(name.clone()), [true, false, false]),
        ];
        for (scope, wanted) in cases {
            // The last reason there is, so that nothing is found by accident of order.
            let holds: Holds = [(scope.clone(), mk_hold(HoldReason::Budget))].into_iter().collect();
            let found =
                [(&zone, &name), (&zone, &stranger), (&other, &stranger)].map(|(zone, name)| holds.on_node(zone, name).is_some());
            assert_eq!(found, wanted, "{scope}");
        }
        assert_eq!(Holds::NONE.on_node(&zone, &name), None);
    }
}
