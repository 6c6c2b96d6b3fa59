//! Steps of the engine's properties.

use std::time::Duration;

use bailiff_event_bus::engine::Limits;
use bailiff_event_bus::record::Incoming;
use bailiff_model::Topic;
use bailiff_model::outcome::PodOutcomeState;
use proptest::prelude::*;

use crate::engine_rig::{mk_incoming, mk_removal};
use crate::support::{mk_health, mk_outcome};

/// One step; indices are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Op {
    Open {
        topic: usize,
        shard: u32,
        shard_count: u32,
        epoch: u64,
        replace: bool,
    },
    Publish {
        session: usize,
        /// Key, route, content; no content removes.
        records: Vec<(u8, u8, Option<u8>)>,
    },
    EndReplace {
        session: usize,
    },
    Keepalive {
        session: usize,
        tick: Option<u64>,
        watch: Option<u64>,
    },
    Close {
        session: usize,
    },
    Reset {
        topic: usize,
        shard: u32,
    },
    Pass {
        seconds: u64,
    },
    /// A reader takes one set.
    Read {
        reader: usize,
    },
    /// A reader comes back with its cursor.
    Resume {
        reader: usize,
    },
    /// A reader comes back with the cursor of another bus.
    Stray {
        reader: usize,
    },
}

pub fn op() -> impl Strategy<Value = Op> {
    let open = (0..2_usize, 0..2_u32, 1..=2_u32, 0..4_u64, any::<bool>());
    let record = (0..4_u8, 0..2_u8, proptest::option::weighted(0.8, 0..3_u8));
    let publish = (any::<usize>(), proptest::collection::vec(record, 1..5));
    let keepalive = (
        any::<usize>(),
        proptest::option::of(0..12_u64),
        proptest::option::of(0..12_u64),
    );
    prop_oneof![
        4 => open.prop_map(|(topic, shard, shard_count, epoch, replace)| Op::Open { topic, shard, shard_count, epoch, replace }),
        8 => publish.prop_map(|(session, records)| Op::Publish { session, records }),
        3 => any::<usize>().prop_map(|session| Op::EndReplace { session }),
        2 => keepalive.prop_map(|(session, tick, watch)| Op::Keepalive { session, tick, watch }),
        2 => any::<usize>().prop_map(|session| Op::Close { session }),
        1 => (0..2_usize, 0..2_u32).prop_map(|(topic, shard)| Op::Reset { topic, shard }),
        2 => (1..12_u64).prop_map(|seconds| Op::Pass { seconds }),
        5 => any::<usize>().prop_map(|reader| Op::Read { reader }),
        2 => any::<usize>().prop_map(|reader| Op::Resume { reader }),
        1 => any::<usize>().prop_map(|reader| Op::Stray { reader }),
    ]
}

pub fn mk_limits() -> Limits {
    Limits {
        history: 3,
        tombstones: 6,
        tombstones_for: Duration::from_secs(20),
        terminal: 2,
        terminal_for: Duration::from_secs(40),
        ..Limits::default()
    }
}

pub fn mk_record(topic: Topic, (key, route, content): (u8, u8, Option<u8>)) -> Incoming {
    let body = match topic {
        Topic::NodeHealth => mk_health(
            &format!("n{key}"),
            ["a", "b", "c"][usize::from(route)],
            content.unwrap_or(0).into(),
        ),
        _ => {
            let states = [PodOutcomeState::Evicting, PodOutcomeState::Deleted, PodOutcomeState::Gone];
            let state = states[usize::from(content.unwrap_or(0))].clone();
            mk_outcome(&format!("p{key}"), &format!("node-{route}"), state, 0)
        }
    };
    match content {
        Some(_) => mk_incoming(body),
        None => mk_removal(&body.key()),
    }
}
