//! How old a record is, as a subscriber is told.

use bailiff_model::Topic;

use crate::engines::Kind;
use crate::support::{Follower, World, mk_draft};

const HEALTH: Topic = Topic::NodeHealth;

/// TE-102: the age of a record is told with every delivery, by monotonic clocks alone, and a bus that lost its memory is told it again.
#[tokio::test(start_paused = true)]
async fn a_record_is_as_old_as_it_is_whoever_lost_his_memory() {
    check_ages(Kind::Memory).await;
}

/// TE-102
#[tokio::test(start_paused = true)]
async fn a_record_is_as_old_as_it_is_over_etcd() {
    if crate::etcd_process::is_installed() {
        check_ages(Kind::Etcd).await;
    }
}

async fn check_ages(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    let mut live = world.follow(&[HEALTH]);
    live.until(|follower| follower.held.len() == 1).await;
    let ages = |follower: &Follower| -> Vec<u64> {
        let now = world.clock.now().mono;
        let ages = follower
            .held
            .values()
            .map(|record| record.age_at(now).expect("the bus tells it"));
        ages.map(|age| age.as_secs()).collect()
    };
    live.for_seconds(20).await;
    world.clock.step(jiff::SignedDuration::from_hours(1));
    publisher.set(mk_draft("n2", 1));
    live.until(|follower| follower.held.len() == 2).await;
    live.for_seconds(10).await;
    assert_eq!(ages(&live), [30, 10], "changes");
    let mut late = world.follow(&[HEALTH]);
    late.step().await;
    assert_eq!(ages(&late), [30, 10], "a snapshot");
    world.server.restart();
    late.until(|follower| follower.snapshots == 2 && follower.held.len() == 2)
        .await;
    late.for_seconds(30).await;
    let [first, second] = ages(&late)[..] else {
        unreachable!("two records")
    };
    let passed = world.clock.now().mono.since_origin().as_secs();
    assert_eq!((first, second), (passed, passed - 20), "another bus");
    // Said again and nothing new: still as old.
    publisher.set(mk_draft("n1", 1));
    late.for_seconds(5).await;
    assert_eq!(ages(&late), [passed + 5, passed - 15]);
}
