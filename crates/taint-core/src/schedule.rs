//! The NoSchedule taints and beta labels that a node should carry (NL-110 to NL-122).

use std::sync::Arc;

use bailiff_model::{Effect, Now, ReadyStatus, Taint, wellknown};

use crate::effect::NodePatch;
use crate::facts::{NodeFacts, PlatformLabels};

/// The keys that conditions and `spec.unschedulable` speak through (NL-111). With another effect, or another key, a taint is
/// somebody else's.
const KEYS: [&str; 7] = [
    wellknown::TAINT_NOT_READY,
    wellknown::TAINT_UNREACHABLE,
    wellknown::TAINT_MEMORY_PRESSURE,
    wellknown::TAINT_DISK_PRESSURE,
    wellknown::TAINT_PID_PRESSURE,
    wellknown::TAINT_NETWORK_UNAVAILABLE,
    wellknown::TAINT_UNSCHEDULABLE,
];

/// The one request that makes a node what it should be; `None` if it is.
///
/// Taints that were there keep their place, value and time; new ones go last and carry the present (NL-112, NL-076).
pub fn plan(facts: &NodeFacts, now: Now) -> Option<NodePatch> {
    let taints = taints(facts, now);
    let labels = labels(&facts.labels);
    if taints.is_none() && labels.is_empty() {
        return None;
    }
    Some(NodePatch {
        node: facts.node.clone(),
        taints,
        labels,
    })
}

/// Which of [`KEYS`] the node's state wants (NL-111). An absent condition wants nothing, nor does any other status.
fn wanted(facts: &NodeFacts) -> [bool; 7] {
    [
        facts.ready.status == ReadyStatus::False,
        facts.ready.status == ReadyStatus::Unknown,
        facts.pressure.memory,
        facts.pressure.disk,
        facts.pressure.pid,
        facts.pressure.network,
        facts.unschedulable,
    ]
}

/// The list wanted, if it differs from the one there (NL-112). A list that could not be read whole is left alone.
fn taints(facts: &NodeFacts, now: Now) -> Option<Vec<Taint>> {
    if facts.taints_unreadable {
        return None;
    }
    let wanted = wanted(facts);
    let mut missing = wanted;
    let mut list = Vec::with_capacity(facts.taints.len() + 1);
    for taint in &facts.taints {
        match own(taint) {
            None => list.push(taint.clone()),
            Some(index) if wanted[index] => {
                missing[index] = false;
                list.push(taint.clone());
            }
            Some(_) => {}
        }
    }
    if list.len() == facts.taints.len() && !missing.contains(&true) {
        return None;
    }
    let added = KEYS.iter().zip(missing).filter(|(_, missing)| *missing);
    list.extend(added.map(|(key, _)| Taint {
        time_added: Some(now.wall),
        ..Taint::new(key, Effect::NoSchedule)
    }));
    Some(list)
}

/// The place in [`KEYS`] of a taint that is ours.
fn own(taint: &Taint) -> Option<usize> {
    if taint.effect != Effect::NoSchedule {
        return None;
    }
    KEYS.iter().position(|key| *key == &*taint.key)
}

/// The labels to set (NL-120, NL-121).
fn labels(labels: &PlatformLabels) -> Vec<(&'static str, Arc<str>)> {
    let pairs = [
        (&labels.os, &labels.os_beta, wellknown::LABEL_OS_BETA),
        (&labels.arch, &labels.arch_beta, wellknown::LABEL_ARCH_BETA),
    ];
    let differing = pairs
        .into_iter()
        .filter(|(stable, beta, _)| stable.is_some() && stable != beta);
    differing
        .filter_map(|(stable, _, key)| Some((key, stable.clone()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use bailiff_model::{Mono, Wall};

    use super::*;
    use crate::facts::{NodeReady, Pressure};

    const NOW: Now = Now {
        mono: Mono::ORIGIN,
        wall: Wall::UNIX_EPOCH,
    };

    fn mk_ready(status: ReadyStatus) -> NodeFacts {
        NodeFacts {
            ready: NodeReady {
                status,
                stopped_posting: false,
                since: None,
            },
            ..NodeFacts::default()
        }
    }

    fn mk_taints(taints: &[(&str, Effect)]) -> Vec<Taint> {
        taints.iter().map(|(key, effect)| Taint::new(key, *effect)).collect()
    }

    fn keys(facts: &NodeFacts) -> Option<Vec<String>> {
        let taints = plan(facts, NOW)?.taints?;
        Some(taints.iter().map(ToString::to_string).collect())
    }

    /// NL-111
    #[test]
    fn conditions_want_their_taints() {
        let pressure = |memory, disk, pid, network| NodeFacts {
            pressure: Pressure {
                memory,
                disk,
                pid,
                network,
            },
            ..mk_ready(ReadyStatus::True)
        };
        let cordoned = NodeFacts {
            unschedulable: true,
            ..mk_ready(ReadyStatus::True)
        };
        let cases = [
            (mk_ready(ReadyStatus::True), None),
            (mk_ready(ReadyStatus::Absent), None),
            (mk_ready(ReadyStatus::False), Some("node.kubernetes.io/not-ready:NoSchedule")),
            (
                mk_ready(ReadyStatus::Unknown),
                Some("node.kubernetes.io/unreachable:NoSchedule"),
            ),
            (
                pressure(true, false, false, false),
                Some("node.kubernetes.io/memory-pressure:NoSchedule"),
            ),
            (
                pressure(false, true, false, false),
                Some("node.kubernetes.io/disk-pressure:NoSchedule"),
            ),
            (
                pressure(false, false, true, false),
                Some("node.kubernetes.io/pid-pressure:NoSchedule"),
            ),
            (
                pressure(false, false, false, true),
                Some("node.kubernetes.io/network-unavailable:NoSchedule"),
            ),
            (cordoned, Some("node.kubernetes.io/unschedulable:NoSchedule")),
        ];
        for (facts, taint) in cases {
            assert_eq!(keys(&facts), taint.map(|taint| vec![taint.to_owned()]), "{facts:?}");
        }
    }

    /// NL-114: what a silent node said of its pressure counts no more
    #[test]
    fn taints_of_pressure_go_when_the_node_falls_silent() {
        let pressures = [
            wellknown::TAINT_MEMORY_PRESSURE,
            wellknown::TAINT_DISK_PRESSURE,
            wellknown::TAINT_PID_PRESSURE,
        ];
        let facts = NodeFacts {
            taints: mk_taints(&pressures.map(|key| (key, Effect::NoSchedule))),
            ..mk_ready(ReadyStatus::Unknown)
        };
        assert_eq!(
            keys(&facts),
            Some(vec!["node.kubernetes.io/unreachable:NoSchedule".to_owned()])
        );
    }

    /// NL-112, NL-113: one request adds and removes, and leaves what is not ours
    #[test]
    fn one_patch_adds_and_removes() {
        let facts = NodeFacts {
            taints: mk_taints(&[
                ("node.kubernetes.io/not-ready", Effect::NoSchedule),
                ("node.kubernetes.io/not-ready", Effect::NoExecute),
                ("example.com/mine", Effect::NoSchedule),
                ("node.kubernetes.io/disk-pressure", Effect::PreferNoSchedule),
            ]),
            ..mk_ready(ReadyStatus::Unknown)
        };
        let wanted = [
            "node.kubernetes.io/not-ready:NoExecute",
            "example.com/mine:NoSchedule",
            "node.kubernetes.io/disk-pressure:PreferNoSchedule",
            "node.kubernetes.io/unreachable:NoSchedule",
        ];
        assert_eq!(keys(&facts), Some(wanted.map(str::to_owned).to_vec()));
    }

    /// NL-113: a new node without Ready loses the taint that admission gave it
    #[test]
    fn the_admission_taint_goes() {
        let facts = NodeFacts {
            taints: mk_taints(&[("node.kubernetes.io/not-ready", Effect::NoSchedule)]),
            ..mk_ready(ReadyStatus::Absent)
        };
        assert_eq!(keys(&facts), Some(vec![]));
    }

    /// NL-079, NL-113: the taints of shutdown and of out-of-service are others', and so is every other key or effect
    #[test]
    fn taints_of_others_are_neither_made_nor_removed() {
        for status in [ReadyStatus::True, ReadyStatus::Unknown, ReadyStatus::Absent] {
            let bare = keys(&mk_ready(status)).unwrap_or_default();
            let facts = NodeFacts {
                taints: mk_taints(&[
                    ("node.cloudprovider.kubernetes.io/shutdown", Effect::NoSchedule),
                    ("node.kubernetes.io/out-of-service", Effect::NoExecute),
                    ("node.kubernetes.io/out-of-service", Effect::NoSchedule),
                    ("node.kubernetes.io/unreachable", Effect::NoExecute),
                ]),
                ..mk_ready(status)
            };
            let there = facts.taints.iter().map(ToString::to_string);
            let wanted: Vec<String> = there.chain(bare.iter().cloned()).collect();
            assert_eq!(keys(&facts), (!bare.is_empty()).then_some(wanted));
        }
    }

    /// NL-112, NL-151: what is as wanted is not written, value and time of the taint do not matter
    #[test]
    fn nothing_is_written_twice() {
        let mut facts = mk_ready(ReadyStatus::False);
        facts.taints = plan(&facts, NOW)
            .expect("a taint is missing")
            .taints
            .expect("a taint is missing");
        facts.taints[0].value = "by hand".into();
        assert_eq!(plan(&facts, NOW), None);
    }

    #[test]
    fn a_list_that_could_not_be_read_whole_is_left_alone() {
        let facts = NodeFacts {
            taints_unreadable: true,
            ..mk_ready(ReadyStatus::False)
        };
        assert_eq!(plan(&facts, NOW), None);
    }

    /// NL-120, NL-121
    #[test]
    fn beta_labels_follow_the_stable_ones() {
        let mk = |os: Option<&str>, os_beta: Option<&str>| NodeFacts {
            labels: PlatformLabels {
                os: os.map(Arc::from),
                os_beta: os_beta.map(Arc::from),
                ..PlatformLabels::default()
            },
            ..NodeFacts::default()
        };
        let cases = [
            (None, None, None),
            (None, Some("linux"), None),
            (Some("linux"), Some("linux"), None),
            (Some("linux"), None, Some("linux")),
            (Some("linux"), Some("plan9"), Some("linux")),
        ];
        for (os, beta, wanted) in cases {
            let set = plan(&mk(os, beta), NOW).map(|patch| patch.labels);
            let wanted = wanted.map(|value| vec![(wellknown::LABEL_OS_BETA, Arc::from(value))]);
            assert_eq!(set, wanted, "{os:?} {beta:?}");
        }
    }
}
