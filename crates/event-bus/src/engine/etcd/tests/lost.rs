//! That a bus which lost data notices it by what its readers have seen.

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
