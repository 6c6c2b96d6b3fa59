//! What a node offers and what a pod asks for: pods, CPU and memory, as numbers that can be compared.
//!
//! Other resources are ignored: no scheduler plug-in is simulated.

use std::collections::BTreeMap;

use crate::schema::quantity::millis;

/// An amount of each resource that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources {
    /// Number of pods.
    pub pods: u64,
    /// CPU, thousandths of a core.
    pub milli_cpu: u64,
    /// Memory, bytes.
    pub memory: u64,
}

/// What a node offers. A resource that its status does not mention is not limited: recorded scenarios have nodes without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Number of pods.
    pub pods: Option<u64>,
    /// CPU, thousandths of a core.
    pub milli_cpu: Option<u64>,
    /// Memory, bytes.
    pub memory: Option<u64>,
}

/// The first resource that does not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Kubernetes' name of the resource.
    pub resource: &'static str,
    /// Asked for.
    pub requested: u64,
    /// Taken by others.
    pub used: u64,
    /// There is.
    pub capacity: u64,
}

// === impl Resources ===

impl Resources {
    /// One pod that asks for these quantities.
    pub fn of_pod(milli_cpu: u64, memory: u64) -> Self {
        Self {
            pods: 1,
            milli_cpu,
            memory,
        }
    }

    /// Adds.
    pub fn add(&mut self, other: Self) {
        self.pods = self.pods.saturating_add(other.pods);
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
    }

    /// Takes away.
    pub fn remove(&mut self, other: Self) {
        self.pods = self.pods.saturating_sub(other.pods);
        self.milli_cpu = self.milli_cpu.saturating_sub(other.milli_cpu);
        self.memory = self.memory.saturating_sub(other.memory);
    }
}

// === impl Allocatable ===

impl Allocatable {
    /// Reads `status.allocatable`; a quantity that is none counts as not mentioned.
    pub fn from_map(map: &BTreeMap<String, String>) -> Self {
        let milli = |key: &str| map.get(key).and_then(|text| parse_milli(text));
        Self {
            pods: milli("pods").map(|milli| milli / 1000),
            milli_cpu: milli("cpu"),
            memory: milli("memory").map(|milli| milli / 1000),
        }
    }

    /// True if no resource is mentioned.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first resource of which `used` leaves less than `wanted`, in the order pods, cpu, memory.
    pub fn shortage(&self, used: Resources, wanted: Resources) -> Option<Shortage> {
        [
            ("pods", self.pods, used.pods, wanted.pods),
            ("cpu", self.milli_cpu, used.milli_cpu, wanted.milli_cpu),
            ("memory", self.memory, used.memory, wanted.memory),
        ]
        .into_iter()
        .find_map(|(resource, capacity, used, requested)| {
            let capacity = capacity?;
            (requested > 0 && used.saturating_add(requested) > capacity).then_some(Shortage {
                resource,
                requested,
                used,
                capacity,
            })
        })
    }
}

/// A Kubernetes quantity in thousandths, rounded up; `None` for what is no quantity, is negative, or is beyond what nodes have.
pub fn parse_milli(text: &str) -> Option<u64> {
    millis(text).and_then(|milli| u64::try_from(milli).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_up_and_never_negative() {
        let cases = [
            ("1", Some(1000)),
            ("0.1m", Some(1)),
            ("1Ki", Some(1_024_000)),
            ("-1", None),
            ("m", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_milli(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_mentioned_is_not_limited() {
        let offered = Allocatable {
            pods: Some(2),
            ..Allocatable::default()
        };
        let used = Resources {
            pods: 2,
            milli_cpu: 9,
            memory: 9,
        };
        assert_eq!(Allocatable::default().shortage(used, Resources::of_pod(1, 1)), None);
        assert_eq!(
            offered.shortage(used, Resources::of_pod(1, 1)).map(|short| short.resource),
            Some("pods")
        );
        assert_eq!(offered.shortage(Resources::of_pod(0, 0), Resources::of_pod(1, 1)), None);
    }
}
