//! What must hold, whatever went wrong.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::system::{GRACE, RATE, SILENT_ZONE, TOLERATION};
use super::witness::Witness;

/// Times in the API are whole seconds, cut off.
const CUT_OFF: SignedDuration = SignedDuration::from_secs(1);

/// Judges everything that was seen while zone-evictors were stopped so many times.
pub fn judge(witness: &Witness, stops: usize) {
    witness.with(|seen| {
        let mut premises = 0;
        for (name, node) in &seen.nodes {
            let is_silent = node.zone == SILENT_ZONE;
            assert_eq!(!node.unknown.is_empty(), is_silent, "{name}: {node:?}");
            assert_eq!(!node.isolated.is_empty(), is_silent, "{name}: {node:?}");
            if let (Some(unknown), Some(renewed)) = (node.unknown.first(), node.renewed) {
                let silent = unknown.duration_since(renewed) + CUT_OFF;
                assert!(
                    silent >= GRACE,
                    "{name} was marked {silent:?} after its last renewal: {node:?}"
                );
                premises += 1;
            }
            assert!(node.isolated.len() <= 1, "{name} was isolated twice: {node:?}");
        }
        for (uid, pod) in &seen.pods {
            let node = &seen.nodes[&pod.node];
            let Some(deleted) = pod.deleted else {
                assert!(node.zone != SILENT_ZONE, "{uid} was never evicted: {pod:?}");
                continue;
            };
            let isolated = node.isolated.first();
            let isolated = isolated.unwrap_or_else(|| panic!("{uid} was evicted from a node that never was isolated: {pod:?}"));
            let tolerated = deleted.duration_since(*isolated) + CUT_OFF;
            assert!(
                tolerated >= TOLERATION,
                "{uid} was evicted {tolerated:?} after its node was isolated: {pod:?}"
            );
            assert!(pod.was_target, "{uid} was deleted without its condition: {pod:?}");
            premises += 1;
        }
        assert!(premises > 20, "only {premises} acts were judged");
        let mut zones: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
        for node in seen.nodes.values() {
            zones.entry(&node.zone).or_default().extend(&node.isolated);
        }
        for (zone, mut times) in zones {
            times.sort();
            for (first, from) in times.iter().enumerate() {
                for (last, until) in times.iter().enumerate().skip(first) {
                    let span = until.duration_since(*from) + CUT_OFF;
                    // A bucket of one, and one write in flight at each stop of an evictor.
                    let allowed = (RATE * span.as_secs_f64()).floor() as usize + 1 + stops;
                    assert!(
                        last - first < allowed,
                        "{zone} lost {} nodes within {span:?}: {times:?}",
                        last - first + 1
                    );
                }
            }
        }
    });
}
