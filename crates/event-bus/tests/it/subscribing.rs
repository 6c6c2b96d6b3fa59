//! What a subscriber is promised, through client and server.

use bailiff_event_bus::{
    Bus, Draft, Line, RouteFilter, ServerOptions, SubscribeOptions, TombstoneReason, Update, publish, subscribe,
};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Revision, Topic};

use crate::engines::{Kind, on_every_engine};
use crate::support::{Follower, World, contents, mk_draft, mk_health, mk_outcome, mk_publishing, pass, soon};

const HEALTH: Topic = Topic::NodeHealth;

on_every_engine!(async a_snapshot_comes_first_and_changes_follow);
async fn a_snapshot_comes_first_and_changes_follow(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.set(mk_draft("n2", 2));
    publisher.complete();
    soon("everything is published", publisher.settled()).await;

    let mut follower = world.follow(&[HEALTH]);
    let Update::Snapshot { records, shards, .. } = follower.step().await else {
        panic!("a snapshot comes first");
    };
    assert_eq!(records.len(), 2);
    assert_eq!((shards.len(), shards[0].complete, shards[0].epoch), (1, true, 7));
    assert_eq!(shards[0].producer, "monitor");

    publisher.set(mk_draft("n1", 3));
    publisher.remove("n2");
    follower.until(|follower| follower.held.len() == 1).await;
    assert_eq!(follower.contents(), contents([("n1", 3)]));
    assert_eq!(follower.snapshots, 1);
}

on_every_engine!(async an_empty_bus_has_an_empty_snapshot_and_no_shards);
async fn an_empty_bus_has_an_empty_snapshot_and_no_shards(kind: Kind) {
    let world = World::new(kind);
    let mut follower = world.follow(&Topic::ALL);
    let empty = Update::Snapshot {
        records: Vec::new(),
        skipped: Vec::new(),
        shards: Vec::new(),
    };
    assert_eq!(follower.step().await, empty);
    assert!(!follower.is_complete(HEALTH));
}

on_every_engine!(async a_shard_is_not_said_to_be_complete_before_what_it_holds);
/// A bookmark is due when the reader has not read yet what there is.
async fn a_shard_is_not_said_to_be_complete_before_what_it_holds(kind: Kind) {
    let world = World::new(kind);
    let mut follower = world.follow(&[HEALTH]);
    follower.for_seconds(1).await;
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    soon("everything is published", publisher.settled()).await;
    pass(3).await;
    let update = follower.step().await;
    assert!(matches!(update, Update::Changes { .. }), "{update:?}");
    assert_eq!((follower.held.len(), follower.is_complete(HEALTH)), (1, true));
    assert!(
        matches!(follower.step().await, Update::Status { .. }),
        "the bookmark comes all the same"
    );
}

on_every_engine!(async a_broken_stream_is_resumed_where_it_was);
async fn a_broken_stream_is_resumed_where_it_was(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.set(mk_draft("n2", 1));
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.held.len() == 2).await;
    follower.until(|follower| follower.is_complete(HEALTH)).await;

    world.server.disconnect();
    publisher.set(mk_draft("n1", 2));
    publisher.remove("n2");
    let mut sets = Vec::new();
    while follower.held.len() == 2 {
        sets.push(follower.step().await);
    }
    assert!(matches!(sets.first(), Some(Update::Lost { .. })), "{sets:?}");
    assert_eq!(follower.contents(), contents([("n1", 2)]));
    assert_eq!((follower.snapshots, follower.lost), (1, 1));
    assert_eq!(follower.subscription.malformed(), 0);
}

on_every_engine!(async a_line_that_is_cut_loses_one_client_alone);
/// Partial partitions: one client loses the bus, nobody else notices.
async fn a_line_that_is_cut_loses_one_client_alone(kind: Kind) {
    let mut world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    let mut other = world.follow(&[HEALTH]);
    let line = Line::default();
    world.bus = Bus::over_line(&world.server, &line);
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.held.len() == 1).await;
    line.cut();
    publisher.set(mk_draft("n2", 1));
    follower.for_seconds(20).await;
    other.for_seconds(20).await;
    assert_eq!((follower.held.len(), other.held.len()), (1, 2));
    assert!(follower.lost > 0 && other.lost == 0);
    line.mend();
    follower.until(|follower| follower.held.len() == 2).await;
}

on_every_engine!(async whoever_resumes_is_told_every_shard_at_once_even_if_nothing_was_missed);
async fn whoever_resumes_is_told_every_shard_at_once_even_if_nothing_was_missed(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 2), 7);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.for_seconds(3).await;
    world.server.disconnect();
    loop {
        match follower.step().await {
            Update::Lost { .. } => {}
            Update::Changes { records, shards, .. } => {
                assert_eq!((records.len(), shards.len()), (0, 2));
                break;
            }
            update => panic!("nothing else comes first: {update:?}"),
        }
    }
    assert_eq!(follower.snapshots, 1);
}

on_every_engine!(async records_say_which_bus_their_origin_is_of);
/// A revision means something within one incarnation: what was derived from a record of a bus that is gone says so.
async fn records_say_which_bus_their_origin_is_of(kind: Kind) {
    let world = World::new(kind);
    let health = world.publish("monitor", HEALTH, (0, 1), 7);
    health.set(mk_draft("n1", 1));
    health.complete();
    let mut follower = world.follow(&[HEALTH, Topic::EvictionOutcomes]);
    follower.until(|follower| !follower.held.is_empty()).await;
    let source = follower.held.values().next().unwrap().clone();
    let origin = source.origin();
    assert_eq!(origin.revision, source.revision);
    assert!(!origin.incarnation.is_empty());

    let outcomes = world.publish("evictor", Topic::EvictionOutcomes, (0, 1), 7);
    let draft = Draft::new(mk_outcome("p1", "n1", PodOutcomeState::Evicting, 0));
    outcomes.set(draft.derived_from(&source));
    outcomes.complete();
    follower.until(|follower| follower.held.len() == 2).await;
    let key = (Topic::EvictionOutcomes, "pod/uid-p1".to_owned());
    assert_eq!(follower.held[&key].derived_from, origin);
    let history = soon("history", world.bus.history(key.0, &key.1)).await.unwrap();
    assert_eq!(history[0].origin(), follower.held[&key].origin());

    world.server.restart();
    follower
        .until(|follower| follower.snapshots == 2 && follower.held.len() == 2)
        .await;
    let derived = &follower.held[&key];
    assert_eq!(derived.derived_from, origin, "it is passed on as it is");
    let again = follower.held[&(HEALTH, "n1".to_owned())].origin();
    assert!(!derived.derived_from.is_comparable(&again));
    assert_eq!(derived.incarnation, again.incarnation);
}

on_every_engine!(async a_cursor_older_than_the_tombstones_kept_gets_a_snapshot);
async fn a_cursor_older_than_the_tombstones_kept_gets_a_snapshot(kind: Kind) {
    let world = World::small(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.set(mk_draft("n2", 1));
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.held.len() == 2).await;

    world.server.disconnect();
    publisher.remove("n2");
    // Nobody reads meanwhile: the subscription comes back after its tombstone is forgotten.
    pass(60).await;
    follower.until(|follower| follower.held.len() == 1).await;
    assert_eq!(follower.snapshots, 2);
}

on_every_engine!(async a_connected_reader_that_slept_too_long_gets_a_snapshot_too);
async fn a_connected_reader_that_slept_too_long_gets_a_snapshot_too(kind: Kind) {
    let world = World::small(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    publisher.remove("n1");
    pass(60).await;
    follower.until(|follower| follower.held.is_empty()).await;
    assert_eq!((follower.snapshots, follower.lost), (2, 0));
}

on_every_engine!(async a_bus_that_lost_its_memory_is_given_all_state_again);
async fn a_bus_that_lost_its_memory_is_given_all_state_again(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(mk_draft("n1", 1));
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    let before = world.server.incarnation();

    world.server.kill();
    assert_eq!(world.server.incarnation(), None);
    follower.until(|follower| follower.lost == 1).await;
    publisher.set(mk_draft("n2", 2));
    pass(7).await;
    world.server.restart();
    assert_ne!(world.server.incarnation(), before);
    follower
        .until(|follower| follower.held.len() == 2 && follower.is_complete(HEALTH))
        .await;
    assert_eq!(follower.contents(), contents([("n1", 1), ("n2", 2)]));
}

on_every_engine!(async a_loss_is_said_when_it_happens_and_when_it_is_stale);
async fn a_loss_is_said_when_it_happens_and_when_it_is_stale(kind: Kind) {
    let world = World::new(kind);
    let mut follower = world.follow(&[HEALTH]);
    follower.for_seconds(3).await;
    assert_eq!(follower.lost, 0);
    let lost_at = world.clock.now().mono;
    world.server.kill();
    let Update::Lost { since } = follower.step().await else {
        panic!("the loss is said at once");
    };
    assert!(since <= lost_at);
    assert_eq!(follower.step().await, Update::Lost { since }, "and again when it is stale");
    assert!(world.clock.now().mono.saturating_since(since) >= std::time::Duration::from_secs(10));
    follower.for_seconds(120).await;
    assert_eq!(follower.lost, 2, "and not again");
    world.server.restart();
    follower.until(|follower| follower.snapshots == 2).await;
    world.server.kill();
    follower.until(|follower| follower.lost == 3).await;
}

on_every_engine!(async a_bus_that_was_never_there_is_lost_too);
async fn a_bus_that_was_never_there_is_lost_too(kind: Kind) {
    let world = World::new(kind);
    world.server.kill();
    let start = world.clock.now().mono;
    let mut follower = world.follow(&[HEALTH]);
    assert_eq!(follower.step().await, Update::Lost { since: start });
    assert_eq!(follower.step().await, Update::Lost { since: start });
}

on_every_engine!(async liveness_and_lag_come_every_two_seconds);
async fn liveness_and_lag_come_every_two_seconds(kind: Kind) {
    let world = World::new(kind);
    let mut follower = world.follow(&[HEALTH]);
    follower.step().await;
    let begin = world.clock.now().mono;
    for _ in 0..10 {
        assert!(matches!(follower.step().await, Update::Status { .. }));
    }
    let took = world.clock.now().mono.saturating_since(begin).as_secs();
    assert!((16..=20).contains(&took), "{took} s for 10 bookmarks");
}

fn mk_filtered(world: &World, routes: &[&str]) -> Follower {
    let options = SubscribeOptions {
        topics: vec![HEALTH],
        filters: vec![RouteFilter {
            topic: HEALTH,
            routes: routes.iter().map(|route| (*route).to_owned()).collect(),
        }],
        subscriber: "filtered".to_owned(),
    };
    Follower::new(subscribe(&world.bus, options, &world.clock, &world.seed))
}

on_every_engine!(async leaving_a_filter_is_a_removal_and_entering_it_a_record);
async fn leaving_a_filter_is_a_removal_and_entering_it_a_record(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.set(Draft::new(mk_health("n1", "a", 1)));
    publisher.set(Draft::new(mk_health("n2", "b", 1)));
    publisher.complete();
    let mut follower = mk_filtered(&world, &["eu:a"]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    assert_eq!(follower.contents(), contents([("n1", 1)]));

    publisher.set(Draft::new(mk_health("n1", "b", 2)));
    let removal = loop {
        match follower.step().await {
            Update::Changes { records, .. } if !records.is_empty() => break records,
            _ => {}
        }
    };
    assert_eq!(removal.len(), 1);
    assert_eq!(removal[0].tombstone, Some(TombstoneReason::LeftFilter));
    assert!(removal[0].revision > Revision(0));
    assert!(follower.held.is_empty());

    publisher.set(Draft::new(mk_health("n2", "a", 3)));
    follower.until(|follower| follower.held.len() == 1).await;
    assert_eq!(follower.contents(), contents([("n2", 3)]));

    // A removal outside the filter of a key that was once inside is told; a stranger's is not.
    publisher.remove("n1");
    publisher.remove("n2");
    follower.until(|follower| follower.held.is_empty()).await;
}

on_every_engine!(async a_stage_that_follows_its_own_topic_has_no_echo);
async fn a_stage_that_follows_its_own_topic_has_no_echo(kind: Kind) {
    let world = World::new(kind);
    let before = world.publish("monitor", HEALTH, (0, 1), 6);
    before.set(Draft::new(mk_health("n1", "a", 1)));
    before.complete();
    let mut witness = world.follow(&[HEALTH]);
    witness.until(|witness| witness.is_complete(HEALTH)).await;
    drop(before);

    let ours = mk_publishing("monitor", HEALTH, (0, 1), 7);
    let subscription = world.subscribe(&[HEALTH]).without_echo(&ours);
    let mut follower = Follower::new(subscription);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    assert_eq!(
        follower.contents(),
        contents([("n1", 1)]),
        "an earlier process of this name is another one"
    );

    let publisher = publish(&world.bus, ours, &world.clock, &world.seed);
    publisher.set(Draft::new(mk_health("n1", "a", 2)));
    publisher.set(Draft::new(mk_health("n2", "a", 2)));
    publisher.complete();
    witness.until(|witness| witness.held.len() == 2).await;
    publisher.remove("n1");
    follower.until(|follower| follower.held.is_empty()).await;
    assert_eq!(
        follower.contents(),
        contents([]),
        "it was told that n1 is gone, and nothing of n2"
    );
    witness.until(|witness| witness.held.len() == 1).await;
}

on_every_engine!(async bad_requests_are_refused_with_the_field_and_what_is_allowed);
async fn bad_requests_are_refused_with_the_field_and_what_is_allowed(kind: Kind) {
    use bailiff_proto::v1::event_bus_server::EventBus as _;
    use bailiff_proto::v1::{RouteFilter as Wire, Speaker, SubscribeRequest};
    let world = World::new(kind);
    let good = SubscribeRequest {
        topics: vec!["node-health".to_owned()],
        cursor: String::new(),
        filters: Vec::new(),
        subscriber: "test".to_owned(),
        except: None,
    };
    let filter = |topic: &str, routes: &[&str]| Wire {
        topic: topic.to_owned(),
        routes: routes.iter().map(|route| (*route).to_owned()).collect(),
    };
    let except = |producer: &str, epoch| {
        Some(Speaker {
            producer: producer.to_owned(),
            epoch,
        })
    };
    let with = |change: &dyn Fn(&mut SubscribeRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let cases = [
        (with(&|request| request.topics.clear()), "topics: "),
        (
            with(&|request| request.topics.push("nodes".to_owned())),
            "topics[1]: \"nodes\"",
        ),
        (with(&|request| request.topics.push("node-health".to_owned())), "topics[1]: "),
        (with(&|request| request.subscriber.clear()), "subscriber: \"\""),
        (with(&|request| request.subscriber = "a\nb".to_owned()), "subscriber: "),
        (with(&|request| request.except = except("", 1)), "except.producer: \"\""),
        (with(&|request| request.except = except("me", 0)), "except.epoch: 0"),
        (
            with(&|request| request.cursor = "nonsense".to_owned()),
            "cursor: \"nonsense\"",
        ),
        (
            with(&|request| request.filters.push(filter("daemon-rollouts", &[]))),
            "filters[0].topic: \"daemon-rollouts\"",
        ),
        (
            with(&|request| request.filters.push(filter("node-health", &[""]))),
            "filters[0].routes[0]: \"\"",
        ),
        (
            with(&|request| request.filters = vec![filter("node-health", &["a"]); 2]),
            "filters[1].topic: ",
        ),
        (
            with(&|request| request.filters.push(filter("node-health", &["a"; 1_001]))),
            "filters[0].routes: 1001 routes is not allowed, wanted at most 1000 in all filters",
        ),
        (
            with(&|request| {
                request.topics.push("daemon-rollouts".to_owned());
                request.filters = ["node-health", "daemon-rollouts"]
                    .map(|topic| filter(topic, &["a"; 501]))
                    .into();
            }),
            "filters[1].routes: 501 routes is not allowed, wanted at most 1000 in all filters",
        ),
    ];
    for (request, wanted) in cases {
        let Err(status) = world.server.subscribe(tonic::Request::new(request)).await else {
            panic!("{wanted} must be refused");
        };
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
        assert!(status.message().starts_with(wanted), "{:?} for {wanted:?}", status.message());
        assert!(status.message().contains("wanted"), "{:?}", status.message());
    }
    for good in [
        with(&|request| request.filters.push(filter("node-health", &["a"; 1_000]))),
        good.clone(),
    ] {
        assert!(world.server.subscribe(tonic::Request::new(good)).await.is_ok());
    }
}

on_every_engine!(async subscribers_are_bounded_and_leave_their_place);
async fn subscribers_are_bounded_and_leave_their_place(kind: Kind) {
    let world = World::with(
        kind,
        ServerOptions {
            subscribers: 2,
            ..ServerOptions::default()
        },
    );
    let (mut first, mut second) = (world.follow(&[HEALTH]), world.follow(&[HEALTH]));
    first.step().await;
    second.step().await;
    let mut third = world.follow(&[HEALTH]);
    assert!(matches!(third.step().await, Update::Lost { .. }));
    let subscribers = async || soon("status", world.bus.status()).await.unwrap().topics[0].subscribers;
    assert_eq!(subscribers().await, 2);
    drop(first);
    third.until(|follower| follower.snapshots == 1).await;
    assert_eq!(subscribers().await, 2);
}

on_every_engine!(async a_reader_that_never_reads_costs_nothing_and_catches_up_in_one_set);
/// The reader's cost is what it is in the middle of, and that is bounded by keys.
async fn a_reader_that_never_reads_costs_nothing_and_catches_up_in_one_set(kind: Kind) {
    let world = World::new(kind);
    let publisher = world.publish("monitor", HEALTH, (0, 1), 7);
    publisher.complete();
    let mut follower = world.follow(&[HEALTH]);
    follower.until(|follower| follower.is_complete(HEALTH)).await;
    let nodes: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    for round in 0..300 {
        for node in &nodes {
            publisher.set(mk_draft(node, round));
        }
        soon("the round is published", publisher.settled()).await;
    }
    let text = world.metrics();
    let kept = "event_bus_records{topic=\"node-health\"} 160\n";
    assert!(
        text.contains(kept),
        "16 records of each of 10 keys, of 3,000 published: {text}"
    );
    assert!(text.contains("event_bus_keys{topic=\"node-health\"} 10\n"), "{text}");
    assert!(text.contains("event_bus_subscribers 1\n"), "{text}");

    let records = loop {
        match follower.step().await {
            Update::Changes { records, .. } if !records.is_empty() => break records,
            _ => {}
        }
    };
    assert_eq!(records.len(), 10, "each key once");
    assert!(follower.contents().values().all(|content| *content == 299));
}
