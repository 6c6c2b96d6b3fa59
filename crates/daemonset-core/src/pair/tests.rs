//! The tables of sections 8, 12 and 13, row by row.

use std::sync::Arc;

use bailiff_model::{Namespace, NodeName, PodName, ResourceVersion};

use super::*;
use crate::facts::{Controller, LABEL_HASH, Labels, Trouble};

mod under_way;

const RUN: Verdict = Verdict { run: true, keep: true };
const KEEP: Verdict = Verdict { run: false, keep: true };
const NEITHER: Verdict = Verdict { run: false, keep: false };

fn now() -> Now {
    Now {
        mono: Mono::from_origin(Duration::from_secs(10_000)),
        wall: Wall::from_second(10_000).expect("in range"),
    }
}

fn rules(surging: bool) -> Rules<'static> {
    Rules {
        hash: "new",
        since: Wall::from_second(5_000).expect("in range"),
        generation: Some("2"),
        min_ready: Duration::ZERO,
        surging,
        on_delete: false,
        patient: true,
        exclude_unready: false,
        partitioned: false,
        strict: false,
        now: now(),
    }
}

fn mk_stamp(second: i64) -> Stamp {
    Wall::from_second(second).expect("in range").into()
}

/// A pod described by words: `old`, `ready`, `failed`, `succeeded`, `deleting`, `unbound`, `young`.
fn mk_pod(name: &str, words: &str) -> Pod {
    let has = |word: &str| words.split(' ').any(|one| one == word);
    let hash = if has("old") { "old" } else { "new" };
    let labels = Labels::from([(Arc::from(LABEL_HASH), Arc::from(hash))]);
    Pod {
        namespace: Namespace::from("ns"),
        name: PodName::from(name),
        uid: PodUid::from(name),
        version: ResourceVersion::from("1"),
        controller: Controller::None,
        labels: Arc::new(labels),
        target: Some(NodeName::from("n")),
        bound: !has("unbound"),
        phase: match (has("failed"), has("succeeded")) {
            (true, _) => Phase::Failed,
            (_, true) => Phase::Succeeded,
            _ => Phase::Active,
        },
        ready: has("ready"),
        ready_changed: Some(mk_stamp(if has("recent") { 9_990 } else { 6_000 })),
        deleting: has("deleting"),
        created: mk_stamp(if has("young") { 8_000 } else { 7_000 }),
        trouble: None,
    }
}

struct Case<'a> {
    rules: Rules<'a>,
    verdict: Verdict,
    node: bool,
    creating: bool,
    blocked: bool,
    backoff: Option<PodBackoff>,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            rules: rules(false),
            verdict: RUN,
            node: true,
            creating: false,
            blocked: false,
            backoff: None,
        }
    }
}

impl Case<'_> {
    fn judge(&self, pods: &[Pod]) -> Judgement {
        let looks: Vec<Look<'_>> = pods.iter().map(|pod| Look { pod, work: Work::None }).collect();
        let facts = Facts {
            node: self.node.then(Standing::default),
            verdict: self.verdict,
            pods: &looks,
            creating: self.creating,
            blocked: self.blocked,
            backoff: self.backoff,
            rank: Rank::default(),
            kept: false,
            rolled: Rolled::Nothing,
        };
        judge(&self.rules, &facts)
    }

    /// The names of deleted pods, with `+` in front if a pod is created.
    fn manage(&self, words: &[&str]) -> String {
        let pods: Vec<Pod> = words
            .iter()
            .enumerate()
            .map(|(index, words)| mk_pod(&index.to_string(), words))
            .collect();
        let judgement = self.judge(&pods);
        let deletes: Vec<String> = judgement.deletes.iter().map(|(uid, _)| uid.to_string()).collect();
        format!(
            "{}{}",
            if judgement.create == Wanted::Missing { "+" } else { "" },
            deletes.join(" ")
        )
    }

    fn class(&self, words: &[&str]) -> Class {
        let pods: Vec<Pod> = words
            .iter()
            .enumerate()
            .map(|(index, words)| mk_pod(&index.to_string(), words))
            .collect();
        self.judge(&pods).class
    }
}

/// DS-100, DS-101, DS-102, DS-103, DS-107, DS-108, DS-071, DS-109
#[test]
fn manage_creates_and_deletes_by_the_first_matching_case() {
    let on = |verdict| Case {
        verdict,
        ..Case::default()
    };
    let gone = Case {
        node: false,
        ..Case::default()
    };
    let cases = [
        ("DS-100 a node without pods", on(RUN), &[][..], "+"),
        ("DS-102 one pod", on(RUN), &["ready"], ""),
        ("DS-102 one old pod", on(RUN), &["old"], ""),
        ("DS-102 only a deleting pod: wait", on(RUN), &["deleting"], ""),
        (
            "DS-071 a finished pod held by a finalizer does not count",
            on(RUN),
            &["failed deleting"],
            "+",
        ),
        ("DS-101 succeeded", on(RUN), &["succeeded"], "0"),
        ("DS-105 failed", on(RUN), &["failed"], "0"),
        (
            "DS-105 failed with three others: duplicates too",
            on(RUN),
            &["failed", "ready", "ready", "ready"],
            "0 2 3",
        ),
        ("DS-105 one failed pod per window", on(RUN), &["failed", "failed"], "0"),
        ("DS-102 duplicates, the oldest stays", on(RUN), &["young ready", "ready"], "0"),
        ("DS-103 bound before unbound", on(RUN), &["unbound", "young"], "0"),
        ("DS-103 then by name", on(RUN), &["old", "ready"], "1"),
        ("DS-108 keep and no pod", on(KEEP), &[], ""),
        ("DS-101 keep and a pod", on(KEEP), &["ready"], ""),
        (
            "DS-107 neither and pods",
            on(NEITHER),
            &["ready", "failed", "deleting"],
            "0 1",
        ),
        ("DS-107 neither and no pod", on(NEITHER), &[], ""),
        ("DS-109 no node", gone, &["ready", "unbound"], "1"),
    ];
    for (name, case, words, wanted) in cases {
        assert_eq!(case.manage(words), wanted, "{name}");
    }
}

/// DS-104; upstream's TestSurge… tests of manage
#[test]
fn manage_keeps_one_new_and_one_old_pod_while_surging() {
    let surge = || Case {
        rules: rules(true),
        ..Case::default()
    };
    let min_ready = |seconds| Case {
        rules: Rules {
            min_ready: Duration::from_secs(seconds),
            ..rules(true)
        },
        ..Case::default()
    };
    let keep = Case {
        verdict: KEEP,
        ..surge()
    };
    let cases = [
        ("nothing there", surge(), &[][..], "+"),
        ("only a deleting pod: do not wait", surge(), &["old deleting"], "+"),
        ("only a failed pod", surge(), &["failed"], "+0"),
        ("nothing running where it may only keep", keep, &["old deleting"], ""),
        ("one", surge(), &["old"], ""),
        ("new unready and old ready", surge(), &["young", "old ready"], ""),
        (
            "of old ones of the same second the one that serves is kept",
            surge(),
            &["young", "old", "old ready"],
            "1",
        ),
        (
            "current and oldest ready old kept, younger old deleted",
            surge(),
            &["young", "old ready", "old young ready"],
            "2",
        ),
        ("unready old deleted", surge(), &["young", "old"], "1"),
        ("available new: old deleted", surge(), &["young ready", "old ready"], "1"),
        ("two new", surge(), &["ready", "young ready"], "1"),
        (
            "new ready 10 s of 15: old kept",
            min_ready(15),
            &["young ready recent", "old ready"],
            "",
        ),
        (
            "new ready 10 s of 10: old deleted",
            min_ready(10),
            &["young ready recent", "old ready"],
            "1",
        ),
    ];
    for (name, case, words, wanted) in cases {
        assert_eq!(case.manage(words), wanted, "{name}");
    }
}

/// DS-104, DS-130, DS-212: manage looks at the hash label only, a rolling update at the generation label too.
#[test]
fn the_generation_label_makes_a_pod_updated_for_rolling_updates_only() {
    let mut pod = mk_pod("p", "old ready");
    let mut labels = (*pod.labels).clone();
    labels.insert(Arc::from(LABEL_GENERATION), Arc::from("2"));
    pod.labels = Arc::new(labels);
    let judgement = Case::default().judge(std::slice::from_ref(&pod));
    assert_eq!(judgement.class, Class::Idle);
    assert!(judgement.share.updated);
    let surging = Case {
        rules: rules(true),
        ..Case::default()
    };
    let both = surging.judge(&[pod, mk_pod("young", "young ready")]);
    assert_eq!(both.deletes, [(PodUid::from("p"), Cause::Plain)]);
}

/// DS-105, DS-106
#[test]
fn failed_pods_are_kept_while_the_backoff_runs() {
    let backoff = PodBackoff::advance(None, now().mono);
    let case = Case {
        backoff: Some(backoff),
        ..Case::default()
    };
    let judgement = case.judge(&[mk_pod("p", "failed")]);
    assert_eq!(judgement.deletes, []);
    assert_eq!(judgement.wake, Some(now().mono + Duration::from_secs(1)));
    // DS-136: a rolling update deletes it anyway if it is old.
    assert_eq!(case.class(&["failed old"]), Class::Replace(PodUid::from("0")));
}

/// DS-134, DS-135, DS-137, DS-231
#[test]
fn rolling_update_classes_without_surge() {
    let on = |verdict| Case {
        verdict,
        ..Case::default()
    };
    let creating = Case {
        creating: true,
        ..Case::default()
    };
    let blocked = Case {
        blocked: true,
        ..Case::default()
    };
    let candidate = || Class::Candidate(PodUid::from("0"));
    let cases = [
        ("nothing", on(RUN), &[][..], Class::Unavailable),
        ("nothing wanted", on(NEITHER), &[], Class::Idle),
        (
            "one old and one new: as if manage had deleted one",
            on(RUN),
            &["old ready", "ready"],
            candidate(),
        ),
        (
            "two, both going or gone but for a new unready one",
            on(RUN),
            &["deleting", "young"],
            Class::Unavailable,
        ),
        ("new available", on(RUN), &["ready"], Class::Idle),
        ("new not available", on(RUN), &[""], Class::Unavailable),
        ("old not available", on(RUN), &["old"], Class::Replace(PodUid::from("0"))),
        ("old available", on(RUN), &["old ready"], candidate()),
        ("old available where it may only stay", on(KEEP), &["old ready"], candidate()),
        ("all deleting", on(RUN), &["old ready deleting"], Class::Unavailable),
        ("being created", creating, &[], Class::Unavailable),
        ("being adopted", blocked, &[], Class::Unavailable),
    ];
    for (name, case, words, wanted) in cases {
        assert_eq!(case.class(words), wanted, "{name}");
    }
}

/// DS-138, DS-139
#[test]
fn rolling_update_classes_with_surge() {
    let on = |verdict| Case {
        rules: rules(true),
        verdict,
        ..Case::default()
    };
    let creating = Case {
        creating: true,
        ..on(RUN)
    };
    let gone = Case {
        node: false,
        ..on(NEITHER)
    };
    let first = || PodUid::from("0");
    let cases = [
        ("no old", on(RUN), &["ready"][..], Class::Idle),
        ("nothing", on(RUN), &[], Class::Idle),
        ("old and unready new", on(RUN), &["old ready", "young"], Class::Surged),
        ("old available and wanted", on(RUN), &["old ready"], Class::SurgeCandidate),
        ("old unavailable and wanted", on(RUN), &["old"], Class::CreateNow),
        (
            "old available, may stay",
            on(KEEP),
            &["old ready"],
            Class::DeleteLate(first()),
        ),
        ("old unavailable, may stay", on(KEEP), &["old"], Class::Replace(first())),
        ("new being created", creating, &["old ready"], Class::Surged),
        ("no node", gone, &["old ready"], Class::Lost),
    ];
    for (name, case, words, wanted) in cases {
        assert_eq!(case.class(words), wanted, "{name}");
    }
}

/// DS-142, DS-143
#[test]
fn status_counts_the_first_pod_of_a_node() {
    let all = Share {
        desired: true,
        current: true,
        ready: true,
        available: true,
        updated: true,
        misscheduled: false,
    };
    let wanted = Share {
        desired: true,
        ..Share::default()
    };
    let misplaced = Share {
        misscheduled: true,
        ..Share::default()
    };
    let on = |verdict| Case {
        verdict,
        ..Case::default()
    };
    let gone = || Case {
        node: false,
        ..Case::default()
    };
    let min_ready = Case {
        rules: Rules {
            min_ready: Duration::from_secs(15),
            ..rules(false)
        },
        ..Case::default()
    };
    let cases = [
        ("nothing", on(RUN), &[][..], wanted),
        ("an available updated pod", on(RUN), &["ready"], all),
        (
            "the older pod counts",
            on(RUN),
            &["ready young", "old ready"],
            Share { updated: false, ..all },
        ),
        (
            "not ready",
            on(RUN),
            &[""],
            Share {
                ready: false,
                available: false,
                ..all
            },
        ),
        (
            "ready for too short",
            min_ready,
            &["ready recent"],
            Share { available: false, ..all },
        ),
        ("deleting counts", on(RUN), &["ready deleting"], all),
        ("finished and deleting does not", on(RUN), &["failed deleting"], wanted),
        ("misplaced", on(KEEP), &["ready"], misplaced),
        ("misplaced elsewhere", on(NEITHER), &["ready"], misplaced),
        ("no node", gone(), &["ready"], Share::default()),
    ];
    for (name, case, words, share) in cases {
        let pods: Vec<Pod> = words
            .iter()
            .enumerate()
            .map(|(index, words)| mk_pod(&index.to_string(), words))
            .collect();
        assert_eq!(case.judge(&pods).share, share, "{name}");
    }
}

/// DS-118, DS-148, DS-233: a ready pod wakes its pair when it becomes available, whichever pod of the node it is.
#[test]
fn a_ready_pod_wakes_the_pair_when_it_becomes_available() {
    let case = Case {
        rules: Rules {
            min_ready: Duration::from_secs(15),
            ..rules(true)
        },
        ..Case::default()
    };
    let judgement = case.judge(&[mk_pod("old", "old ready"), mk_pod("new", "young ready recent")]);
    assert_eq!(judgement.wake, Some(now().mono + Duration::from_secs(5)));
}

/// Why not, for every way a node can lack an available current pod.
#[test]
fn each_lack_has_a_reason() {
    use WhyNot::{Deleting, FailedBackoff, MinReady, NoRoom, NotReady, OnDelete, RequestPending, Unscheduled, WaitingForBudget};
    let plain = Case::default;
    let on_delete = Case {
        rules: Rules {
            on_delete: true,
            ..rules(false)
        },
        ..Case::default()
    };
    let min_ready = Case {
        rules: Rules {
            min_ready: Duration::from_secs(15),
            ..rules(false)
        },
        ..Case::default()
    };
    let cases = [
        (plain(), &["ready"][..], None),
        (plain(), &[], Some(RequestPending)),
        (plain(), &["old ready"], Some(WaitingForBudget)),
        (on_delete, &["old ready"], Some(OnDelete)),
        (plain(), &["unbound"], Some(Unscheduled)),
        (plain(), &[""], Some(NotReady)),
        (min_ready, &["ready recent"], Some(MinReady)),
        (plain(), &["ready deleting"], Some(Deleting)),
        (plain(), &["failed"], Some(FailedBackoff)),
        (
            Case {
                verdict: NEITHER,
                ..plain()
            },
            &["ready"],
            None,
        ),
    ];
    for (case, words, wanted) in cases {
        let pods: Vec<Pod> = words
            .iter()
            .enumerate()
            .map(|(index, words)| mk_pod(&index.to_string(), words))
            .collect();
        assert_eq!(case.judge(&pods).reason, wanted, "{words:?}");
    }
    let full = Pod {
        trouble: Some(Trouble::NoRoom),
        ..mk_pod("p", "unbound")
    };
    assert_eq!(plain().judge(&[full]).reason, Some(NoRoom));
}
