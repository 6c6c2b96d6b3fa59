//! Which part of the nodes, or of the zones, a replica works on.

use crate::ids::NodeName;
use crate::zone::Zone;

/// A part of what a stage works on: nodes by name, zones by printable key, DaemonSets by uid (design §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Shard {
    /// The one shard of an undivided cluster.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// True if the node of this name belongs to this shard.
    pub fn owns(self, name: &NodeName) -> bool {
        self.owns_key(name.as_str())
    }

    /// True if this zone belongs to this shard.
    pub fn owns_zone(self, zone: &Zone) -> bool {
        self.count <= 1 || self.owns_key(&zone.to_string())
    }

    /// True if the DaemonSet of this uid belongs to this shard.
    pub fn owns_daemonset(self, uid: &str) -> bool {
        self.owns_key(uid)
    }

    /// The hash is FNV-1a, 64 bits: stable over releases and processes, which a standard hasher is not.
    fn owns_key(self, key: &str) -> bool {
        if self.count <= 1 {
            return true;
        }
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash % u64::from(self.count) == u64::from(self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_belongs_to_exactly_one_shard() {
        for count in 1..5 {
            for node in 0..100 {
                let name = NodeName::from(format!("node-{node}"));
                let owners = (0..count).filter(|&index| Shard { index, count }.owns(&name));
                assert_eq!(owners.count(), 1, "{name} of {count}");
                let zone = Zone::new("r", &format!("z{node}"));
                let owners = (0..count).filter(|&index| Shard { index, count }.owns_zone(&zone));
                assert_eq!(owners.count(), 1, "{zone} of {count}");
            }
        }
    }
}
