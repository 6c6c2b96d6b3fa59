//! Which zones the monitor holds, and the marks that wait for a hold to end.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::{NodeName, PodUid, Zone};

/// Zones that health records hold: one is held while any record in it says so, whichever node and shard it is about.
#[derive(Debug, Default)]
pub(crate) struct HeldZones {
    nodes: BTreeMap<Zone, BTreeSet<NodeName>>,
    zone_of: BTreeMap<NodeName, Zone>,
    /// Said so before the view that is being built, and not heard of since.
    doubted: BTreeSet<NodeName>,
}

/// Pods whose mark waits, by zone and node, so that the end of a hold costs only what it held.
#[derive(Debug, Default)]
pub(crate) struct WaitingMarks(BTreeSet<(Zone, NodeName, PodUid)>);

impl HeldZones {
    pub(crate) fn contains(&self, zone: &Zone) -> bool {
        self.nodes.contains_key(zone)
    }

    /// A new view of the topic begins. What it does not show stays as it was until it is complete.
    pub(crate) fn doubt(&mut self) {
        self.doubted = self.zone_of.keys().cloned().collect();
    }

    /// There is a record of the node that is not understood: what was known of it stays.
    pub(crate) fn keep(&mut self, name: &NodeName) {
        self.doubted.remove(name);
    }

    /// The record of the node holds this zone, or none. Returns the zone that is no longer held, if there is one.
    pub(crate) fn set(&mut self, name: &NodeName, zone: Option<&Zone>) -> Option<Zone> {
        self.doubted.remove(name);
        let before = self.zone_of.remove(name);
        if let Some(zone) = zone {
            self.nodes.entry(zone.clone()).or_default().insert(name.clone());
            self.zone_of.insert(name.clone(), zone.clone());
        }
        let left = before.filter(|before| Some(before) != zone)?;
        let nodes = self.nodes.get_mut(&left)?;
        nodes.remove(name);
        let is_free = nodes.is_empty();
        if is_free {
            self.nodes.remove(&left);
        }
        is_free.then_some(left)
    }

    /// The view is complete: who is not in it holds nothing. Returns the zones that are no longer held.
    pub(crate) fn drop_doubted(&mut self) -> Vec<Zone> {
        let doubted = std::mem::take(&mut self.doubted);
        doubted.iter().filter_map(|name| self.set(name, None)).collect()
    }
}

impl WaitingMarks {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn insert(&mut self, zone: Zone, node: NodeName, pod: PodUid) {
        self.0.insert((zone, node, pod));
    }

    pub(crate) fn remove(&mut self, zone: &Zone, node: &NodeName, pod: &PodUid) {
        self.0.remove(&(zone.clone(), node.clone(), pod.clone()));
    }

    /// Takes those of a zone.
    pub(crate) fn take_zone(&mut self, zone: &Zone) -> Vec<PodUid> {
        let first = (zone.clone(), NodeName::default(), PodUid::default());
        self.take_while(first, |(of, _, _)| of == zone)
    }

    /// Takes those of a node in this zone.
    pub(crate) fn take_node(&mut self, zone: &Zone, node: &NodeName) -> Vec<PodUid> {
        let first = (zone.clone(), node.clone(), PodUid::default());
        self.take_while(first, |(zone_of, of, _)| zone_of == zone && of == node)
    }

    /// Takes all of them.
    pub(crate) fn take_all(&mut self) -> Vec<PodUid> {
        std::mem::take(&mut self.0).into_iter().map(|(_, _, pod)| pod).collect()
    }

    fn take_while(&mut self, first: (Zone, NodeName, PodUid), belongs: impl Fn(&(Zone, NodeName, PodUid)) -> bool) -> Vec<PodUid> {
        let taken: Vec<_> = self.0.range(first..).take_while(|key| belongs(key)).cloned().collect();
        for key in &taken {
            self.0.remove(key);
        }
        taken.into_iter().map(|(_, _, pod)| pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::new("r", name)
    }

    #[test]
    fn a_zone_is_held_while_any_record_in_it_says_so() {
        let (a, b) = (zone("a"), zone("b"));
        let (n1, n2) = (NodeName::from("n1"), NodeName::from("n2"));
        let mut held = HeldZones::default();
        assert_eq!(held.set(&n1, Some(&a)), None);
        assert_eq!(held.set(&n1, Some(&a)), None, "said again");
        assert_eq!(held.set(&n2, Some(&a)), None);
        assert_eq!(held.set(&n1, None), None, "n2 still says so");
        assert_eq!(held.set(&n2, Some(&b)), Some(a.clone()), "it moved");
        assert!(held.contains(&b) && !held.contains(&a));
        // A new view that shows neither: only once it is complete do they hold nothing.
        held.set(&n1, Some(&a));
        held.doubt();
        held.keep(&n1);
        assert!(held.contains(&a) && held.contains(&b));
        assert_eq!(held.drop_doubted(), [b]);
        assert!(held.contains(&a), "its record is there, and not understood");
    }

    #[test]
    fn what_waits_is_taken_by_zone_or_by_node() {
        let mut waiting = WaitingMarks::default();
        for (of, node, pod) in [
            ("a", "n1", "p"),
            ("a", "n1", "q"),
            ("a", "n2", "r"),
            ("b", "n1", "s"),
            ("c", "n3", "t"),
        ] {
            waiting.insert(zone(of), node.into(), pod.into());
        }
        waiting.remove(&zone("a"), &"n1".into(), &"p".into());
        let uids = |uids: &[&str]| -> Vec<PodUid> { uids.iter().map(|uid| PodUid::from(*uid)).collect() };
        assert_eq!(waiting.take_node(&zone("a"), &"n1".into()), uids(&["q"]));
        assert_eq!(waiting.take_zone(&zone("a")), uids(&["r"]));
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.take_all(), uids(&["s", "t"]));
    }
}
