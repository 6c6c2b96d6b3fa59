//! etcd was put back to an older state, or lost a part: whatever it says, the bus is another one then, and everything is published
//! again.

use bailiff_event_bus::Publisher;

use crate::etcd_process::{Cluster, is_installed};
use crate::etcd_raw::Raw;
use crate::etcd_setup::{HEALTH, Setup, until};
use crate::support::{Follower, contents, mk_draft, soon};

/// Far more than what is said anew before anybody looks.
const MANY: u64 = 40;

async fn set(publisher: &Publisher, node: &str, content: u64) {
    publisher.set(mk_draft(node, content));
    soon("it is there", publisher.settled()).await;
}

/// A bus whose etcd was copied before the last of what was published.
async fn mk_bus(replicas: usize) -> (Setup, Publisher, Follower, tempfile::TempDir) {
    let mut setup = Setup::new(1, replicas).await;
    let publisher = setup.publish(&setup.bus(), "monitor", 7);
    publisher.complete();
    set(&publisher, "old", 1).await;
    setup.cluster.kill(0);
    let backup = setup.cluster.backup(0);
    setup.cluster.run(0);
    for content in 0..MANY {
        set(&publisher, "new", content).await;
    }
    let mut follower = setup.follow(&setup.bus(), "follower");
    until("the state is seen", &mut follower, |follower| follower.held.len() == 2).await;
    assert!(follower.is_complete(HEALTH));
    (setup, publisher, follower, backup)
}

async fn all_is_published_again(setup: &Setup, follower: &mut Follower, before: Option<String>) {
    let wanted = contents([("old", 1), ("new", MANY - 1)]);
    until("another snapshot", follower, |follower| {
        follower.snapshots >= 2 && follower.contents() == wanted && follower.is_complete(HEALTH)
    })
    .await;
    let after = setup.replicas[0].server.incarnation();
    assert!(after.is_some() && after != before, "{after:?}");
}

/// As `etcdutl snapshot restore --bump-revision` does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_state_that_counts_further_is_noticed_by_whoever_runs() {
    if !is_installed() {
        return;
    }
    let (mut setup, _publisher, mut follower, backup) = mk_bus(2).await;
    let before = setup.replicas[0].server.incarnation();
    setup.cluster.kill(0);
    let elsewhere = Cluster::elsewhere(backup);
    let mut raw = Raw::connect(&elsewhere.addresses()[0]).await;
    for _ in 0..500 {
        raw.put("/somebody-else/", "").await;
    }
    let backup = elsewhere.into_backup();
    setup.cluster.restore(0, backup);
    setup.cluster.run(0);
    all_is_published_again(&setup, &mut follower, before).await;
    assert_eq!(setup.replicas[0].server.incarnation(), setup.replicas[1].server.incarnation());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_state_that_nobody_saw_come_is_noticed_by_whoever_had_read_more() {
    if !is_installed() {
        return;
    }
    let (mut setup, _publisher, mut follower, backup) = mk_bus(1).await;
    let before = setup.replicas[0].server.incarnation();
    let address = setup.replicas[0].address.clone();
    setup.kill(0);
    setup.cluster.kill(0);
    setup.cluster.restore(0, backup);
    setup.cluster.run(0);
    setup.start_at(&address).await;
    all_is_published_again(&setup, &mut follower, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_which_a_piece_is_not_there_is_no_snapshot() {
    if !is_installed() {
        return;
    }
    let (mut setup, _publisher, mut follower, _backup) = mk_bus(1).await;
    let before = setup.replicas[0].server.incarnation();
    let address = setup.replicas[0].address.clone();
    let mut raw = Raw::connect(&setup.cluster.addresses()[0]).await;
    let is_piece = |key: &String| key.split('/').rev().nth(1) == Some("c");
    let pieces = soon("a snapshot", async {
        loop {
            let pieces: Vec<String> = raw.keys("/bailiff/").await.into_iter().filter(is_piece).collect();
            if !pieces.is_empty() {
                break pieces;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    setup.kill(0);
    for piece in pieces {
        raw.delete(&piece).await;
    }
    setup.start_at(&address).await;
    all_is_published_again(&setup, &mut follower, before).await;
}
