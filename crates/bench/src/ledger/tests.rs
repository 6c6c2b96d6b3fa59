//! What is seen, and what follows from it.

use bailiff_model::{Effect, wellknown};

use super::*;

fn at(seconds: f64) -> Wall {
    // Tests use few thousandths of few seconds.
    #[allow(clippy::cast_possible_truncation)]
    let millis = (seconds * 1e3).round() as i64;
    Wall::from_millisecond(1_000_000_000_000 + millis).unwrap()
}

fn mk_taint(added: Option<f64>) -> Taint {
    Taint {
        time_added: added.map(at),
        ..Taint::new(wellknown::TAINT_UNREACHABLE, Effect::NoExecute)
    }
}

fn mk_tolerations(seconds: i64) -> Vec<Toleration> {
    vec![Toleration {
        seconds: Some(seconds),
        ..Toleration::exists(wellknown::TAINT_UNREACHABLE, Effect::NoExecute)
    }]
}

fn pod<'a>(uid: &'a str, tolerations: &'a [Toleration], is_leaving: bool) -> PodSeen<'a> {
    PodSeen {
        uid,
        node: "n-1",
        tolerations,
        is_started: true,
        is_leaving,
        is_daemon: false,
    }
}

fn close(found: &[f64], wanted: &[f64]) {
    let is_close = found.len() == wanted.len() && found.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-6);
    assert!(is_close, "{found:?} is not {wanted:?}");
}

#[test]
fn a_failure_is_timed_from_the_grace_and_from_the_taint() {
    let (mut ledger, thirty) = (Ledger::default(), mk_tolerations(30));
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    ledger.pod(at(0.0), &pod("a", &thirty, false));
    ledger.pod(at(0.0), &pod("b", &[], false));
    ledger.begin(at(1.0));
    ledger.expect("n-1", at(0.0), Duration::from_secs(50));
    assert_eq!((ledger.undetected(), ledger.staying(&["n-1".to_owned()])), (1, 2));
    ledger.node(at(50.25), "n-1", ReadyStatus::Unknown, Vec::new());
    ledger.node(at(51.5), "n-1", ReadyStatus::Unknown, vec![mk_taint(Some(51.0))]);
    // Nothing tolerates it for b.
    ledger.pod(at(51.75), &pod("b", &[], true));
    ledger.pod(at(81.625), &pod("a", &thirty, true));
    ledger.pod(at(82.0), &pod("a", &thirty, true));
    ledger.pod_gone(at(83.0), "a");
    assert_eq!((ledger.undetected(), ledger.staying(&["n-1".to_owned()])), (0, 0));
    let seen = ledger.end();
    close(&seen.detections, &[0.25]);
    close(&seen.evictions(), &[0.25, 0.125]);
    assert_eq!(seen.early, Vec::<String>::new());
}

#[test]
fn what_comes_before_its_time_is_told() {
    let (mut ledger, thirty) = (Ledger::default(), mk_tolerations(30));
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    for uid in ["a", "b"] {
        ledger.pod(at(0.0), &pod(uid, &thirty, false));
    }
    ledger.begin(at(0.0));
    ledger.expect("n-1", at(0.0), Duration::from_secs(50));
    ledger.node(at(49.5), "n-1", ReadyStatus::Unknown, vec![mk_taint(Some(49.0))]);
    ledger.pod(at(78.9), &pod("a", &thirty, true));
    ledger.pod(at(79.1), &pod("b", &thirty, true));
    let seen = ledger.end();
    assert_eq!(
        seen.early,
        [
            "n-1 was Unknown 0.500 s within its grace",
            "a pod was deleted on n-1 0.100 s before it was due"
        ]
    );
    close(&seen.evictions(), &[-0.6, -0.4]);
}

/// A deadline stays when `timeAdded` is written anew.
#[test]
fn a_taint_that_is_written_anew_starts_no_toleration_anew() {
    let (mut ledger, thirty) = (Ledger::default(), mk_tolerations(30));
    let tainted = |ledger: &mut Ledger, seen: f64, added: f64| {
        ledger.node(at(seen), "n-1", ReadyStatus::True, vec![mk_taint(Some(added))]);
    };
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    for uid in ["a", "b"] {
        ledger.pod(at(0.0), &pod(uid, &thirty, false));
    }
    ledger.begin(at(0.0));
    tainted(&mut ledger, 50.0, 50.0);
    tainted(&mut ledger, 55.0, 55.0);
    ledger.pod(at(80.25), &pod("a", &thirty, true));
    // It was without a taint in between.
    ledger.node(at(81.0), "n-1", ReadyStatus::True, Vec::new());
    tainted(&mut ledger, 82.0, 82.0);
    ledger.pod(at(111.75), &pod("b", &thirty, true));
    let seen = ledger.end();
    close(&seen.evictions(), &[0.25, -0.25]);
    assert_eq!(seen.early, ["a pod was deleted on n-1 0.250 s before it was due"]);
}

#[test]
fn a_status_that_was_posted_after_the_last_renewal_is_a_sign_of_life() {
    let mut ledger = Ledger::default();
    for name in ["n-1", "n-2"] {
        ledger.node(at(0.0), name, ReadyStatus::True, Vec::new());
        assert!(ledger.posted(at(1.0), name, at(0.0)));
        // It says whole seconds.
        assert!(ledger.posted(at(3.75), name, at(3.0)));
        assert!(!ledger.posted(at(3.875), name, at(3.0)), "somebody else wrote it");
    }
    ledger.begin(at(4.0));
    for name in ["n-1", "n-2"] {
        ledger.expect(name, at(2.0), Duration::from_secs(50));
    }
    ledger.node(at(52.5), "n-1", ReadyStatus::Unknown, Vec::new());
    ledger.node(at(53.875), "n-2", ReadyStatus::Unknown, Vec::new());
    let seen = ledger.end();
    assert_eq!(seen.early, ["n-1 was Unknown 0.500 s within its grace"]);
    close(&seen.detections, &[0.125]);
}

#[test]
fn a_node_that_is_not_silent_is_not_unknown() {
    let mut ledger = Ledger::default();
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    ledger.begin(at(0.0));
    ledger.node(at(1.0), "n-1", ReadyStatus::Unknown, Vec::new());
    ledger.expect("n-1", at(0.0), Duration::from_secs(50));
    assert_eq!(ledger.undetected(), 0, "it is not waited for");
    assert_eq!(ledger.end().early, ["n-1 was Unknown, and was not silent"]);
}

#[test]
fn what_comes_before_its_time_is_told_whenever_it_comes() {
    let (mut ledger, thirty) = (Ledger::default(), mk_tolerations(30));
    ledger.node(at(0.0), "n-1", ReadyStatus::True, vec![mk_taint(Some(0.0))]);
    for uid in ["a", "b", "c"] {
        ledger.pod(at(0.0), &pod(uid, &thirty, false));
    }
    // Before the program that is measured.
    ledger.pod(at(1.0), &pod("a", &thirty, true));
    assert_eq!(ledger.take_early_between().len(), 1);
    ledger.pod(at(29.0), &pod("b", &thirty, true));
    ledger.begin(at(31.0));
    ledger.pod(at(31.0), &pod("c", &thirty, true));
    let seen = ledger.end();
    assert_eq!((seen.evicted.len(), seen.early.len()), (1, 0), "of what is played");
    ledger.node(at(32.0), "n-1", ReadyStatus::Unknown, Vec::new());
    let wanted = [
        "a pod was deleted on n-1 1.000 s before it was due",
        "n-1 was Unknown, and was not silent",
    ];
    assert_eq!(ledger.take_early_between(), wanted);
    assert_eq!(ledger.take_early_between(), Vec::<String>::new());
}

#[test]
fn a_deletion_waits_for_the_taint_that_explains_it() {
    let mut ledger = Ledger::default();
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    for uid in ["a", "b"] {
        ledger.pod(at(0.0), &pod(uid, &[], false));
    }
    ledger.begin(at(0.0));
    ledger.pod_gone(at(5.0), "a");
    ledger.node(at(5.125), "n-1", ReadyStatus::True, vec![mk_taint(None)]);
    ledger.node(at(6.0), "n-1", ReadyStatus::True, Vec::new());
    ledger.pod_gone(at(9.0), "b");
    let seen = ledger.end();
    close(&seen.evictions(), &[-0.125]);
    assert_eq!(seen.early, ["a pod was deleted on n-1, which has no NoExecute taint"]);
}

#[test]
fn daemon_pods_come_and_go_as_their_rollout_wants() {
    let mut ledger = Ledger::default();
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    ledger.begin(at(10.0));
    let daemon = |is_leaving| PodSeen {
        is_daemon: true,
        ..pod("d", &[], is_leaving)
    };
    let nowhere = PodSeen {
        node: "",
        ..daemon(false)
    };
    ledger.pod(at(10.25), &nowhere);
    assert_eq!(ledger.created(), 1, "it is there, though not bound");
    ledger.pod(at(10.5), &daemon(false));
    ledger.pod(at(11.0), &daemon(true));
    ledger.pod_gone(at(11.5), "d");
    assert_eq!(ledger.staying(&["n-1".to_owned()]), 0);
    let seen = ledger.end();
    close(&seen.creations, &[0.25]);
    assert_eq!((seen.evicted.len(), seen.early.len()), (0, 0));
}

#[test]
fn pods_count_while_they_run() {
    let mut ledger = Ledger::default();
    let waiting = PodSeen {
        is_started: false,
        ..pod("a", &[], false)
    };
    for seen in [&waiting, &pod("b", &[], false), &pod("b", &[], false)] {
        ledger.pod(at(0.0), seen);
    }
    assert_eq!(ledger.sizes(), (1, 1));
    ledger.pod(at(1.0), &pod("a", &[], false));
    assert_eq!(ledger.sizes(), (1, 2));
    ledger.pod_gone(at(2.0), "a");
    ledger.pod_gone(at(2.0), "unknown");
    assert_eq!(ledger.sizes(), (1, 1));
}

#[test]
fn names_are_in_turns_of_their_zones() {
    let mut ledger = Ledger::default();
    for name in ["node-b-000", "node-a-1000", "node-a-000", "node-a-001"] {
        ledger.node(at(0.0), name, ReadyStatus::True, Vec::new());
    }
    assert_eq!(ledger.names(), ["node-a-000", "node-b-000", "node-a-001", "node-a-1000"]);
    assert_eq!((ledger.healthy(), ledger.sizes()), (4, (4, 0)));
}

#[test]
fn who_measures_may_evict_what_it_took_over_and_nothing_else() {
    let mut ledger = Ledger::default();
    ledger.node(at(0.0), "n-1", ReadyStatus::True, Vec::new());
    let nodes = ["n-1".to_owned()];
    for uid in ["a", "b", "c"] {
        ledger.pod(at(0.0), &pod(uid, &[], false));
    }
    ledger.begin(at(1.0));
    ledger.take_over(at(2.0), &nodes);
    ledger.pod(at(2.5), &pod("a", &[], true));
    ledger.pod(at(4.0), &pod("b", &[], true));
    assert_eq!(ledger.staying(&nodes), 1);
    let seen = ledger.end();
    close(&seen.evictions(), &[0.5, 2.0]);
    assert_eq!((seen.evictions_per_second(), seen.early.len()), (Some(1.0), 0));
    ledger.begin(at(5.0));
    ledger.pod(at(6.0), &pod("c", &[], true));
    let seen = ledger.end();
    assert_eq!((seen.evictions_per_second(), seen.early.len()), (None, 1));
}

#[test]
fn the_rate_counts_from_when_the_last_pod_is_due() {
    let mut ledger = Ledger::default();
    for name in ["n-1", "n-2"] {
        ledger.node(at(0.0), name, ReadyStatus::True, Vec::new());
    }
    let on = |uid, node, is_leaving| PodSeen {
        node,
        ..pod(uid, &[], is_leaving)
    };
    for (uid, node) in [
        ("a", "n-1"),
        ("b", "n-2"),
        ("c", "n-2"),
        ("d", "n-1"),
        ("e", "n-1"),
        ("f", "n-2"),
    ] {
        ledger.pod(at(0.0), &on(uid, node, false));
    }
    ledger.begin(at(1.0));
    ledger.take_over(at(1.0), &["n-1".to_owned()]);
    ledger.pod(at(1.5), &on("a", "n-1", true));
    ledger.take_over(at(2.0), &["n-2".to_owned()]);
    ledger.pod(at(3.0), &on("b", "n-2", true));
    ledger.pod(at(6.0), &on("c", "n-2", true));
    assert_eq!(ledger.end().evictions_per_second(), Some(0.5), "two in four seconds");
    // Nearly all went before the last was due.
    ledger.begin(at(7.0));
    ledger.take_over(at(7.0), &["n-1".to_owned()]);
    ledger.pod(at(8.0), &on("d", "n-1", true));
    ledger.pod(at(8.5), &on("e", "n-1", true));
    ledger.take_over(at(9.0), &["n-2".to_owned()]);
    ledger.pod(at(9.5), &on("f", "n-2", true));
    assert_eq!(ledger.end().evictions_per_second(), None);
}

/// A watch broke, and a pod went meanwhile.
#[test]
fn what_is_not_listed_any_more_is_gone() {
    let mut ledger = Ledger::default();
    let thirty = mk_tolerations(30);
    ledger.node(at(0.0), "n-1", ReadyStatus::True, vec![mk_taint(Some(0.0))]);
    for uid in ["a", "b"] {
        ledger.pod(at(0.0), &pod(uid, &thirty, false));
    }
    ledger.begin(at(1.0));
    let changes = ledger.changes();
    ledger.pods_are(&["b".to_owned()].into());
    assert_eq!((ledger.staying(&["n-1".to_owned()]), ledger.changes()), (1, changes + 1));
    let seen = ledger.end();
    assert_eq!(
        (seen.unseen, seen.evicted.len()),
        (1, 0),
        "when it was told to go is not known"
    );
    ledger.nodes_are(&["n-2".to_owned()].into());
    assert_eq!((ledger.sizes().0, ledger.changes()), (0, changes + 2));
}
