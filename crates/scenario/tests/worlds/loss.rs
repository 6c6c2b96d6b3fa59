//! Correlated loss: leases that stop together hold what would follow, until they return or the hold runs out.

use super::*;

/// Three quarters of a zone or of the cluster within ten seconds, held for a minute.
const LIMIT: &str = "--hold-on-correlated-loss=0.75/10s/1m";

/// How a zone's silence goes on after it was held for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Returns,
    Lasts,
}

/// What had happened when the hold had stood for 25 s, and in the end.
struct Played {
    observer: Observer,
    acts_before: usize,
    acts_while_held: usize,
    said: Vec<String>,
    events: Vec<String>,
    plan: Plan,
}

/// Reasons of the Events that the monitor emitted about the leases, in order.
fn events(fixture: &Fixture) -> Vec<String> {
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let list = fixture
        .sandbox
        .request(&User::admin(), Verb::Get, path, &json!({}))
        .expect("listed");
    let mut items = list["items"].as_array().cloned().unwrap_or_default();
    items.sort_by_key(|event| event["eventTime"].as_str().map(str::to_owned));
    let about = items.iter().filter(|event| event["regarding"]["kind"] == "Namespace");
    about.filter_map(|event| Some(event["reason"].as_str()?.to_owned())).collect()
}

/// One node of the silent zone falls silent, the rest of the zone before the pods of the first are due.
fn play_loss(flags: &[&str], then: Then) -> Played {
    let plan = Plan {
        more_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        eviction_rate: 0.5,
        ..mk_plan()
    };
    world::run(async |clock| {
        let fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(11))
            .await
            .expect("a world");
        let mut observer = Observer::new(&fixture, &plan);
        observer.follow(&fixture, plan.quiet).await;
        let (_, silent) = plan.silent();
        set_alive(&fixture, &silent[..1], false).await;
        observer.follow(&fixture, Duration::from_secs(4)).await;
        set_alive(&fixture, &silent[1..], false).await;
        // All are late by then, and none but the first was judged.
        observer.follow(&fixture, Duration::from_secs(6)).await;
        let acts_before = observer.acts;
        observer.follow(&fixture, Duration::from_secs(25)).await;
        let acts_while_held = observer.acts - acts_before;
        let said = fixture.failing_checks(StageName::NodeHealthMonitor);
        if then == Then::Returns {
            set_alive(&fixture, &silent, true).await;
        }
        observer.follow(&fixture, plan.silence).await;
        let events = events(&fixture);
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
        Played {
            observer,
            acts_before,
            acts_while_held,
            said,
            events,
            plan,
        }
    })
}

/// Marking, taints and timers that run are held together; it is said; when the leases return nothing was lost.
#[test]
fn leases_that_stop_together_hold_marking_taints_and_timers_until_they_return() {
    let played = play_loss(&[LIMIT], Then::Returns);
    // Before: the first node and its pods that tolerate nothing.
    assert_eq!((played.acts_before, played.acts_while_held), (2, 0));
    let figures = played.observer.reader.figures();
    assert_eq!(
        (figures.nodes_detected, figures.nodes_isolated, figures.pods_evicted),
        (1, 1, 1)
    );
    assert_eq!(figures.not_recovered, Vec::<String>::new());
    assert!(
        played.observer.holds.contains(&HoldReason::CorrelatedLoss),
        "{:?}",
        played.observer.holds
    );
    assert!(
        played.said.iter().any(|said| said.contains("leases stopped together")),
        "{:?}",
        played.said
    );
    assert_eq!(played.events, ["CorrelatedLoss", "CorrelatedLossEnded"]);
}

/// A hold runs out; then what is still silent is treated as ever, at its zone's rate.
#[test]
fn a_loss_that_lasts_longer_than_its_hold_is_treated_as_ever_and_paced() {
    let played = play_loss(&[LIMIT], Then::Lasts);
    assert_eq!((played.acts_before, played.acts_while_held), (2, 0));
    let figures = played.observer.reader.figures();
    assert_eq!(
        played.plan.judge(&Figures {
            not_recovered: Vec::new(),
            ..figures
        }),
        Vec::<String>::new()
    );
    let between = Duration::from_secs_f32(1.0 / played.plan.eviction_rate);
    for pair in played.observer.isolated.windows(2) {
        let span = pair[1].1.saturating_since(pair[0].1);
        assert!(span + Duration::from_millis(1) >= between, "{pair:?}");
    }
    assert_eq!(played.events, ["CorrelatedLoss", "CorrelatedLossEnded"]);
}

/// Without the flag, under both profiles, the same silence is treated as upstream does: every node is judged and isolated at once.
#[test]
fn without_the_flag_a_loss_is_treated_as_upstream_does() {
    for profile in ["--profile=upstream", "--profile=bailiff"] {
        let played = play_loss(&[profile], Then::Returns);
        let figures = played.observer.reader.figures();
        let nodes = played.plan.nodes_per_zone;
        assert_eq!((figures.nodes_detected, figures.nodes_isolated), (nodes, nodes), "{profile}");
        assert!(played.acts_while_held > nodes, "{profile}");
        assert!(!played.observer.holds.contains(&HoldReason::CorrelatedLoss));
        assert_eq!(played.events, Vec::<String>::new(), "{profile}");
    }
}

/// The cluster's own scope: where six of eight leases stop, a zone that lost only two of its four is held with the others. With five of
/// eight it is not, while the other zone, which lost three of four, is.
#[test]
fn a_loss_of_the_cluster_holds_a_zone_that_lost_less() {
    for (lost_in_other, detected) in [(4, 0), (3, 2)] {
        let plan = Plan {
            more_flags: vec![LIMIT.to_owned()],
            ..mk_plan()
        };
        world::run(async |clock| {
            let fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(11))
                .await
                .expect("a world");
            let mut observer = Observer::new(&fixture, &plan);
            observer.follow(&fixture, plan.quiet).await;
            let zones = plan.cluster().layout().zones;
            let silent: Vec<NodeName> = zones[0].1[..2].iter().chain(&zones[1].1[..lost_in_other]).cloned().collect();
            set_alive(&fixture, &silent, false).await;
            observer.follow(&fixture, Duration::from_secs(40)).await;
            let found = observer.reader.figures().nodes_detected;
            assert_eq!(found, detected, "{lost_in_other} in the other zone");
            set_alive(&fixture, &silent, true).await;
            observer.follow(&fixture, Duration::from_secs(30)).await;
            let figures = observer.reader.figures();
            assert_eq!((figures.nodes_detected, figures.not_recovered), (detected, Vec::new()));
            let told = events(&fixture);
            let scopes = if detected == 0 { 2 } else { 1 };
            let count = |reason: &str| told.iter().filter(|told| *told == reason).count();
            assert_eq!((count("CorrelatedLoss"), count("CorrelatedLossEnded")), (scopes, scopes));
        });
    }
}

/// The monitor dies in the middle of a loss, with the bus or without it. What was held stays held while nobody is known to be late, and
/// when the leases return nothing was lost.
#[test]
fn a_hold_outlives_the_monitor_and_the_bus() {
    for bus_too in [false, true] {
        let plan = Plan {
            more_flags: vec![LIMIT.to_owned()],
            eviction_rate: 0.5,
            ..mk_plan()
        };
        world::run(async |clock| {
            let mut fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(11))
                .await
                .expect("a world");
            let mut observer = Observer::new(&fixture, &plan);
            observer.follow(&fixture, plan.quiet).await;
            let (_, silent) = plan.silent();
            set_alive(&fixture, &silent[..1], false).await;
            observer.follow(&fixture, Duration::from_secs(4)).await;
            set_alive(&fixture, &silent[1..], false).await;
            // The pods of the first node are due by then.
            observer.follow(&fixture, Duration::from_secs(16)).await;
            assert_eq!(observer.acts, 2, "the first node and its pod that tolerates nothing");
            fixture.kill_stage(StageName::NodeHealthMonitor);
            if bus_too {
                fixture.server.kill();
                observer.follow(&fixture, Duration::from_secs(2)).await;
                fixture.server.restart();
            }
            fixture.start_stage(StageName::NodeHealthMonitor).await.expect("it can start");
            observer.follow(&fixture, Duration::from_secs(20)).await;
            assert_eq!(observer.acts, 2, "the bus too: {bus_too}");
            set_alive(&fixture, &silent, true).await;
            observer.follow(&fixture, plan.silence).await;
            let figures = observer.reader.figures();
            assert_eq!(
                (figures.nodes_detected, figures.nodes_isolated, figures.pods_evicted),
                (1, 1, 1),
                "the bus too: {bus_too}"
            );
            assert_eq!(figures.not_recovered, Vec::<String>::new());
        });
    }
}
