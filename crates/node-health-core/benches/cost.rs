//! What a lease renewal and a node's failure cost in clusters of 1,000, 10,000 and 100,000 nodes, with the ratios to the smallest.
//!
//! The work is the same at every size but for the depth of two ordered sets. What grows beside that is the time memory takes: a
//! thousand nodes fit a core's own cache, a hundred thousand, touched in no order, do not. Renewals are measured both ways: of the
//! same number of nodes in each cluster, which tells the work, and of all nodes in no order, which tells the memory too. Work for
//! all nodes would show as 10 and 100 in either.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bailiff_model::{Listed, Mono, NodeName, Now, ReadyStatus, Wall, Zone};
use bailiff_node_health_core::{
    Config, Effect, Input, LeaseFacts, Monitor, NodeFacts, Pressures, Read, ReadyFacts, TopicNews, WriteOutcome,
};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Renewals measured at once, and how often: the fastest batch counts, whatever else the machine does.
const BATCH: usize = 20_000;
const BATCHES: usize = 10;
/// Clusters measured of each size: the fastest counts here too.
const RUNS: usize = 7;
/// Nodes that fail: few, as in a cluster that works.
const FEW: usize = 50;
/// Of these, not measured: in the first the allocator puts in order what the start of a large cluster left behind.
const WARM_UP: usize = 5;

struct Cluster {
    monitor: Monitor,
    nodes: usize,
    seconds: f64,
    version: u64,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let mut cluster = Self {
            monitor: Monitor::new(Config::default()),
            nodes,
            seconds: 1000.0,
            version: 1,
        };
        let leases: Vec<LeaseFacts> = (0..nodes).map(|nth| cluster.lease(nth)).collect();
        cluster.give(Input::Nodes(Listed::from((0..nodes).map(mk_node).collect::<Vec<_>>())));
        cluster.give(Input::Leases(Listed::from(leases)));
        cluster.give(Input::Leading(true));
        let records = Vec::new();
        cluster.give(Input::Topic(TopicNews::Snapshot { records, complete: true }));
        cluster
    }

    fn now(&self) -> Now {
        let passed = Duration::from_secs_f64(self.seconds);
        Now {
            mono: Mono::from_origin(passed),
            wall: Wall::UNIX_EPOCH + passed,
        }
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let now = self.now();
        self.monitor.apply(input, now)
    }

    /// Seconds pass; the monitor is woken in each, or it would take the gap for a stand-still of its own.
    fn pass(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.seconds += 1.0;
            self.give(Input::Wake);
        }
    }

    fn lease(&mut self, nth: usize) -> LeaseFacts {
        self.version += 1;
        LeaseFacts {
            name: mk_name(nth),
            resource_version: self.version.to_string().into(),
            // No two alike: what says the same again is no renewal.
            renewed: Some(self.now().wall + Duration::from_micros(self.version)),
        }
    }

    /// Seconds per renewal of one of the first `among` nodes.
    fn renewal(&mut self, among: usize) -> f64 {
        let batches = (0..BATCHES).map(|batch| {
            self.pass(1);
            // In no order: a step that has no factor in common with any size.
            let inputs: Vec<Input> = (0..BATCH)
                .map(|nth| Input::LeaseApplied(self.lease((batch * BATCH + nth) * 7_919 % among)))
                .collect();
            let began = Instant::now();
            for input in inputs {
                black_box(self.give(input));
            }
            began.elapsed().as_secs_f64() / BATCH as f64
        });
        batches.fold(f64::INFINITY, f64::min)
    }

    /// Seconds per node that falls silent, from the wake in which its grace ends to the verdict on the bus.
    fn failure(&mut self) -> f64 {
        // Timers are moved when they fire, not when a lease is renewed: that is a cost of renewals, and is over before what is
        // measured begins. The silent nodes' grace ends before the others' timers fire again.
        for (nodes, seconds) in [(0..WARM_UP, 5), (WARM_UP..FEW, 15), (FEW..self.nodes, 31)] {
            for nth in nodes {
                let lease = self.lease(nth);
                self.give(Input::LeaseApplied(lease));
            }
            self.pass_and_answer(seconds);
        }
        let (spent, told) = self.pass_and_answer(5);
        assert_eq!(told, FEW - WARM_UP, "every silent node is judged, and nobody else");
        spent.as_secs_f64() / told as f64
    }

    /// Seconds pass, and what the monitor asks is answered: the time that took, and how many nodes it told to be unreachable.
    fn pass_and_answer(&mut self, seconds: u32) -> (Duration, usize) {
        let (mut spent, mut told) = (Duration::ZERO, 0);
        for _ in 0..seconds {
            self.seconds += 1.0;
            let began = Instant::now();
            let mut effects = self.give(Input::Wake);
            while let Some(effect) = effects.pop() {
                match effect {
                    Effect::Publish { health, .. } if health.verdict == bailiff_model::Verdict::Unreachable => told += 1,
                    effect => effects.extend(answer(effect).into_iter().flat_map(|input| self.give(input))),
                }
            }
            spent += began.elapsed();
        }
        (spent, told)
    }
}

fn mk_name(nth: usize) -> NodeName {
    NodeName::from(format!("node-{nth:06}"))
}

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        name: mk_name(nth),
        uid: format!("uid-{nth}").into(),
        resource_version: "1".into(),
        created: Wall::UNIX_EPOCH,
        zone: Zone::new("r", &format!("z{}", nth % 10)),
        excluded: false,
        ready: ReadyFacts {
            status: ReadyStatus::True,
            heartbeat: Some(Wall::UNIX_EPOCH),
            ..ReadyFacts::default()
        },
        pressures: Pressures::default(),
    }
}

/// What the API answers: nothing changed since, and writes are stored.
fn answer(effect: Effect) -> Option<Input> {
    match effect {
        Effect::Confirm { asked, by, nodes } => {
            let found = |name: NodeName| {
                let nth = name.as_str().trim_start_matches("node-").parse().unwrap_or_default();
                let node = Box::new(mk_node(nth));
                (name, Read::Found { node, lease: None })
            };
            let answers = nodes.into_iter().map(found).collect();
            Some(Input::Confirmed { asked, by, answers })
        }
        Effect::WriteUnknown(write) => Some(Input::Written {
            node: write.node,
            outcome: WriteOutcome::Stored("2".into()),
        }),
        _ => None,
    }
}

fn main() {
    println!(
        "{:>8} {:>16} {:>7} {:>16} {:>7} {:>16} {:>7}",
        "nodes", "of 1,000 leases", "ratio", "of all leases", "ratio", "node failure", "ratio"
    );
    let mut first = None;
    for nodes in SIZES {
        let runs = (0..RUNS).map(|_| {
            let mut cluster = Cluster::new(nodes);
            [cluster.renewal(SIZES[0]), cluster.renewal(nodes), cluster.failure()]
        });
        let costs = runs
            .reduce(|best, run| std::array::from_fn(|nth| best[nth].min(run[nth])))
            .unwrap_or_default();
        let before = *first.get_or_insert(costs);
        print!("{nodes:>8}");
        for (cost, before) in costs.into_iter().zip(before) {
            print!(" {:>13.3} µs {:>7.2}", cost * 1e6, cost / before);
        }
        println!();
    }
}
