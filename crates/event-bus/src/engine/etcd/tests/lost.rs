//! That a bus which lost data notices it by what its readers have seen, and a replica that lost the others.

use std::time::Duration;

use bailiff_model::Revision;

use super::{Sim, mk_publish, mk_record};
use crate::engine::{Answer, Command, Engine as _, Refusal};

#[test]
fn what_a_reader_has_seen_elsewhere_is_known_once_it_is_answered() {
    let mut sim = Sim::new(&["a", "b"]);
    let session = sim.open(0, 7);
    sim.submit(0, mk_publish(session, vec![mk_record("n1", 1, 1)]));
    assert!(sim.commit(0));
    while sim.deliver(0) {}
    let head = sim.replicas[0].replica.machine.memory.head();
    let behind = sim.replicas[1].replica.machine.memory.head();
    assert!(behind < head, "the other has not read it yet");
    sim.submit(1, Command::Witness { revision: head });
    assert!(sim.replicas[1].answers().is_empty());
    sim.settle();
    assert_eq!(sim.replicas[1].answers(), [&Ok(Answer::Done)]);
    assert_eq!(sim.replicas[1].replica.machine.memory.head(), head);
}

#[test]
fn what_nobody_knows_any_more_was_lost() {
    let mut sim = Sim::new(&["a", "b"]);
    sim.open(0, 7);
    let head = sim.replicas[0].replica.machine.memory.head();
    let seen = Revision(head.0 + 1);
    sim.submit(1, Command::Witness { revision: seen });
    sim.settle();
    assert_eq!(sim.replicas[1].answers(), [&Err(Refusal::Forgotten { seen, head })]);
    assert_eq!(sim.replicas[0].state(), sim.replicas[1].state(), "it is decided alike");
}

/// The others counted it as gone, and just when it has read so the log is out of its reach again: it cannot join, and has nothing under
/// way that it could miss.
#[test]
fn a_replica_that_does_not_take_part_is_cut_off_once_it_hears_nothing() {
    let mut sim = Sim::new(&["a", "b"]);
    let (second, after) = (Duration::from_secs(1), Duration::from_secs(5));
    let now = sim.now;
    sim.replicas[0].replica.departed("b", now);
    sim.settle();
    for seconds in 0..20 {
        // As long as it hears of the others, every two seconds, it is as good as they are; and for a while then.
        if seconds < 10 {
            sim.submit(0, Command::Tick);
            sim.commit(0);
            while sim.deliver(0) | sim.deliver(1) {}
        }
        sim.submit(1, Command::Tick);
        let replica = &sim.replicas[1].replica;
        assert!(!replica.is_member());
        assert_eq!(replica.is_cut_off(after, sim.now), seconds >= 8 + 5, "after {seconds} s");
        sim.pass(second);
    }
}

/// It hears the others, but nothing of its own gets to them: whoever publishes here waits for nothing.
#[test]
fn a_replica_that_cannot_join_is_cut_off_though_it_hears_the_others() {
    let mut sim = Sim::new(&["a", "b"]);
    let (second, after) = (Duration::from_secs(1), Duration::from_secs(5));
    let now = sim.now;
    sim.replicas[0].replica.departed("b", now);
    sim.settle();
    let b = &mut sim.replicas[1].replica;
    b.join(false, vec!["a".to_owned()], now);
    b.next_append(now).expect("it asks to take part");
    for seconds in 0..10 {
        sim.submit(0, Command::Tick);
        sim.commit(0);
        while sim.deliver(0) | sim.deliver(1) {}
        let replica = &sim.replicas[1].replica;
        assert!(!replica.is_member());
        assert_eq!(replica.is_cut_off(after, sim.now), seconds >= 5, "after {seconds} s");
        sim.pass(second);
    }
}
