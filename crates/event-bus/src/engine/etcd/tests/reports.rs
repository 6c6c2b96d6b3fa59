//! Who counts as live: only whoever reported after the last replica joined, and as old as the report is.

use std::time::Duration;

use super::{Sim, mk_keepalive};
use crate::engine::{Answer, Command, Report, SessionId};

fn keep_alive(sim: &mut Sim, at: usize, session: SessionId) {
    sim.submit(at, mk_keepalive(session));
    sim.settle();
}

#[test]
fn whoever_starts_alone_believes_no_report() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    keep_alive(&mut sim, 0, session);
    assert!(sim.is_live(0));
    let again = sim.start("b", true);
    assert!(!sim.is_live(again), "how long nobody was there is unknown");
    assert!(!sim.replicas[0].replica.is_member());
}

/// etcd was away for a minute, in which the producer died; one replica joins as soon as it is back.
#[test]
fn nobody_is_live_after_a_join_until_it_reports() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    keep_alive(&mut sim, 0, session);
    sim.pass(Duration::from_secs(60));
    let late = sim.start("b", false);
    for at in [0, late] {
        assert!(!sim.is_live(at), "what was reported before is forgotten");
    }
    keep_alive(&mut sim, 0, session);
    for at in [0, late] {
        assert!(sim.is_live(at), "its session stood all the time");
    }
}

/// The report was made before etcd went, and reaches it when it is back, behind a Join.
#[test]
fn a_report_from_before_a_join_makes_nobody_live() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    sim.submit(0, mk_keepalive(session));
    let now = sim.now;
    let one = &mut sim.replicas[0];
    one.under_way = one.replica.next_append(now);
    sim.pass(Duration::from_secs(60));
    // Nothing of the first replica reaches the log before the other has joined.
    let stuck = sim.replicas[0].under_way.take().expect("it was made");
    let late = sim.start("b", false);
    sim.replicas[0].replica.committed(stuck.seq);
    sim.log.push(stuck.bytes);
    sim.settle();
    for at in [0, late] {
        assert!(!sim.is_live(at), "nobody knows how old it is");
    }
    assert!(matches!(
        sim.replicas[0].answers().last(),
        Some(Ok(Answer::Kept { live: false }))
    ));
}

/// One replica does not reach etcd for a while; the other does, and the bus's time goes on.
#[test]
fn a_report_is_as_old_as_it_is_when_it_reaches_the_log() {
    let mut sim = Sim::new(&["a", "b"]);
    let session = sim.open(0, 7);
    for (seconds, live) in [(9, true), (10, false)] {
        sim.submit(0, mk_keepalive(session));
        let now = sim.now;
        let one = &mut sim.replicas[0];
        one.under_way = one.replica.next_append(now);
        sim.pass(Duration::from_secs(seconds));
        sim.submit(1, Command::Tick);
        assert!(sim.commit(1), "the bus's time goes on");
        sim.settle();
        assert!([0, 1].iter().all(|at| sim.is_live(*at) == live), "{seconds}");
    }
}

#[test]
fn a_report_becomes_older_and_what_never_was_stays_so() {
    let report = Report {
        tick_age: Some(Duration::from_secs(1)),
        watch_age: None,
        detail: "d".to_owned(),
    };
    let older = Report {
        tick_age: Some(Duration::from_secs(3)),
        ..report.clone()
    };
    assert_eq!(report.older_by(Duration::from_secs(2)), older);
}
