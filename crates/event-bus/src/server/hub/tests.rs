//! A hub at its end, and one to which nothing comes.

use bailiff_model::Wall;
use bailiff_proto::v1 as pb;
use futures::FutureExt as _;
use tonic::{Code, Request};

use super::*;
use crate::engine::{self, Limits, Memory};
use crate::record::ShardStatus;
use crate::server::gate::Gate;
use crate::server::{subscribe, unary};

#[path = "../../../tests/shared/handing_on.rs"]
mod handing_on;

use self::handing_on::{Handing, HandsOn};

const HEALTH: Topic = Topic::NodeHealth;

/// An engine that answers nothing, as one whose store is gone.
struct Silent {
    memory: Memory,
    is_cut_off: bool,
}

impl HandsOn for Silent {
    type To = Memory;

    fn to(&self) -> &Memory {
        &self.memory
    }

    fn to_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn apply(&mut self, _: Ticket, _: Command, _: Now) -> Vec<Effect> {
        Vec::new()
    }

    fn is_cut_off(&self, _: Now) -> bool {
        self.is_cut_off
    }
}

fn mk_memory() -> Memory {
    Memory::new("bus-1".to_owned(), Limits::default())
}

fn mk_hub(engine: impl Engine + 'static) -> Arc<Hub> {
    let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
    Arc::new(Hub::new(
        Box::new(engine),
        ServerOptions::default(),
        clock,
        Metrics::default(),
    ))
}

fn mk_silent(is_cut_off: bool) -> Arc<Hub> {
    let memory = mk_memory();
    mk_hub(Handing(Silent { memory, is_cut_off }))
}

fn mk_open() -> Command {
    Command::Open(Open {
        topic: HEALTH,
        shard: 0,
        shard_count: 1,
        producer: "monitor".to_owned(),
        epoch: 1,
        replace: false,
    })
}

const RESET: Command = Command::ResetEpoch { topic: HEALTH, shard: 0 };

/// Nobody would end it: the streams that it would end with were ended before.
#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_replica_that_is_cut_off_is_refused_at_once() {
    let hub = mk_silent(true);
    hub.tick();
    for command in [RESET, mk_open()] {
        let answer = hub.call(command.clone()).now_or_never();
        let refused = answer.expect("it waits for nothing").expect_err("it is cut off");
        assert_eq!(status::kind(&refused), Some("store"), "{command:?}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_remembered_who_waits_no_more() {
    let hub = mk_silent(false);
    for command in [RESET, mk_open()] {
        assert!(hub.call(command).now_or_never().is_none(), "there is no answer");
    }
    assert_eq!(hub.lock().waiting.len(), 0);
}

/// A subscription is opened in several steps. If the streams end amid them, it does too.
#[tokio::test(start_paused = true)]
async fn who_was_admitted_before_streams_end_is_not_left_behind() {
    let hub = mk_silent(false);
    let ended = hub.admit_reader().expect("it is not cut off");
    hub.disconnect();
    let next = hub.admit_reader().expect("it is not cut off");
    assert_eq!((ended.is_cancelled(), next.is_cancelled()), (true, false));
}

/// It was there when they came in, and they are not told that it is empty.
#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_a_bus_that_has_ended() {
    let hub = mk_hub(mk_memory());
    let caller = Caller::of(&Gate::Open, &Request::new(()));
    let following = pb::SubscribeRequest {
        subscriber: "foreign".to_owned(),
        topics: vec![HEALTH.to_string()],
        ..pb::SubscribeRequest::default()
    };
    let history = pb::GetHistoryRequest {
        topic: HEALTH.to_string(),
        key: "n1".to_owned(),
    };
    assert!(unary::history(&hub, &caller, &history).is_ok());
    assert!(unary::status(&hub, &caller).is_ok());
    assert!(subscribe::open(Arc::clone(&hub), &caller, following.clone()).await.is_ok());
    hub.shut_down();
    hub.tick();
    hub.poll();
    for refused in [
        unary::history(&hub, &caller, &history).err(),
        unary::status(&hub, &caller).err(),
        subscribe::open(Arc::clone(&hub), &caller, following).await.err(),
        hub.call(mk_open()).await.err(),
    ] {
        assert_eq!(refused.map(|status| status.code()), Some(Code::Unavailable));
    }
}
