//! What the zone-evictor keeps of a node at rest and of a pod that is due, in bytes of the allocator. Of other pods it keeps nothing.

use bailiff_footprint::fleet::{self, NOW};
use bailiff_footprint::{Bytes, held};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::{
    Effect as TaintEffect, Labels, Origin, PodRef, ReadyStatus, Revision, Taint, Toleration, Topic, TraceContext, Wall, wellknown,
};
use bailiff_zone_core::{Body, Config, Effect, Evictor, Input, NodeFacts, PodAnswer, PodFacts, Record, ShardStatus};

const NODES: usize = 20_000;
const NODE: Bytes = Bytes { known: 498, most: 512 };

const PODS: usize = 20_000;
const WAITS: Bytes = Bytes { known: 729, most: 832 };
const DELETED: Bytes = Bytes { known: 705, most: 832 };

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
        body: Some(Body::Health(Box::new(fleet::health(nth)))),
    }
}

fn maintenance() -> Taint {
    Taint {
        time_added: Some(Wall::UNIX_EPOCH),
        ..Taint::new("maintenance", TaintEffect::NoExecute)
    }
}

/// A pod that has to go from its node because of a taint put there by hand.
fn mk_due(nth: usize) -> Record {
    let intent = PodEviction {
        pod: fleet::pod(nth),
        node: fleet::reference(0),
        zone: fleet::zone(0),
        cause: EvictionCause::Taints {
            taints: vec![maintenance()],
            tolerations: Vec::new(),
        }
        .into(),
        state: IntentState::Due,
        trigger: Trigger::Untolerated,
        due_at: Wall::UNIX_EPOCH,
        decided_at: Wall::UNIX_EPOCH,
    };
    Record {
        topic: Topic::EvictionIntents,
        key: format!("pod/{}", intent.pod.uid),
        trace: Some(TraceContext::derived(&[&intent.pod.uid.to_string()])),
        body: Some(Body::Intent(Intent::Pod(Box::new(intent)))),
        ..mk_health(nth)
    }
}

/// The pod as the answer to its mark shows it.
fn mk_answer(pod: PodRef) -> PodFacts {
    let tolerates = |key: &str| Toleration {
        seconds: Some(300),
        ..Toleration::exists(key, TaintEffect::NoExecute)
    };
    PodFacts {
        namespace: pod.namespace,
        name: pod.name,
        uid: pod.uid.clone(),
        resource_version: "223456789".into(),
        generation: 1,
        node: fleet::name(0),
        tolerations: vec![tolerates(wellknown::TAINT_NOT_READY), tolerates(wellknown::TAINT_UNREACHABLE)],
        disruption_target: true,
        marked: true,
        reason: String::new(),
        terminating: false,
        labels: Labels::default(),
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

fn give(evictor: &mut Evictor, input: Input) -> Vec<Effect> {
    evictor.apply(input, NOW)
}

#[test]
fn a_node_and_a_pod_that_is_due_take_few_bytes() {
    let before = held();
    let mut evictor = Evictor::new(Config::default());
    give(&mut evictor, Input::Nodes((0..NODES).map(mk_node).collect()));
    give(&mut evictor, Input::ApiFresh(true));
    give(
        &mut evictor,
        Input::Snapshot {
            records: (0..NODES).map(mk_health).collect(),
            shards: [Topic::NodeHealth, Topic::EvictionIntents, Topic::EvictionOutcomes]
                .map(mk_shard)
                .into(),
        },
    );
    // A node's status changes now and then.
    for nth in 0..NODES {
        let resource_version = "223456789".into();
        give(
            &mut evictor,
            Input::NodeApplied(NodeFacts {
                resource_version,
                ..mk_node(nth)
            }),
        );
    }
    assert_eq!(evictor.waits_for(), None);
    NODE.check("node", (held() - before) / NODES);

    let mut node = mk_node(0);
    node.resource_version = "323456789".into();
    node.taints.push(maintenance());
    give(&mut evictor, Input::NodeApplied(node));
    let with_nodes = held();
    let records = (0..PODS).map(mk_due).collect();
    let shards = Vec::new();
    let effects = give(&mut evictor, Input::Changes { records, shards });
    let mut asked: Vec<_> = effects.into_iter().filter_map(answered).collect();
    asked.shrink_to_fit();
    let (held_back, waiting, under_way) = evictor.due_pods();
    assert_eq!((held_back, waiting + under_way), (0, PODS));
    WAITS.check("pod that waits for its turn", (held() - with_nodes) / PODS);

    while let Some(answer) = asked.pop() {
        asked.extend(give(&mut evictor, answer).into_iter().filter_map(answered));
    }
    assert_eq!(evictor.due_pods(), (0, 0, 0));
    DELETED.check("pod that was deleted", (held() - with_nodes) / PODS);
}

/// What the API server says to a request.
fn answered(effect: Effect) -> Option<Input> {
    let (ticket, answer) = match effect {
        Effect::MarkPod { ticket, pod, .. } => (ticket, PodAnswer::Facts(mk_answer(pod))),
        Effect::DeletePod { ticket, .. } => (ticket, PodAnswer::Deleted),
        _ => return None,
    };
    Some(Input::PodAnswer {
        ticket,
        result: Ok(answer),
    })
}
