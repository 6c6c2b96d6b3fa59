//! Several replicas over a real etcd, and what becomes of them when one of either dies. Time is real here, so nothing is asserted about it.

use std::time::Duration;

use bailiff_event_bus::engine::Position;
use bailiff_event_bus::{PublishOptions, Published, publish};
use bailiff_model::Revision;

use crate::etcd_process::is_installed;
use crate::etcd_raw::Raw;
use crate::etcd_setup::{HEALTH, Setup, until};
use crate::support::{contents, mk_draft, news, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_are_one_bus() {
    if !is_installed() {
        return;
    }
    let setup = Setup::new(1, 2).await;
    assert_eq!(setup.replicas[0].server.incarnation(), setup.replicas[1].server.incarnation());
    let mut first = setup.publish(&setup.bus_of(0), "first", 7);
    for number in 0..2_000 {
        first.set(mk_draft(&format!("node-{number}"), number));
    }
    let mut follower = setup.follow(&setup.bus_of(1), "follower");
    until("the shard is seen", &mut follower, |follower| {
        follower.shards.contains_key(&(HEALTH, 0))
    })
    .await;
    assert!(follower.held.is_empty() && !follower.is_complete(HEALTH));
    first.complete();
    until("the replace part is seen", &mut follower, |follower| {
        !follower.held.is_empty()
    })
    .await;
    assert_eq!(follower.held.len(), 2_000, "as one change");
    assert!(follower.is_complete(HEALTH) && follower.shards[&(HEALTH, 0)].epoch == 7);
    setup.until_live(&first, &mut follower).await;

    // The same history and revisions from both, and a higher epoch with one replica fences with the other.
    let second = setup.publish(&setup.bus_of(1), "second", 8);
    second.set(mk_draft("node-0", 10_000));
    second.complete();
    let fenced = |news| match news {
        Published::Fenced { detail } => Some(detail),
        _ => None,
    };
    let detail = news(&mut first, fenced).await;
    assert!(detail.contains("\"second\"") && detail.contains("epoch 8"), "{detail}");
    until("the replace is seen", &mut follower, |follower| follower.held.len() == 1).await;
    let mut revisions = Vec::new();
    for index in 0..2 {
        let history = soon("history", setup.bus_of(index).history(HEALTH, "node-0")).await.unwrap();
        revisions.push(history.iter().map(|record| record.revision).collect::<Vec<Revision>>());
    }
    assert_eq!(revisions[0].len(), 2);
    assert_eq!(revisions[0], revisions[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_dies_and_its_users_go_on_with_another() {
    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(1, 2).await;
    let bus = setup.bus();
    let mut publisher = setup.publish(&bus, "monitor", 7);
    for number in 0..1_000 {
        publisher.set(mk_draft(&format!("node-{number}"), 1));
    }
    publisher.complete();
    soon("the first state is there", publisher.settled()).await;
    // One with each replica, so that whichever dies somebody has to move.
    let mut followers = [
        setup.follow(&setup.bus(), "one"),
        setup.follow(&setup.bus(), "other"),
        setup.follow(&setup.bus(), "third"),
    ];
    for follower in &mut followers {
        until("the state is seen", follower, |follower| follower.held.len() == 1_000).await;
    }
    // In the middle of a batch.
    for number in 0..1_000 {
        publisher.set(mk_draft(&format!("node-{number}"), 2));
    }
    setup.kill(0);
    publisher.set(mk_draft("last", 3));
    soon("all is there", publisher.settled()).await;
    for follower in &mut followers {
        until("all is seen", follower, |follower| {
            follower.contents().get("last") == Some(&3)
        })
        .await;
        let contents = follower.contents();
        assert!(
            contents.iter().all(|(key, content)| key == "last" || *content == 2),
            "nothing was lost"
        );
        assert_eq!(
            (follower.held.len(), follower.snapshots),
            (1_001, 1),
            "resumed, without a snapshot"
        );
    }
    let lost = |news| matches!(news, Published::Fenced { .. }).then_some(());
    let fenced = tokio::time::timeout(Duration::ZERO, news(&mut publisher, lost)).await;
    assert!(fenced.is_err(), "an equal epoch is not fenced");

    // Another one joins, and reads what there is from the snapshot.
    setup.start().await;
    let mut late = setup.follow(&setup.bus_of(1), "late");
    until("the state is seen", &mut late, |follower| follower.held.len() == 1_001).await;
    assert_eq!(late.contents(), followers[0].contents());
    setup.kill(0);
    let history = soon("history", setup.bus_of(0).history(HEALTH, "node-7")).await.unwrap();
    assert_eq!(history.len(), 2, "history is kept too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_a_dead_replica_end_with_its_lease() {
    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(1, 2).await;
    let publisher = setup.publish(&setup.bus_of(0), "monitor", 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    soon("the state is there", publisher.settled()).await;
    let mut follower = setup.follow(&setup.bus_of(1), "follower");
    setup.until_live(&publisher, &mut follower).await;
    setup.kill(0);
    until("its end is seen", &mut follower, |follower| !follower.is_live(HEALTH, 0)).await;
    // The layout is free once the session has ended.
    let options = PublishOptions {
        topic: HEALTH,
        shard: 0,
        shard_count: 2,
        producer: "other".to_owned(),
        epoch: 8,
    };
    let other = publish(&setup.bus_of(0), options, &setup.clock, &setup.seed);
    other.complete();
    soon("another layout is accepted", other.settled()).await;
    assert_eq!((follower.contents(), follower.snapshots), (contents([("n1", 1)]), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_one_member_of_etcd_is_not_noticed() {
    if !is_installed() {
        return;
    }
    let mut setup = Setup::patient(3, 2).await;
    let bus = setup.bus();
    let mut publisher = setup.publish(&bus, "monitor", 7);
    publisher.set(mk_draft("n1", 0));
    publisher.complete();
    soon("the state is there", publisher.settled()).await;
    let mut follower = setup.follow(&setup.bus_of(1), "follower");
    for member in 0..3 {
        let content = u64::try_from(member).unwrap() + 1;
        if member == 1 {
            setup.cluster.stop(member);
        } else {
            setup.cluster.kill(member);
        }
        publisher.set(mk_draft("n1", content));
        soon("it is there", publisher.settled()).await;
        until("it is seen", &mut follower, |follower| {
            follower.contents().get("n1") == Some(&content)
        })
        .await;
        if member == 1 {
            setup.cluster.go_on(member);
        } else {
            setup.cluster.run(member);
        }
        // The cluster is whole before the next is lost: this one has a leader again, and all that was written. A write of the publisher
        // would not show it, as the other two confirm that alone.
        let address = &setup.cluster.addresses()[member];
        soon("the member takes part", Raw::connect(address)).await;
    }
    let trouble: Vec<_> = setup.replicas.iter().map(|replica| replica.status.trouble()).collect();
    assert_eq!((follower.snapshots, follower.lost), (1, 0), "{trouble:?}");
    let lost = |news| matches!(news, Published::Lost | Published::Fenced { .. }).then_some(());
    let lost = tokio::time::timeout(Duration::from_millis(1), news(&mut publisher, lost)).await;
    assert!(lost.is_err(), "the session stood all the time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_quorum_nothing_is_answered_and_all_heals_by_itself() {
    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(3, 2).await;
    let bus = setup.bus();
    let publisher = setup.publish(&bus, "monitor", 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    soon("the state is there", publisher.settled()).await;
    let mut follower = setup.follow(&setup.bus_of(1), "follower");
    setup.until_live(&publisher, &mut follower).await;

    for round in 0..2_u64 {
        for member in 0..2 {
            if round == 0 {
                setup.cluster.stop(member);
            } else {
                setup.cluster.kill(member);
            }
        }
        let before = follower.lost;
        publisher.set(mk_draft("n1", 2 + round));
        until("the shard is not live any more", &mut follower, |follower| {
            !follower.is_live(HEALTH, 0)
        })
        .await;
        for replica in &setup.replicas {
            soon("readiness tells it", replica.until_trouble("no quorum")).await;
        }
        until("a reader is sent elsewhere", &mut follower, |follower| follower.lost > before).await;
        assert_eq!(
            follower.contents(),
            contents([("n1", 1 + round)]),
            "what is not committed is not seen"
        );
        for member in 0..2 {
            if round == 0 {
                setup.cluster.go_on(member);
            } else {
                setup.cluster.run(member);
            }
        }
        soon("it is there", publisher.settled()).await;
        let wanted = contents([("n1", 2 + round)]);
        until("it is seen", &mut follower, |follower| follower.contents() == wanted).await;
        setup.until_live(&publisher, &mut follower).await;
        for replica in &setup.replicas {
            soon("the replica is ready", replica.until_ready()).await;
        }
    }
    assert_eq!(follower.snapshots, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_data_are_another_bus_and_everything_is_published_again() {
    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(1, 2).await;
    let publisher = setup.publish(&setup.bus(), "monitor", 7);
    for content in 0..30 {
        publisher.set(mk_draft("n1", content));
        soon("it is there", async {
            if content == 0 {
                publisher.complete();
            }
            publisher.settled().await;
        })
        .await;
    }
    let mut follower = setup.follow(&setup.bus(), "follower");
    until("the state is seen", &mut follower, |follower| follower.held.len() == 1).await;
    let before = setup.replicas[0].server.incarnation();
    setup.cluster.wipe(0);
    setup.cluster.run(0);
    until("another snapshot", &mut follower, |follower| {
        follower.snapshots == 2 && follower.contents() == contents([("n1", 29)])
    })
    .await;
    for replica in &setup.replicas {
        soon("the replica is ready", replica.until_ready()).await;
    }
    let after = setup.replicas[0].server.incarnation();
    assert!(after.is_some() && after != before, "{after:?}");
    assert_eq!(after, setup.replicas[1].server.incarnation());
}

/// However often replicas are started again, the log does not grow for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_holds_at_a_start_counts_towards_the_next_snapshot() {
    use bailiff_event_bus::engine::{Command, Engine as _};

    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(1, 0).await;
    setup.config.snapshot_after.entries = 1_000;
    setup.start().await;
    let publisher = setup.publish(&setup.bus(), "monitor", 7);
    publisher.complete();
    for content in 0..30 {
        publisher.set(mk_draft("n1", content));
        soon("it is there", publisher.settled()).await;
    }
    let (mut engine, _driver) = setup.connect().await;
    engine.apply(1, Command::Tick, setup.clock.now());
    let standing = *engine.standing().lock().unwrap();
    assert!(standing.entries >= 30 && standing.bytes >= 30 * 100, "{standing:?}");
}

/// A replica that reads the log so late that it is gone: it goes on from the snapshot, and its readers do not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_compacted_before_it_was_read_is_made_up_for() {
    use bailiff_event_bus::engine::{Engine as _, Selection};

    if !is_installed() {
        return;
    }
    let mut setup = Setup::new(1, 0).await;
    setup.config.compact_every = Duration::from_millis(50);
    setup.config.history_for = Duration::ZERO;
    setup.start().await;
    let publisher = setup.publish(&setup.bus(), "monitor", 7);
    publisher.set(mk_draft("n1", 0));
    publisher.complete();
    soon("the state is there", publisher.settled()).await;

    let (mut engine, driver) = setup.connect().await;
    let (head, records) = (engine.head(), engine.figures()[0].records);
    assert_eq!(records, 1);
    // By now it has read the first of them, and follows nothing.
    for content in 1..60 {
        publisher.set(mk_draft("n1", content));
        soon("it is there", publisher.settled()).await;
    }
    let driving = tokio::spawn(driver.run());
    let wake = engine.wake();
    let catching_up = async {
        loop {
            engine.poll(setup.clock.now());
            let history = engine.history(HEALTH, "n1");
            let is_there = history
                .last()
                .is_some_and(|kept| kept.to_record().unwrap().body == mk_body(59));
            if engine.is_member() && is_there {
                break;
            }
            wake.notified().await;
        }
    };
    soon("it has caught up", catching_up).await;
    assert_eq!(engine.history(HEALTH, "n1").len(), 16);
    let set = engine.read(&Selection::of([HEALTH]), Position::After(head), setup.clock.now());
    assert_eq!(
        (set.snapshot, set.records.len()),
        (None, 1),
        "a reader goes on from where it was"
    );
    driving.abort();
}

fn mk_body(content: u64) -> Option<bailiff_event_bus::Body> {
    Some(mk_draft("n1", content).body)
}
