//! When a shard counts as live, by commands.

use std::time::Duration;

use bailiff_event_bus::engine::{Answer, Command, Limits, Refusal, Report};
use bailiff_model::Topic;

use crate::engine_rig::{Rig, mk_open};
use crate::engines::{Kind, on_every_engine};

const HEALTH: Topic = Topic::NodeHealth;

on_every_engine!(liveness_is_session_and_tick_and_watch);
fn liveness_is_session_and_tick_and_watch(kind: Kind) {
    // (tick age, watch age) as reported, live at once, live 5 s later, lag then
    let cases = [
        (None, None, false, false, 5),
        (Some(0), None, false, false, 5),
        (Some(0), Some(0), true, true, 5),
        (Some(6), Some(0), true, false, 11),
        (Some(0), Some(6), true, false, 11),
        (Some(10), Some(0), false, false, 15),
        (Some(0), Some(10), false, false, 15),
        (Some(9), Some(9), true, false, 14),
    ];
    for (tick, watch, at_once, later, lag) in cases {
        let mut rig = Rig::new(kind, Limits::default());
        let session = rig.session(HEALTH, (0, 1), 1, false);
        assert!(!rig.shard(HEALTH, 0).live, "a connection alone proves nothing");
        assert_eq!(rig.keep(session, tick, watch), at_once, "{tick:?} {watch:?}");
        assert_eq!(rig.shard(HEALTH, 0).live, at_once);
        rig.pass(5);
        let shard = rig.shard(HEALTH, 0);
        assert_eq!((shard.live, shard.lag.as_secs()), (later, lag), "{tick:?} {watch:?}");
    }
}

on_every_engine!(a_producer_that_does_not_count_itself_live_is_not);
fn a_producer_that_does_not_count_itself_live_is_not(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let report = Report {
        tick_age: Some(Duration::ZERO),
        watch_age: Some(Duration::ZERO),
        detail: "no leader".to_owned(),
    };
    let answer = rig.apply(Command::Keepalive { session, report });
    assert_eq!(answer, Ok(Answer::Kept { live: false }));
}

on_every_engine!(changes_of_liveness_have_revisions);
fn changes_of_liveness_have_revisions(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let cursor = rig.engine.head();
    rig.keep(session, Some(0), Some(0));
    let set = rig.after(cursor);
    assert!(set.shards[0].live);
    rig.keep(session, Some(0), Some(0));
    assert_eq!(rig.engine.head(), set.upto, "no news is none");
    rig.pass(9);
    assert_eq!(rig.engine.head(), set.upto);
    rig.pass(1);
    let stale = rig.after(set.upto);
    assert!(!stale.shards[0].live);
}

on_every_engine!(the_reconnect_grace_bridges_a_broken_session);
fn the_reconnect_grace_bridges_a_broken_session(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    rig.keep(session, Some(0), Some(0));
    rig.apply(Command::Close { session }).unwrap();
    rig.pass(4);
    assert!(rig.shard(HEALTH, 0).live, "within the grace");
    let again = rig.session(HEALTH, (0, 1), 1, false);
    assert!(rig.shard(HEALTH, 0).live, "what it reported still stands");
    rig.apply(Command::Close { session: again }).unwrap();
    rig.pass(5);
    assert!(!rig.shard(HEALTH, 0).live, "beyond the grace");
    // Another producer has to report for itself.
    let session = rig.session(HEALTH, (0, 1), 1, false);
    rig.keep(session, Some(0), Some(0));
    let other = rig.session(HEALTH, (0, 1), 2, false);
    assert!(!rig.shard(HEALTH, 0).live);
    assert!(rig.keep(other, Some(0), Some(0)));
}

on_every_engine!(a_silent_session_is_ended);
fn a_silent_session_is_ended(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    rig.pass(14);
    assert!(rig.ended.is_empty());
    rig.pass(1);
    assert_eq!(rig.ended, [(session, Refusal::Silent { seconds: 15 })]);
    assert!(rig.open(mk_open(HEALTH, (0, 3), 1, false)).is_ok(), "the layout is free");
}
