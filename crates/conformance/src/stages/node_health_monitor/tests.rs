use bailiff_event_bus::{Record, Update};
use bailiff_model::{Incarnation, NodeRef, Origin, Ready, ReadyStatus, Revision, Wall, Zone};
use bailiff_runtime::Clock;

use super::*;
use crate::stages::town::Town;

const NODE: &str = "node-a-000";

/// The program says this of a node.
fn say(timeline: &mut Timeline, name: &str, verdict: Verdict) {
    let health = NodeHealth {
        node: NodeRef {
            name: name.into(),
            uid: "uid".into(),
            resource_version: "1".into(),
        },
        zone: Zone::new("region", "a"),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::Unknown,
            reason: "NodeStatusUnknown".to_owned(),
            since: None,
        },
        verdict,
        last_sign_of_life: None,
        late_since: None,
        counted_from: Wall::UNIX_EPOCH,
        grace: GRACE,
        decided_at: Wall::UNIX_EPOCH,
        held: None,
    };
    let record = Record {
        topic: TOPIC,
        key: name.to_owned(),
        route: String::new(),
        incarnation: Incarnation::default(),
        revision: Revision::default(),
        derived_from: Origin::default(),
        epoch: 0,
        shard: 0,
        producer: "program".to_owned(),
        produced_at: Wall::UNIX_EPOCH,
        age: None,
        received_at: Mono::ORIGIN,
        trace: None,
        body: Some(Body::NodeHealth(Box::new(health))),
        tombstone: None,
    };
    timeline.take(Update::Changes {
        records: vec![record],
        skipped: Vec::new(),
        shards: Vec::new(),
    });
}

/// The program writes that the node's state is unknown.
fn write_unknown(town: &Town) {
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
    town.request(Verb::StrategicMergePatch, &format!("/api/v1/nodes/{NODE}/status"), &unknown);
}

/// The verdict came when it was seen to come; a grace is over that is longer by no more than the leeway.
fn assert_comes_at(seen: &Timeline, at: Mono, what: &str) {
    let grace = at.since_origin() + LEEWAY;
    assert_eq!(early(seen, NODE, Mono::ORIGIN, grace), None, "{what}");
    let longer = grace + Duration::from_nanos(1);
    assert!(
        early(seen, NODE, Mono::ORIGIN, longer).is_some(),
        "{what}, early by a nanosecond"
    );
}

#[test]
fn whoever_judges_before_the_grace_is_over_is_early() {
    let mut town = Town::new(Clock::system());
    say(&mut town.timeline, NODE, Verdict::Late);
    say(&mut town.timeline, "node-b-000", Verdict::Unreachable);
    assert_eq!(
        early(&town.timeline, NODE, Mono::ORIGIN, GRACE * 1_000),
        None,
        "nobody judged it"
    );
    say(&mut town.timeline, NODE, Verdict::Unreachable);
    let (_, said, _) = said(&town.timeline, 0).last().expect("it was said");
    assert_comes_at(&town.timeline, said, "it was said");

    write_unknown(&town);
    town.timeline.catch_up();
    assert_comes_at(&town.timeline, said, "it was said before it was written");

    let mut town = Town::new(Clock::system());
    write_unknown(&town);
    say(&mut town.timeline, NODE, Verdict::Unreachable);
    let (_, written) = unknowns(&town.timeline).next().expect("it was written");
    assert_comes_at(&town.timeline, written.at.mono, "it was written before it was said");
}
