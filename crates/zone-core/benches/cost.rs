//! What a node's failure and the eviction of a pod cost the zone-evictor in clusters of 1,000, 10,000 and 100,000 nodes with an armed
//! eviction each, with the ratios to the smallest.
//!
//! The work is the same at every size but for the depth of ordered sets and what memory takes. Work for all nodes of a zone or of the
//! cluster, or for all evictions, would show as 10 and 100.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bailiff_model::health::{NodeHealth, Ready};
use bailiff_model::intent::{EvictionCause, HealthTaint, Intent, IntentState, NodeIsolation, PodEviction, Trigger};
use bailiff_model::{
    Effect as TaintEffect, Labels, Mono, NodeName, Now, Origin, ReadyStatus, Revision, Taint, Topic, Verdict, Wall, Zone,
};
use bailiff_zone_core::{Body, Config, Effect, Evictor, Input, NodeFacts, PodAnswer, PodFacts, Purpose, Record, ShardStatus};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Clusters measured of each size: the fastest counts, whatever else the machine does.
const RUNS: usize = 5;
/// Nodes that fail, and pods that are evicted: few, as in a cluster that works.
const FEW: usize = 50;
/// Of these, not measured: in the first the allocator puts in order what the start of a large cluster left behind.
const WARM_UP: usize = 5;
/// A taint that every node has, for which its pod is armed.
const COMMON: &str = "example.com/common";

struct Cluster {
    evictor: Evictor,
    nodes: usize,
    passed: Duration,
    spent: Duration,
    revision: u64,
    isolated: usize,
    deleted: usize,
    silent: BTreeSet<NodeName>,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let mut config = Config::default();
        // So that what is measured is work, not waiting.
        config.rates.primary = 1000.0;
        let mut cluster = Self {
            evictor: Evictor::new(config),
            nodes,
            passed: Duration::from_secs(100_000),
            spent: Duration::ZERO,
            revision: 0,
            isolated: 0,
            deleted: 0,
            silent: BTreeSet::new(),
        };
        let all: Vec<NodeFacts> = (0..nodes).map(mk_node).collect();
        cluster.give(Input::Nodes(all.into()));
        cluster.give(Input::ApiFresh(true));
        let records = (0..nodes)
            .flat_map(|nth| {
                [
                    cluster.health(nth, Verdict::Healthy),
                    cluster.eviction_of(nth, IntentState::Scheduled),
                ]
            })
            .collect();
        cluster.give(Input::Snapshot {
            records,
            shards: mk_shards(),
        });
        cluster
    }

    fn wall(&self) -> Wall {
        Wall::UNIX_EPOCH + self.passed
    }

    /// Applies an input and all answers to what it led to.
    fn give(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let now = Now {
                mono: Mono::from_origin(self.passed),
                wall: self.wall(),
            };
            let began = Instant::now();
            let effects = self.evictor.apply(input, now);
            self.spent += began.elapsed();
            for effect in effects {
                inputs.extend(self.answer(effect));
            }
        }
    }

    /// What the API answers: nothing changed since, and writes are stored.
    fn answer(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::WriteTaints(write) => {
                self.isolated += usize::from(write.purpose == Purpose::Isolate);
                let facts = NodeFacts {
                    taints: write.taints,
                    resource_version: "9".into(),
                    ..silent(mk_node(number(write.node.name.as_str())))
                };
                Some(Input::NodeAnswer {
                    ticket: write.ticket,
                    result: Ok(facts),
                })
            }
            Effect::ReadNode { ticket, node } => Some(Input::NodeAnswer {
                ticket,
                result: Ok(match mk_node(number(node.as_str())) {
                    node if self.silent.contains(&node.name) => silent(node),
                    node => node,
                }),
            }),
            Effect::ReadPod { ticket, pod } => Some(Input::PodAnswer {
                ticket,
                result: Ok(PodAnswer::Facts(mk_pod(number(pod.name.as_str()), "1"))),
            }),
            Effect::MarkPod { ticket, pod, .. } => Some(Input::PodAnswer {
                ticket,
                result: Ok(PodAnswer::Facts(PodFacts {
                    disruption_target: true,
                    marked: true,
                    ..mk_pod(number(pod.name.as_str()), "2")
                })),
            }),
            Effect::DeletePod { ticket, .. } => {
                self.deleted += 1;
                Some(Input::PodAnswer {
                    ticket,
                    result: Ok(PodAnswer::Deleted),
                })
            }
            _ => None,
        }
    }

    fn record(&mut self, topic: Topic, key: String, body: Option<Body>) -> Record {
        let at = |revision| Origin::new("bus".into(), Revision(revision));
        // What is wished follows from the record before.
        let before = self.revision;
        self.revision += 1;
        Record {
            topic,
            key,
            origin: at(self.revision),
            derived_from: if topic == Topic::EvictionIntents {
                at(before)
            } else {
                Origin::default()
            },
            produced_at: self.wall(),
            age: None,
            is_echo: false,
            trace: None,
            body,
        }
    }

    fn health(&mut self, nth: usize, verdict: Verdict) -> Record {
        let facts = mk_node(nth);
        let is_silent = verdict == Verdict::Unreachable;
        let health = NodeHealth {
            node: facts.reference(),
            zone: facts.zone,
            excluded_from_disruption: false,
            ready: Ready {
                status: if is_silent { ReadyStatus::Unknown } else { ReadyStatus::True },
                reason: String::new(),
                since: Some(self.wall()),
            },
            verdict,
            last_sign_of_life: Some(bailiff_model::health::SignOfLife {
                time: self.wall(),
                signal: bailiff_model::health::Signal::Lease,
                renew_time: None,
            }),
            late_since: None,
            counted_from: self.wall(),
            grace: Duration::from_secs(50),
            decided_at: self.wall(),
            held: None,
        };
        self.record(
            Topic::NodeHealth,
            facts.name.to_string(),
            Some(Body::Health(Box::new(health))),
        )
    }

    fn wish(&mut self, nth: usize) -> Record {
        let facts = mk_node(nth);
        let wish = NodeIsolation {
            node: facts.reference(),
            zone: facts.zone,
            taint: HealthTaint::Unreachable,
            cause: String::new(),
            decided_at: self.wall(),
        };
        let body = Body::Intent(Intent::Isolation(Box::new(wish)));
        self.record(Topic::EvictionIntents, format!("node/{}", facts.name), Some(body))
    }

    fn eviction_of(&mut self, nth: usize, state: IntentState) -> Record {
        let (node, pod) = (mk_node(nth), mk_pod(nth, "1"));
        let is_due = state == IntentState::Due;
        let intent = PodEviction {
            pod: pod.reference(),
            zone: node.zone.clone(),
            node: node.reference(),
            cause: EvictionCause::Taints {
                taints: node.no_execute(),
                tolerations: Vec::new(),
            }
            .into(),
            state,
            trigger: Trigger::Untolerated,
            due_at: self.wall() + Duration::from_secs(if is_due { 0 } else { 100_000 }),
            decided_at: self.wall(),
        };
        let body = Body::Intent(Intent::Pod(Box::new(intent)));
        self.record(Topic::EvictionIntents, format!("pod/{}", pod.uid), Some(body))
    }

    /// Every so many nodes: a step that has no factor in common with any size.
    fn some(&self, offset: usize) -> Vec<usize> {
        (0..FEW).map(|nth| (offset + nth * 7_919) % self.nodes).collect()
    }

    fn change(&mut self, records: Vec<Record>) {
        let shards = Vec::new();
        self.give(Input::Changes { records, shards });
    }

    /// Seconds per node that fails, from the verdict to its NoExecute taint.
    fn failure(&mut self) -> f64 {
        for (before, nth) in self.some(0).into_iter().enumerate() {
            if before == WARM_UP {
                self.spent = Duration::ZERO;
            }
            let node = silent(mk_node(nth));
            self.silent.insert(node.name.clone());
            self.give(Input::NodeApplied(node));
            let record = self.health(nth, Verdict::Unreachable);
            self.change(vec![record]);
            let record = self.wish(nth);
            self.change(vec![record]);
            // A token comes every millisecond.
            self.passed += Duration::from_millis(10);
            self.give(Input::Wake);
        }
        assert_eq!(self.isolated, FEW, "every failed node is isolated");
        self.spent.as_secs_f64() / (FEW - WARM_UP) as f64
    }

    /// Seconds per pod that is evicted, from due to deleted.
    fn eviction(&mut self) -> f64 {
        self.spent = Duration::ZERO;
        for nth in self.some(1) {
            let record = self.eviction_of(nth, IntentState::Due);
            self.change(vec![record]);
            self.passed += Duration::from_millis(10);
            self.give(Input::Wake);
        }
        assert_eq!(self.deleted, FEW, "every due pod is deleted");
        self.spent.as_secs_f64() / FEW as f64
    }
}

fn number(name: &str) -> usize {
    name.rsplit('-')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        name: NodeName::from(format!("node-{nth:06}")),
        uid: format!("uid-{nth}").into(),
        resource_version: "1".into(),
        zone: Zone::new("r", &format!("z{}", nth % 10)),
        excluded_from_disruption: false,
        ready: ReadyStatus::True,
        recovered_at: None,
        taints: vec![Taint::new(COMMON, TaintEffect::NoExecute)],
    }
}

/// The node as the monitor and the taint-manager leave it when it stopped answering.
fn silent(node: NodeFacts) -> NodeFacts {
    let mut node = NodeFacts {
        ready: ReadyStatus::Unknown,
        resource_version: "2".into(),
        ..node
    };
    node.taints
        .push(Taint::new(HealthTaint::Unreachable.key(), TaintEffect::NoSchedule));
    node
}

fn mk_pod(nth: usize, version: &str) -> PodFacts {
    PodFacts {
        namespace: "default".into(),
        name: format!("pod-{nth}").into(),
        uid: format!("pod-{nth}").into(),
        resource_version: version.into(),
        generation: 1,
        node: mk_node(nth).name,
        tolerations: Vec::new(),
        disruption_target: false,
        marked: false,
        reason: String::new(),
        terminating: false,
        labels: Labels::default(),
    }
}

fn mk_shards() -> Vec<ShardStatus> {
    [Topic::NodeHealth, Topic::EvictionIntents, Topic::EvictionOutcomes]
        .map(|topic| ShardStatus {
            topic,
            shard: 0,
            shard_count: 1,
            complete: true,
            live: true,
            detail: String::new(),
        })
        .to_vec()
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
