//! Subscribers that do not read.

use bailiff_event_bus::ServerOptions;
use bailiff_event_bus::server::REFUSAL_METADATA;
use bailiff_model::Topic;
use bailiff_proto::v1::subscribe_response::Step;

use crate::engines::{Kind, on_every_engine};
use crate::support::{World, mk_draft, pass, soon};

const HEALTH: Topic = Topic::NodeHealth;

on_every_engine!(async a_set_that_nobody_takes_is_let_go);
/// A set keeps the versions alive that it is of. Whoever takes some of it every now and then is slow, and gets all of it; whoever does not
/// read at all begins again.
async fn a_set_that_nobody_takes_is_let_go(kind: Kind) {
    const KEYS: usize = 2_000;
    // More than the transport takes ahead.
    let options = ServerOptions {
        chunk_bytes: 48 * 1024,
        ..ServerOptions::default()
    };
    let world = World::with(kind, options);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    for number in 0..KEYS as u64 {
        publisher.set(mk_draft(&format!("n{number}"), number));
    }
    publisher.complete();
    soon("all is published", publisher.settled()).await;
    let ended = |wanted: u32| {
        world
            .metrics()
            .contains(&format!("event_bus_refusals_total{{kind=\"unread\"}} {wanted}\n"))
    };

    let mut slow = world.raw_subscription(HEALTH).await;
    let (mut steps, mut records) = (0, 0);
    while records < KEYS {
        match slow.message().await.expect("it goes on").and_then(|message| message.step) {
            Some(Step::Changes(changes)) => {
                records += changes.records.len();
                pass(58).await;
            }
            Some(Step::SnapshotStart(_)) => {}
            other => panic!("{other:?}"),
        }
        steps += 1;
    }
    assert!(steps > 4, "in several parts: {steps}");
    pass(120).await;
    assert!(ended(0), "what was taken is not missed: {}", world.metrics());

    let mut unread = world.raw_subscription(HEALTH).await;
    for _ in 0..2 {
        unread.message().await.expect("the snapshot begins");
    }
    pass(62).await;
    assert!(ended(1), "{}", world.metrics());
    let status = unread.message().await.expect_err("its set is gone");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
    assert_eq!(status.metadata().get(REFUSAL_METADATA).unwrap(), "unread");
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.held.len() == KEYS).await;
}
