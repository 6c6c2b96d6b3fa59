//! What is kept: as much as there are nodes, zones and pods, and nothing of what is gone.

use bailiff_model::health::{Ready, Verdict};
use bailiff_model::intent::{EvictionCause, HealthTaint, Intent, IntentState, NodeIsolation, PodEviction, Trigger};
use bailiff_model::{
    Load, Mono, NodeHealth, NodeName, NodeRef, Now, Origin, PodRef, PodUid, ReadyStatus, ResourceVersion, Revision, Taint, Topic,
    Wall, Zone,
};

use super::Evictor;
use crate::config::Config;
use crate::fact::NodeFacts;
use crate::input::{Body, Failure, FailureKind, Input, Record, ShardStatus};
use crate::{Effect, Ticket};

const NOW: Now = Now {
    mono: Mono::ORIGIN,
    wall: Wall::UNIX_EPOCH,
};

fn mk_node() -> NodeFacts {
    NodeFacts {
        name: NodeName::from("n"),
        uid: "n-uid".into(),
        resource_version: ResourceVersion::from("1"),
        zone: Zone::new("", "a"),
        excluded_from_disruption: false,
        ready: ReadyStatus::Unknown,
        recovered_at: None,
        taints: vec![Taint::new("maintenance", bailiff_model::Effect::NoExecute)],
    }
}

fn mk_record(topic: Topic, key: &str, revision: u64, body: Option<Body>) -> Record {
    Record {
        topic,
        key: key.to_owned(),
        origin: Origin::new("bus".into(), Revision(revision)),
        derived_from: Origin::new("bus".into(), Revision(1)),
        produced_at: NOW.wall,
        age: None,
        is_echo: false,
        trace: None,
        body,
    }
}

fn mk_health(node: NodeRef) -> Body {
    Body::Health(Box::new(NodeHealth {
        node,
        zone: Zone::new("", "a"),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::Unknown,
            reason: String::new(),
            since: None,
        },
        verdict: Verdict::Unreachable,
        last_sign_of_life: None,
        late_since: None,
        counted_from: NOW.wall,
        grace: std::time::Duration::from_secs(50),
        decided_at: NOW.wall,
        held: None,
    }))
}

fn mk_pod_intent(node: NodeRef) -> Body {
    Body::Intent(Intent::Pod(Box::new(PodEviction {
        pod: PodRef {
            uid: PodUid::from("p-uid"),
            ..PodRef::default()
        },
        node,
        zone: Zone::new("", "a"),
        cause: EvictionCause::Taints {
            taints: mk_node().taints,
            tolerations: vec![],
        }
        .into(),
        state: IntentState::Due,
        trigger: Trigger::Untolerated,
        due_at: NOW.wall,
        decided_at: NOW.wall,
    })))
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

fn mk_failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        retry_after: None,
        load: Load::Answered,
        detail: String::new(),
    }
}

/// The tickets of what is asked for.
fn asked(effects: &[Effect]) -> Vec<Ticket> {
    let ticket = |effect: &Effect| match effect {
        Effect::ReadPod { ticket, .. } | Effect::MarkPod { ticket, .. } | Effect::ReadNode { ticket, .. } => Some(*ticket),
        _ => None,
    };
    effects.iter().filter_map(ticket).collect()
}

/// NL-032, design §1: a node that came, fell silent, lost a pod and went leaves nothing behind but its zone.
#[test]
fn nothing_is_kept_of_a_node_that_is_gone() {
    let mut evictor = Evictor::new(Config::default());
    let node = mk_node();
    let wish = Body::Intent(Intent::Isolation(Box::new(NodeIsolation {
        node: node.reference(),
        zone: node.zone.clone(),
        taint: HealthTaint::Unreachable,
        cause: String::new(),
        decided_at: NOW.wall,
    })));
    let records = vec![
        mk_record(Topic::NodeHealth, "n", 1, Some(mk_health(node.reference()))),
        mk_record(Topic::EvictionIntents, "node/n", 2, Some(wish)),
        mk_record(Topic::EvictionIntents, "pod/p-uid", 3, Some(mk_pod_intent(node.reference()))),
    ];
    let shards = [Topic::NodeHealth, Topic::EvictionIntents].map(mk_shard).to_vec();
    evictor.apply(Input::Nodes(vec![node.clone()].into()), NOW);
    let effects = evictor.apply(Input::Snapshot { records, shards }, NOW);
    assert_eq!(evictor.nodes.len(), 1);
    let gone = |ticket| Input::PodAnswer {
        ticket,
        result: Err(mk_failure(FailureKind::Gone)),
    };
    for ticket in asked(&effects) {
        evictor.apply(gone(ticket), NOW);
    }
    let (name, uid) = (node.name.clone(), Some(node.uid));
    evictor.apply(Input::NodeDeleted { name, uid }, NOW);
    let tombstones = [
        (Topic::NodeHealth, "n"),
        (Topic::EvictionIntents, "node/n"),
        (Topic::EvictionIntents, "pod/p-uid"),
    ];
    let records = tombstones
        .into_iter()
        .zip(4..)
        .map(|((topic, key), revision)| mk_record(topic, key, revision, None));
    let (records, shards) = (records.collect(), vec![]);
    evictor.apply(Input::Changes { records, shards }, NOW);
    assert!(evictor.nodes.is_empty(), "{:?}", evictor.nodes);
    assert_eq!(evictor.pods.uids().count(), 0);
    assert!(evictor.askers.is_empty(), "{:?}", evictor.askers);
    assert_eq!(evictor.timers.first(), None);
    assert_eq!(evictor.zones.len(), 1);
}

/// TE-034, design §3: nor that a node is gone, once the last pod that was due on it is due on another one.
#[test]
fn nothing_is_kept_of_a_node_that_is_gone_once_nothing_is_due_on_it() {
    for has_failed in [false, true] {
        let mut evictor = Evictor::new(Config::default());
        evictor.apply(Input::Nodes(vec![].into()), NOW);
        let [gone, other] = ["n-uid", "other"].map(|uid| NodeRef {
            uid: uid.into(),
            ..mk_node().reference()
        });
        let mk_due = |revision, node: &NodeRef| {
            let body = Some(mk_pod_intent(node.clone()));
            let records = vec![mk_record(Topic::EvictionIntents, "pod/p-uid", revision, body)];
            Input::Changes { records, shards: vec![] }
        };
        let (records, shards) = (vec![], vec![mk_shard(Topic::EvictionIntents)]);
        evictor.apply(Input::Snapshot { records, shards }, NOW);
        let reads = asked(&evictor.apply(mk_due(1, &gone), NOW));
        let requests: Vec<Effect> = reads
            .into_iter()
            .flat_map(|ticket| {
                let result = Err(mk_failure(FailureKind::Gone));
                evictor.apply(Input::NodeAnswer { ticket, result }, NOW)
            })
            .collect();
        assert!(evictor.pods.is_gone(&gone));
        for ticket in asked(&requests).into_iter().filter(|_| has_failed) {
            let result = Err(mk_failure(FailureKind::Throttled));
            evictor.apply(Input::PodAnswer { ticket, result }, NOW);
        }
        assert_eq!(evictor.due_pods().2, usize::from(!has_failed));
        evictor.apply(mk_due(2, &other), NOW);
        assert!(!evictor.pods.is_gone(&gone), "has failed: {has_failed}");
    }
}
