//! Texts that many nodes share are kept once: zones, and reasons of condition Ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::Zone;

/// More distinct reasons than kubelets have. Reasons come from outside; beyond this many they are simply not shared.
const MOST_REASONS: usize = 64;

/// Zones in use, with the number of nodes in each, and common reasons.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    zones: BTreeMap<Arc<Zone>, usize>,
    reasons: BTreeSet<Arc<str>>,
}

impl Interner {
    /// The shared form of a zone; counts one node more in it.
    pub(crate) fn enter(&mut self, zone: Zone) -> Arc<Zone> {
        if let Some((shared, nodes)) = self.zones.range_mut::<Zone, _>(&zone..).next()
            && **shared == zone
        {
            *nodes += 1;
            return shared.clone();
        }
        let zone = Arc::new(zone);
        self.zones.insert(zone.clone(), 1);
        zone
    }

    /// Nodes in a zone.
    pub(crate) fn nodes_in(&self, zone: &Zone) -> usize {
        self.zones.get(zone).copied().unwrap_or(0)
    }

    /// Counts one node less in a zone and forgets it with the last.
    pub(crate) fn leave(&mut self, zone: &Zone) {
        if let Some(nodes) = self.zones.get_mut(zone) {
            *nodes -= 1;
            if *nodes == 0 {
                self.zones.remove(zone);
            }
        }
    }

    /// The shared form of a reason.
    pub(crate) fn reason(&mut self, reason: Arc<str>) -> Arc<str> {
        if let Some(shared) = self.reasons.get(&reason) {
            return shared.clone();
        }
        if self.reasons.len() < MOST_REASONS {
            self.reasons.insert(reason.clone());
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_kept_once_and_only_while_it_has_nodes() {
        let mut interner = Interner::default();
        let first = interner.enter(Zone::new("r", "a"));
        let second = interner.enter(Zone::new("r", "a"));
        assert!(Arc::ptr_eq(&first, &second));
        interner.leave(&first);
        assert_eq!(interner.zones.len(), 1);
        interner.leave(&second);
        interner.leave(&second);
        assert!(interner.zones.is_empty());
    }

    #[test]
    fn reasons_from_outside_are_bounded() {
        let mut interner = Interner::default();
        for n in 0..1000 {
            assert_eq!(*interner.reason(Arc::from(n.to_string())), *n.to_string());
        }
        assert_eq!(interner.reasons.len(), MOST_REASONS);
    }
}
