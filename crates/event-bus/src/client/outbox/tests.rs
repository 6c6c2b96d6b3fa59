//! What an outbox promises.

use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, Verdict};
use bailiff_model::outcome::{Outcome, PodOutcome, PodOutcomeState};
use bailiff_model::{NodeRef, PodRef, Wall, Zone};

use super::*;
use crate::record::Body;

const NOW: Now = Now {
    mono: Mono::ORIGIN,
    wall: Wall::UNIX_EPOCH,
};

fn mk_node(name: &str) -> NodeRef {
    NodeRef {
        name: name.into(),
        uid: "uid".into(),
        ..NodeRef::default()
    }
}

fn mk_draft(name: &str, content: u64) -> Draft {
    Draft::new(Body::NodeHealth(Box::new(NodeHealth {
        node: mk_node(name),
        zone: Zone::default(),
        excluded_from_disruption: false,
        ready: Ready::default(),
        verdict: Verdict::Healthy,
        last_sign_of_life: None,
        late_since: None,
        counted_from: NOW.wall,
        grace: Duration::from_secs(content),
        decided_at: NOW.wall,
        held: None,
    })))
}

fn mk_outcome(number: usize) -> Draft {
    Draft::new(Body::Outcome(Outcome::Pod(Box::new(PodOutcome {
        pod: PodRef {
            namespace: "default".into(),
            name: "pod".into(),
            uid: format!("uid-{number}").into(),
            ..PodRef::default()
        },
        node: mk_node("n1"),
        zone: Zone::default(),
        state: PodOutcomeState::Deleted,
        failed_attempts: 0,
        detail: String::new(),
        since: NOW.wall,
        next_try_at: None,
    }))))
}

/// An outbox whose replace part has ended.
fn mk_connected(topic: Topic) -> Outbox {
    let mut outbox = Outbox::new(topic);
    outbox.complete();
    outbox.connected("bus-1", true);
    let Some(Step::EndReplace(end)) = outbox.next_step(NOW.mono) else {
        panic!("there is nothing to stage");
    };
    assert!(outbox.acknowledged(end.id));
    while outbox.next_news().is_some() {}
    outbox
}

fn envelopes(batch: &pb::Batch) -> impl Iterator<Item = pb::Envelope> {
    let records = batch.records.iter();
    records.map(|record| pb::Envelope::decode(&**record).expect("an envelope"))
}

fn keys(batch: &pb::Batch) -> Vec<String> {
    envelopes(batch).map(|record| record.key).collect()
}

fn next_keys(outbox: &mut Outbox) -> (u64, Vec<String>) {
    match outbox.next_step(NOW.mono) {
        Some(Step::Batch(batch)) => (batch.id, keys(&batch)),
        step => panic!("{step:?} is no batch"),
    }
}

#[test]
fn a_key_has_one_place_and_the_latest_draft() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    for content in 0..10 {
        outbox.set(mk_draft("n1", content), NOW);
        outbox.set(mk_draft("n2", content), NOW);
    }
    let (id, keys) = next_keys(&mut outbox);
    assert_eq!(keys, ["n1", "n2"]);
    outbox.remove("n2", NOW);
    outbox.acknowledged(id);
    outbox.set(mk_draft("n1", 10), NOW);
    let (id, keys) = next_keys(&mut outbox);
    assert_eq!(keys, ["n2", "n1"]);
    assert_eq!(outbox.next_step(NOW.mono), None);
    outbox.acknowledged(id);
    assert!(outbox.is_settled());
    assert!(!outbox.has_news(), "that it is on the bus wakes nobody");
    assert_eq!(outbox.slots.len(), 1, "what is removed is not kept");
}

fn set_a_burst(outbox: &mut Outbox) -> Vec<String> {
    let names: Vec<String> = (0..20 * FEW_SLOTS).map(|nth| format!("n{nth}")).collect();
    for name in &names {
        outbox.set(mk_draft(name, 1), NOW);
    }
    names
}

#[test]
fn a_burst_leaves_no_room_behind() {
    let mut outbox = Outbox::new(Topic::NodeHealth);
    let names = set_a_burst(&mut outbox);
    for name in &names[1..] {
        outbox.remove(name, NOW);
    }
    assert_eq!(outbox.slots.len(), 1);
    assert!(outbox.slots.capacity() <= 4 * FEW_SLOTS, "{}", outbox.slots.capacity());
}

#[test]
fn a_burst_that_ended_while_the_bus_was_away_leaves_no_room_behind() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    let names = set_a_burst(&mut outbox);
    while let Some(Step::Batch(batch)) = outbox.next_step(NOW.mono) {
        outbox.acknowledged(batch.id);
    }
    outbox.disconnected();
    for name in &names[1..] {
        outbox.remove(name, NOW);
    }
    outbox.connected("bus", true);
    assert_eq!(outbox.slots.len(), 1);
    assert!(outbox.slots.capacity() <= 4 * FEW_SLOTS, "{}", outbox.slots.capacity());
}

#[test]
fn what_was_superseded_on_its_way_is_not_on_the_bus() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    outbox.set(mk_draft("n1", 1), NOW);
    let (first, _) = next_keys(&mut outbox);
    outbox.set(mk_draft("n1", 2), NOW);
    outbox.acknowledged(first);
    assert!(!outbox.is_settled());
    let (second, keys) = next_keys(&mut outbox);
    assert_eq!(keys, ["n1"]);
    outbox.acknowledged(second);
    assert!(outbox.is_settled());
}

#[test]
fn what_was_not_acknowledged_is_sent_again_and_the_rest_is_not() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    outbox.set(mk_draft("n1", 1), NOW);
    let (first, _) = next_keys(&mut outbox);
    outbox.set(mk_draft("n2", 1), NOW);
    let _lost = next_keys(&mut outbox);
    outbox.set(mk_draft("n3", 1), NOW);
    outbox.acknowledged(first);
    outbox.disconnected();
    outbox.connected("bus-1", false);
    assert_eq!(next_keys(&mut outbox).1, ["n2", "n3"]);
    outbox.connected("bus-2", true);
    assert_eq!(
        next_keys(&mut outbox).1,
        ["n1", "n2", "n3"],
        "to a bus that lost its memory everything"
    );
}

#[test]
fn the_window_is_bounded() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    for number in 0..10_000 {
        outbox.set(mk_draft(&format!("n{number:04}"), 1), NOW);
    }
    let (first, keys) = next_keys(&mut outbox);
    for _ in 1..WINDOW {
        assert_eq!(
            next_keys(&mut outbox).1.len(),
            keys.len(),
            "all are as large as a batch may be"
        );
    }
    assert_eq!(outbox.next_step(NOW.mono), None);
    outbox.acknowledged(first);
    assert_eq!(next_keys(&mut outbox).1.len(), keys.len());
    assert_eq!(outbox.next_step(NOW.mono), None);
}

#[test]
fn news_nobody_asks_for_coalesce() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    for round in 1..100 {
        outbox.set(mk_draft("n1", round), NOW);
        outbox.set(mk_draft("n2", 1), NOW);
        outbox.remove("a/b", NOW);
        let (id, _) = next_keys(&mut outbox);
        outbox.acknowledged(id);
        outbox.disconnected();
        outbox.connected("bus-1", false);
    }
    let mut news = Vec::new();
    while let Some(one) = outbox.next_news() {
        news.push(one);
    }
    assert_eq!(news.len(), 2, "one connection, one refusal: {news:?}");
}

#[test]
fn old_outcomes_are_forgotten_once_they_are_on_the_bus() {
    let mut outbox = mk_connected(Topic::EvictionOutcomes);
    for number in 0..TERMINAL_KEPT + 10 {
        outbox.set(mk_outcome(number), NOW);
    }
    assert_eq!(
        outbox.slots.len(),
        TERMINAL_KEPT + 10,
        "nothing is forgotten that is not on the bus"
    );
    while let Some(Step::Batch(batch)) = outbox.next_step(NOW.mono) {
        outbox.acknowledged(batch.id);
    }
    assert_eq!(outbox.slots.len(), TERMINAL_KEPT);
    outbox.set(mk_outcome(TERMINAL_KEPT + 10), NOW);
    assert_eq!(outbox.slots.len(), TERMINAL_KEPT, "the oldest gave way");
}

#[test]
fn what_comes_and_goes_while_the_bus_is_away_leaves_nothing() {
    let mut outbox = mk_connected(Topic::NodeHealth);
    outbox.set(mk_draft("known", 1), NOW);
    outbox.set(mk_draft("sent", 1), NOW);
    let (id, _) = next_keys(&mut outbox);
    outbox.acknowledged(id);
    outbox.disconnected();
    for number in 0..1_000 {
        let name = format!("n{number}");
        outbox.set(mk_draft(&name, 1), NOW);
        outbox.remove(&name, NOW);
        outbox.set(mk_draft("known", number), NOW);
        outbox.remove("known", NOW);
    }
    assert_eq!(
        (outbox.slots.len(), outbox.queue.len()),
        (2, 1),
        "what is set, and what the bus has"
    );
    outbox.connected("bus-1", false);
    assert_eq!(next_keys(&mut outbox).1, ["known"], "the bus must be told");
    outbox.disconnected();
    outbox.connected("bus-2", true);
    assert_eq!(next_keys(&mut outbox).1, ["sent"], "a replace tells by not mentioning it");
    assert_eq!(outbox.slots.len(), 1);
}

/// What the predecessor said of the key outlives the replace part, and the bus has it until it is told.
#[test]
fn a_removal_that_waits_is_not_forgotten_for_a_draft_that_takes_its_place() {
    let mut outbox = mk_connected(Topic::EvictionOutcomes);
    for away in [false, true] {
        outbox.remove("pod/uid-0", NOW);
        if away {
            outbox.disconnected();
            outbox.connected("bus-1", true);
        }
        outbox.set(mk_outcome(0), NOW);
        outbox.remove("pod/uid-0", NOW);
        let Some(Step::Batch(batch)) = outbox.next_step(NOW.mono) else {
            panic!("the bus must be told");
        };
        let removals: Vec<_> = envelopes(&batch).map(|record| (record.key, record.body)).collect();
        let tombstone = |body: &_| matches!(body, Some(pb::envelope::Body::Tombstone(_)));
        assert!(
            matches!(&removals[..], [(key, body)] if key == "pod/uid-0" && tombstone(body)),
            "{removals:?}"
        );
        outbox.acknowledged(batch.id);
    }
}

#[test]
fn what_outlives_a_replace_part_is_removed_though_it_was_not_sent_again() {
    let mut outbox = mk_connected(Topic::EvictionOutcomes);
    outbox.set(mk_outcome(0), NOW);
    let (id, _) = next_keys(&mut outbox);
    outbox.acknowledged(id);
    outbox.disconnected();
    outbox.connected("bus-1", true);
    outbox.remove("pod/uid-0", NOW);
    assert_eq!(next_keys(&mut outbox).1, ["pod/uid-0"]);
}

#[test]
fn what_is_staged_is_kept_once_for_each_key() {
    let mut outbox = Outbox::new(Topic::NodeHealth);
    outbox.connected("bus-1", true);
    for content in 0..100 {
        outbox.set(mk_draft("n1", content), NOW);
        outbox.set(mk_draft("n2", content), NOW);
        let (id, _) = next_keys(&mut outbox);
        outbox.acknowledged(id);
    }
    assert_eq!(outbox.staged.len(), 2);
    outbox.remove("n2", NOW);
    let (id, _) = next_keys(&mut outbox);
    outbox.acknowledged(id);
    assert_eq!(
        outbox.slots.len(),
        2,
        "what was staged of it is there until the part has ended"
    );
    outbox.complete();
    let Some(Step::EndReplace(end)) = outbox.next_step(NOW.mono) else {
        panic!("everything is staged");
    };
    assert!(outbox.acknowledged(end.id));
    assert!(outbox.is_settled());
    assert_eq!(outbox.slots.len(), 1);
}

#[test]
fn outcomes_do_not_pile_up_while_the_bus_is_away() {
    let mut outbox = mk_connected(Topic::EvictionOutcomes);
    let mut evicting = mk_outcome(0);
    if let Body::Outcome(Outcome::Pod(outcome)) = &mut evicting.body {
        outcome.state = PodOutcomeState::Evicting;
    }
    outbox.set(evicting, NOW);
    let (id, keys) = next_keys(&mut outbox);
    outbox.acknowledged(id);
    outbox.disconnected();
    for number in 0..TERMINAL_WAITING + 10 {
        outbox.set(mk_outcome(number), NOW);
    }
    assert_eq!(outbox.slots.len(), TERMINAL_WAITING + 1);
    assert_eq!(
        (outbox.queue.len(), outbox.terminal.len()),
        (TERMINAL_WAITING + 1, TERMINAL_WAITING)
    );
    let stale = &outbox.slots[keys[0].as_str()];
    assert!(stale.is_removal, "the bus would say for ever that it is being evicted");
}

/// TE-102: however often a record is sent, it is as old as it is, whatever happened to the wall clock
#[test]
fn what_is_published_again_carries_its_age() {
    let at = |seconds| Now {
        mono: Mono::from_origin(Duration::from_secs(seconds)),
        wall: NOW.wall,
    };
    let mut outbox = mk_connected(Topic::NodeHealth);
    let ages = |outbox: &mut Outbox, now: Now| match outbox.next_step(now.mono) {
        Some(Step::Batch(batch)) => {
            let age = |record: pb::Envelope| (record.key, record.age.map(|age| age.seconds));
            let ages: Vec<_> = envelopes(&batch).map(age).collect();
            outbox.acknowledged(batch.id);
            ages
        }
        step => panic!("{step:?} is no batch"),
    };
    outbox.set(mk_draft("n1", 1), at(10));
    outbox.set(mk_draft("n2", 1), at(10));
    let wanted = |one, other| [("n1".to_owned(), Some(one)), ("n2".to_owned(), Some(other))];
    assert_eq!(ages(&mut outbox, at(12)), wanted(2, 2));
    outbox.set(mk_draft("n2", 2), at(40));
    assert_eq!(ages(&mut outbox, at(40)), [("n2".to_owned(), Some(0))]);
    outbox.disconnected();
    outbox.connected("bus-2", true);
    assert_eq!(ages(&mut outbox, at(70)), wanted(60, 30));
}
