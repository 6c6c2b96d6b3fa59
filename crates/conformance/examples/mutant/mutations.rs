//! Ways to break a contract, named by the item that has to find them.

use std::collections::BTreeMap;

use bailiff_proto::v1 as pb;
use bailiff_proto::v1::envelope::Body;
use bailiff_proto::v1::{Envelope, EvictionTrigger, IntentState, NodeOutcomeState, PodOutcomeState, ShardStatus, Verdict};

/// Words that are exchanged for others of the same length.
pub type Words = &'static [(&'static str, &'static str)];

/// Takes the NoExecute taint that follows the NoSchedule taint off a node; refused where there is none.
const UNTAINT: &str = r#"[
    {"op": "test", "path": "/spec/taints/1/effect", "value": "NoExecute"},
    {"op": "remove", "path": "/spec/taints/1"}
]"#;

/// Allowed where [`UNTAINT`] is, and changes nothing.
const IS_TAINTED: &str = r#"[{"op": "test", "path": "/spec/taints/1/effect", "value": "NoExecute"}]"#;

/// What is changed on the way.
#[derive(Clone, Copy)]
pub struct Mutation {
    /// A record that the stage says.
    pub said: fn(&mut Memory, &mut Envelope),
    /// A record that the stage hears; `false`: it does not.
    pub heard: fn(&mut Envelope) -> bool,
    /// The state of a shard that the stage hears.
    pub shards: fn(&mut ShardStatus),
    /// Words of the stage to the API server.
    pub requests: Words,
    /// Words of the API server to the stage.
    pub answers: Words,
    /// What the stage is started with beside.
    pub flags: &'static [&'static str],
    /// A JSON patch of an object that is tried each time before the stage starts.
    pub first: Option<(&'static str, &'static str)>,
    /// What it is started with instead of `flags` where that was allowed.
    pub flags_again: &'static [&'static str],
}

/// What was said before.
#[derive(Debug, Default)]
pub struct Memory {
    /// The latest record of each key that was no removal.
    last: BTreeMap<String, Body>,
    /// The first uid of each name.
    uids: BTreeMap<String, String>,
}

/// Whoever asks for protobuf gets JSON, in which there are words to be exchanged.
const IN_JSON: Words = &[("application/vnd.kubernetes.protobuf", "application/json                   ")];

const NONE: Mutation = Mutation {
    said: |_, _| {},
    heard: |_| true,
    shards: |_| {},
    requests: &[],
    answers: &[],
    flags: &[],
    first: None,
    flags_again: &[],
};

/// The mutation of this name.
pub fn of(name: &str) -> Option<&'static Mutation> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, mutation)| mutation)
}

static ALL: [(&str, Mutation); 21] = [
    // === node-health-monitor ===
    (
        "impatient",
        Mutation {
            flags: &["--node-monitor-grace-period=2s", "--node-monitor-period=500ms"],
            ..NONE
        },
    ),
    (
        "late-is-silent",
        Mutation {
            said: late_is_silent,
            // Its grace is over sooner than it may be, so that LATE comes soon. Who only observes judges nobody when it is.
            flags: &["--node-monitor-grace-period=4s", "--observe"],
            ..NONE
        },
    ),
    (
        "never-heals",
        Mutation {
            said: never_heals,
            ..NONE
        },
    ),
    (
        "forgets-node-uids",
        Mutation {
            said: forgets_node_uids,
            ..NONE
        },
    ),
    (
        "only-publishes",
        Mutation {
            flags: &["--observe"],
            ..NONE
        },
    ),
    // === taint-manager ===
    (
        "never-withdraws",
        Mutation {
            said: never_withdraws,
            ..NONE
        },
    ),
    (
        "forgets-pod-uids",
        Mutation {
            said: forgets_pod_uids,
            ..NONE
        },
    ),
    (
        "always-due",
        Mutation {
            said: always_due,
            ..NONE
        },
    ),
    (
        "names-no-origin",
        Mutation {
            said: names_no_origin,
            ..NONE
        },
    ),
    (
        "forgets-starts",
        Mutation {
            heard: hears_no_intents,
            requests: IN_JSON,
            answers: &[("\"timeAdded\"", "\"timeBdded\"")],
            ..NONE
        },
    ),
    // === zone-evictor ===
    (
        "scheduled-is-due",
        Mutation {
            heard: scheduled_is_due,
            ..NONE
        },
    ),
    (
        "withdrawn-is-due",
        Mutation {
            heard: withdrawn_is_due,
            ..NONE
        },
    ),
    (
        "ignores-holds",
        Mutation {
            shards: always_live,
            ..NONE
        },
    ),
    (
        "trusts-intents",
        Mutation {
            flags: &["--accept-intents=any"],
            ..NONE
        },
    ),
    (
        "says-before",
        Mutation {
            said: says_before,
            ..NONE
        },
    ),
    (
        "hurries",
        Mutation {
            flags: &["--node-eviction-rate=50"],
            ..NONE
        },
    ),
    (
        "marks-nothing",
        Mutation {
            requests: &[("DisruptionTarget", "DisruptionTargeX")],
            ..NONE
        },
    ),
    (
        "forgets-grants",
        Mutation {
            // Until it is killed it keeps to the rate that it is told, so that only what it forgets is found. Who hears that nodes became
            // ready just now may take that for a grant, and lets the first node wait for a turn: it does not hear when they did.
            requests: IN_JSON,
            answers: &[("\"lastTransitionTime\"", "\"lastTransitionTimX\"")],
            first: Some(("/api/v1/nodes/node-a-000", IS_TAINTED)),
            flags_again: &["--node-eviction-rate=50"],
            ..NONE
        },
    ),
    (
        "begins-anew",
        Mutation {
            first: Some(("/api/v1/nodes/node-a-000", UNTAINT)),
            ..NONE
        },
    ),
    // === daemonset-syncer ===
    (
        "takes-all",
        Mutation {
            answers: &[("\"maxUnavailable\":1", "\"maxUnavailable\":4")],
            ..NONE
        },
    ),
    (
        "ignores-taints",
        Mutation {
            requests: IN_JSON,
            answers: &[("\"effect\":\"NoSchedule\"", "\"effect\":\"NoSchedulX\"")],
            ..NONE
        },
    ),
];

fn late_is_silent(_: &mut Memory, record: &mut Envelope) {
    if let Some(Body::NodeHealth(health)) = &mut record.body
        && health.verdict() == Verdict::Late
    {
        health.set_verdict(Verdict::Unreachable);
    }
}

fn never_heals(memory: &mut Memory, record: &mut Envelope) {
    let Some(Body::NodeHealth(health)) = &mut record.body else {
        return;
    };
    let was_silent = matches!(memory.last.get(&record.key), Some(Body::NodeHealth(last)) if last.verdict() == Verdict::Unreachable);
    if was_silent {
        health.set_verdict(Verdict::Unreachable);
    }
    memory.last.insert(record.key.clone(), Body::NodeHealth(health.clone()));
}

fn forgets_node_uids(memory: &mut Memory, record: &mut Envelope) {
    if let Some(Body::NodeHealth(pb::NodeHealth { node: Some(node), .. })) = &mut record.body {
        node.uid = memory
            .uids
            .entry(node.name.clone())
            .or_insert_with(|| node.uid.clone())
            .clone();
    }
}

/// What was wanted once is wanted for ever.
fn never_withdraws(memory: &mut Memory, record: &mut Envelope) {
    let is_over = match &record.body {
        Some(Body::PodEviction(eviction)) => eviction.state() == IntentState::Withdrawn,
        Some(Body::Tombstone(_)) => true,
        _ => false,
    };
    if is_over && let Some(last) = memory.last.get(&record.key) {
        record.body = Some(last.clone());
    } else if let Some(body) = &record.body {
        memory.last.insert(record.key.clone(), body.clone());
    }
}

fn forgets_pod_uids(memory: &mut Memory, record: &mut Envelope) {
    if let Some(Body::PodEviction(pb::PodEviction { pod: Some(pod), .. })) = &mut record.body {
        pod.uid = memory.uids.entry(pod.name.clone()).or_insert_with(|| pod.uid.clone()).clone();
        record.key = format!("pod/{}", pod.uid);
    }
}

fn always_due(_: &mut Memory, record: &mut Envelope) {
    if let Some(Body::PodEviction(eviction)) = &mut record.body
        && eviction.state() == IntentState::Scheduled
    {
        eviction.set_state(IntentState::Due);
        eviction.set_trigger(EvictionTrigger::Expired);
    }
}

fn names_no_origin(_: &mut Memory, record: &mut Envelope) {
    record.derived_from = 0;
    record.derived_from_incarnation.clear();
}

fn hears_no_intents(record: &mut Envelope) -> bool {
    record.topic != "eviction-intents"
}

fn scheduled_is_due(record: &mut Envelope) -> bool {
    if let Some(Body::PodEviction(eviction)) = &mut record.body
        && eviction.state() == IntentState::Scheduled
    {
        eviction.set_state(IntentState::Due);
    }
    true
}

/// What was withdrawn is heard no more: what was heard before stands.
fn withdrawn_is_due(record: &mut Envelope) -> bool {
    !matches!(&record.body, Some(Body::PodEviction(eviction)) if eviction.state() == IntentState::Withdrawn)
}

fn always_live(shard: &mut ShardStatus) {
    shard.live = true;
    shard.detail.clear();
}

fn says_before(_: &mut Memory, record: &mut Envelope) {
    match &mut record.body {
        Some(Body::PodOutcome(outcome)) if matches!(outcome.state(), PodOutcomeState::Evicting | PodOutcomeState::Held) => {
            outcome.set_state(PodOutcomeState::Deleted);
            outcome.held = None;
        }
        Some(Body::NodeOutcome(outcome)) if matches!(outcome.state(), NodeOutcomeState::Queued | NodeOutcomeState::Held) => {
            outcome.set_state(NodeOutcomeState::Isolated);
            (outcome.held, outcome.position, outcome.expected_at) = (None, 0, None);
        }
        _ => {}
    }
}
