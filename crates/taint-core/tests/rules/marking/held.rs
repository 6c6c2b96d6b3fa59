//! Marking under holds: those from outside, and those of the monitor.

use bailiff_model::ReadyStatus::{self, False, True, Unknown};
use bailiff_model::{Hold, HoldReason, HoldScope, Verdict, Zone};
use bailiff_taint_core::{Answer, Config, HealthRecord, Input, NodeFacts, PodFacts, Profile, Reading};

use super::{marked, mk};
use crate::harness::{
    FAILED, Harness, answer, brake, done, mk_config, mk_health, mk_node, mk_pod, mk_pod_ready, mk_ready, mk_tombstone, wall,
};

/// Pause: pods of what is held are not marked; when it ends what is true then counts.
#[test]
fn marks_wait_for_a_hold_and_are_wanted_anew_when_it_ends() {
    let scopes = [HoldScope::All, HoldScope::Zone(Zone::default()), HoldScope::Node("n1".into())];
    for scope in scopes {
        let pods = vec![mk_pod_ready("p", True), mk_pod_ready("q", True), mk_pod_ready("r", True)];
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods);
        brake(&mut h, Some(scope.clone()));
        h.node(mk(Unknown));
        assert_eq!(marked(&h), Vec::<&str>::new(), "{scope}");
        // One is marked by somebody else meanwhile, one goes.
        h.pod(mk_pod_ready("q", False));
        h.apply(Input::PodGone("r".into()));
        brake(&mut h, None);
        assert_eq!(marked(&h), ["p"], "{scope}");
    }
}

/// Pause: a node that is back before a hold ends has nothing to be marked; another node's hold holds nothing here.
#[test]
fn a_hold_leaves_no_backlog_and_covers_its_scope_only() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], vec![mk_pod_ready("p", True)]);
    brake(&mut h, Some(HoldScope::All));
    h.node(mk(Unknown));
    h.node(mk(True));
    brake(&mut h, None);
    assert_eq!(marked(&h), Vec::<&str>::new());
    brake(&mut h, Some(HoldScope::Node("n2".into())));
    h.node(mk(Unknown));
    assert_eq!(marked(&h), ["p"]);
}

/// A health record of a node in `zone` that is not healthy; the monitor holds its zone, or does not.
fn mk_record(name: &str, revision: u64, zone: &str, held: bool) -> HealthRecord {
    let mut record = mk_health(name, revision, Verdict::Unreachable, 0, 50);
    if let Some(health) = &mut record.health {
        health.zone = Zone::new("r", zone);
        health.held = held.then(|| Hold {
            reason: HoldReason::CorrelatedLoss,
            detail: "4 of 8 leases stopped".to_owned(),
            since: wall(50),
            until: None,
        });
    }
    record
}

fn mk_in(name: &str, zone: &str, status: ReadyStatus) -> NodeFacts {
    NodeFacts {
        ready: mk_ready(status),
        zone: Zone::new("r", zone),
        ..mk_node(name, &[])
    }
}

fn mk_pod_on(uid: &str, node: &str) -> PodFacts {
    PodFacts {
        ready: True,
        ..mk_pod(uid, node, &[])
    }
}

fn show(h: &mut Harness, snapshot: bool, complete: bool, records: Vec<HealthRecord>) {
    h.apply(Input::Health {
        snapshot,
        complete,
        records,
        unreadable: Vec::new(),
    });
}

/// Correlated loss: a node was judged, and its pods are being marked, when the limit is reached. The rest wait, those that
/// are bound later too; when the hold ends each of them is marked once.
#[test]
fn marks_wait_while_the_monitor_holds_the_zone() {
    let pods: Vec<PodFacts> = (0..1000).map(|index| mk_pod_on(&format!("p{index:04}"), "n1")).collect();
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_in("n1", "a", True)], pods);
    h.node(mk_in("n1", "a", Unknown));
    let limit = Config::default().pod_marks;
    for index in 0..40 {
        let uid = h.marks[index].pod.uid.to_string();
        answer(&mut h, &uid, done("2"));
    }
    h.at(2).health(vec![mk_record("n1", 5, "a", true)]);
    let asked = 40 + limit;
    assert_eq!(h.marks.len(), asked);
    // One of those under way fails and is read again, the others are done.
    let failed = h.marks[asked - 1].pod.uid.to_string();
    answer(&mut h, &failed, FAILED);
    for index in 40..asked - 1 {
        let uid = h.marks[index].pod.uid.to_string();
        answer(&mut h, &uid, done("2"));
    }
    h.at(4);
    h.pod(mk_pod_on("later", "n1"));
    h.at(1800);
    assert_eq!(h.marks.len(), asked, "nothing more while it is held");
    assert_eq!(h.reads, [""; 0], "what would not be written is not read");
    assert_eq!(h.manager.stats().held_marks, 1000 - asked + 2);
    h.health(vec![mk_record("n1", 6, "a", false)]);
    let mut index = asked;
    while index < h.marks.len() {
        let uid = h.marks[index].pod.uid.to_string();
        answer(&mut h, &uid, done("2"));
        index += 1;
    }
    assert_eq!((h.marks.len(), h.manager.stats().marked), (1002, 1001), "one was tried twice");
    assert_eq!((h.manager.stats().pod_marks, h.manager.stats().held_marks), (0, 0));
}

/// Correlated loss: a read that was under way when the hold began writes nothing.
#[test]
fn a_read_that_is_answered_under_a_hold_marks_nothing() {
    let mut h = Harness::begun(Profile::Bailiff, vec![mk_in("n1", "a", True)], vec![mk_pod_on("p", "n1")]);
    h.node(mk_in("n1", "a", Unknown));
    answer(&mut h, "p", FAILED);
    h.at(1);
    assert_eq!(h.reads, ["pod/p"]);
    h.health(vec![mk_record("n1", 5, "a", true)]);
    h.apply(Input::PodRead {
        uid: "p".into(),
        reading: Reading::Found(mk_pod_on("p", "n1")),
    });
    assert_eq!((h.marks.len(), h.manager.stats().held_marks), (1, 1));
    h.health(vec![mk_record("n1", 6, "a", false)]);
    assert_eq!(h.marks.len(), 2);
}

/// Correlated loss: the zone is held whole, by the record of any node in it, and its end frees that zone only. A node that is
/// back, or was moved to a zone that is not held, waits for nothing.
#[test]
fn a_zone_is_held_whole_and_alone() {
    let nodes = ["a1", "a2", "b1", "b2"];
    let mk = |name: &str, status| mk_in(name, &name[..1], status);
    let mut h = Harness::begun(
        Profile::Bailiff,
        nodes.map(|name| mk(name, True)).to_vec(),
        nodes.map(|name| mk_pod_on(&format!("p-{name}"), name)).to_vec(),
    );
    // Neither a2 nor b2 has a record that says so.
    h.health(vec![mk_record("a1", 1, "a", true), mk_record("b1", 2, "b", true)]);
    for name in nodes {
        h.node(mk(name, Unknown));
    }
    assert_eq!((marked(&h).len(), h.manager.stats().held_marks), (0, 4));
    h.health(vec![mk_record("a1", 3, "a", false)]);
    assert_eq!(marked(&h), ["p-a1", "p-a2"]);
    h.node(mk("b1", True));
    assert_eq!(h.manager.stats().held_marks, 1);
    h.node(mk_in("b2", "c", Unknown));
    assert_eq!(marked(&h), ["p-a1", "p-a2", "p-b2"]);
    h.health(vec![mk_record("b1", 4, "b", false)]);
    assert_eq!(marked(&h).len(), 3);
}

/// Correlated loss: a process that starts marks nothing before it knows what the monitor holds; but where nobody tells, not for long.
#[test]
fn a_process_that_starts_marks_nothing_before_it_knows_what_is_held() {
    let begin = || {
        let mut h = Harness::new(mk_config(Profile::Bailiff));
        h.begin(vec![mk_in("n1", "a", Unknown)], vec![mk_pod_on("p", "n1")], Vec::new());
        // One that falls silent meanwhile.
        h.node(mk_in("n2", "a", True));
        h.pod(mk_pod_on("q", "n2"));
        h.node(mk_in("n2", "a", Unknown));
        assert_eq!((marked(&h).len(), h.manager.stats().held_marks), (0, 2));
        h
    };
    for held in [true, false] {
        let mut h = begin();
        show(&mut h, true, false, Vec::new());
        show(&mut h, false, false, vec![mk_record("n1", 5, "a", held)]);
        assert_eq!(marked(&h).len(), 0, "held: {held}");
        show(&mut h, false, true, Vec::new());
        h.at(60);
        assert_eq!(marked(&h).len(), if held { 0 } else { 2 }, "held: {held}");
        h.health(vec![mk_record("n1", 6, "a", false)]);
        assert_eq!(marked(&h), ["p", "q"]);
    }
    let mut alone = begin();
    assert_eq!(marked(alone.at(29)).len(), 0);
    assert_eq!(marked(alone.at(30)), ["p", "q"]);
}

/// Correlated loss: a bus that restarts ends no hold before its view is complete, a tombstone does.
#[test]
fn a_hold_stands_until_a_complete_view_says_otherwise() {
    for gone in [false, true] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk_in("n1", "a", True)], vec![mk_pod_on("p", "n1")]);
        h.health(vec![mk_record("n1", 5, "a", true)]);
        h.node(mk_in("n1", "a", Unknown));
        show(&mut h, true, false, Vec::new());
        h.apply(Input::Health {
            snapshot: false,
            complete: false,
            records: Vec::new(),
            unreadable: vec!["n1".into()],
        });
        assert_eq!(h.marks.len(), 0, "not understood: as before");
        show(&mut h, false, true, Vec::new());
        assert_eq!(h.marks.len(), 0, "it is there");
        if gone {
            h.health(vec![mk_tombstone("n1", 7)]);
        } else {
            show(&mut h, true, true, Vec::new());
        }
        assert_eq!(h.marks.len(), 1, "tombstone: {gone}");
    }
}

/// Pause and correlated loss: the end of one hold frees nothing that the other holds.
#[test]
fn two_holds_end_with_the_second() {
    for loss_first in [false, true] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk_in("n1", "a", True)], vec![mk_pod_on("p", "n1")]);
        h.health(vec![mk_record("n1", 5, "a", true)]);
        brake(&mut h, Some(HoldScope::All));
        h.node(mk_in("n1", "a", Unknown));
        for end_loss in [loss_first, !loss_first] {
            assert_eq!((h.marks.len(), h.manager.stats().held_marks), (0, 1));
            if end_loss {
                h.health(vec![mk_record("n1", 6, "a", false)]);
            } else {
                brake(&mut h, None);
            }
        }
        assert_eq!(h.marks.len(), 1);
    }
}

/// Pause: marks that wait for their turn when it begins are taken back, once, in its scope; that is no failure, and when it
/// ends what is true then counts, at once. One that was sent is answered as ever.
#[test]
fn marks_that_were_not_sent_when_a_hold_begins_are_taken_back() {
    let scopes = [
        (HoldScope::All, 2),
        (HoldScope::Zone(Zone::default()), 2),
        (HoldScope::Node("n1".into()), 2),
        (HoldScope::Node("n2".into()), 0),
    ];
    for (scope, held) in scopes {
        let pods = vec![mk_pod_ready("p", True), mk_pod_ready("q", True), mk_pod_ready("r", True)];
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], pods);
        h.node(mk(Unknown));
        answer(&mut h, "r", done("2"));
        brake(&mut h, Some(scope.clone()));
        brake(&mut h, Some(scope.clone()));
        assert_eq!(h.called_off.len(), held, "{scope}");
        if held == 0 {
            continue;
        }
        for uid in ["p", "q"] {
            answer(&mut h, uid, Answer::CalledOff);
        }
        h.at(600);
        assert_eq!(
            (marked(&h).len(), h.reads.len(), h.manager.stats().failed_writes),
            (3, 0, 0),
            "{scope}"
        );
        // Somebody else marks one meanwhile.
        h.pod(mk_pod_ready("q", False));
        brake(&mut h, None);
        assert_eq!(marked(&h), ["p", "q", "r", "p"], "{scope}");
        answer(&mut h, "p", done("3"));
        assert_eq!(h.events.len(), 2, "{scope}");
    }
}

/// The hold ended before it was known that the mark was not sent, or the node came back: then it is sent, or not wanted any more.
#[test]
fn a_mark_that_was_taken_back_is_wanted_as_long_as_its_node_is_silent() {
    for comes_back in [false, true] {
        let mut h = Harness::begun(Profile::Bailiff, vec![mk(True)], vec![mk_pod_ready("p", True)]);
        h.node(mk(Unknown));
        brake(&mut h, Some(HoldScope::All));
        if comes_back {
            h.node(mk(True));
        }
        brake(&mut h, None);
        assert_eq!(marked(&h), ["p"], "not answered yet");
        answer(&mut h, "p", Answer::CalledOff);
        assert_eq!(marked(&h).len(), if comes_back { 1 } else { 2 }, "comes back: {comes_back}");
    }
}
