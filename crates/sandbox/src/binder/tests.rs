//! The binder, without an API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Effect as TaintEffect, Mono, NodeName, Now, ReadyStatus, Taint, Toleration, Wall};

use super::{Core, Input, Mode};
use crate::effect::Effect;
use crate::facts::{NodeFacts, Phase, Placement, PodFacts, PodKey};
use crate::resources::{Allocatable, Resources};

const DELAY: Duration = Duration::from_millis(200);

struct Bench {
    core: Core,
    millis: u64,
}

impl Bench {
    fn new(mode: Mode) -> Self {
        Self {
            core: Core::new(mode, DELAY),
            millis: 0,
        }
    }

    fn apply(&mut self, input: Input) -> Vec<String> {
        let since = Duration::from_millis(self.millis);
        let now = Now {
            mono: Mono::from_origin(since),
            wall: Wall::UNIX_EPOCH + since,
        };
        self.core.apply(input, now).iter().map(brief).collect()
    }

    fn node(&mut self, facts: NodeFacts) {
        assert_eq!(self.apply(Input::Node(Box::new(facts))), Vec::<String>::new());
    }

    fn pod(&mut self, facts: PodFacts) {
        assert_eq!(self.apply(Input::Pod(Box::new(facts))), Vec::<String>::new());
    }

    /// What is done up to this moment.
    fn until(&mut self, millis: u64) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(next) = self.core.next_deadline() {
            let next = u64::try_from(next.since_origin().as_millis()).unwrap();
            if next > millis {
                break;
            }
            self.millis = next.max(self.millis);
            all.extend(self.apply(Input::Wake));
        }
        self.millis = millis;
        all
    }
}

fn brief(effect: &Effect) -> String {
    let Effect::Send(request) = effect else {
        return format!("{effect:?}");
    };
    if let Some(node) = request.body.pointer("/target/name") {
        let pod = request.body.pointer("/metadata/name").unwrap();
        return format!("{} to {}", pod.as_str().unwrap(), node.as_str().unwrap());
    }
    match request.body.pointer("/status/conditions/0/message") {
        Some(message) => format!("unschedulable: {}", message.as_str().unwrap()),
        None => format!("event {}", request.body["reason"].as_str().unwrap()),
    }
}

fn mk_node(name: &str) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        uid: name.into(),
        revision: 1,
        labels: BTreeMap::from([("zone".to_owned(), name[..1].to_owned())]),
        annotations: BTreeMap::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: BTreeMap::from([(Arc::from("Ready"), ReadyStatus::True)]),
        allocatable: Allocatable::default(),
        internal_ip: None,
        boot_id: String::new(),
        is_terminating: false,
    }
}

fn mk_placement(target: Option<&str>) -> Placement {
    Placement {
        target: target.map(NodeName::from),
        is_gated: false,
        is_ours: true,
        selector: BTreeMap::new(),
        affinity: None,
        tolerations: Vec::new(),
    }
}

fn mk_pod(name: &str, placement: Placement) -> PodFacts {
    PodFacts {
        key: PodKey::new("default", name),
        uid: name.into(),
        revision: 1,
        node: None,
        phase: Phase::Pending,
        ready: ReadyStatus::Absent,
        scheduled: ReadyStatus::Absent,
        terminating: None,
        annotations: BTreeMap::new(),
        containers: Arc::from([]),
        restarts_always: true,
        host_network: false,
        requests: Resources::of_pod(0, 0),
        controller: None,
        has_started: false,
        placement: Some(Box::new(placement)),
    }
}

fn mk_bound(name: &str, node: &str) -> PodFacts {
    PodFacts {
        node: Some(node.into()),
        placement: None,
        ..mk_pod(name, mk_placement(None))
    }
}

#[test]
fn recorded_pods_are_bound_to_the_node_they_name_once_it_exists() {
    let mut bench = Bench::new(Mode::TargetsOnly);
    bench.pod(mk_pod("a", mk_placement(Some("n1"))));
    bench.pod(mk_pod("anywhere", mk_placement(None)));
    assert_eq!(bench.until(5000), Vec::<String>::new());
    // Whatever is said about the node.
    bench.node(NodeFacts {
        unschedulable: true,
        conditions: BTreeMap::new(),
        taints: vec![Taint::new("k", TaintEffect::NoExecute)],
        ..mk_node("n1")
    });
    assert_eq!(bench.until(5000), ["a to n1"]);
    bench.pod(mk_pod("b", mk_placement(Some("n1"))));
    assert_eq!(bench.until(5199), Vec::<String>::new());
    assert_eq!(bench.until(5200), ["b to n1"]);
}

#[test]
fn binding_follows_what_the_kubelet_of_the_node_says() {
    let mut bench = Bench::new(Mode::TargetsOnly);
    bench.node(mk_node("n1"));
    bench.apply(Input::Binding("n1".into(), None));
    bench.pod(mk_pod("a", mk_placement(Some("n1"))));
    assert_eq!(bench.until(5000), Vec::<String>::new());
    bench.apply(Input::Binding("n1".into(), Some(Duration::from_secs(7))));
    assert_eq!(bench.until(6999), Vec::<String>::new());
    assert_eq!(bench.until(7000), ["a to n1"]);
}

#[test]
fn gated_terminating_and_foreign_pods_are_left_alone() {
    let mut bench = Bench::new(Mode::Scheduler);
    bench.node(mk_node("n1"));
    bench.pod(mk_pod(
        "gated",
        Placement {
            is_gated: true,
            ..mk_placement(None)
        },
    ));
    bench.pod(mk_pod(
        "foreign",
        Placement {
            is_ours: false,
            ..mk_placement(None)
        },
    ));
    bench.pod(PodFacts {
        terminating: Some(30),
        ..mk_pod("going", mk_placement(None))
    });
    assert_eq!(bench.until(5000), Vec::<String>::new());
    bench.pod(mk_pod("gated", mk_placement(None)));
    assert_eq!(bench.until(5200), ["gated to n1"]);
}

#[test]
fn pods_go_to_the_ready_node_with_the_fewest() {
    let mut bench = Bench::new(Mode::Scheduler);
    for name in ["a1", "b1", "c1"] {
        bench.node(mk_node(name));
    }
    bench.node(NodeFacts {
        conditions: BTreeMap::new(),
        ..mk_node("down")
    });
    bench.pod(mk_bound("old", "a1"));
    for name in ["p", "q", "r"] {
        bench.pod(mk_pod(name, mk_placement(None)));
    }
    assert_eq!(bench.until(200), ["p to b1", "q to c1", "r to a1"]);
    // What ended takes no place.
    bench.pod(PodFacts {
        phase: Phase::Failed,
        ..mk_bound("old", "a1")
    });
    bench.pod(mk_pod("s", mk_placement(None)));
    assert_eq!(bench.until(400), ["s to a1"]);
}

#[test]
fn what_keeps_a_pod_off_a_node_is_said_once() {
    let taint = Taint::new("k", TaintEffect::NoExecute);
    let full = Allocatable {
        pods: Some(0),
        ..Allocatable::default()
    };
    let selector = BTreeMap::from([("zone".to_owned(), "x".to_owned())]);
    let cases = [
        (
            NodeFacts {
                unschedulable: true,
                ..mk_node("n1")
            },
            mk_placement(None),
            "node(s) were unschedulable",
        ),
        (
            NodeFacts {
                conditions: BTreeMap::new(),
                ..mk_node("n1")
            },
            mk_placement(None),
            "node(s) were not ready",
        ),
        (
            NodeFacts {
                taints: vec![taint],
                ..mk_node("n1")
            },
            mk_placement(None),
            "node(s) had untolerated taint {k: }",
        ),
        (
            NodeFacts {
                allocatable: full,
                ..mk_node("n1")
            },
            mk_placement(None),
            "Too many pods",
        ),
        (
            mk_node("n1"),
            Placement {
                selector,
                ..mk_placement(None)
            },
            "node(s) didn't match Pod's node affinity/selector",
        ),
    ];
    for (node, placement, reason) in cases {
        let mut bench = Bench::new(Mode::Scheduler);
        bench.node(node.clone());
        bench.pod(mk_pod("a", placement));
        let wanted = format!("unschedulable: 0/1 nodes are available: 1 {reason}.");
        assert_eq!(bench.until(5000), [wanted.as_str(), "event FailedScheduling"]);
        bench.node(NodeFacts {
            labels: BTreeMap::from([("zone".to_owned(), "y".to_owned())]),
            ..node
        });
        assert_eq!(bench.until(9000), Vec::<String>::new(), "{reason}");
    }
}

#[test]
fn a_pod_that_waits_is_placed_when_a_node_changes_for_the_better() {
    let mut bench = Bench::new(Mode::Scheduler);
    let full = Allocatable {
        pods: Some(1),
        ..Allocatable::default()
    };
    bench.node(NodeFacts {
        allocatable: full,
        ..mk_node("n1")
    });
    bench.pod(mk_bound("first", "n1"));
    bench.pod(mk_pod("second", mk_placement(None)));
    bench.until(1000);
    assert_eq!(bench.core.pending(), 1);
    bench.apply(Input::PodGone(PodKey::new("default", "first")));
    assert_eq!(bench.until(1000), ["second to n1"]);
    bench.pod(mk_pod("third", mk_placement(None)));
    bench.until(2000);
    bench.node(mk_node("n2"));
    assert_eq!(bench.until(2000), ["third to n2"]);
}

/// A node with room for so many pods, and pods `0` to `4` that found none.
fn mk_crowd(room: u64) -> (Bench, NodeFacts) {
    let mut bench = Bench::new(Mode::Scheduler);
    let mut node = mk_node("a1");
    node.allocatable.pods = Some(0);
    bench.node(node.clone());
    for name in ["0", "1", "2", "3", "4"] {
        bench.pod(mk_pod(name, mk_placement(None)));
    }
    assert_eq!(bench.until(1_000).len(), 10, "a status and an event each");
    node.allocatable.pods = Some(room);
    (bench, node)
}

#[test]
fn room_for_some_wakes_as_many_of_those_that_wait() {
    let (mut bench, node) = mk_crowd(2);
    bench.node(node.clone());
    assert_eq!(bench.until(2_000), ["0 to a1", "1 to a1"]);
    bench.apply(Input::PodGone(PodKey::new("default", "0")));
    assert_eq!(bench.until(3_000), ["2 to a1"]);
    // Cordoned, it is offered to nobody.
    bench.node(NodeFacts {
        unschedulable: true,
        ..node
    });
    bench.apply(Input::PodGone(PodKey::new("default", "1")));
    assert_eq!(bench.until(4_000), [""; 0]);
}

#[test]
fn room_that_a_woken_pod_does_not_take_is_offered_on() {
    let (mut bench, node) = mk_crowd(1);
    bench.node(node);
    bench.apply(Input::PodGone(PodKey::new("default", "0")));
    assert_eq!(bench.until(2_000), ["1 to a1"]);
    let (mut bench, node) = mk_crowd(1);
    bench.node(node);
    // A better node comes before the woken pod is placed.
    bench.node(mk_node("a0"));
    assert_eq!(bench.until(2_000), ["0 to a0", "1 to a1", "2 to a0", "3 to a0", "4 to a0"]);
}

#[test]
fn tolerations_and_named_nodes_decide_as_for_daemon_pods() {
    let mut bench = Bench::new(Mode::Scheduler);
    let taint = Taint::new("node.kubernetes.io/not-ready", TaintEffect::NoExecute);
    let down = NodeFacts {
        conditions: BTreeMap::new(),
        taints: vec![taint],
        unschedulable: true,
        ..mk_node("n1")
    };
    bench.node(down);
    let tolerations = vec![
        Toleration::exists("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
        Toleration::exists("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
    ];
    bench.pod(mk_pod(
        "daemon",
        Placement {
            tolerations,
            ..mk_placement(Some("n1"))
        },
    ));
    bench.pod(mk_pod("plain", mk_placement(Some("n1"))));
    let said = bench.until(1000);
    assert_eq!(said[0], "daemon to n1");
    assert_eq!(
        said[1],
        "unschedulable: 0/1 nodes are available: 1 node(s) were unschedulable."
    );
}

#[test]
fn a_refused_bind_is_tried_again_and_an_old_state_does_not_bind_twice() {
    let mut bench = Bench::new(Mode::Scheduler);
    bench.node(mk_node("n1"));
    bench.pod(mk_pod("a", mk_placement(None)));
    assert_eq!(bench.until(200), ["a to n1"]);
    bench.pod(PodFacts {
        revision: 2,
        ..mk_pod("a", mk_placement(None))
    });
    assert_eq!(bench.until(900), Vec::<String>::new());
    bench.apply(Input::Bound(PodKey::new("default", "a"), false));
    assert_eq!(bench.until(1899), Vec::<String>::new());
    assert_eq!(bench.until(1900), ["a to n1"]);
    bench.apply(Input::Bound(PodKey::new("default", "a"), true));
    bench.pod(mk_bound("a", "n1"));
    assert_eq!(bench.until(9000), Vec::<String>::new());
    assert_eq!(bench.core.pending(), 0);
}
