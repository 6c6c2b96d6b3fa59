//! What the monitor keeps of a node at rest, in bytes of the allocator, and that a renewal of a lease takes none.

use std::alloc::System;
use std::time::Duration;

use bailiff_model::{Listed, Mono, NodeName, Now, ReadyStatus, Wall, Zone};
use bailiff_node_health_core::{Config, Effect, Input, LeaseFacts, Monitor, NodeFacts, Pressures, ReadyFacts, TopicNews};
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const NODES: usize = 20_000;
/// What a node took when this was last looked at, all indexes and their room to grow included, and what it may take at most.
const BYTES: usize = 460;
const MOST_BYTES: usize = 512;

struct Cluster {
    monitor: Monitor,
    seconds: u64,
    version: u64,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self {
            monitor: Monitor::new(Config::default()),
            seconds: 1000,
            version: 1,
        };
        let leases: Vec<LeaseFacts> = (0..NODES).map(|nth| cluster.lease(nth)).collect();
        cluster.give(Input::Nodes(Listed::from((0..NODES).map(mk_node).collect::<Vec<_>>())));
        cluster.give(Input::Leases(Listed::from(leases)));
        cluster.give(Input::Leading(true));
        let records = Vec::new();
        cluster.give(Input::Topic(TopicNews::Snapshot { records, complete: true }));
        assert!(cluster.monitor.summary().running);
        cluster
    }

    fn now(&self) -> Now {
        let passed = Duration::from_secs(self.seconds);
        Now {
            mono: Mono::from_origin(passed),
            wall: Wall::UNIX_EPOCH + passed,
        }
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let now = self.now();
        self.monitor.apply(input, now)
    }

    fn lease(&mut self, nth: usize) -> LeaseFacts {
        self.version += 1;
        LeaseFacts {
            name: mk_name(nth),
            resource_version: self.version.into(),
            renewed: Some(self.now().wall + Duration::from_micros(self.version)),
        }
    }

    /// Every node renews its lease every ten seconds, for this long; how many bytes the renewals allocated, their own text not counted.
    fn renew(&mut self, seconds: u64) -> usize {
        let mut allocated = 0;
        for _ in 0..seconds {
            self.seconds += 1;
            self.give(Input::Wake);
            for nth in (self.seconds as usize % 10..NODES).step_by(10) {
                let renewal = Input::LeaseApplied(self.lease(nth));
                let before = ALLOCATOR.total_allocated();
                let effects = self.give(renewal);
                allocated += ALLOCATOR.total_allocated() - before;
                assert!(
                    effects
                        .iter()
                        .all(|effect| matches!(effect, Effect::Publish { .. } | Effect::WakeAt(_)))
                );
            }
        }
        allocated
    }
}

fn mk_name(nth: usize) -> NodeName {
    NodeName::from(format!(
        "ip-10-{}-{}-{}.eu-west-1.compute.internal",
        100 + nth / 50_000,
        100 + nth / 250 % 200,
        nth % 250
    ))
}

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        name: mk_name(nth),
        uid: format!("{nth:08x}-5f02-4c8c-b8a2-9f0d6f2b{nth:04x}").into(),
        resource_version: "123456789".into(),
        created: Wall::UNIX_EPOCH,
        zone: Zone::new("eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"][nth % 3]),
        excluded: false,
        ready: ReadyFacts {
            status: ReadyStatus::True,
            reason: "KubeletReady".into(),
            heartbeat: Some(Wall::UNIX_EPOCH),
            since: Some(Wall::UNIX_EPOCH),
        },
        pressures: Pressures {
            memory: ReadyStatus::False,
            disk: ReadyStatus::False,
            pid: ReadyStatus::False,
        },
    }
}

#[test]
fn a_node_takes_few_bytes_and_its_renewals_none() {
    let before = ALLOCATOR.allocated();
    let mut cluster = Cluster::new();
    // Twice the grace: timers have moved, and what the start left to be said was said.
    cluster.renew(100);
    let bytes = (ALLOCATOR.allocated() - before) / NODES;
    println!("{bytes} bytes per node");
    let renewals = cluster.renew(10);
    assert_eq!(renewals, 0, "bytes allocated by {NODES} renewals");
    let most = MOST_BYTES.min(BYTES + BYTES / 20);
    assert!(bytes <= most, "{bytes} bytes per node, {BYTES} before, {most} at most");
}
