//! That what was asked for long ago does not undo what was decided since.

use bailiff_model::Revision;

use super::{HEALTH, One, Sim, mk_open};
use crate::engine::{Answer, Command, Effect, Refusal, SessionId};

/// What a replica has made reaches the log only when this is let go.
fn hold(sim: &mut Sim, at: usize, command: Command) {
    sim.submit(at, command);
    let now = sim.now;
    let one = &mut sim.replicas[at];
    one.under_way = one.replica.next_append(now);
    assert!(one.under_way.is_some());
}

fn is_ended(one: &One, session: SessionId) -> bool {
    let is_it = |effect: &Effect| matches!(effect, Effect::Ended { session: ended, .. } if *ended == session);
    one.effects.iter().any(is_it)
}

/// The caller gave up here and opened there, under the same epoch or one that it lets the bus choose.
#[test]
fn a_late_opening_does_not_fence_what_was_opened_since() {
    for epoch in [7, 0] {
        let mut sim = Sim::new(&["a", "b"]);
        hold(&mut sim, 0, mk_open(epoch, false));
        sim.submit(1, mk_open(epoch, false));
        assert!(sim.commit(1));
        while sim.deliver(1) {}
        let session = sim.replicas[1].sessions[0];
        sim.settle();
        assert!(!is_ended(&sim.replicas[1], session), "epoch {epoch}");
        assert_eq!(
            sim.replicas[0].answers(),
            [&Err(Refusal::Store)],
            "if somebody waits there he asks again"
        );
        sim.submit(0, mk_open(epoch, false));
        sim.settle();
        assert_eq!(sim.replicas[0].sessions.len(), 1, "and is heard");
        assert!(is_ended(&sim.replicas[1], session));
        assert_eq!(sim.replicas[0].state(), sim.replicas[1].state());
    }
}

#[test]
fn a_late_opening_of_a_higher_epoch_fences() {
    let mut sim = Sim::new(&["a", "b"]);
    hold(&mut sim, 0, mk_open(8, false));
    sim.submit(1, mk_open(7, false));
    assert!(sim.commit(1));
    sim.settle();
    assert!(is_ended(&sim.replicas[1], sim.replicas[1].sessions[0]));
    assert!(matches!(sim.replicas[0].answers()[..], [Ok(Answer::Opened { epoch: 8, .. })]));
}

/// The same, and what is asked for here waits behind an entry that etcd has not taken yet.
#[test]
fn an_opening_that_waits_for_its_place_does_not_fence_what_was_opened_since() {
    for epoch in [7, 0] {
        let mut sim = Sim::new(&["a", "b"]);
        let revision = Revision(0);
        hold(&mut sim, 0, Command::Witness { revision });
        sim.submit(0, mk_open(epoch, false));
        sim.submit(1, mk_open(epoch, false));
        assert!(sim.commit(1));
        while sim.deliver(1) | sim.deliver(0) {}
        let session = sim.replicas[1].sessions[0];
        sim.settle();
        assert!(!is_ended(&sim.replicas[1], session), "epoch {epoch}");
        let wanted = [&Err(Refusal::Store), &Ok(Answer::Done)];
        assert_eq!(sim.replicas[0].answers(), wanted, "if somebody waits there he asks again");
        sim.submit(0, mk_open(epoch, false));
        sim.settle();
        assert_eq!(sim.replicas[0].sessions.len(), 1, "and is heard");
        assert_eq!(sim.replicas[0].state(), sim.replicas[1].state());
    }
}

#[test]
fn an_opening_of_a_higher_epoch_that_waits_for_its_place_fences() {
    let mut sim = Sim::new(&["a", "b"]);
    let revision = Revision(0);
    hold(&mut sim, 0, Command::Witness { revision });
    sim.submit(0, mk_open(8, false));
    sim.submit(1, mk_open(7, false));
    assert!(sim.commit(1));
    while sim.deliver(1) | sim.deliver(0) {}
    sim.settle();
    assert!(is_ended(&sim.replicas[1], sim.replicas[1].sessions[0]));
    assert_eq!(sim.replicas[0].sessions.len(), 1);
}

/// Asked for twice: once without an answer, then elsewhere. A producer opened in between.
#[test]
fn a_late_reset_takes_nothing_from_whoever_opened_since() {
    let mut sim = Sim::new(&["a", "b"]);
    let reset = || Command::ResetEpoch { topic: HEALTH, shard: 0 };
    sim.open(1, 7);
    hold(&mut sim, 0, reset());
    sim.submit(1, reset());
    sim.submit(1, mk_open(3, false));
    assert!(sim.commit(1));
    while sim.deliver(1) {}
    let session = *sim.replicas[1].sessions.last().expect("it was opened");
    sim.settle();
    assert!(!is_ended(&sim.replicas[1], session));
    assert_eq!(sim.replicas[0].answers(), [&Err(Refusal::Store)]);
}

/// Both others saw the lease of the third end; one of them says so when it has joined again.
#[test]
fn a_second_farewell_does_not_remove_who_has_joined_again() {
    let mut sim = Sim::new(&["a", "b", "c"]);
    let now = sim.now;
    // One is on its way to the log, the other waits behind something else.
    sim.replicas[0].replica.departed("c", now);
    let one = &mut sim.replicas[0];
    one.under_way = one.replica.next_append(now);
    hold(&mut sim, 1, mk_open(7, false));
    sim.replicas[1].replica.departed("c", now);
    let (first, second) = (sim.replicas[0].under_way.take(), sim.replicas[1].under_way.take());
    let first = first.expect("it was made");
    sim.log.push(first.bytes.clone());
    while sim.deliver(2) {}
    assert!(!sim.replicas[2].replica.is_member());
    sim.replicas[2].replica.join(false, vec!["a".to_owned(), "b".to_owned()], now);
    assert!(sim.commit(2));
    while sim.deliver(2) | sim.deliver(1) | sim.deliver(0) {}
    assert!(sim.replicas[2].replica.is_member());
    sim.replicas[1].under_way = second;
    sim.settle();
    assert!(sim.replicas[2].replica.is_member(), "what waited is not meant any more");

    // The same, had it been on its way already.
    sim.replicas[1].replica.departed("c", now);
    let one = &mut sim.replicas[1];
    let second = one.replica.next_append(now).expect("it was made");
    sim.replicas[0].replica.departed("c", now);
    assert!(sim.commit(0));
    while sim.deliver(2) {}
    sim.replicas[2].replica.join(false, vec!["a".to_owned(), "b".to_owned()], now);
    assert!(sim.commit(2));
    sim.replicas[1].under_way = Some(second);
    sim.settle();
    assert!(sim.replicas[2].replica.is_member());
}
