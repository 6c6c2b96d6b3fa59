//! What a producer is answered that speaks to the bus by itself, without our client.

use bailiff_event_bus::server::REFUSAL_METADATA;
use bailiff_event_bus::wire::envelope;
use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::publish_request::Step;
use prost::Message as _;

use crate::engine_rig::mk_incoming;
use crate::engines::{Kind, on_every_engine};
use crate::support::{World, mk_health, soon};

const HEALTH: Topic = Topic::NodeHealth;

/// A session for all of node-health.
fn mk_open() -> pb::OpenSession {
    pb::OpenSession {
        topic: HEALTH.to_string(),
        shard_count: 1,
        producer: "foreign".to_owned(),
        epoch: 1,
        ..pb::OpenSession::default()
    }
}

on_every_engine!(async the_code_of_a_refused_session_says_whether_to_stop_or_to_try_again);
/// A stage in any language has to know the code and nothing else.
async fn the_code_of_a_refused_session_says_whether_to_stop_or_to_try_again(kind: Kind) {
    let world = World::new(kind);
    let holder = world.publish("holder", HEALTH, (0, 2), 8);
    holder.complete();
    soon("the replace part ended", holder.settled()).await;
    let open = |shard, shard_count, epoch| pb::OpenSession {
        topic: HEALTH.to_string(),
        shard,
        shard_count,
        producer: "foreign".to_owned(),
        epoch,
        replace: true,
    };
    let cases = [
        (open(0, 2, 7), Some((tonic::Code::Aborted, "epoch"))),
        (open(0, 1, 9), Some((tonic::Code::FailedPrecondition, "layout"))),
        (open(2, 2, 9), Some((tonic::Code::InvalidArgument, "shard"))),
        (open(1, 2, 1), None),
    ];
    for (open, wanted) in cases {
        let answer = soon("an answer", world.answer_to(open)).await;
        let refusal = answer.err().map(|status| {
            let kind = status.metadata().get(REFUSAL_METADATA).expect("every refusal has a kind");
            (status.code(), kind.to_str().unwrap().to_owned())
        });
        assert_eq!(refusal, wanted.map(|(code, kind)| (code, kind.to_owned())));
    }
}

on_every_engine!(async a_record_that_is_none_is_named);
async fn a_record_that_is_none_is_named(kind: Kind) {
    let world = World::new(kind);
    let open = mk_open();
    let no_body = pb::Envelope {
        topic: HEALTH.to_string(),
        key: "n1".to_owned(),
        ..pb::Envelope::default()
    };
    for (record, wanted) in [
        (&b"\x0a\x05node"[..], "batch.records[1].record:"),
        (&no_body.encode_to_vec(), "batch.records[1].body:"),
    ] {
        let tombstone = pb::Envelope {
            produced_at: Some(prost_types::Timestamp::default()),
            body: Some(pb::envelope::Body::Tombstone(pb::Tombstone::default())),
            ..no_body.clone()
        };
        let records = [tombstone.encode_to_vec(), record.to_vec()];
        let batch = pb::Batch {
            id: 1,
            records: records.map(Into::into).into(),
        };
        let answer = soon(
            "an answer",
            world.last_answer_to([Step::Open(open.clone()), Step::Batch(batch)]),
        )
        .await;
        let status = answer.expect_err("it is refused");
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
        assert!(status.message().starts_with(wanted), "{status:?}");
    }
}

on_every_engine!(async a_batch_that_is_too_large_is_refused_before_anything_in_it_is_looked_at);
async fn a_batch_that_is_too_large_is_refused_before_anything_in_it_is_looked_at(kind: Kind) {
    let world = World::new(kind);
    let open = mk_open();
    for (count, wanted) in [
        (0, "batch.records: 0 records are not allowed"),
        (1_000, "batch.records[0].record:"),
        (1_001, "batch.records: 1001 records are not allowed"),
    ] {
        let batch = pb::Batch {
            id: 1,
            records: vec![b"none".as_slice().into(); count],
        };
        let steps = [Step::Open(open.clone()), Step::Batch(batch)];
        let status = soon("an answer", world.last_answer_to(steps))
            .await
            .expect_err("it is refused");
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
        assert!(status.message().starts_with(wanted), "{status:?}");
    }
}

on_every_engine!(async a_batch_is_acknowledged_with_the_revision_of_each_record);
/// Our own client has no use for the revisions.
async fn a_batch_is_acknowledged_with_the_revision_of_each_record(kind: Kind) {
    let world = World::new(kind);
    let open = |replace| Step::Open(pb::OpenSession { replace, ..mk_open() });
    let batch = |id, records: &[(&str, u64)]| {
        let record = |(name, content): &(&str, u64)| {
            let incoming = mk_incoming(mk_health(name, "a", *content));
            envelope::to_incoming(HEALTH, &incoming).encode_to_vec().into()
        };
        let records = records.iter().map(record).collect();
        Step::Batch(pb::Batch { id, records })
    };
    let end = Step::EndReplace(pb::EndReplace { id: 2 });
    let staging = [open(true), batch(1, &[("n1", 1), ("n2", 1)]), end];
    let staged = soon("answers", world.answers_to(staging)).await.unwrap();
    let plain = [
        open(false),
        batch(3, &[("n2", 2), ("n3", 2)]),
        batch(4, &[("n1", 1), ("n3", 2)]),
    ];
    let published = soon("answers", world.answers_to(plain)).await.unwrap();
    let acknowledged = |answer: &pb::PublishResponse| match &answer.step {
        Some(pb::publish_response::Step::Acknowledged(acknowledged)) => (acknowledged.id, acknowledged.revisions.clone()),
        step => panic!("{step:?}"),
    };
    assert_eq!(acknowledged(&staged[1]), (1, Vec::new()), "it is not there yet");
    let (id, whole) = acknowledged(&staged[2]);
    assert_eq!((id, whole.len()), (2, 1));
    let (id, changed) = acknowledged(&published[1]);
    assert!(id == 3 && changed.is_sorted() && changed.len() == 2, "{changed:?}");
    assert_eq!(acknowledged(&published[2]), (4, vec![whole[0], changed[1]]), "the same again");
}
