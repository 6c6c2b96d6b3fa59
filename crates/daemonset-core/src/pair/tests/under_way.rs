//! Pairs of which something is under way, is kept by a partition, or whose node is bad.

use bailiff_model::rollout::WhyNot;

use super::*;

/// Everything a pair is judged by that the tables beside leave as it is.
struct Pairing<'a> {
    rules: Rules<'a>,
    verdict: Verdict,
    creating: bool,
    blocked: bool,
    kept: bool,
    bad_since: Option<i64>,
    backoff: Option<PodBackoff>,
    trouble: Option<Trouble>,
    is_gone: bool,
}

fn plain() -> Pairing<'static> {
    Pairing {
        rules: rules(false),
        verdict: RUN,
        creating: false,
        blocked: false,
        kept: false,
        bad_since: None,
        backoff: None,
        trouble: None,
        is_gone: false,
    }
}

fn surge() -> Pairing<'static> {
    Pairing {
        rules: rules(true),
        ..plain()
    }
}

impl Pairing<'_> {
    /// Of pods `0`, `1`, … with what is under way with each.
    fn judge(&self, pods: &[(&str, Work)]) -> Judgement {
        let bad_since = self.bad_since.map(|since| Wall::from_second(since).expect("in range").into());
        let made: Vec<Pod> = (0..).zip(pods).map(|(index, (words, _))| self.mk(index, words)).collect();
        let looks: Vec<Look<'_>> = made
            .iter()
            .zip(pods)
            .map(|(pod, (_, work))| Look { pod, work: *work })
            .collect();
        let facts = Facts {
            node: (!self.is_gone).then_some(Standing { bad_since }),
            verdict: self.verdict,
            pods: &looks,
            creating: self.creating,
            blocked: self.blocked,
            backoff: self.backoff,
            rank: Rank::default(),
            kept: self.kept,
            rolled: Rolled::Nothing,
        };
        judge(&self.rules, &facts)
    }

    fn mk(&self, index: u32, words: &str) -> Pod {
        Pod {
            trouble: self.trouble,
            ..mk_pod(&index.to_string(), words)
        }
    }
}

/// DS-101, DS-102, DS-105, DS-107: a pod that is asked for, going or in a pause is not deleted once more.
#[test]
fn a_pod_that_something_is_under_way_with_is_not_deleted_again() {
    for work in [Work::Asked, Work::Going, Work::Busy] {
        for (verdict, words) in [(RUN, "failed"), (RUN, "succeeded"), (NEITHER, "ready"), (NEITHER, "unbound")] {
            let pairing = Pairing { verdict, ..plain() };
            assert_eq!(pairing.judge(&[(words, work)]).deletes, [], "{work:?}: {words}");
        }
    }
}

/// DS-103, DS-104: of two old pods beside a new one the one that is bound is kept.
#[test]
fn of_old_pods_the_bound_one_is_kept_while_surging() {
    let pods = ["young", "old unbound", "old young ready"].map(|words| (words, Work::None));
    assert_eq!(surge().judge(&pods).deletes, [(PodUid::from("1"), Cause::Plain)]);
}

/// DS-134, DS-138: whatever nothing can be said of yet uses up the budget, and one whose old pod is only waiting to go does not.
#[test]
fn what_is_unsure_uses_up_the_budget() {
    use Work::{Asked, Busy, None};
    let gone = |pairing| Pairing {
        is_gone: true,
        ..pairing
    };
    let blocked = |pairing| Pairing {
        blocked: true,
        ..pairing
    };
    let creating = Pairing {
        creating: true,
        ..plain()
    };
    let cases = [
        (
            "being adopted",
            blocked(plain()),
            &[("old ready", None)][..],
            Class::Unavailable,
        ),
        ("being created", creating, &[("old ready", None)], Class::Unavailable),
        (
            "being adopted, surging",
            blocked(surge()),
            &[("old ready", None)],
            Class::Surged,
        ),
        (
            "two new ones",
            surge(),
            &[("ready", None), ("young ready", Busy)],
            Class::Surged,
        ),
        (
            "two old ones",
            surge(),
            &[("old ready", Busy), ("old young ready", Busy)],
            Class::Surged,
        ),
        (
            "of two old ones one is to go, and may be held",
            surge(),
            &[("old ready", None), ("old young ready", None)],
            Class::Surged,
        ),
        (
            "old waits to go",
            surge(),
            &[("old ready", Busy), ("young ready", None)],
            Class::Idle,
        ),
        (
            "old waits to go from a node that is gone",
            gone(surge()),
            &[("old ready", Asked), ("young ready", None)],
            Class::Idle,
        ),
        (
            "one of two waits to go from a node that is gone",
            gone(plain()),
            &[("old ready", Asked), ("old young ready", None)],
            Class::Unavailable,
        ),
    ];
    for (name, pairing, pods, wanted) in cases {
        assert_eq!(pairing.judge(pods).class, wanted, "{name}");
    }
}

/// Rollout-partition: an old pod that stays is no candidate of any kind, and uses up the budget if it is not available.
#[test]
fn an_old_pod_that_stays_is_no_candidate() {
    let cases = [
        ("available", plain(), "old ready", Class::Idle),
        ("unavailable", plain(), "old", Class::Unavailable),
        ("available, surging", surge(), "old ready", Class::Idle),
        ("unavailable, surging", surge(), "old", Class::Idle),
        (
            "misplaced, surging",
            Pairing {
                verdict: KEEP,
                ..surge()
            },
            "old ready",
            Class::Idle,
        ),
        (
            "misplaced and unavailable, surging",
            Pairing {
                verdict: KEEP,
                ..surge()
            },
            "old",
            Class::Idle,
        ),
        (
            "being adopted",
            Pairing {
                blocked: true,
                ..plain()
            },
            "old ready",
            Class::Unavailable,
        ),
    ];
    for (name, pairing, words, wanted) in cases {
        let pairing = Pairing { kept: true, ..pairing };
        assert_eq!(pairing.judge(&[(words, Work::None)]).class, wanted, "{name}");
    }
}

/// Exclude-unready-nodes: a node halts the rollout if it went bad with a current pod, and uses up the budget then whatever its pod says.
#[test]
fn a_node_is_broken_if_it_went_bad_after_it_got_a_current_pod() {
    // The revision is of 5,000; pods were created at 7,000, young ones at 8,000.
    let cases = [
        ("with a current pod", 8_500, "ready", (true, true)),
        ("before its current pod came", 7_500, "young ready", (false, false)),
        ("with an old pod", 8_500, "old ready", (false, false)),
        ("before the revision", 4_000, "", (false, false)),
    ];
    for (name, bad_since, words, wanted) in cases {
        let pairing = Pairing {
            rules: Rules {
                exclude_unready: true,
                ..rules(false)
            },
            bad_since: Some(bad_since),
            ..plain()
        };
        let judgement = pairing.judge(&[(words, Work::None)]);
        assert_eq!((judgement.broken, judgement.uses), wanted, "{name}");
    }
}

/// Why not, where it is no matter of the pod's state alone.
#[test]
fn lacks_of_other_causes_have_a_reason() {
    let trouble = |trouble| Pairing {
        trouble: Some(trouble),
        ..plain()
    };
    let bad = |since| Pairing {
        bad_since: Some(since),
        ..plain()
    };
    let creating = Pairing {
        creating: true,
        ..plain()
    };
    let blocked = Pairing {
        blocked: true,
        ..plain()
    };
    let backoff = Pairing {
        backoff: Some(PodBackoff::advance(None, now().mono)),
        ..plain()
    };
    let cases = [
        (creating, &[][..], WhyNot::RequestPending),
        (blocked, &["old ready"], WhyNot::RequestPending),
        (backoff, &["failed"], WhyNot::FailedBackoff),
        (trouble(Trouble::Image), &[""], WhyNot::Image),
        (trouble(Trouble::CrashLoop), &[""], WhyNot::CrashLoop),
        (bad(4_000), &[""], WhyNot::NodeBadBefore),
        (bad(6_000), &[""], WhyNot::NodeBadAfter),
    ];
    for (pairing, words, wanted) in cases {
        let pods: Vec<(&str, Work)> = words.iter().map(|words| (*words, Work::None)).collect();
        assert_eq!(pairing.judge(&pods).reason, Some(wanted), "{words:?}");
    }
}
