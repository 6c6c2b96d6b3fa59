//! An hour of a cluster in which much goes wrong at once: for tests of frames, and for the picture of one.

use std::time::Duration;

use bailiff_diff::said;
use bailiff_event_bus::{Body, ShardStatus};
use bailiff_model::health::{NodeHealth, Ready, ReadyStatus, SignOfLife, Signal, Verdict};
use bailiff_model::hold::{Hold, HoldReason};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::{Counts, DaemonSetSync, WhyNot};
use bailiff_model::{Mono, NodeRef, Now, PodRef, Topic, Wall, Zone, ZoneState};

use super::view::View;

/// What time it is there.
pub fn now() -> Now {
    Now {
        mono: Mono::from_origin(Duration::from_secs(3_600)),
        wall: at(0),
    }
}

/// What is known there.
pub fn view() -> View {
    let mut view = View::default();
    let bodies = nodes().into_iter().chain(outcomes()).chain(pods()).chain(rollouts());
    for body in bodies {
        view.overview.apply(body.topic(), &body.key(), Some(said(&body)));
    }
    view.shards = shards();
    view
}

/// So many seconds from now.
fn at(seconds: i64) -> Wall {
    Wall::from_second(1_795_312_800 + seconds).expect("in range")
}

fn zone(letter: &str) -> Zone {
    Zone::new("eu-1", letter)
}

fn node(name: &str) -> NodeRef {
    NodeRef {
        name: name.into(),
        uid: format!("uid-of-{name}").into(),
        ..NodeRef::default()
    }
}

fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-of-{name}").into(),
        ..PodRef::default()
    }
}

fn hold(reason: HoldReason, detail: &str, since: i64) -> Hold {
    Hold {
        reason,
        detail: detail.to_owned(),
        since: at(since),
        until: None,
    }
}

fn nodes() -> Vec<Body> {
    let mut bodies = Vec::new();
    for letter in ["a", "b", "c"] {
        for number in 0..10 {
            let (verdict, seen) = match (letter, number) {
                ("b", 0..4) => (Verdict::Unreachable, -80),
                ("b", 4) | ("c", 7) => (Verdict::Late, -42),
                _ => (Verdict::Healthy, -3),
            };
            let name = format!("node-{letter}-{number:03}");
            bodies.push(Body::NodeHealth(Box::new(health(
                &name,
                zone(letter),
                verdict,
                at(seen - number),
            ))));
        }
    }
    bodies
}

fn health(name: &str, zone: Zone, verdict: Verdict, seen: Wall) -> NodeHealth {
    NodeHealth {
        node: node(name),
        zone,
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::True,
            ..Ready::default()
        },
        verdict,
        last_sign_of_life: Some(SignOfLife {
            time: seen,
            signal: Signal::Lease,
            renew_time: None,
        }),
        late_since: None,
        counted_from: seen,
        grace: Duration::from_secs(50),
        decided_at: seen,
        held: None,
    }
}

fn outcomes() -> Vec<Body> {
    let status = |letter, state, not_ready, late, queue_length, last_grant: Option<i64>, held| {
        Outcome::Zone(Box::new(ZoneStatus {
            zone: zone(letter),
            state,
            voting: 10,
            not_ready,
            late,
            rate_per_second: 0.1,
            last_grant: last_grant.map(at),
            queue_length,
            held,
        }))
    };
    let node = |name: &str, state, since| {
        Outcome::Node(Box::new(NodeOutcome {
            node: node(name),
            zone: zone("b"),
            state,
            since: at(since),
            unhealthy_since: None,
        }))
    };
    let queued = |position, expected: i64| NodeOutcomeState::Queued {
        position,
        expected_at: Some(at(expected)),
    };
    let paused = hold(
        HoldReason::Paused,
        "paused by mira@laptop until 2026-11-22T03:35:00Z: switch replacement",
        -1_500,
    );
    let outcomes = [
        status("a", ZoneState::Normal, 0, 0, 0, None, None),
        status("b", ZoneState::Normal, 4, 1, 2, Some(-6), None),
        status("c", ZoneState::Normal, 0, 1, 0, Some(-4_200), Some(paused)),
        node("node-b-000", NodeOutcomeState::Isolated, -16),
        node("node-b-001", NodeOutcomeState::Isolated, -6),
        node("node-b-002", queued(2, 4), -26),
        node("node-b-003", queued(3, 14), -25),
    ];
    outcomes.into_iter().map(Body::Outcome).collect()
}

fn pods() -> Vec<Body> {
    let scheduled = |name: &str, node_name: &str, due: i64| {
        Body::Intent(Intent::Pod(Box::new(PodEviction {
            pod: pod(name),
            node: node(node_name),
            zone: zone("b"),
            cause: EvictionCause::Node.into(),
            state: IntentState::Scheduled,
            trigger: Trigger::Expired,
            due_at: at(due),
            decided_at: at(-16),
        })))
    };
    let outcome = |name: &str, state, failed_attempts, since| {
        Body::Outcome(Outcome::Pod(Box::new(PodOutcome {
            pod: pod(name),
            node: node("node-b-000"),
            zone: zone("b"),
            state,
            failed_attempts,
            detail: String::new(),
            since: at(since),
            next_try_at: None,
        })))
    };
    let blocked = PodOutcomeState::Blocked {
        by: "shop/cart".to_owned(),
    };
    let mut bodies = vec![
        outcome("web-7", PodOutcomeState::Evicting, 0, 0),
        outcome("cart-1", blocked, 3, -12),
    ];
    for (number, due) in [(1, 14), (2, 14), (3, 24), (4, 284), (5, 284), (6, 294)] {
        let node = if number % 3 == 0 { "node-b-001" } else { "node-b-000" };
        bodies.push(scheduled(&format!("web-{number}"), node, due));
    }
    bodies
}

fn rollouts() -> Vec<Body> {
    let sync = |name: &str, revision, updated, available, reasons| {
        Body::DaemonSetSync(Box::new(DaemonSetSync {
            namespace: "kube-system".into(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            observed_generation: revision,
            current_revision: "5d4f8c7".to_owned(),
            revision,
            counts: Counts {
                desired: 30,
                current: 30,
                ready: available,
                available,
                unavailable: 30 - available,
                updated,
                misscheduled: 0,
            },
            reasons,
            nodes: Vec::new(),
            held: None,
            synced_at: at(0),
            revision_since: None,
            rolled_out_at: None,
        }))
    };
    let waits = vec![(WhyNot::NodeBadAfter, 4), (WhyNot::Image, 1), (WhyNot::WaitingForBudget, 17)];
    vec![
        sync("cni", 12, 13, 25, waits),
        sync("log-agent", 3, 30, 26, vec![(WhyNot::NodeBadAfter, 4)]),
    ]
}

fn shards() -> Vec<ShardStatus> {
    let shard = |topic, producer: &str, index: u32, shard_count, lag| ShardStatus {
        topic,
        shard: index,
        shard_count,
        epoch: 7,
        complete: true,
        live: true,
        lag: Duration::from_millis(lag),
        producer: producer.to_owned(),
        detail: String::new(),
    };
    let mut silent = shard(Topic::EvictionIntents, "taint-manager-1", 1, 2, 12_300);
    (silent.live, silent.detail) = (false, "its watch of nodes is 12.3s old".to_owned());
    vec![
        shard(Topic::NodeHealth, "node-health-monitor-0", 0, 1, 200),
        shard(Topic::EvictionIntents, "taint-manager-0", 0, 2, 100),
        silent,
        shard(Topic::EvictionOutcomes, "zone-evictor-0", 0, 1, 300),
        shard(Topic::DaemonRollouts, "daemonset-syncer-0", 0, 1, 100),
    ]
}
