//! What a key takes at rest in the bus and in its publisher's outbox, in bytes of the allocator; and that a burst leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bailiff_event_bus::engine::{Answer, Command, Effect, Engine, Limits, Memory, Open, SessionId};
use bailiff_event_bus::record::Incoming;
use bailiff_event_bus::{Body, Bus, Draft, PublishOptions, Server, ServerOptions, publish};
use bailiff_footprint::{Bytes, fleet, held};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::{
    Effect as TaintEffect, Incarnation, Origin, Revision, Taint, Toleration, Topic, TraceContext, Wall, wellknown,
};
use bailiff_runtime::{Clock, Seed};

const KEYS: usize = 20_000;
const IN_THE_BUS: Bytes = Bytes { known: 377, most: 448 };
const INTENT: Bytes = Bytes { known: 540, most: 640 };
const STAGED: Bytes = Bytes { known: 291, most: 384 };
const SUPERSEDED: Bytes = Bytes { known: 56, most: 128 };
const IN_THE_OUTBOX: Bytes = Bytes { known: 328, most: 448 };

/// A pod that has to go from its node because that is unreachable.
fn mk_intent(nth: usize) -> Intent {
    let tolerates = |key: &str| Toleration {
        seconds: Some(300),
        ..Toleration::exists(key, TaintEffect::NoExecute)
    };
    Intent::Pod(Box::new(PodEviction {
        pod: fleet::pod(nth),
        node: fleet::reference(nth),
        zone: fleet::zone(nth),
        cause: EvictionCause::Taints {
            taints: vec![Taint {
                time_added: Some(Wall::UNIX_EPOCH),
                ..Taint::new(wellknown::TAINT_UNREACHABLE, TaintEffect::NoExecute)
            }],
            tolerations: vec![tolerates(wellknown::TAINT_NOT_READY), tolerates(wellknown::TAINT_UNREACHABLE)],
        }
        .into(),
        state: IntentState::Scheduled,
        trigger: Trigger::Expired,
        due_at: Wall::UNIX_EPOCH,
        decided_at: Wall::UNIX_EPOCH,
    }))
}

fn mk_incoming(body: Body, revision: u64) -> Incoming {
    Incoming {
        key: body.key(),
        route: body.route(),
        derived_from: Origin::new(Incarnation::from("0f6cbb4e-5f02-4c8c-b8a2-9f0d6f2b0001"), Revision(revision)),
        produced_at: Wall::UNIX_EPOCH,
        age: Duration::ZERO,
        trace: Some(TraceContext::derived(&[&body.key()])),
        body: Some(body),
    }
}

/// A health record is derived from nothing, and of no incident.
fn mk_health(nth: usize, grace: u64) -> Incoming {
    let mut health = fleet::health(nth);
    health.grace = Duration::from_secs(grace);
    Incoming {
        derived_from: Origin::default(),
        trace: None,
        ..mk_incoming(Body::NodeHealth(Box::new(health)), 0)
    }
}

fn open(engine: &mut Memory, topic: Topic) -> SessionId {
    let open = Open {
        topic,
        shard: 0,
        shard_count: 1,
        producer: "node-health-monitor-7d9f8b6c5d-x2x7q".to_owned(),
        epoch: 1,
        replace: true,
    };
    let effects = engine.apply(0, Command::Open(open), fleet::NOW);
    let opened = effects.into_iter().find_map(|effect| match effect {
        Effect::Answer {
            result: Ok(Answer::Opened { session, .. }),
            ..
        } => Some(session),
        _ => None,
    });
    opened.unwrap()
}

fn give(engine: &mut Memory, session: SessionId, mk: impl Fn(usize) -> Incoming) {
    for first in (0..KEYS).step_by(500) {
        let records = (first..first + 500).map(&mk).collect();
        let effects = engine.apply(0, Command::Publish { session, records }, fleet::NOW);
        assert!(matches!(&effects[0], Effect::Answer { result: Ok(_), .. }), "{effects:?}");
    }
}

fn check_the_engine() {
    let mut engine = Memory::new("bus".to_owned(), Limits::default());
    let before = held();
    let health = open(&mut engine, Topic::NodeHealth);
    give(&mut engine, health, |nth| mk_health(nth, 40));
    STAGED.check("node staged", (held() - before) / KEYS);
    engine.apply(0, Command::EndReplace { session: health }, fleet::NOW);
    let with_health = held();
    IN_THE_BUS.check("node in the bus", (with_health - before) / KEYS);

    give(&mut engine, health, |nth| mk_health(nth, 50));
    let with_history = held();
    SUPERSEDED.check("superseded record", (with_history - with_health) / KEYS);

    let intents = open(&mut engine, Topic::EvictionIntents);
    give(&mut engine, intents, |nth| {
        mk_incoming(Body::Intent(mk_intent(nth)), nth as u64 + 1)
    });
    engine.apply(0, Command::EndReplace { session: intents }, fleet::NOW);
    INTENT.check("intent in the bus", (held() - with_history) / KEYS);
    assert_eq!(engine.figures().iter().map(|topic| topic.keys).sum::<usize>(), 2 * KEYS);
}

/// Of the publisher and its bus what is left when the publisher is gone is the bus's.
async fn check_the_outbox() {
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let server = Server::new(ServerOptions::default(), &clock, &seed);
    let options = PublishOptions {
        topic: Topic::NodeHealth,
        shard: 0,
        shard_count: 1,
        producer: "monitor".to_owned(),
        epoch: 1,
    };
    let publisher = publish(&Bus::in_process(&server), options, &clock, &seed);
    for nth in 0..KEYS {
        publisher.set(Draft::new(Body::NodeHealth(Box::new(fleet::health(nth)))));
    }
    publisher.complete();
    publisher.settled().await;
    let with_both = held();
    drop(publisher);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    IN_THE_OUTBOX.check("node in the outbox", (with_both - held()) / KEYS);
}

#[test]
fn a_key_takes_few_bytes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_the_outbox());
    check_the_engine();
}
