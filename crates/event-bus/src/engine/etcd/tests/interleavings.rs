//! Whatever two replicas are told, in whatever order it is made, committed, repeated and read.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::Mono;
use proptest::prelude::*;

use super::super::log::{Entry, What};
use super::super::machine::{APART, Machine};
use super::super::snapshot;
use super::{HEALTH, Sim, mk_keepalive, mk_open, mk_publish, mk_record};
use crate::engine::{Command, Effect, Engine as _, Limits, Memory};

/// One step of two replicas.
#[derive(Clone, Debug)]
enum Op {
    Open {
        at: usize,
        epoch: u64,
        replace: bool,
    },
    Publish {
        at: usize,
        records: Vec<(u8, u64)>,
    },
    End {
        at: usize,
    },
    Keep {
        at: usize,
    },
    Close {
        at: usize,
    },
    Reset {
        at: usize,
    },
    Tick {
        at: usize,
    },
    Commit {
        at: usize,
    },
    Deliver {
        at: usize,
    },
    /// The log takes what it has taken already: the answer to the first attempt was lost.
    Again,
    Reload {
        at: usize,
    },
    Pass {
        millis: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..2_usize;
    let records = proptest::collection::vec((0..5_u8, 0..3_u64), 1..4);
    prop_oneof![
        2 => (at(), 0..4_u64, any::<bool>()).prop_map(|(at, epoch, replace)| Op::Open { at, epoch, replace }),
        5 => (at(), records).prop_map(|(at, records)| Op::Publish { at, records }),
        2 => at().prop_map(|at| Op::End { at }),
        2 => at().prop_map(|at| Op::Keep { at }),
        1 => at().prop_map(|at| Op::Close { at }),
        1 => at().prop_map(|at| Op::Reset { at }),
        3 => at().prop_map(|at| Op::Tick { at }),
        8 => at().prop_map(|at| Op::Commit { at }),
        8 => at().prop_map(|at| Op::Deliver { at }),
        1 => Just(Op::Again),
        1 => at().prop_map(|at| Op::Reload { at }),
        3 => (1..4_000_u64).prop_map(|millis| Op::Pass { millis }),
    ]
}

fn step(sim: &mut Sim, op: Op) {
    let session = |sim: &Sim, at: usize| sim.replicas[at].sessions.last().copied();
    match op {
        Op::Open { at, epoch, replace } => sim.submit(at, mk_open(epoch, replace)),
        Op::Publish { at, records } => {
            let Some(session) = session(sim, at) else { return };
            let records = records
                .iter()
                .map(|(key, content)| mk_record(&format!("n{key}"), *content, 1));
            sim.submit(at, mk_publish(session, records.collect()));
        }
        Op::End { at } => {
            let Some(session) = session(sim, at) else { return };
            sim.submit(at, Command::EndReplace { session });
        }
        Op::Keep { at } => {
            let Some(session) = session(sim, at) else { return };
            sim.submit(at, mk_keepalive(session));
        }
        Op::Close { at } => {
            let Some(session) = session(sim, at) else { return };
            sim.submit(at, Command::Close { session });
        }
        Op::Reset { at } => sim.submit(at, Command::ResetEpoch { topic: HEALTH, shard: 0 }),
        Op::Tick { at } => sim.submit(at, Command::Tick),
        Op::Commit { at } => drop(sim.commit(at)),
        Op::Deliver { at } => drop(sim.deliver(at)),
        Op::Again => sim.log.extend(sim.log.last().cloned()),
        Op::Reload { at } => sim.reload(at, 1 - at),
        Op::Pass { millis } => sim.pass(Duration::from_millis(millis)),
    }
}

/// The memory engine after the same commands in the same order.
fn reference(log: &[Vec<u8>]) -> Memory {
    let mut memory = Memory::new("bus-1".to_owned(), Limits::default());
    let mut clock = Mono::ORIGIN;
    let mut last = [0; 2];
    let mut last_join = 0;
    // From when on a replica counts like the other.
    let mut settled = BTreeMap::new();
    // Where in the log it was decided last who holds the shard.
    let mut claimed = (0, String::new());
    for (revision, bytes) in (1..).zip(log) {
        let entry = Entry::from_bytes(bytes).expect("a replica wrote it");
        let seq = &mut last[usize::from(entry.replica == "b")];
        if entry.seq <= *seq {
            continue;
        }
        *seq = entry.seq;
        match entry.what {
            What::Commands(commands) => {
                if entry.seen >= last_join {
                    clock = clock.max(entry.at);
                    settled.entry(entry.replica.clone()).or_insert(clock + APART);
                }
                let is_settled = settled.get(&entry.replica).is_some_and(|at| *at <= clock);
                let now = bailiff_model::Now {
                    mono: clock,
                    wall: entry.wall,
                };
                for mut command in commands {
                    if let Command::Keepalive { report, .. } = &mut command {
                        *report = std::mem::take(report).older_by(clock.saturating_since(entry.at));
                    }
                    let (is_claim, is_above) = match &command {
                        Command::Open(open) => (true, open.epoch > memory.epoch(HEALTH, 0)),
                        Command::ResetEpoch { .. } => (true, false),
                        _ => (false, false),
                    };
                    if is_claim && !is_above && claimed.0 > entry.seen && claimed.1 != entry.replica {
                        continue;
                    }
                    let is_stamped = matches!(command, Command::Publish { .. } | Command::EndReplace { .. });
                    let mut now = now;
                    if is_stamped && !is_settled {
                        now.mono = now.mono + APART;
                    }
                    let effects = memory.apply(0, command, now);
                    let is_done = |effect: &Effect| matches!(effect, Effect::Answer { result: Ok(_), .. });
                    if is_claim && effects.iter().any(is_done) {
                        claimed = (revision, entry.replica.clone());
                    }
                }
            }
            _ => {
                last_join = revision;
                settled.clear();
            }
        }
    }
    memory
}

proptest! {
    /// (G): in whatever order commands are made, committed, repeated and read.
    #[test]
    fn replicas_end_in_the_state_of_the_memory_engine(ops in proptest::collection::vec(op(), 1..200)) {
        let mut sim = Sim::new(&["a", "b"]);
        for op in ops {
            step(&mut sim, op);
        }
        sim.settle();
        let [one, other] = &sim.replicas[..] else { unreachable!("two were started") };
        prop_assert_eq!(one.state(), other.state());
        let mut wanted = Machine::new("bus-1".to_owned(), Limits::default());
        wanted.memory = reference(&sim.log);
        let wanted = snapshot::take(&wanted);
        prop_assert_eq!(&one.state().chunks, &wanted.chunks);
        let mut found = one.state().manifest.state.expect("there is one");
        for session in &mut found.sessions {
            session.replica.clear();
        }
        let wanted = wanted.manifest.state.expect("there is one");
        prop_assert_eq!((found.head, found.topics, found.sessions), (wanted.head, wanted.topics, wanted.sessions));
        // Nothing that was asked stays without an answer.
        for one in &sim.replicas {
            prop_assert!(one.replica.standing(sim.now.mono).waiting.is_zero());
        }
    }
}
