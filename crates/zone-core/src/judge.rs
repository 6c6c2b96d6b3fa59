//! Do the API's own facts justify deleting this pod? (Design §1: one disruptor, and it trusts nobody.)

use std::time::Duration;

use bailiff_model::intent::{EvictionCause, HealthTaint, PodEviction};
use bailiff_model::outcome::RefusedReason;
use bailiff_model::taint::{limit, tolerance, used};
use bailiff_model::{Profile, ReadyStatus, Taint, Tolerance, Toleration, Wall};

use crate::fact::NodeFacts;

/// What the node, as it is known, says about the intent. `tolerations` are the pod's, if they are known already.
///
/// `None` for the node means that surely no such object exists: it leaves its intents standing (TE-034).
pub fn judge(
    intent: &PodEviction,
    node: Option<&NodeFacts>,
    tolerations: Option<&[Toleration]>,
    profile: Profile,
) -> Result<(), RefusedReason> {
    let Some(node) = node else {
        return Ok(());
    };
    if node.uid != intent.node.uid {
        return Err(RefusedReason::NodeReplaced);
    }
    match &*intent.cause {
        EvictionCause::Node if node.ready == ReadyStatus::True => Err(RefusedReason::NodeReady),
        EvictionCause::Node => Ok(()),
        EvictionCause::Taints {
            taints,
            tolerations: claimed,
        } => {
            let standing = node.no_execute();
            if standing.is_empty() {
                return Err(RefusedReason::NoTaint);
            }
            // Before the pod was read there is only the intent's word for its tolerations; the answer to the mark is judged again.
            let Some(tolerations) = tolerations else {
                return Ok(());
            };
            let claim = Claim {
                taints,
                tolerations: claimed,
                due_at: intent.due_at,
            };
            if is_justified(&standing, tolerations, &claim, profile) {
                Ok(())
            } else {
                Err(RefusedReason::Tolerated)
            }
        }
    }
}

/// What the intent says ran out. All its times are of one clock, the taint-manager's: they are compared with each other, never with
/// our own.
struct Claim<'a> {
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
    due_at: Wall,
}

fn is_justified(standing: &[Taint], tolerations: &[Toleration], claim: &Claim<'_>, profile: Profile) -> bool {
    if profile == Profile::Upstream {
        // An armed timer fires as long as anything finite stands, whichever taint armed it (TE-063).
        return tolerance(standing, tolerations) != Tolerance::Forever;
    }
    standing.iter().any(|taint| match used(taint, tolerations) {
        None => true,
        Some(toleration) => toleration
            .seconds
            .is_some_and(|seconds| limit(seconds).is_zero() || claim.covers(taint, seconds)),
    })
}

impl Claim<'_> {
    /// True if the intent says that the time tolerated for `taint`, which is `seconds` now, is over. A time that was lengthened
    /// meanwhile is not; nor is that of a taint which did not make the pod due.
    fn covers(&self, taint: &Taint, seconds: i64) -> bool {
        self.taints.iter().filter(|cause| is_same(cause, taint)).any(|cause| {
            let was = used(cause, self.tolerations).and_then(|toleration| toleration.seconds);
            was.is_some_and(|was| limit(seconds) <= limit(was) && self.ran_out(cause, limit(was)))
        })
    }

    fn ran_out(&self, cause: &Taint, tolerated: Duration) -> bool {
        let Some(since) = cause.time_added else {
            return true;
        };
        // Both times may have been cut to whole seconds on their way.
        let ended = since.checked_add(tolerated.saturating_sub(Duration::from_secs(1)));
        ended.is_ok_and(|ended| ended <= self.due_at)
    }
}

/// The same taint, value included; the two health taints are one incident, and a swap keeps its time (NL-071, TE-111).
fn is_same(cause: &Taint, standing: &Taint) -> bool {
    let both_health = HealthTaint::of(cause).is_some() && HealthTaint::of(standing).is_some();
    both_health || (cause.is_same_entry(standing) && cause.value == standing.value)
}

/// True if only the node's health justifies the intent: none of its other taints that stand does, by itself. One that is tolerated for
/// ever, or whose time is not over, justifies nothing, so it opens no gate that health keeps shut.
///
/// `tolerations` are the pod's, if they are known already; `None` for the node means that it is not known, or gone.
pub fn is_caused_by_health(intent: &PodEviction, node: Option<&NodeFacts>, tolerations: Option<&[Toleration]>) -> bool {
    let (taints, claimed) = match &*intent.cause {
        EvictionCause::Node => return true,
        EvictionCause::Taints { taints, tolerations } => (taints, tolerations),
    };
    let by_hand = |taint: &&Taint| HealthTaint::of(taint).is_none();
    let stands = |taint: &&Taint| {
        let standing = |facts: &NodeFacts| facts.taints.iter().any(|standing| is_same(taint, standing));
        node.is_none_or(standing)
    };
    let others: Vec<Taint> = taints.iter().filter(by_hand).filter(stands).cloned().collect();
    let claim = Claim {
        taints,
        tolerations: claimed,
        due_at: intent.due_at,
    };
    // By our own rule under either profile: upstream's would let any finite toleration of a hand-made taint count as run out.
    let justified = is_justified(&others, tolerations.unwrap_or(claimed), &claim, Profile::Bailiff);
    !justified && taints.iter().any(|taint| HealthTaint::of(taint).is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bailiff_model::intent::{IntentState, Trigger};
    use bailiff_model::{Effect, NodeName, NodeRef, NodeUid, Operator, PodRef, ResourceVersion, Wall, Zone};

    use super::*;

    fn mk_node(ready: ReadyStatus, taints: &[(&str, &str)]) -> NodeFacts {
        NodeFacts {
            name: NodeName::from("n"),
            uid: NodeUid::from("n-uid"),
            resource_version: ResourceVersion::from("1"),
            zone: Zone::default(),
            excluded_from_disruption: false,
            ready,
            recovered_at: None,
            taints: taints.iter().map(|(key, value)| mk_taint(key, value)).collect(),
        }
    }

    fn mk_taint(key: &str, value: &str) -> Taint {
        Taint {
            value: Arc::from(value),
            ..Taint::new(key, Effect::NoExecute)
        }
    }

    fn mk_tolerations(list: &[(&str, Option<i64>)]) -> Vec<Toleration> {
        let one = |(key, seconds): &(&str, Option<i64>)| Toleration {
            operator: Operator::Exists,
            seconds: *seconds,
            ..Toleration::exists(key, Effect::NoExecute)
        };
        list.iter().map(one).collect()
    }

    fn mk_intent(cause: EvictionCause) -> PodEviction {
        PodEviction {
            pod: PodRef::default(),
            node: NodeRef {
                name: NodeName::from("n"),
                uid: NodeUid::from("n-uid"),
                ..NodeRef::default()
            },
            zone: Zone::default(),
            cause: cause.into(),
            state: IntentState::Due,
            trigger: Trigger::Expired,
            due_at: Wall::UNIX_EPOCH,
            decided_at: Wall::UNIX_EPOCH,
        }
    }

    /// TE-051, TE-063, TE-111: what stands on the node must be what ran out, or be tolerated by nothing.
    #[test]
    fn only_what_stands_and_ran_out_justifies() {
        const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
        const NOT_READY: &str = "node.kubernetes.io/not-ready";
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, Option<i64>)], bool, bool);
        // Cause: taint k=v, tolerated for 10 s; and unreachable, tolerated for 300 s.
        // Standing taints, present tolerations; justified by our profile, by upstream's.
        let cases: [Case; 12] = [
            (&[("k", "v")], &[("k", Some(10))], true, true),
            (&[("k", "v")], &[("k", Some(5))], true, true),
            (&[("k", "v")], &[("k", Some(11))], false, true),
            (&[("k", "v")], &[("k", None)], false, false),
            (&[("k", "v")], &[], true, true),
            (&[("k", "w")], &[("k", Some(10))], false, true),
            (&[("other", "")], &[("other", Some(10))], false, true),
            (&[("other", "")], &[("other", Some(0))], true, true),
            (&[("other", "")], &[("other", Some(-1))], true, true),
            (&[(UNREACHABLE, "")], &[("", Some(300))], true, true),
            (&[(NOT_READY, "")], &[("", Some(300))], true, true),
            (&[("k", "v"), ("other", "")], &[("k", None), ("other", Some(7))], false, true),
        ];
        let intent = mk_intent(EvictionCause::Taints {
            taints: vec![mk_taint("k", "v"), mk_taint(UNREACHABLE, "")],
            tolerations: mk_tolerations(&[("k", Some(10)), (UNREACHABLE, Some(300))]),
        });
        for (standing, tolerations, ours, upstreams) in cases {
            let node = mk_node(ReadyStatus::Unknown, standing);
            let tolerations = mk_tolerations(tolerations);
            for (profile, wanted) in [(Profile::Bailiff, ours), (Profile::Upstream, upstreams)] {
                let found = judge(&intent, Some(&node), Some(&tolerations), profile);
                let wanted = if wanted { Ok(()) } else { Err(RefusedReason::Tolerated) };
                assert_eq!(found, wanted, "{standing:?} {tolerations:?} {profile}");
            }
        }
    }

    /// TE-063: the intent names all taints; only the one whose time is over by its own reckoning justifies.
    #[test]
    fn a_taint_that_did_not_make_the_pod_due_does_not_justify() {
        let due_at = Wall::from_second(1000).expect("in range");
        let at = |second| Some(Wall::from_second(second).expect("in range"));
        let tolerations = mk_tolerations(&[("short", Some(10)), ("long", Some(500))]);
        let taints = vec![
            Taint {
                time_added: at(990),
                ..mk_taint("short", "")
            },
            Taint {
                time_added: at(900),
                ..mk_taint("long", "")
            },
        ];
        let cause = EvictionCause::Taints {
            taints,
            tolerations: tolerations.clone(),
        };
        let intent = PodEviction {
            due_at,
            ..mk_intent(cause)
        };
        for (standing, wanted) in [("short", Ok(())), ("long", Err(RefusedReason::Tolerated))] {
            let node = mk_node(ReadyStatus::True, &[(standing, "")]);
            assert_eq!(
                judge(&intent, Some(&node), Some(&tolerations), Profile::Bailiff),
                wanted,
                "{standing}"
            );
        }
        // Times may have been cut to whole seconds on their way, which is no more than one.
        let node = mk_node(ReadyStatus::True, &[("short", "")]);
        for (since, wanted) in [(991, Ok(())), (992, Err(RefusedReason::Tolerated))] {
            let cause = EvictionCause::Taints {
                taints: vec![Taint {
                    time_added: at(since),
                    ..mk_taint("short", "")
                }],
                tolerations: tolerations.clone(),
            };
            let intent = PodEviction {
                due_at,
                ..mk_intent(cause)
            };
            let found = judge(&intent, Some(&node), Some(&tolerations), Profile::Bailiff);
            assert_eq!(found, wanted, "since {since}");
        }
    }

    /// Design §1: what opens no way around the brake. Cause: unreachable, tolerated for 300 s that are over, and another taint.
    #[test]
    fn only_a_hand_made_taint_that_justifies_is_a_cause_of_its_own() {
        const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
        let at = |second| Some(Wall::from_second(second).expect("in range"));
        type Case<'a> = (&'a [(&'a str, Option<i64>)], i64, bool, &'a [&'a str], bool);
        // Tolerations of the other taint, since when it counts, whether it still stands, health taints; caused by health.
        let cases: [Case; 8] = [
            (&[("gpu", None)], 0, true, &[UNREACHABLE], true),
            (&[("gpu", Some(5000))], 0, true, &[UNREACHABLE], true),
            (&[("gpu", Some(300))], 900, true, &[UNREACHABLE], true),
            (&[("gpu", Some(100))], 900, true, &[UNREACHABLE], false),
            (&[], 900, true, &[UNREACHABLE], false),
            (&[], 900, false, &[UNREACHABLE], true),
            (&[], 900, true, &[], false),
            (&[("gpu", None)], 900, true, &[], false),
        ];
        for (tolerated, since, stands, health, wanted) in cases {
            let stamped = |(key, since)| Taint {
                time_added: at(since),
                ..mk_taint(key, "")
            };
            let other = stamped(("gpu", since));
            let taints: Vec<Taint> = health.iter().map(|key| stamped((*key, 700))).chain([other]).collect();
            let tolerations = mk_tolerations(&[tolerated, &[(UNREACHABLE, Some(300))]].concat());
            let cause = EvictionCause::Taints {
                taints,
                tolerations: tolerations.clone(),
            };
            let intent = PodEviction {
                due_at: Wall::from_second(1000).expect("in range"),
                ..mk_intent(cause)
            };
            let standing: Vec<(&str, &str)> = health.iter().chain(stands.then_some(&"gpu")).map(|key| (*key, "")).collect();
            let node = mk_node(ReadyStatus::Unknown, &standing);
            for known in [None, Some(tolerations.as_slice())] {
                let found = is_caused_by_health(&intent, Some(&node), known);
                assert_eq!(found, wanted, "{tolerated:?} since {since}, stands: {stands}, {health:?}");
            }
        }
    }

    /// TE-034, NL-035, TE-043: a node that is gone leaves its intents standing, another one of its name voids them.
    #[test]
    fn the_node_must_be_the_one_meant_or_gone() {
        let taints = mk_intent(EvictionCause::Taints {
            taints: vec![mk_taint("k", "")],
            tolerations: vec![],
        });
        let whole = mk_intent(EvictionCause::Node);
        let bare = mk_node(ReadyStatus::Unknown, &[]);
        let other = NodeFacts {
            uid: NodeUid::from("other"),
            ..mk_node(ReadyStatus::Unknown, &[("k", "")])
        };
        let ready = mk_node(ReadyStatus::True, &[]);
        let cases = [
            (&taints, None, Ok(())),
            (&taints, Some(&bare), Err(RefusedReason::NoTaint)),
            (&taints, Some(&other), Err(RefusedReason::NodeReplaced)),
            (&whole, None, Ok(())),
            (&whole, Some(&bare), Ok(())),
            (&whole, Some(&ready), Err(RefusedReason::NodeReady)),
            (&whole, Some(&other), Err(RefusedReason::NodeReplaced)),
        ];
        for (intent, node, wanted) in cases {
            assert_eq!(judge(intent, node, None, Profile::Bailiff), wanted, "{node:?}");
        }
    }
}
