//! What the zone-evictor keeps of a node at rest, in bytes of the allocator. Of pods it keeps those that are due.

use bailiff_footprint::fleet::{self, NOW};
use bailiff_footprint::{Bytes, held};
use bailiff_model::{Origin, ReadyStatus, Revision, Topic, Wall};
use bailiff_zone_core::{Body, Config, Evictor, Input, NodeFacts, Record, ShardStatus};

const NODES: usize = 20_000;
const NODE: Bytes = Bytes { known: 506, most: 512 };

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        name: fleet::name(nth),
        uid: fleet::uid(nth),
        resource_version: "123456789".into(),
        zone: fleet::zone(nth),
        excluded_from_disruption: false,
        ready: ReadyStatus::True,
        recovered_at: Some(Wall::UNIX_EPOCH),
        taints: fleet::taint(nth).into_iter().collect(),
    }
}

fn mk_health(nth: usize) -> Record {
    Record {
        topic: Topic::NodeHealth,
        key: fleet::name(nth).to_string(),
        origin: Origin::new("3b1f0c52-7d6e".into(), Revision(nth as u64)),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: None,
        is_echo: false,
        trace: None,
        body: Some(Body::Health(fleet::health(nth))),
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
    let before = held();
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
    NODE.check("node", (held() - before) / NODES);
}
