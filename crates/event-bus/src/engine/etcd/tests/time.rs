//! What time it is, and how old records look.

use std::time::Duration;

use super::{HEALTH, Sim, mk_publish, mk_record};
use crate::engine::{Command, Engine as _};

#[test]
fn time_is_the_latest_that_is_known_and_a_late_one_does_not_turn_it() {
    let mut sim = Sim::new(&["a"]);
    let session = sim.open(0, 7);
    sim.submit(0, mk_publish(session, vec![mk_record("n1", 1, 1)]));
    sim.settle();
    sim.pass(Duration::from_secs(3600));
    // It counts from the last entry, and knows nothing of the hour; its own record must not look an hour old.
    let late = sim.start("b", false);
    let other = sim.open(late, 8);
    sim.submit(late, mk_publish(other, vec![mk_record("n2", 2, 1)]));
    sim.settle();
    sim.pass(Duration::from_secs(5));
    sim.submit(0, Command::Tick);
    sim.settle();
    for at in [0, 1] {
        let age = |key| age(&sim, at, key);
        assert!(age("n1") <= 3606 && age("n2") <= 7, "{} {}", age("n1"), age("n2"));
        assert_eq!(
            age("n2"),
            4,
            "its own age and five seconds here, less what the replicas may be apart"
        );
    }
}

/// How old the record looks at this replica, in seconds.
fn age(sim: &Sim, at: usize, key: &str) -> u64 {
    let replica = &sim.replicas[at].replica;
    let kept = replica.machine.memory.history(HEALTH, key);
    kept[0].age_at(replica.time(sim.now).mono).as_secs()
}

/// One replica reads two seconds late that another has joined, and publishes before that or right after it.
#[test]
fn a_record_looks_no_older_than_it_is_whenever_its_replica_read_of_a_join() {
    for has_read in [false, true] {
        let mut sim = Sim::new(&["a"]);
        let session = sim.open(0, 7);
        let other = sim.enter("b", false);
        assert!(sim.commit(other) && sim.deliver(other));
        sim.pass(Duration::from_secs(2));
        if has_read {
            assert!(sim.deliver(0));
        }
        sim.submit(0, mk_publish(session, vec![mk_record("n1", 1, 1)]));
        assert!(sim.commit(0));
        sim.submit(other, Command::Tick);
        assert!(sim.commit(other), "the time goes on");
        sim.settle();
        assert_eq!([0, other].map(|at| age(&sim, at, "n1")), [1, 1], "has read of it: {has_read}");

        // Later both count alike.
        for _ in 0..3 {
            sim.pass(Duration::from_secs(2));
            for at in [0, other] {
                sim.submit(at, Command::Tick);
                sim.settle();
            }
        }
        sim.submit(0, mk_publish(session, vec![mk_record("n2", 1, 1)]));
        sim.settle();
        sim.pass(Duration::from_secs(4));
        assert_eq!([0, other].map(|at| age(&sim, at, "n2")), [5, 5]);
        assert_eq!(sim.replicas[0].state(), sim.replicas[other].state());
    }
}
