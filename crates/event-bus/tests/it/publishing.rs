//! What a producer is promised, through client and server.

use bailiff_event_bus::{Body, Draft, Published, TombstoneReason};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Revision, Topic};

use crate::engines::{Kind, on_every_engine};
use crate::support::{World, contents, mk_draft, mk_health, mk_outcome, news, pass, soon};

const HEALTH: Topic = Topic::NodeHealth;
const OUTCOMES: Topic = Topic::EvictionOutcomes;

fn fenced(news: Published) -> Option<String> {
    match news {
        Published::Fenced { detail } => Some(detail),
        _ => None,
    }
}

fn refusal(news: Published) -> Option<(String, String)> {
    match news {
        Published::Refused { key, detail } => Some((key, detail)),
        _ => None,
    }
}

on_every_engine!(async what_is_settled_is_on_the_bus);
async fn what_is_settled_is_on_the_bus(kind: Kind) {
    let world = World::new(kind);
    let mut publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    let incarnation = world.server.incarnation().unwrap();
    assert_eq!(publisher.next().await, Published::Connected { incarnation });
    publisher.complete();
    soon("the replace part ended", publisher.settled()).await;
    let mut revisions = Vec::new();
    for content in [1, 1, 2] {
        publisher.set(mk_draft("n1", content));
        soon("it is on the bus", publisher.settled()).await;
        let history = soon("history", world.bus.history(HEALTH, "n1")).await.unwrap();
        revisions.push(history.last().unwrap().revision);
    }
    assert_eq!(revisions[1], revisions[0], "the same again");
    assert!(revisions[2] > revisions[1]);
    publisher.remove("n1");
    soon("it is gone from the bus", publisher.settled()).await;
    let history = soon("history", world.bus.history(HEALTH, "n1")).await.unwrap();
    assert_eq!(history.len(), 3);
    assert_eq!(history[2].tombstone, Some(TombstoneReason::Withdrawn));
    assert_eq!(history[2].route, "eu:a", "a tombstone has the route of what it buries");
}

on_every_engine!(async drafts_set_while_the_bus_is_away_coalesce);
async fn drafts_set_while_the_bus_is_away_coalesce(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.complete();
    soon("the replace part ended", publisher.settled()).await;
    world.server.disconnect();
    for content in 0..1000 {
        publisher.set(mk_draft("n1", content));
    }
    soon("it is on the bus", publisher.settled()).await;
    let history = soon("history", world.bus.history(HEALTH, "n1")).await.unwrap();
    assert_eq!(history.len(), 1, "only the last one was sent");
    assert_eq!(history[0].body, Some(mk_health("n1", "a", 999)));
}

on_every_engine!(async nothing_is_seen_of_an_initial_state_before_it_is_complete);
async fn nothing_is_seen_of_an_initial_state_before_it_is_complete(kind: Kind) {
    let world = World::new(kind);
    let old = world.publish("old", HEALTH, (0, 1), 7);
    old.set(mk_draft("n1", 1));
    old.set(mk_draft("n2", 1));
    old.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;

    let new = world.publish("new", HEALTH, (0, 1), 8);
    new.set(mk_draft("n2", 2));
    new.set(mk_draft("n3", 2));
    follower.for_seconds(5).await;
    assert_eq!(follower.contents(), contents([("n1", 1), ("n2", 1)]));
    assert!(
        follower.is_complete(HEALTH),
        "what was complete stays so while it is replaced"
    );
    assert_eq!(follower.shards[&(HEALTH, 0)].epoch, 8);

    new.complete();
    follower
        .until(|follower| follower.held.contains_key(&(HEALTH, "n3".to_owned())))
        .await;
    assert_eq!(follower.contents(), contents([("n2", 2), ("n3", 2)]), "one change");
    let revisions: Vec<Revision> = follower.held.values().map(|record| record.revision).collect();
    assert_eq!(revisions[0], revisions[1], "one revision");
    let history = soon("history", world.bus.history(HEALTH, "n1")).await.unwrap();
    assert_eq!(history.last().unwrap().tombstone, Some(TombstoneReason::Replaced));
}

on_every_engine!(async a_higher_epoch_ends_the_lower_one);
async fn a_higher_epoch_ends_the_lower_one(kind: Kind) {
    let world = World::new(kind);
    let mut old = world.publish("old", HEALTH, (0, 1), 7);
    old.complete();
    soon("the replace part ended", old.settled()).await;
    let new = world.publish("new", HEALTH, (0, 1), 8);
    new.complete();
    let detail = news(&mut old, fenced).await;
    assert!(detail.contains("\"new\"") && detail.contains("epoch 8"), "{detail}");
    old.set(mk_draft("n1", 1));
    assert!(
        tokio::time::timeout(std::time::Duration::from_secs(60), old.next())
            .await
            .is_err(),
        "it has stopped"
    );
    soon("fenced is settled", old.settled()).await;
    new.set(mk_draft("n2", 2));
    soon("the new one goes on", new.settled()).await;
    let mut follower = world.follow(&[HEALTH]);
    follower.step().await;
    assert_eq!(follower.contents(), contents([("n2", 2)]));
}

on_every_engine!(async a_lower_epoch_is_refused_and_stops);
async fn a_lower_epoch_is_refused_and_stops(kind: Kind) {
    let world = World::new(kind);
    let new = world.publish("new", HEALTH, (0, 1), 8);
    new.complete();
    soon("the replace part ended", new.settled()).await;
    let mut old = world.publish("old", HEALTH, (0, 1), 7);
    let detail = news(&mut old, fenced).await;
    assert!(detail.contains("epoch 7") && detail.contains("below 8"), "{detail}");
}

on_every_engine!(async of_equal_epochs_the_newest_session_wins);
async fn of_equal_epochs_the_newest_session_wins(kind: Kind) {
    let world = World::new(kind);
    let mut first = world.publish("first", HEALTH, (0, 1), 7);
    first.complete();
    soon("the replace part ended", first.settled()).await;
    let second = world.publish("second", HEALTH, (0, 1), 7);
    second.complete();
    soon("the replace part ended", second.settled()).await;
    news(&mut first, fenced).await;
}

on_every_engine!(async without_an_epoch_the_bus_issues_one_and_a_reconnect_keeps_it);
async fn without_an_epoch_the_bus_issues_one_and_a_reconnect_keeps_it(kind: Kind) {
    let world = World::new(kind);
    let mut publisher = world.publish("monitor", HEALTH, (0, 1), 0);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    assert_eq!(follower.shards[&(HEALTH, 0)].epoch, 1);
    world.server.disconnect();
    let lost = |news| (news == Published::Lost).then_some(());
    news(&mut publisher, lost).await;
    let connected = |news| matches!(news, Published::Connected { .. }).then_some(());
    news(&mut publisher, connected).await;
    follower.for_seconds(5).await;
    assert_eq!(follower.shards[&(HEALTH, 0)].epoch, 1);
    let _next = world.publish("next", HEALTH, (0, 1), 0);
    follower.until(|follower| follower.shards[&(HEALTH, 0)].epoch == 2).await;
    news(&mut publisher, fenced).await;
}

on_every_engine!(async an_initial_state_that_was_cut_off_is_begun_again);
/// The old leader's state was complete; the new one broke off before its own was.
async fn an_initial_state_that_was_cut_off_is_begun_again(kind: Kind) {
    let world = World::new(kind);
    let old = world.publish("old", HEALTH, (0, 1), 7);
    old.set(mk_draft("gone", 1));
    old.complete();
    soon("the replace part ended", old.settled()).await;
    let new = world.publish("new", HEALTH, (0, 1), 8);
    new.set(mk_draft("n1", 2));
    pass(1).await;
    world.server.disconnect();
    pass(5).await;
    new.complete();
    soon("the replace part ended", new.settled()).await;
    let mut follower = world.follow(&[HEALTH]);
    follower.step().await;
    assert_eq!(follower.contents(), contents([("n1", 2)]));
}

on_every_engine!(async the_rightful_leader_replaces_what_an_old_one_told_a_new_bus);
/// A bus without memory knows no epochs: an old leader that comes first is believed until the rightful one is back.
async fn the_rightful_leader_replaces_what_an_old_one_told_a_new_bus(kind: Kind) {
    let world = World::new(kind);
    let leader = world.publish("leader", HEALTH, (0, 1), 8);
    leader.set(mk_draft("n1", 8));
    leader.complete();
    soon("the replace part ended", leader.settled()).await;
    world.server.kill();
    // By now the leader tries every few seconds only.
    pass(30).await;
    world.server.restart();
    let mut old = world.publish("old", HEALTH, (0, 1), 7);
    old.set(mk_draft("n2", 7));
    old.complete();
    soon("the replace part ended", old.settled()).await;
    let mut follower = world.follow(&[HEALTH]);
    follower.step().await;
    assert_eq!(follower.contents(), contents([("n2", 7)]));
    news(&mut old, fenced).await;
    follower
        .until(|follower| follower.held.contains_key(&(HEALTH, "n1".to_owned())))
        .await;
    assert_eq!(follower.contents(), contents([("n1", 8)]));
}

on_every_engine!(async a_reconnect_does_not_send_again_what_was_acknowledged);
async fn a_reconnect_does_not_send_again_what_was_acknowledged(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    soon("all is published", publisher.settled()).await;
    let before = soon("status", world.bus.status()).await.unwrap();
    world.server.disconnect();
    pass(5).await;
    publisher.set(mk_draft("n2", 1));
    soon("all is published", publisher.settled()).await;
    let mut registry = prometheus_client::registry::Registry::with_prefix("event_bus");
    world.server.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let published = "event_bus_published_records_total{topic=\"node-health\"} 2\n";
    let shard = r#"{topic="node-health",shard="0"}"#;
    for line in [
        published,
        "event_bus_published_records_total{topic=\"daemon-rollouts\"} 0\n",
        "event_bus_refusals_total{kind=\"fenced\"} 0\n",
        &format!("event_bus_shard_complete{shard} 1.0\n"),
        &format!("event_bus_shard_lag_seconds{shard} "),
        &format!("event_bus_shard_live{shard} "),
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    let after = soon("status", world.bus.status()).await.unwrap();
    assert_eq!(before.incarnation, after.incarnation);
}

on_every_engine!(async a_draft_that_breaks_the_contract_stops_nothing_else);
async fn a_draft_that_breaks_the_contract_stops_nothing_else(kind: Kind) {
    let world = World::new(kind);
    let mut publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    let wrong_key = Draft {
        key: "n2".to_owned(),
        ..mk_draft("n1", 1)
    };
    let wrong_topic = Draft::new(mk_outcome("p1", "n1", PodOutcomeState::Gone, 0));
    publisher.set(wrong_key);
    publisher.set(wrong_topic);
    publisher.remove("a/b");
    publisher.set(mk_draft("n3", 3));
    publisher.complete();
    soon("the rest is on the bus", publisher.settled()).await;
    let history = soon("history", world.bus.history(HEALTH, "n3")).await.unwrap();
    assert_eq!(history.len(), 1);
    let mut refused = Vec::new();
    for _ in 0..3 {
        refused.push(news(&mut publisher, refusal).await);
    }
    let keys: Vec<&str> = refused.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a/b", "n2", "pod/uid-p1"]);
    assert!(refused[1].1.contains("\"n1\", as the payload says"), "{refused:?}");
}

on_every_engine!(async live_is_session_and_tick_and_watch);
async fn live_is_session_and_tick_and_watch(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    follower.for_seconds(10).await;
    assert!(!follower.is_live(HEALTH, 0), "a connection alone proves nothing");

    world.report(&publisher);
    follower.for_seconds(1).await;
    assert!(follower.is_live(HEALTH, 0), "the first report is sent at once");
    for _ in 0..30 {
        world.report(&publisher);
        follower.for_seconds(1).await;
        assert!(follower.is_live(HEALTH, 0));
    }
    let lag = follower.shards[&(HEALTH, 0)].lag.as_secs();
    assert!(lag <= 3, "{lag} s");

    let stuck = world.clock.now().mono;
    for _ in 0..12 {
        publisher.report(world.clock.now().mono, Some(stuck));
        follower.for_seconds(1).await;
    }
    assert!(!follower.is_live(HEALTH, 0), "a stale watch");
    assert!(follower.shards[&(HEALTH, 0)].lag.as_secs() >= 10);
    assert_eq!(follower.shards[&(HEALTH, 0)].detail, "a watch of its producer is overdue");
    world.report(&publisher);
    follower.for_seconds(3).await;
    assert!(follower.is_live(HEALTH, 0));
    assert_eq!(follower.shards[&(HEALTH, 0)].detail, "");
    follower.for_seconds(12).await;
    assert!(!follower.is_live(HEALTH, 0), "a loop that does not turn");
    publisher.report(world.clock.now().mono, None);
    follower.for_seconds(3).await;
    let shard = &follower.shards[&(HEALTH, 0)];
    assert_eq!(
        (shard.live, shard.detail.as_str()),
        (false, "a watch of its producer never gave a sign of life")
    );
    world.report(&publisher);
    follower.until(|follower| follower.is_live(HEALTH, 0)).await;
}

on_every_engine!(async a_producer_that_does_not_count_itself_live_says_why);
async fn a_producer_that_does_not_count_itself_live_says_why(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    for trouble in ["the lease of its shard ends soon", ""] {
        publisher.set_trouble(trouble);
        for _ in 0..5 {
            world.report(&publisher);
            follower.for_seconds(1).await;
        }
        assert_eq!(follower.is_live(HEALTH, 0), trouble.is_empty());
        assert_eq!(follower.shards[&(HEALTH, 0)].detail, trouble);
        let status = soon("status", world.bus.status()).await.unwrap();
        assert_eq!(status.topics[0].shards[0].detail, trouble);
    }
    drop(publisher);
    follower.for_seconds(30).await;
    assert_eq!(follower.shards[&(HEALTH, 0)].detail, "its producer left");
}

on_every_engine!(async a_shard_stays_live_for_the_reconnect_grace);
async fn a_shard_stays_live_for_the_reconnect_grace(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    for _ in 0..3 {
        world.report(&publisher);
        follower.for_seconds(1).await;
    }
    assert!(follower.is_live(HEALTH, 0));
    drop(publisher);
    follower.for_seconds(3).await;
    assert!(follower.is_live(HEALTH, 0), "within the grace");
    follower.for_seconds(4).await;
    assert!(!follower.is_live(HEALTH, 0), "beyond it");
}

on_every_engine!(async resetting_an_epoch_ends_its_session_and_lets_a_lower_one_in);
async fn resetting_an_epoch_ends_its_session_and_lets_a_lower_one_in(kind: Kind) {
    let world = World::new(kind);
    let mut old = world.publish("old", HEALTH, (0, 1), 1_000);
    old.complete();
    soon("the replace part ended", old.settled()).await;
    let previous = soon("reset", world.bus.reset_epoch(HEALTH, 0)).await.unwrap();
    assert_eq!(previous, 1_000);
    let detail = news(&mut old, fenced).await;
    assert!(detail.contains("was reset"), "{detail}");
    let new = world.publish("new", HEALTH, (0, 1), 3);
    new.complete();
    soon("the replace part ended", new.settled()).await;
    assert!(soon("reset", world.bus.reset_epoch(HEALTH, 5)).await.is_err());
}

on_every_engine!(async another_shard_count_waits_for_the_old_sessions);
async fn another_shard_count_waits_for_the_old_sessions(kind: Kind) {
    let world = World::new(kind);
    let old = world.publish("old", HEALTH, (0, 1), 7);
    old.set(mk_draft("n1", 1));
    old.set(mk_draft("n2", 1));
    old.complete();
    soon("all is published", old.settled()).await;
    let (zero, one) = (
        world.publish("zero", HEALTH, (0, 2), 8),
        world.publish("one", HEALTH, (1, 2), 8),
    );
    zero.set(mk_draft("n1", 2));
    zero.complete();
    one.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.for_seconds(20).await;
    assert_eq!(follower.shards.len(), 1, "the layout stands");
    drop(old);
    follower.until(|follower| follower.shards.len() == 2).await;
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    assert_eq!(follower.contents(), contents([("n1", 2)]));
    let history = soon("history", world.bus.history(HEALTH, "n2")).await.unwrap();
    assert_eq!(history.last().unwrap().tombstone, Some(TombstoneReason::LayoutChanged));
}

on_every_engine!(async terminal_outcomes_outlive_their_publisher);
async fn terminal_outcomes_outlive_their_publisher(kind: Kind) {
    let world = World::new(kind);
    let old = world.publish("old", OUTCOMES, (0, 1), 7);
    old.set(Draft::new(mk_outcome("p1", "n1", PodOutcomeState::Deleted, 1)));
    old.set(Draft::new(mk_outcome("p2", "n1", PodOutcomeState::Evicting, 1)));
    old.complete();
    soon("all is published", old.settled()).await;
    let new = world.publish("new", OUTCOMES, (0, 1), 8);
    new.complete();
    soon("the replace part ended", new.settled()).await;
    let mut follower = world.follow(&[OUTCOMES]);
    follower.step().await;
    assert_eq!(follower.contents(), contents([("pod/uid-p1", 1)]));
}

on_every_engine!(async large_states_cross_in_many_batches_and_chunks);
async fn large_states_cross_in_many_batches_and_chunks(kind: Kind) {
    let world = World::small(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    for number in 0..5_000 {
        publisher.set(mk_draft(&format!("node-{number}"), number));
    }
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    assert_eq!(follower.held.len(), 5_000, "in one update with completeness");
    let is_body = |body: &Option<Body>| matches!(body, Some(Body::NodeHealth(_)));
    assert!(follower.held.values().all(|record| is_body(&record.body)));
}
