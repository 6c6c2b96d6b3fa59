//! What the zone-evictor keeps of a node at rest, in bytes of the allocator. Of pods it keeps those that are due.

use std::alloc::System;
use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, SignOfLife, Signal};
use bailiff_model::{Effect as TaintEffect, Mono, NodeName, Now, Origin, ReadyStatus, Revision, Taint, Topic, Verdict, Wall, Zone};
use bailiff_zone_core::{Body, Config, Evictor, Input, NodeFacts, Record, ShardStatus};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const NODES: usize = 20_000;
/// What a node took when this was last looked at, all indexes and their room to grow included, and what it may take at most.
const BYTES: usize = 506;
const MOST_BYTES: usize = 512;

const NOW: Now = Now {
    mono: Mono::from_origin(Duration::from_secs(1000)),
    wall: Wall::UNIX_EPOCH,
};

/// One in twenty has a taint, as nodes for some special use do.
fn mk_node(nth: usize) -> NodeFacts {
    let (high, low) = (100 + nth / 250, nth % 250);
    NodeFacts {
        name: NodeName::from(format!("ip-10-{high}-{low}-{low}.eu-west-1.compute.internal")),
        uid: format!("{nth:08x}-5f02-4c8c-b8a2-9f0d6f2b{nth:04x}").into(),
        resource_version: "123456789".into(),
        zone: Zone::new("eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"][nth % 3]),
        excluded_from_disruption: false,
        ready: ReadyStatus::True,
        recovered_at: Some(Wall::UNIX_EPOCH),
        taints: nth
            .is_multiple_of(20)
            .then(|| Taint::new("nvidia.com/gpu", TaintEffect::NoSchedule))
            .into_iter()
            .collect(),
    }
}

fn mk_health(nth: usize) -> Record {
    let node = mk_node(nth);
    let health = NodeHealth {
        node: node.reference(),
        zone: node.zone,
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
    };
    Record {
        topic: Topic::NodeHealth,
        key: node.name.to_string(),
        origin: Origin::new("3b1f0c52-7d6e".into(), Revision(nth as u64)),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: None,
        is_echo: false,
        trace: None,
        body: Some(Body::Health(health)),
    }
}

fn mk_shard(topic: Topic) -> ShardStatus {
    ShardStatus {
        topic,
        shard: 0,
        shard_count: 1,
        complete: true,
        live: true,
        detail: String::new(),
    }
}

#[test]
fn a_node_takes_few_bytes() {
    let before = ALLOCATOR.allocated();
    let mut evictor = Evictor::new(Config::default());
    let mut give = |input| drop(evictor.apply(input, NOW));
    give(Input::Nodes((0..NODES).map(mk_node).collect()));
    give(Input::ApiFresh(true));
    give(Input::Snapshot {
        records: (0..NODES).map(mk_health).collect(),
        shards: [Topic::NodeHealth, Topic::EvictionIntents, Topic::EvictionOutcomes]
            .map(mk_shard)
            .into(),
    });
    // A node's status changes now and then.
    for nth in 0..NODES {
        let resource_version = "223456789".into();
        give(Input::NodeApplied(NodeFacts {
            resource_version,
            ..mk_node(nth)
        }));
    }
    assert_eq!(evictor.waits_for(), None);
    let bytes = (ALLOCATOR.allocated() - before) / NODES;
    println!("{bytes} bytes per node");
    let most = MOST_BYTES.min(BYTES + BYTES / 20);
    assert!(bytes <= most, "{bytes} bytes per node, {BYTES} before, {most} at most");
}
