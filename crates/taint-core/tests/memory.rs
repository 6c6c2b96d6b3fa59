//! What the taint-manager keeps of a node and of a pod at rest, in bytes of the allocator.

use std::alloc::System;
use std::time::Duration;

use bailiff_model::{
    Effect as TaintEffect, Mono, NodeHealth, NodeName, NodeRef, Now, Origin, PodRef, Ready, ReadyStatus, Revision, SignOfLife,
    Signal, Taint, Toleration, Verdict, Wall, Zone, wellknown,
};
use bailiff_taint_core::{Config, HealthRecord, Input, Manager, NodeFacts, NodeReady, PlatformLabels, PodFacts};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const NODES: usize = 20_000;
const PODS: usize = 100_000;
/// What a node and a pod took when this was last looked at, all indexes and their room to grow included, and what they may take at most.
const NODE_BYTES: usize = 424;
const MOST_NODE_BYTES: usize = 512;
const POD_BYTES: usize = 200;
const MOST_POD_BYTES: usize = 256;

const NOW: Now = Now {
    mono: Mono::from_origin(Duration::from_secs(1000)),
    wall: Wall::UNIX_EPOCH,
};

fn mk_name(nth: usize) -> NodeName {
    let (high, low) = (100 + nth / 250, nth % 250);
    NodeName::from(format!("ip-10-{high}-{low}-{low}.eu-west-1.compute.internal"))
}

fn mk_ref(nth: usize) -> NodeRef {
    NodeRef {
        name: mk_name(nth),
        uid: format!("{nth:08x}-5f02-4c8c-b8a2-9f0d6f2b{nth:04x}").into(),
        resource_version: "123456789".into(),
    }
}

fn mk_zone(nth: usize) -> Zone {
    Zone::new("eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"][nth % 3])
}

/// One in twenty has a taint, as nodes for some special use do.
fn mk_node(nth: usize) -> NodeFacts {
    let text = |text: &str| Some(text.into());
    NodeFacts {
        node: mk_ref(nth),
        zone: mk_zone(nth),
        created: Some(Wall::UNIX_EPOCH),
        taints: nth
            .is_multiple_of(20)
            .then(|| Taint::new("nvidia.com/gpu", TaintEffect::NoSchedule))
            .into_iter()
            .collect(),
        ready: NodeReady {
            status: ReadyStatus::True,
            stopped_posting: false,
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
    HealthRecord {
        name: mk_name(nth),
        origin: Origin::new("bus".into(), Revision(nth as u64)),
        trace: None,
        health: Some(NodeHealth {
            node: mk_ref(nth),
            zone: mk_zone(nth),
            excluded_from_disruption: false,
            ready: Ready {
                status: ReadyStatus::True,
                reason: "KubeletReady".to_owned(),
                since: Some(Wall::UNIX_EPOCH),
            },
            verdict: Verdict::Healthy,
            last_sign_of_life: Some(SignOfLife {
                time: Wall::UNIX_EPOCH,
                signal: Signal::Lease,
                renew_time: Some(Wall::UNIX_EPOCH),
            }),
            late_since: None,
            counted_from: Wall::UNIX_EPOCH,
            grace: Duration::from_secs(50),
            decided_at: Wall::UNIX_EPOCH,
            held: None,
        }),
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
        pod: PodRef {
            namespace: ["kube-system", "default", "payments"][nth % 3].into(),
            name: format!("coredns-{:010x}-{:05x}", nth / 10, nth).into(),
            uid: format!("{nth:08x}-3a1b-4d52-9e77-0c5d8e1a{:04x}", nth % 0x1_0000).into(),
            resource_version: "123456789".into(),
            disruption_target: false,
            generation: 1,
        },
        // In no order, as they come in time.
        node: mk_name(nth * 7_919 % NODES),
        tolerations,
        ready: ReadyStatus::True,
        bound: Some(Wall::UNIX_EPOCH),
        terminating: false,
    }
}

#[test]
fn a_node_and_a_pod_take_few_bytes() {
    let before = ALLOCATOR.allocated();
    let mut manager = Manager::new(Config::default());
    let mut give = |input| drop(manager.apply(input, NOW));
    give(Input::Nodes((0..NODES).map(mk_node).collect()));
    give(Input::Pods(Vec::new().into()));
    give(Input::Health {
        snapshot: true,
        complete: true,
        records: (0..NODES).map(mk_health).collect(),
        unreadable: Vec::new(),
    });
    give(Input::Inherit(Vec::new()));
    let with_nodes = ALLOCATOR.allocated();
    for nth in 0..PODS {
        give(Input::Pod(mk_pod(nth)));
    }
    let with_pods = ALLOCATOR.allocated();
    assert_eq!((manager.stats().nodes, manager.stats().pods), (NODES, PODS));
    assert_eq!(manager.waits_for(), None);
    let (node, pod) = ((with_nodes - before) / NODES, (with_pods - with_nodes) / PODS);
    println!("{node} bytes per node, {pod} per pod");
    for (what, bytes, known, most) in [
        ("node", node, NODE_BYTES, MOST_NODE_BYTES),
        ("pod", pod, POD_BYTES, MOST_POD_BYTES),
    ] {
        let most = most.min(known + known / 20);
        assert!(bytes <= most, "{bytes} bytes per {what}, {known} before, {most} at most");
    }
}
