//! Topics of the bus and positions in them.

use std::fmt;

use crate::ids::Incarnation;

/// A position in the bus's revision sequence; grows with every accepted change of one incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record by its place in the bus. Of another incarnation's number nothing is known: it may be of any record, or of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The bus that gave the revision; empty for none.
    pub incarnation: Incarnation,
    /// The revision; 0 for none.
    pub revision: Revision,
}

impl Origin {
    /// The record at `revision` of the bus of this incarnation.
    pub const fn new(incarnation: Incarnation, revision: Revision) -> Self {
        Self { incarnation, revision }
    }

    /// True if it names no record.
    pub fn is_none(&self) -> bool {
        self.revision == Revision(0)
    }

    /// True if both name records of one bus, so that their revisions can be compared.
    pub fn is_comparable(&self, other: &Self) -> bool {
        !self.is_none() && !other.is_none() && self.incarnation == other.incarnation
    }
}

/// The topics, in pipeline order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// What the node-health-monitor decided.
    NodeHealth,
    /// What the taint-manager wants.
    EvictionIntents,
    /// What the zone-evictor did.
    EvictionOutcomes,
    /// What the daemonset-syncer did.
    DaemonRollouts,
}

crate::words! {
    /// Name on the wire.
    Topic {
        NodeHealth => "node-health",
        EvictionIntents => "eviction-intents",
        EvictionOutcomes => "eviction-outcomes",
        DaemonRollouts => "daemon-rollouts",
    }
}

impl Topic {
    /// The topic of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.as_str() == text)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_compare_within_one_incarnation_only() {
        let at = |incarnation: &str, revision| Origin::new(incarnation.into(), Revision(revision));
        assert!(at("a", 1).is_comparable(&at("a", 2)));
        for (one, other) in [
            (at("a", 1), at("b", 1)),
            (at("a", 0), at("a", 1)),
            (at("a", 1), Origin::default()),
        ] {
            assert!(!one.is_comparable(&other), "{one:?} {other:?}");
        }
    }
}
