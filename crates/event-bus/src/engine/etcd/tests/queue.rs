//! What waits for its place in the log.

use std::time::Duration;

use bailiff_model::Now;

use super::super::log::{Entry, What};
use super::super::replica::STORE_WITHIN;
use super::{Sim, mk_keepalive, mk_open, mk_publish, mk_record};
use crate::engine::{Command, Effect, Engine as _, Refusal, Report, SessionId};

#[test]
fn what_the_store_does_not_take_is_refused_in_time() {
    let mut sim = Sim::new(&["a"]);
    let one = &mut sim.replicas[0];
    let now = sim.now;
    // One is under way and stays so; the next has no place.
    one.replica.submit(1, mk_open(7, false), now);
    assert!(one.replica.next_append(now).is_some());
    one.replica.submit(2, mk_open(8, false), now);
    assert!(one.replica.next_append(now).is_none());
    let later = |seconds| Now {
        mono: now.mono + Duration::from_secs(seconds),
        ..now
    };
    assert_eq!(
        one.replica.submit(3, Command::Tick, later(4)).len(),
        1,
        "a tick is never in the way"
    );
    let effects = one.replica.submit(4, Command::Tick, later(STORE_WITHIN.as_secs()));
    let result = Err(Refusal::Store);
    assert_eq!(effects[0], Effect::Answer { ticket: 2, result });
    assert_eq!(one.replica.standing(later(9).mono).waiting, Duration::from_secs(9));
}

#[test]
fn commands_too_large_for_an_entry_come_in_pieces_and_are_one() {
    let mut sim = Sim::new(&["a", "b"]);
    let session = sim.open(0, 7);
    let before = sim.log.len();
    let records = |from| {
        (from..from + 1_000)
            .map(|number| mk_record(&format!("n{number}"), 1, 1_000))
            .collect()
    };
    sim.submit(0, mk_publish(session, records(0)));
    assert!(sim.commit(0));
    while sim.deliver(1) {}
    assert_eq!(sim.replicas[1].replica.machine.memory.figures()[0].keys, 0, "all or none");
    assert!(!sim.replicas[1].replica.machine.is_whole());
    sim.settle();
    assert!(sim.log.len() - before >= 2 && sim.log.iter().all(|entry| entry.len() < 1_200_000));
    assert_eq!(sim.replicas[1].replica.machine.memory.figures()[0].keys, 1_000);
    assert_eq!(sim.replicas[0].state(), sim.replicas[1].state());
    // A replica that dies in the middle leaves nothing of it.
    sim.submit(0, mk_publish(session, records(1_000)));
    assert!(sim.commit(0));
    while sim.deliver(1) {}
    let now = sim.now;
    sim.replicas[1].replica.departed("a", now);
    assert!(sim.commit(1) && sim.deliver(1));
    let machine = &sim.replicas[1].replica.machine;
    assert!(machine.is_whole() && machine.memory.figures()[0].keys == 1_000);
}

/// What is next on its way to the log.
fn next(sim: &mut Sim) -> Option<Vec<Command>> {
    let append = sim.replicas[0].replica.next_append(sim.now)?;
    sim.replicas[0].replica.committed(append.seq);
    match Entry::from_bytes(&append.bytes).expect("a replica wrote it").what {
        What::Commands(commands) => Some(commands),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_report_becomes_older_while_it_waits() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    sim.submit(0, mk_keepalive(session));
    sim.pass(Duration::from_secs(3));
    let report = Report {
        tick_age: Some(Duration::from_secs(3)),
        watch_age: Some(Duration::from_secs(3)),
        detail: String::new(),
    };
    assert_eq!(next(&mut sim), Some(vec![Command::Keepalive { session, report }]));
}

#[test]
fn the_end_of_a_session_waits_however_long_it_takes() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    let now = sim.now;
    // One is under way and stays so.
    sim.submit(0, mk_keepalive(session));
    assert!(sim.replicas[0].replica.next_append(now).is_some());
    sim.submit(0, mk_keepalive(session));
    sim.submit(0, Command::Close { session });
    sim.pass(STORE_WITHIN);
    sim.submit(0, Command::Tick);
    assert_eq!(sim.replicas[0].answers()[1], &Err(Refusal::Store), "whoever asked is told");
    let replica = &mut sim.replicas[0].replica;
    replica.committed(replica.standing(now.mono).position + 1);
    assert_eq!(next(&mut sim), Some(vec![Command::Close { session }]));
}

#[test]
fn an_entry_is_small_enough_whatever_was_reported() {
    let mut sim = Sim::new(&["a"]);
    let report = Report {
        detail: "x".repeat(4_000),
        ..Report::default()
    };
    for number in 0..1_000 {
        let (session, report) = (SessionId(number), report.clone());
        sim.submit(0, Command::Keepalive { session, report });
    }
    let mut count = 0;
    while let Some(append) = sim.replicas[0].replica.next_append(sim.now) {
        assert!(append.bytes.len() < 1_200_000, "etcd takes 1.5 MiB: {}", append.bytes.len());
        sim.replicas[0].replica.committed(append.seq);
        count += 1;
    }
    assert!(count > 1);
}
