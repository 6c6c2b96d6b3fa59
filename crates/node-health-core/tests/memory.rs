//! What the monitor keeps of a node at rest, in bytes of the allocator, and that a renewal of a lease takes none.

use std::time::Duration;

use bailiff_footprint::{Bytes, fleet, held, taken};
use bailiff_model::{Listed, Mono, Now, ReadyStatus, Wall};
use bailiff_node_health_core::{Config, Effect, Input, LeaseFacts, Monitor, NodeFacts, Pressures, ReadyFacts, TopicNews};

const NODES: usize = 20_000;
const NODE: Bytes = Bytes { known: 414, most: 512 };

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
            name: fleet::name(nth),
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
                let before = taken();
                let effects = self.give(renewal);
                allocated += taken() - before;
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

fn mk_node(nth: usize) -> NodeFacts {
    NodeFacts {
        name: fleet::name(nth),
        uid: fleet::uid(nth),
        resource_version: "123456789".into(),
        created: Wall::UNIX_EPOCH,
        zone: fleet::zone(nth),
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
    let before = held();
    let mut cluster = Cluster::new();
    // Twice the grace: timers have moved, and what the start left to be said was said.
    cluster.renew(100);
    let bytes = (held() - before) / NODES;
    let renewals = cluster.renew(10);
    assert_eq!(renewals, 0, "bytes allocated by {NODES} renewals");
    NODE.check("node", bytes);
}
