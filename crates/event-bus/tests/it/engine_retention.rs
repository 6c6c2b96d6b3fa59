//! What the engine keeps, for how long, and what goes when there is too much of it.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_event_bus::TombstoneReason;
use bailiff_event_bus::engine::{Limits, SnapshotReason};
use bailiff_event_bus::record::{Incoming, Record};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Origin, Revision, Topic, TraceContext};

use crate::engine_rig::{Rig, mk_incoming, mk_removal, node, pod, reasons};
use crate::engines::{Kind, on_every_engine};
use crate::support::mk_health;

const HEALTH: Topic = Topic::NodeHealth;
const OUTCOMES: Topic = Topic::EvictionOutcomes;

on_every_engine!(sixteen_records_are_kept_of_a_key);
fn sixteen_records_are_kept_of_a_key(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    for content in 0..100 {
        rig.publish(session, vec![node("n1", content)]);
    }
    let history = rig.engine.history(HEALTH, "n1");
    assert_eq!(history.len(), 16);
    assert!(history.is_sorted_by_key(|record| record.revision()));
    assert_eq!(history[15].to_record().unwrap().body, Some(mk_health("n1", "a", 99)));
    assert_eq!(rig.engine.figures()[0].records, 16);
    assert!(rig.engine.history(HEALTH, "stranger").is_empty());
}

on_every_engine!(earlier_records_stay_what_they_were);
fn earlier_records_stay_what_they_were(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let mut told = Vec::new();
    for epoch in 1..=3 {
        let session = rig.session(HEALTH, (0, 1), epoch, false);
        let traced = Incoming {
            derived_from: Origin::new("another bus".into(), Revision(70_000)),
            trace: TraceContext::new(u128::MAX, epoch),
            age: Duration::from_millis(1_500),
            ..node("n1", epoch)
        };
        let elsewhere = mk_incoming(mk_health("n1", "b", epoch));
        for incoming in [node("n1", epoch), traced, elsewhere, mk_removal("n1")] {
            rig.publish(session, vec![incoming]);
            rig.pass(1);
            told.extend(rig.engine.history(HEALTH, "n1").pop());
        }
    }
    let history = rig.engine.history(HEALTH, "n1");
    assert_eq!(history, told);
    let records: Vec<Record> = history.iter().map(|kept| kept.to_record().unwrap()).collect();
    let producers: BTreeSet<&str> = records.iter().map(|record| record.producer.as_str()).collect();
    assert_eq!((records.len(), producers.len()), (12, 3));
    assert_eq!(records[1].trace, TraceContext::new(u128::MAX, 1));
}

on_every_engine!(history_is_bounded_by_bytes_and_the_oldest_goes_first);
fn history_is_bounded_by_bytes_and_the_oldest_goes_first(kind: Kind) {
    let limits = Limits {
        history_bytes: 1_500,
        ..Limits::default()
    };
    let mut rig = Rig::new(kind, limits);
    let session = rig.session(HEALTH, (0, 1), 1, false);
    rig.publish(session, vec![node("n1", 0), node("n1", 1), node("n1", 2), node("n9", 0)]);
    let kept_of = |rig: &Rig, key| rig.engine.history(HEALTH, key).len();
    assert_eq!(kept_of(&rig, "n1"), 3);
    for content in 1..100 {
        rig.publish(session, vec![node("n2", content)]);
    }
    assert_eq!((kept_of(&rig, "n1"), kept_of(&rig, "n9")), (1, 1), "the latest stay");
    let history = rig.engine.history(HEALTH, "n2");
    assert!((3..16).contains(&history.len()), "{}", history.len());
    let newest = rig.engine.head().0;
    let wanted = newest - history.len() as u64 + 1..=newest;
    assert!(history.iter().map(|kept| kept.revision().0).eq(wanted), "without gaps");
    assert_eq!(rig.engine.figures()[0].records, 2 + history.len());
    // What is gone takes its history along.
    rig.publish(session, vec![mk_removal("n2")]);
    rig.pass(601);
    assert_eq!(rig.engine.figures()[0].records, 2);
}

on_every_engine!(terminal_outcomes_are_exempt_from_replace_and_expire);
fn terminal_outcomes_are_exempt_from_replace_and_expire(kind: Kind) {
    let mut rig = Rig::new(
        kind,
        Limits {
            terminal: 3,
            ..Limits::default()
        },
    );
    let session = rig.session(OUTCOMES, (0, 1), 1, true);
    let states = [PodOutcomeState::Deleted, PodOutcomeState::Evicting, PodOutcomeState::Gone];
    let records = states
        .into_iter()
        .zip(["p1", "p2", "p3"])
        .map(|(state, name)| pod(name, state));
    rig.publish(session, records.collect());
    rig.end(session);
    let session = rig.session(OUTCOMES, (0, 1), 2, true);
    rig.end(session);
    assert_eq!(rig.keys(), ["pod/uid-p1", "pod/uid-p3"]);

    rig.publish(
        session,
        vec![pod("p4", PodOutcomeState::Cancelled), pod("p5", PodOutcomeState::Deleted)],
    );
    let cursor = rig.engine.head();
    rig.keep(session, None, None);
    rig.pass(1);
    let expired = Some(TombstoneReason::Expired);
    assert_eq!(
        reasons(&rig.after(cursor).records),
        [("pod/uid-p1", expired)],
        "the oldest of too many"
    );
    // What comes back is not terminal any more.
    rig.publish(session, vec![pod("p3", PodOutcomeState::Evicting)]);
    let cursor = rig.engine.head();
    rig.now.mono = rig.now.mono + Duration::from_secs(24 * 3600);
    rig.pass(1);
    let gone: Vec<String> = rig
        .after(cursor)
        .records
        .iter()
        .map(|record| record.key().to_owned())
        .collect();
    assert_eq!(gone, ["pod/uid-p4", "pod/uid-p5"], "a day old");
    assert_eq!(rig.keys(), ["pod/uid-p3"]);
}

on_every_engine!(tombstones_are_kept_ten_minutes_and_then_cursors_before_them_are_too_old);
fn tombstones_are_kept_ten_minutes_and_then_cursors_before_them_are_too_old(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let (before, first) = (rig.engine.head(), node("n1", 1));
    rig.publish(session, vec![first, node("n2", 1)]);
    let gone = rig.publish(session, vec![mk_removal("n1")])[0];
    let keep = |rig: &mut Rig| {
        for _ in 0..5 {
            rig.pass(10);
            rig.keep(session, Some(0), None);
        }
    };
    for _ in 0..11 {
        keep(&mut rig);
    }
    rig.pass(9);
    rig.keep(session, Some(0), None);
    assert_eq!(rig.after(before).snapshot, None);
    assert_eq!(rig.engine.figures()[0].tombstones, 1);
    keep(&mut rig);
    assert_eq!(rig.engine.figures()[0].tombstones, 0);
    assert_eq!(rig.engine.oldest_resumable(), gone);
    assert_eq!(rig.after(before).snapshot, Some(SnapshotReason::CursorTooOld));
    assert_eq!(rig.after(Revision(gone.0 - 1)).snapshot, Some(SnapshotReason::CursorTooOld));
    assert_eq!(rig.after(gone).snapshot, None, "who has seen the tombstone may resume");
    assert!(rig.engine.history(HEALTH, "n1").is_empty());
}

on_every_engine!(tombstones_beyond_the_bound_go_early);
fn tombstones_beyond_the_bound_go_early(kind: Kind) {
    let mut rig = Rig::new(
        kind,
        Limits {
            tombstones: 2,
            ..Limits::default()
        },
    );
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let mut gone = Vec::new();
    for name in ["n1", "n2", "n3", "n4"] {
        rig.publish(session, vec![node(name, 1)]);
        gone.extend(rig.publish(session, vec![mk_removal(name)]));
    }
    assert_eq!(rig.engine.figures()[0].tombstones, 2);
    assert_eq!(rig.engine.oldest_resumable(), gone[1]);
}
