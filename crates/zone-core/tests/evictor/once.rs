//! What is done to a pod is done once, and to nobody else.

use crate::pods::{marked_and_deleted, mk_world};
use crate::world::secs;

/// TE-052, TE-077, TE-101: an intent that is published again does not delete the same incarnation again.
#[test]
fn a_deleted_pod_is_deleted_once() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    let due = world.mk_due(&pod, false);
    let again = world.mk_due(&pod, false);
    world.publish(vec![due]);
    world.publish(vec![again]);
    assert_eq!((world.requests, world.events.len()), (2, 1));
}

/// TE-061, TE-062, TE-067: however often an intent is published while its eviction is under way, and whether it is withdrawn in
/// between, there is one request at a time and one deletion.
#[test]
fn there_is_never_a_second_deletion_beside_the_first() {
    for withdraws in [false, true] {
        let mut world = mk_world();
        let pod = world.add_pod("p", "n1", vec![]);
        world.is_slow = true;
        world.due(&pod);
        for _ in 0..3 {
            if withdraws {
                world.withdraw(&pod);
            }
            world.due(&pod);
            assert_eq!(world.unanswered.len(), 1, "the mark");
        }
        world.answer_all();
        world.pass(secs(10));
        assert_eq!(world.happened(), marked_and_deleted("p"));
        assert_eq!(world.events.len(), 1);
    }
}

/// NL-038: a node that is gone takes nobody with it: without an intent neither its pods nor anything else is touched.
#[test]
fn pods_of_a_deleted_node_are_left_to_others() {
    let mut world = mk_world();
    world.add_pod("p", "n1", vec![]);
    world.delete_node("n1");
    world.pass(secs(600));
    assert_eq!((world.requests, world.pods.len()), (0, 1));
}

/// TE-077, TE-078: a pod that terminates already is marked and deleted like any other.
#[test]
fn a_terminating_pod_is_treated_like_any_other() {
    let mut world = mk_world();
    let pod = world.add_pod("p", "n1", vec![]);
    world.change_pod(&pod, |facts| facts.terminating = true);
    world.due(&pod);
    assert_eq!(world.happened(), marked_and_deleted("p"));
}
