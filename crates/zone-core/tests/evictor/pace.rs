//! What is overdue is paced, and what is new is not.

use bailiff_model::intent::{Intent, Trigger};
use bailiff_model::{Effect, Topic};
use bailiff_zone_core::{Body, Input, Record};

use crate::world::{World, mk_config, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

/// A tainted node `n1`, and two overdue evictions a second.
fn mk_world() -> World {
    let mut world = World::new(mk_config(|config| config.overdue_per_second = 2.0), &SIX);
    world.taint("n1", "maintenance", Effect::NoExecute);
    world
}

/// So many new pods of `n1`, which are due.
fn mk_due_pods(world: &mut World, name: &str, count: usize) -> Vec<Record> {
    let due = |nth| {
        let pod = world.add_pod(&format!("{name}{nth}"), "n1", vec![]);
        world.mk_due(&pod, false)
    };
    (0..count).map(due).collect()
}

/// Design §8: at a cold start of everything the taint-manager's first words come after the evictor's first view. They are overdue too.
#[test]
fn what_makes_the_intents_complete_is_paced() {
    let mut world = mk_world();
    world.stop();
    world.shards.insert(Topic::EvictionIntents, (false, false));
    world.show_everything();
    world.shards.insert(Topic::EvictionIntents, (true, true));
    let records = mk_due_pods(&mut world, "old", 10);
    let shards = world.shards();
    world.tell(Input::Changes { records, shards });
    assert_eq!(world.deleted(), 1);
    world.pass(secs(2));
    assert_eq!(world.deleted(), 5);
    let pod = world.add_pod("new", "n1", vec![]);
    world.due(&pod);
    assert_eq!(world.deleted(), 6, "what comes later is new");
}

/// Design §8: what is due after a cold start is paced, never a burst; what is new goes first.
#[test]
fn overdue_evictions_are_paced_and_new_ones_are_not() {
    let mut world = mk_world();
    world.stop();
    for n in 0..10 {
        let pod = world.add_pod(&format!("old{n}"), "n1", vec![]);
        world.due(&pod);
    }
    world.show_everything();
    assert_eq!(world.deleted(), 1);
    let records = mk_due_pods(&mut world, "new", 5);
    world.publish(records);
    assert_eq!(world.deleted(), 6);
    world.pass(secs(2));
    assert_eq!(world.deleted(), 10);
    world.pass(secs(3));
    assert_eq!(world.deleted(), 15);
}

/// Design §8: toleration times that ran out while no taint-manager was there are no burst when it is back, however long the evictor itself
/// has been there. A turn that comes a little late is new.
#[test]
fn what_a_taint_manager_says_late_is_paced() {
    for (late_by, at_once) in [(0, 10), (10, 10), (11, 1)] {
        let mut world = mk_world();
        world.pass(secs(60));
        let mut said = |trigger| {
            let mut records = mk_due_pods(&mut world, &format!("{trigger:?}"), 10);
            for record in &mut records {
                if let Some(Body::Intent(Intent::Pod(intent))) = &mut record.body {
                    intent.trigger = trigger;
                    intent.due_at = intent.decided_at - secs(late_by);
                }
            }
            let before = world.deleted();
            world.publish(records);
            world.deleted() - before
        };
        assert_eq!(said(Trigger::Untolerated), 10, "due as soon as it is seen, {late_by} s late");
        assert_eq!(said(Trigger::Expired), at_once, "{late_by} s late");
        world.pass(secs(5));
        assert_eq!(world.deleted(), 20);
    }
}

/// Design §8: the end of a hold is no burst either.
#[test]
fn what_a_hold_kept_back_is_paced() {
    let mut world = mk_world();
    world.tell(Input::ApiFresh(false));
    let records = mk_due_pods(&mut world, "p", 10);
    world.publish(records);
    world.tell(Input::ApiFresh(true));
    assert_eq!(world.deleted(), 1);
    world.pass(secs(5));
    assert_eq!(world.deleted(), 10);
}
