//! What a node's failure and the eviction of a pod cost the taint-manager in clusters of 1,000, 10,000 and 100,000 nodes with a pod
//! each, nearly all of which wait for their toleration to end, with the ratios to the smallest.
//!
//! The work is the same at every size but for the depth of ordered sets and what memory takes. Work for all nodes, pods or timers would
//! show as 10 and 100.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::time::{Duration, Instant};

use bailiff_model::{
    Effect as TaintEffect, Mono, NodeHealth, NodeName, NodeRef, Now, Origin, PodRef, Ready, ReadyStatus, Revision, Taint,
    Toleration, Verdict, Wall, Zone,
};
use bailiff_taint_core::{Answer, Config, Effect, HealthRecord, Input, Manager, NodeFacts, NodeReady, PodFacts};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Clusters measured of each size: the fastest counts, whatever else the machine does.
const RUNS: usize = 5;
/// Nodes that fail, and pods that are evicted: few, as in a cluster that works.
const FEW: usize = 50;
/// Of these, not measured: in the first the allocator puts in order what the start of a large cluster left behind.
const WARM_UP: usize = 5;
/// How long the pods that are evicted tolerate the taint.
const TOLERATED: Duration = Duration::from_secs(60);
/// A taint that every node has, and every pod tolerates for longer than anything here takes.
const COMMON: &str = "example.com/common";
/// The taint that drives pods away.
const WORSE: &str = "example.com/worse";

struct Cluster {
    manager: Manager,
    nodes: usize,
    passed: Duration,
    spent: Duration,
    revision: u64,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let mut cluster = Self {
            manager: Manager::new(Config::default()),
            nodes,
            passed: Duration::from_secs(1000),
            spent: Duration::ZERO,
            revision: 0,
        };
        let records = (0..nodes).map(|nth| cluster.health(nth, Verdict::Healthy)).collect();
        // What is armed for a time is not armed for a shorter one later (TE-063): these pods wait for nothing yet.
        let idle = cluster.some(1);
        let all = (0..nodes).map(|nth| NodeFacts {
            taints: if idle.contains(&nth) {
                Vec::new()
            } else {
                mk_node(nth).taints
            },
            ..mk_node(nth)
        });
        let all: Vec<NodeFacts> = all.collect();
        cluster.give(Input::Nodes(all.into()));
        let pods: Vec<PodFacts> = (0..nodes).map(mk_pod).collect();
        cluster.give(Input::Pods(pods.into()));
        cluster.give(Input::Health {
            snapshot: true,
            complete: true,
            records,
            unreadable: Vec::new(),
        });
        let armed = cluster.give(Input::Inherit(Vec::new()));
        assert_eq!(armed, nodes - FEW, "the others wait for their time");
        cluster
    }

    /// Applies an input and all answers to what it led to; how many records were published.
    fn give(&mut self, input: Input) -> usize {
        let mut inputs = vec![input];
        let mut published = 0;
        while let Some(input) = inputs.pop() {
            let now = Now {
                mono: Mono::from_origin(self.passed),
                wall: Wall::UNIX_EPOCH + self.passed,
            };
            let began = Instant::now();
            let effects = self.manager.apply(input, now);
            self.spent += began.elapsed();
            for effect in effects {
                match effect {
                    Effect::Publish { .. } | Effect::Remove { .. } => published += 1,
                    effect => inputs.extend(answer(effect)),
                }
            }
        }
        published
    }

    fn health(&mut self, nth: usize, verdict: Verdict) -> HealthRecord {
        self.revision += 1;
        let is_silent = verdict == Verdict::Unreachable;
        let wall = Wall::UNIX_EPOCH + self.passed;
        HealthRecord {
            name: mk_name(nth),
            origin: Origin::new("bus".into(), Revision(self.revision)),
            trace: None,
            health: Some(NodeHealth {
                node: mk_node(nth).node,
                zone: mk_node(nth).zone,
                excluded_from_disruption: false,
                ready: Ready {
                    status: if is_silent { ReadyStatus::Unknown } else { ReadyStatus::True },
                    reason: String::new(),
                    since: Some(wall),
                },
                verdict,
                last_sign_of_life: None,
                late_since: None,
                counted_from: wall,
                grace: Duration::from_secs(50),
                decided_at: wall,
                held: None,
            }),
        }
    }

    /// Every so many nodes: a step that has no factor in common with any size.
    fn some(&self, offset: usize) -> Vec<usize> {
        (0..FEW).map(|nth| (offset + nth * 7_919) % self.nodes).collect()
    }

    /// Seconds per node that fails, from the verdict to its taint, its pod's mark, and the wish to isolate it.
    fn failure(&mut self) -> f64 {
        let mut published = 0;
        for (before, nth) in self.some(0).into_iter().enumerate() {
            if before == WARM_UP {
                self.spent = Duration::ZERO;
            }
            let record = self.health(nth, Verdict::Unreachable);
            let mut facts = mk_node(nth);
            facts.ready = NodeReady {
                status: ReadyStatus::Unknown,
                stopped_posting: true,
                since: None,
            };
            facts.node.resource_version = "2".into();
            self.give(Input::Node(facts));
            published += self.give(Input::Health {
                snapshot: false,
                complete: true,
                records: vec![record],
                unreadable: Vec::new(),
            });
        }
        assert!(published >= FEW, "every failed node is wished isolated");
        self.spent.as_secs_f64() / (FEW - WARM_UP) as f64
    }

    /// Seconds per pod that is evicted: armed, due, gone.
    fn eviction(&mut self) -> f64 {
        self.spent = Duration::ZERO;
        let mut published = [0; 3];
        let chosen = self.some(1);
        for nth in &chosen {
            let mut facts = mk_node(*nth);
            facts.taints = vec![Taint::new(WORSE, TaintEffect::NoExecute)];
            facts.node.resource_version = "3".into();
            published[0] += self.give(Input::Node(facts));
        }
        // Second by second, or the manager would take the gap for a stand-still of its own.
        for _ in 0..=TOLERATED.as_secs() {
            self.passed += Duration::from_secs(1);
            published[1] += self.give(Input::Wake);
        }
        for nth in &chosen {
            published[2] += self.give(Input::PodGone(mk_pod(*nth).pod.uid));
        }
        assert_eq!(published, [FEW; 3], "armed, due, withdrawn");
        self.spent.as_secs_f64() / FEW as f64
    }
}

fn mk_name(nth: usize) -> NodeName {
    NodeName::from(format!("node-{nth:06}"))
}

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        node: NodeRef {
            name: mk_name(nth),
            uid: format!("uid-{nth}").into(),
            resource_version: "1".into(),
        },
        zone: Zone::new("r", &format!("z{}", nth % 10)),
        created: Some(Wall::UNIX_EPOCH),
        taints: vec![Taint::new(COMMON, TaintEffect::NoExecute)],
        ready: NodeReady {
            status: ReadyStatus::True,
            stopped_posting: false,
            since: None,
        },
        ..NodeFacts::default()
    }
}

fn mk_pod(nth: usize) -> PodFacts {
    let tolerates = |key: &str, time: Duration| Toleration {
        seconds: i64::try_from(time.as_secs()).ok(),
        ..Toleration::exists(key, TaintEffect::NoExecute)
    };
    PodFacts {
        pod: PodRef {
            namespace: "default".into(),
            name: format!("pod-{nth}").into(),
            uid: format!("pod-{nth}").into(),
            resource_version: "1".into(),
            ..PodRef::default()
        },
        node: mk_name(nth),
        tolerations: vec![
            tolerates(COMMON, Duration::from_secs(100_000)),
            tolerates(WORSE, TOLERATED),
            tolerates("node.kubernetes.io/unreachable", Duration::from_secs(300)),
        ],
        ready: ReadyStatus::True,
        ready_since: None,
        bound: Some(Wall::UNIX_EPOCH),
        terminating: false,
    }
}

/// What the API answers: writes are stored.
fn answer(effect: Effect) -> Option<Input> {
    match effect {
        Effect::PatchNode(patch) => Some(Input::NodePatched {
            name: patch.node.name,
            answer: Answer::Done("9".into()),
        }),
        Effect::MarkPod(mark) => Some(Input::PodMarked {
            uid: mark.pod.uid,
            answer: Answer::Done("9".into()),
        }),
        _ => None,
    }
}

fn main() {
    println!(
        "{:>8} {:>16} {:>8} {:>16} {:>8}",
        "nodes", "node failure", "ratio", "pod eviction", "ratio"
    );
    let mut first = None;
    for nodes in SIZES {
        let runs = (0..RUNS).map(|_| {
            let mut cluster = Cluster::new(nodes);
            (cluster.failure(), cluster.eviction())
        });
        let (failure, eviction) = runs
            .reduce(|best, run| (best.0.min(run.0), best.1.min(run.1)))
            .unwrap_or_default();
        let (failure_before, eviction_before) = *first.get_or_insert((failure, eviction));
        println!(
            "{nodes:>8} {:>13.3} µs {:>8.2} {:>13.3} µs {:>8.2}",
            failure * 1e6,
            failure / failure_before,
            eviction * 1e6,
            eviction / eviction_before,
        );
    }
}
