//! What the taint-manager keeps of a node and of a pod at rest, in bytes of the allocator.

use bailiff_footprint::fleet::{self, NOW};
use bailiff_footprint::{Bytes, held};
use bailiff_model::{Effect as TaintEffect, Origin, ReadyStatus, Revision, Toleration, Wall, wellknown};
use bailiff_taint_core::{Config, HealthRecord, Input, Manager, NodeFacts, NodeReady, PlatformLabels, PodFacts};

const NODES: usize = 20_000;
const PODS: usize = 100_000;
const NODE: Bytes = Bytes { known: 424, most: 512 };
const POD: Bytes = Bytes { known: 192, most: 256 };

fn mk_node(nth: usize) -> NodeFacts {
    let text = |text: &str| Some(text.into());
    NodeFacts {
        node: fleet::reference(nth),
        zone: fleet::zone(nth),
        created: Some(Wall::UNIX_EPOCH),
        taints: fleet::taint(nth).into_iter().collect(),
        ready: NodeReady {
            status: ReadyStatus::True,
            stopped_posting: false,
            since: Some(Wall::UNIX_EPOCH.into()),
        },
        labels: PlatformLabels {
            os: text("linux"),
            arch: text("amd64"),
            os_beta: text("linux"),
            arch_beta: text("amd64"),
        },
        ..NodeFacts::default()
    }
}

fn mk_health(nth: usize) -> HealthRecord {
    let health = fleet::health(nth);
    HealthRecord {
        // As the taint-manager reads it.
        name: health.node.name.clone(),
        origin: Origin::new("bus".into(), Revision(nth as u64)),
        trace: None,
        health: Some(health),
    }
}

/// With the two tolerations that the API server adds, and in every tenth pod one of its own.
fn mk_pod(nth: usize) -> PodFacts {
    let tolerates = |key: &str, seconds| Toleration {
        seconds,
        ..Toleration::exists(key, TaintEffect::NoExecute)
    };
    let mut tolerations = vec![
        tolerates(wellknown::TAINT_NOT_READY, Some(300)),
        tolerates(wellknown::TAINT_UNREACHABLE, Some(300)),
    ];
    if nth.is_multiple_of(10) {
        tolerations.push(tolerates("nvidia.com/gpu", None));
    }
    PodFacts {
        pod: fleet::pod(nth),
        // In no order, as they come in time.
        node: fleet::name(nth * 7_919 % NODES),
        tolerations,
        ready: ReadyStatus::True,
        ready_since: Some(Wall::UNIX_EPOCH),
        bound: Some(Wall::UNIX_EPOCH),
        terminating: false,
    }
}

fn give_nodes(manager: &mut Manager) {
    let mut give = |input| drop(manager.apply(input, NOW));
    give(Input::Nodes((0..NODES).map(mk_node).collect()));
    give(Input::Pods(Vec::new().into()));
    give(Input::Health {
        snapshot: true,
        complete: true,
        records: (0..NODES).map(mk_health).collect(),
        unreadable: Vec::new(),
    });
}

fn give_pods(manager: &mut Manager) {
    for nth in 0..PODS {
        drop(manager.apply(Input::Pod(mk_pod(nth)), NOW));
    }
}

fn begin(manager: &mut Manager) {
    drop(manager.apply(Input::Inherit(Vec::new()), NOW));
    assert_eq!(manager.waits_for(), None);
}

#[test]
fn a_node_and_a_pod_take_few_bytes() {
    let before = held();
    let mut manager = Manager::new(Config::default());
    give_nodes(&mut manager);
    begin(&mut manager);
    let with_nodes = held();
    give_pods(&mut manager);
    let with_pods = held();
    assert_eq!((manager.stats().nodes, manager.stats().pods), (NODES, PODS));
    NODE.check("node", (with_nodes - before) / NODES);
    POD.check("pod", (with_pods - with_nodes) / PODS);
    drop(manager);

    // What is known of a pod until intents are decided is forgotten then.
    let before = held();
    let mut manager = Manager::new(Config::default());
    give_nodes(&mut manager);
    give_pods(&mut manager);
    begin(&mut manager);
    POD.check(
        "pod that was there first",
        (held() - before).saturating_sub(NODES * NODE.known) / PODS,
    );
}
