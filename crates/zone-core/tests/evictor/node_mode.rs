//! Node mode: whole nodes at the zone's rate, then single pods (NL-200 to NL-209).

use bailiff_model::outcome::{NodeOutcomeState, PodOutcomeState, RefusedReason};
use bailiff_model::{About, HoldReason, Listed, ReadyStatus, Selector, Verdict};
use bailiff_zone_core::{Component, Count, DaemonSetFacts, EvictionMode, Input, SpanEnd, SpanKind};

use crate::world::{Happened, World, mk_config, secs, zone};

pub const NODES: [(&str, &str); 5] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a")];

pub fn mk_world(rate: f64) -> World {
    let config = mk_config(|config| {
        config.mode = EvictionMode::Node;
        config.rates.primary = rate;
    });
    World::new(config, &NODES)
}

/// The node is silent and due, with one pod.
pub fn fall_due(world: &mut World, name: &str) -> bailiff_model::PodUid {
    world.mark_unknown(name);
    world.health(name, Verdict::Unreachable);
    world.wish_evicted(name);
    let pod = world.add_pod(&format!("p-{name}"), name, vec![]);
    world.due_with_node(&pod);
    pod
}

pub fn deleted(world: &World) -> Vec<String> {
    let only = |happened: &Happened| match happened {
        Happened::Deleted(name) => Some(name.clone()),
        _ => None,
    };
    world.happened().iter().filter_map(only).collect()
}

/// NL-200, NL-201, NL-205, NL-206, NL-207: nodes at the zone's rate, all pods of one at once, marked NodeLost, no taint.
#[test]
fn nodes_are_evicted_at_the_zones_rate_with_all_their_pods() {
    let mut world = mk_world(0.1);
    let pod = fall_due(&mut world, "n1");
    let waiting = fall_due(&mut world, "n2");
    assert_eq!(deleted(&world), ["p-n1"]);
    assert_eq!(world.happened()[0], Happened::Marked("p-n1".to_owned()));
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
    assert!(matches!(
        world.node_state("n2"),
        Some(NodeOutcomeState::Queued { position: 1, .. })
    ));
    assert_eq!(world.pod_held(&waiting), Some(HoldReason::RateLimited));
    assert!(world.isolated().is_empty());
    world.pass(secs(10));
    assert_eq!(deleted(&world), ["p-n1", "p-n2"]);
    assert_eq!(
        world
            .counts
            .iter()
            .filter(|count| **count == Count::NodeEvicted(zone("a")))
            .count(),
        2
    );
    let said: Vec<_> = world
        .events
        .iter()
        .map(|event| (event.component, event.reason, event.note.as_str()))
        .collect();
    let wanted = [
        (
            Component::Node,
            "DeletingAllPods",
            "Node n1 event: Deleting all Pods from Node n1.",
        ),
        (
            Component::Node,
            "NodeControllerEviction",
            "Marking for deletion Pod p-n1 from Node n1",
        ),
    ];
    assert_eq!(said[..2], wanted);
    let about = About::node(&"n1".into());
    assert!(
        world.events[..2].iter().all(|event| event.about == about),
        "{:?}",
        world.events
    );
}

/// NL-202, design §2: a node is due when the taint-manager says so. When that should be, by its clock, justifies nothing.
#[test]
fn the_clock_of_the_taint_manager_makes_no_node_due() {
    let mut world = mk_world(0.1);
    world.mark_unknown("n1");
    world.health("n1", Verdict::Unreachable);
    let pod = world.add_pod("p-n1", "n1", vec![]);
    let ours = world.now.wall;
    world.wish_evicted_at("n1", ours - secs(86_400), false);
    world.due_with_node(&pod);
    world.pass(secs(60));
    assert_eq!((world.node_state("n1"), world.deleted()), (None, 0));
    world.wish_evicted_at("n1", ours + secs(86_400), true);
    world.pass(secs(10));
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
    assert_eq!(world.deleted(), 1);
}

/// NL-203: pods that come to an evicted node later go at once, outside the rate.
#[test]
fn later_pods_of_an_evicted_node_go_at_once() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    world.pass(secs(3));
    let later = world.add_pod("later", "n1", vec![]);
    world.due_with_node(&later);
    assert_eq!(deleted(&world), ["p-n1", "later"]);
}

/// NL-202, NL-204: recovery unmarks; silent again, the node needs a new turn.
#[test]
fn recovery_unmarks_and_takes_out_of_the_queue() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    let waiting = fall_due(&mut world, "n2");
    world.come_back(&["n1", "n2"]);
    world.withdraw(&waiting);
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Released));
    assert_eq!(world.node_state("n2"), Some(&NodeOutcomeState::Released));
    world.pass(secs(100));
    assert_eq!(deleted(&world), ["p-n1"]);
    world.pods.remove(&waiting);
    fall_due(&mut world, "n3");
    fall_due(&mut world, "n2");
    assert_eq!(deleted(&world), ["p-n1", "p-n3"]);
    world.pass(secs(10));
    assert_eq!(deleted(&world).len(), 3);
}

/// Design §1: a pod of a node that is Ready is refused.
#[test]
fn a_pod_of_a_ready_node_is_refused() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    let pod = world.add_pod("q", "n1", vec![]);
    let due = world.mk_due(&pod, true);
    world.is_slow = true;
    world.publish(vec![due]);
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.answer_all();
    world.pass(secs(10));
    assert_ne!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
    assert!(world.pods.contains_key(&pod));
    assert!(matches!(
        world.pod_state(&pod),
        Some(PodOutcomeState::Held(_) | PodOutcomeState::Refused(RefusedReason::NodeReady))
    ));
}

/// NL-206: a pod that terminates already is marked, not deleted again.
#[test]
fn a_terminating_pod_is_marked_only() {
    let mut world = mk_world(0.1);
    world.mark_unknown("n1");
    world.health("n1", Verdict::Unreachable);
    let pod = world.add_pod("p", "n1", vec![]);
    world.change_pod(&pod, |facts| facts.terminating = true);
    world.due_with_node(&pod);
    world.wish_evicted("n1");
    assert_eq!(world.happened(), [Happened::Marked("p".to_owned())]);
    assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
    assert!(world.events.iter().all(|event| event.reason != "NodeControllerEviction"));
}

pub fn mk_daemon_set(namespace: &str, name: &str, app: &str) -> DaemonSetFacts {
    DaemonSetFacts {
        key: (namespace.into(), name.to_owned()),
        selector: Selector::new([("app", app)], []),
    }
}

/// NL-206, recordings `lg-special-pods`, `lg-bound-later`: a DaemonSet of the pod's namespace spares what it selects, not what it
/// owns; the status is rewritten all the same, and without the DaemonSet the pod goes.
#[test]
fn pods_that_a_daemon_set_selects_are_marked_and_spared() {
    let spared = PodOutcomeState::Refused(RefusedReason::DaemonSet);
    // Namespace and label of the DaemonSet, whether it spares a pod of namespace default with label app=ds.
    for (namespace, app, is_spared) in [("default", "ds", true), ("default", "x", false), ("kube-system", "ds", false)] {
        let mut world = mk_world(0.1);
        world.tell(Input::DaemonSetApplied(mk_daemon_set(namespace, "set", app)));
        world.mark_unknown("n1");
        world.health("n1", Verdict::Unreachable);
        world.wish_evicted("n1");
        let pod = world.add_pod("p", "n1", vec![]);
        world.change_pod(&pod, |facts| {
            facts.labels.insert("app".into(), "ds".into());
        });
        world.due_with_node(&pod);
        assert_eq!(world.happened()[0], Happened::Marked("p".to_owned()));
        assert_eq!(world.pods.contains_key(&pod), is_spared, "{namespace} {app}");
        let wanted = if is_spared { &spared } else { &PodOutcomeState::Deleted };
        assert_eq!(world.pod_state(&pod), Some(wanted));
        let reasons: Vec<_> = world.events.iter().map(|event| event.reason).collect();
        assert_eq!(reasons.contains(&"NodeControllerEviction"), !is_spared, "{reasons:?}");
        assert!(reasons.contains(&"DeletingAllPods"));
        let before = world.requests;
        world.tell(Input::DaemonSetApplied(mk_daemon_set(namespace, "set", app)));
        assert_eq!(world.requests, before, "nothing changed");
        world.tell(Input::DaemonSetDeleted((namespace.into(), "set".to_owned())));
        assert_eq!(world.pod_state(&pod), Some(&PodOutcomeState::Deleted));
    }
}

/// NL-007, NL-206: as long as it is not known whom the DaemonSets select no pod of a node goes.
#[test]
fn pods_wait_for_the_daemon_sets() {
    let mut world = mk_world(0.1);
    world.tell(Input::DaemonSetsFresh(false));
    let pod = fall_due(&mut world, "n1");
    assert_eq!(world.pod_held(&pod), Some(HoldReason::ApiStale));
    world.tell(Input::DaemonSetsFresh(true));
    assert_eq!(deleted(&world), ["p-n1"]);
    let mut unseen = World::unseen(world.config.clone());
    unseen.tell(Input::Nodes(Listed::from(Vec::new())));
    assert_eq!(unseen.evictor.waits_for(), Some("the list of DaemonSets"));
}

/// NL-206: a DaemonSet that cannot be read goes on to spare what it did; one that is not listed does not.
#[test]
fn a_daemon_set_that_cannot_be_read_spares_what_it_did() {
    for unreadable in [true, false] {
        let mut world = mk_world(0.1);
        let set = mk_daemon_set("default", "set", "ds");
        world.tell(Input::DaemonSets(Listed::from(vec![set.clone()])));
        let mut list = Listed::from(vec![mk_daemon_set("default", "other", "x")]);
        list.unreadable.extend(unreadable.then_some(set.key));
        world.tell(Input::DaemonSets(list));
        let pod = world.add_pod("p", "n1", vec![]);
        world.change_pod(&pod, |facts| {
            facts.labels.insert("app".into(), "ds".into());
        });
        world.mark_unknown("n1");
        world.health("n1", Verdict::Unreachable);
        world.wish_evicted("n1");
        world.due_with_node(&pod);
        assert_eq!(world.pods.contains_key(&pod), unreadable);
    }
}

/// NL-204, NL-207, observations 9: all zones down unmarks and queues again; one back, one interval, then they go, new pods too.
#[test]
fn full_disruption_unmarks_and_keeps_the_queue() {
    let mut world = mk_world(0.2);
    fall_due(&mut world, "n1");
    world.judge(&["n2", "n3", "n4", "n5"], Verdict::Unreachable);
    assert_eq!(world.node_held("n1"), Some(HoldReason::AllZonesDisrupted));
    let created = world.add_pod("created", "n1", vec![]);
    world.due_with_node(&created);
    world.pass(secs(60));
    assert_eq!(deleted(&world), ["p-n1"]);
    world.judge(&["n5"], Verdict::Healthy);
    world.pass(secs(4));
    assert_eq!(deleted(&world), ["p-n1"]);
    // Four of five are not ready: a small zone in partial disruption stays stopped.
    world.pass(secs(60));
    assert_eq!(world.zone_held("a"), Some(HoldReason::RateZero));
    world.judge(&["n4", "n3"], Verdict::Healthy);
    world.pass(secs(5));
    assert_eq!(deleted(&world), ["p-n1", "created"]);
}

/// NL-032, NL-205: a node deleted while it waits keeps its place, and its pods go at its turn; it is not counted.
#[test]
fn a_node_deleted_in_the_queue_keeps_its_turn() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    fall_due(&mut world, "n2");
    fall_due(&mut world, "n3");
    world.delete_node("n2");
    world.pass(secs(10));
    assert_eq!(deleted(&world), ["p-n1", "p-n2"]);
    world.pass(secs(10));
    assert_eq!(deleted(&world), ["p-n1", "p-n2", "p-n3"]);
    assert_eq!(
        world
            .counts
            .iter()
            .filter(|count| matches!(count, Count::NodeEvicted(_)))
            .count(),
        2
    );
}

/// NL-201, NL-035: another incarnation inherits nothing.
#[test]
fn a_node_created_again_is_unmarked() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    world.delete_node("n1");
    world.add_node("n1", "a");
    world.mark_unknown("n1");
    let pod = world.add_pod("new", "n1", vec![]);
    world.due_with_node(&pod);
    world.pass(secs(60));
    assert_eq!(deleted(&world), ["p-n1"]);
    assert_eq!(world.pod_held(&pod), Some(HoldReason::RateLimited));
}

/// NL-026, observations 10: a relabelled node that recovered is not evicted from its old queue.
#[test]
fn a_relabelled_recovered_node_is_safe() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    fall_due(&mut world, "n2");
    world.change_node("n2", |facts| facts.zone = zone("b"));
    assert_eq!(deleted(&world), ["p-n1", "p-n2"], "the new zone has a token of its own");
    world.come_back(&["n2"]);
    let created = world.add_pod("created", "n2", vec![]);
    world.pass(secs(60));
    assert!(world.pods.contains_key(&created));
}

/// Design §2: an evicted node stays evicted over a restart, as the bus remembers; without memory it takes a new turn.
#[test]
fn eviction_is_inherited_or_earned_again() {
    for forgets in [false, true] {
        let mut world = mk_world(0.1);
        fall_due(&mut world, "n1");
        world.pass(secs(1));
        if forgets {
            world.forget_outcomes();
        }
        world.restart();
        let created = world.add_pod("created", "n1", vec![]);
        world.due_with_node(&created);
        assert_eq!(deleted(&world).len(), if forgets { 1 } else { 2 });
        world.pass(secs(20));
        assert_eq!(deleted(&world).len(), 2);
    }
}

/// NL-204: a node that the monitor says is Ready, and that a half-open watch still shows as silent, is read before a pod of it goes.
#[test]
fn pods_of_an_evicted_node_that_the_monitor_calls_ready_wait_for_a_read() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    assert_eq!(deleted(&world), ["p-n1"]);
    world.is_watch_stalled = true;
    world.change_node("n1", |facts| facts.ready = ReadyStatus::True);
    world.health("n1", Verdict::Healthy);
    let before = world.reads;
    let later = world.add_pod("later", "n1", vec![]);
    world.due_with_node(&later);
    world.pass(secs(60));
    assert_eq!((deleted(&world), world.reads), (vec!["p-n1".to_owned()], before + 1));
    assert_ne!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
}

/// NL-204: who recovered while nobody looked is marked no more, and waits for its turn when it is silent again.
#[test]
fn who_recovered_while_nobody_looked_waits_for_its_turn_again() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    assert_eq!(world.node_state("n1"), Some(&NodeOutcomeState::Evicted));
    world.stop();
    world.come_back(&["n1"]);
    world.show_everything();
    fall_due(&mut world, "n1");
    let state = world.node_state("n1");
    assert!(matches!(state, Some(NodeOutcomeState::Queued { .. })), "{state:?}");
}

/// NL-035, design §9: a wish that means another node of the name ends the wait of the one that is gone.
#[test]
fn who_waits_in_the_place_of_the_gone_has_a_wait_of_its_own() {
    let mut world = mk_world(0.1);
    fall_due(&mut world, "n1");
    fall_due(&mut world, "n2");
    world.pass(secs(2));
    let before = world.node("n2").uid.clone();
    world.delete_node("n2");
    world.add_node("n2", "a");
    let after = world.node("n2").uid.clone();
    world.wish_evicted("n2");
    world.pass(secs(20));
    let waits = world.spans.iter().filter(|span| span.kind == SpanKind::QueueWait);
    let waits = waits.filter(|span| span.node.name.as_str() == "n2");
    let waits: Vec<_> = waits.map(|span| (span.node.uid.clone(), span.outcome)).collect();
    assert_eq!(waits, [(before, SpanEnd::Gone), (after, SpanEnd::Granted)]);
}
