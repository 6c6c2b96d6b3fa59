//! What a stream says that this reader does not understand.

use bailiff_model::Wall;
use prost::Message as _;

use super::*;
use crate::record::TombstoneReason;
use crate::server::{Server, ServerOptions};

fn mk_subscription() -> Subscription {
    let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let options = SubscribeOptions {
        topics: vec![Topic::NodeHealth],
        filters: Vec::new(),
        subscriber: "test".to_owned(),
    };
    subscribe(&Bus::in_process(&server), options, &clock, &seed)
}

/// A tombstone, unless `body` is another one.
fn mk_envelope(topic: &str, key: &str, reason: i32) -> pb::Envelope {
    pb::Envelope {
        topic: topic.to_owned(),
        key: key.to_owned(),
        revision: 7,
        producer: "monitor".to_owned(),
        produced_at: Some(crate::wire::scalar::to_time(Wall::UNIX_EPOCH)),
        body: Some(pb::envelope::Body::Tombstone(pb::Tombstone { reason })),
        ..pb::Envelope::default()
    }
}

fn mk_changes(records: Vec<pb::Envelope>, more: bool) -> pb::SubscribeResponse {
    let changes = pb::Changes {
        records: records.iter().map(|record| record.encode_to_vec().into()).collect(),
        more,
        ..pb::Changes::default()
    };
    pb::SubscribeResponse {
        step: Some(Step::Changes(changes)),
    }
}

#[tokio::test(start_paused = true)]
async fn keys_whose_record_is_not_understood_are_told_with_their_set() {
    let mut subscription = mk_subscription();
    let unknown_payload = pb::Envelope {
        body: None,
        ..mk_envelope("node-health", "n1", 0)
    };
    let unknown_value = pb::Envelope {
        body: Some(pb::envelope::Body::NodeHealth(pb::NodeHealth {
            verdict: 99,
            ..pb::NodeHealth::default()
        })),
        ..mk_envelope("node-health", "n2", 0)
    };
    let unknown_topic = mk_envelope("node-wealth", "n3", 1);
    assert_eq!(
        subscription.take(mk_changes(vec![unknown_payload], true)),
        None,
        "the set is not whole"
    );
    let update = subscription.take(mk_changes(vec![unknown_value, unknown_topic], false));
    let skipped = ["n1", "n2"].map(|key| Skipped {
        topic: Topic::NodeHealth,
        key: key.to_owned(),
    });
    let wanted = Update::Changes {
        records: Vec::new(),
        skipped: skipped.into(),
        shards: Vec::new(),
    };
    assert_eq!(update, Some(wanted));
    assert_eq!(subscription.malformed(), 3);
    let update = subscription.take(mk_changes(Vec::new(), false));
    assert!(
        matches!(update, Some(Update::Changes { skipped, .. }) if skipped.is_empty()),
        "told once"
    );
}

/// Which key it is of cannot be said, so nothing that is held can be trusted.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_none_ends_the_stream() {
    let mut subscription = mk_subscription();
    let changes = pb::Changes {
        records: vec![b"\x0a\x05node".as_slice().into()],
        ..pb::Changes::default()
    };
    let update = subscription.take(pb::SubscribeResponse {
        step: Some(Step::Changes(changes)),
    });
    assert!(matches!(update, Some(Update::Lost { .. })), "{update:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_for_an_unknown_reason_is_a_tombstone() {
    let mut subscription = mk_subscription();
    let update = subscription.take(mk_changes(vec![mk_envelope("node-health", "n1", 99)], false));
    let Some(Update::Changes { records, skipped, .. }) = update else {
        panic!("a whole set: {update:?}");
    };
    assert_eq!((skipped, subscription.malformed()), (Vec::new(), 0));
    let found: Vec<_> = records
        .iter()
        .map(|record| (record.key.as_str(), &record.body, record.tombstone))
        .collect();
    assert_eq!(found, [("n1", &None, Some(TombstoneReason::Withdrawn))]);
}

/// The bus comes back and goes again before it has said all of what it has to say.
#[tokio::test(start_paused = true)]
async fn a_bus_that_is_lost_again_after_a_whole_set_is_said_to_be_lost_again() {
    let mut subscription = mk_subscription();
    let status = Status::unavailable("away");
    let is_lost = |update: Option<Update>| matches!(update, Some(Update::Lost { .. }));
    assert!(is_lost(subscription.fail(&status)));
    assert_eq!(subscription.fail(&status), None, "said once");
    assert_eq!(subscription.take(mk_changes(Vec::new(), true)), None, "the set is not whole");
    assert_eq!(subscription.fail(&status), None, "nothing was heard meanwhile");
    assert!(subscription.take(mk_changes(Vec::new(), false)).is_some());
    assert!(is_lost(subscription.fail(&status)));
}
