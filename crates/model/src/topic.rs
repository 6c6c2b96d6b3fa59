//! Topics of the bus and positions in them.

use std::fmt;

/// A position in the bus's revision sequence; grows with every accepted change of one incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

impl Topic {
    /// All topics, in pipeline order.
    pub const ALL: [Self; 4] = [
        Self::NodeHealth,
        Self::EvictionIntents,
        Self::EvictionOutcomes,
        Self::DaemonRollouts,
    ];

    /// Name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeHealth => "node-health",
            Self::EvictionIntents => "eviction-intents",
            Self::EvictionOutcomes => "eviction-outcomes",
            Self::DaemonRollouts => "daemon-rollouts",
        }
    }

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
