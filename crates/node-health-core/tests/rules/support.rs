//! A small API beside a monitor: performs its effects at once, or as a test says, and keeps a log that reads like a story.

mod answers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{
    Hold, HoldReason, HoldScope, Holds, Mono, NodeHealth, NodeName, NodeUid, Now, ReadyStatus, ResourceVersion, TraceContext, Wall,
    Zone,
};
use bailiff_node_health_core::{
    Config, Effect, Inherited, Input, LeaseFacts, LossNews, Measurement, Monitor, NodeFacts, Pressures, ReadBy, ReadyFacts,
    StatusWrite, TopicNews, WriteOutcome,
};

/// What the API does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Answers them at once.
    AtOnce,
    /// Keeps them in `pending`.
    Later,
    /// Fails them at once.
    Fails,
    /// Answers reads, fails writes.
    FailsWrites,
    /// Answers reads, fails writes after storing them.
    StoresInSilence,
}

/// A request kept.
#[derive(Clone, Debug)]
pub enum Pending {
    Read(Mono, ReadBy, Vec<NodeName>),
    Write(StatusWrite),
}

pub struct World {
    pub monitor: Monitor,
    pub now: Now,
    start: Mono,
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    pub leases: BTreeMap<NodeName, LeaseFacts>,
    pub answers: Answers,
    pub pending: Vec<Pending>,
    pub log: Vec<String>,
    /// The own topic.
    pub topic: BTreeMap<NodeName, Inherited>,
    /// Who was published since the topic was inherited; the others' records go once all are.
    told_anew: BTreeSet<NodeName>,
    /// The watches deliver nothing.
    pub watch_stalled: bool,
    /// What the watches of nodes and of leases have yet to deliver, if they lag.
    pub lagging: Option<[VecDeque<Input>; 2]>,
    /// What is held from outside.
    pub holds: Holds,
    version: u64,
    wake: Option<Mono>,
    inbox: VecDeque<Input>,
    /// Writes asked for, and when, in seconds since the start.
    pub writes: Vec<(NodeName, f64)>,
    /// Correlated losses that were told.
    pub losses: Vec<LossNews>,
    /// What else was measured, and when, in seconds since the start.
    pub told: Vec<(f64, Measurement)>,
    /// How often the monitor was woken.
    pub wakes: u32,
    busy: bool,
    said: usize,
}

pub fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub fn name(text: &str) -> NodeName {
    NodeName::from(text)
}

/// 2024-01-01T00:00:00Z
pub fn epoch() -> Wall {
    Wall::from_second(1_704_067_200).unwrap()
}

impl World {
    /// A world of these nodes, Ready=True with a heartbeat and a lease, in zone `z`; the monitor does not run yet.
    pub fn new(config: Config, nodes: &[&str]) -> Self {
        let mono = Mono::from_origin(secs(1000.0));
        let mut world = Self {
            monitor: Monitor::new(config),
            now: Now { mono, wall: epoch() },
            start: mono,
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            answers: Answers::AtOnce,
            pending: Vec::new(),
            log: Vec::new(),
            topic: BTreeMap::new(),
            told_anew: BTreeSet::new(),
            watch_stalled: false,
            lagging: None,
            holds: Holds::NONE,
            version: 1,
            wake: None,
            inbox: VecDeque::new(),
            writes: Vec::new(),
            losses: Vec::new(),
            told: Vec::new(),
            wakes: 0,
            busy: false,
            said: 0,
        };
        for node in nodes {
            world.put_node(node, "u1", ReadyStatus::True);
            world.put_lease(node);
        }
        world
    }

    /// The same, running.
    pub fn running(config: Config, nodes: &[&str]) -> Self {
        let mut world = Self::new(config, nodes);
        world.start();
        world.log.clear();
        world.said = 0;
        world
    }

    /// Gives the monitor everything there is and leadership.
    pub fn start(&mut self) {
        self.list();
        self.lead();
        let records = self.topic.values().cloned().collect();
        self.give(Input::Topic(TopicNews::Snapshot { records, complete: true }));
    }

    /// The monitor gets the leadership.
    pub fn lead(&mut self) {
        self.told_anew.clear();
        self.give(Input::Leading(true));
    }

    /// Another process takes over: a new monitor, the topic survives. Its monotonic clock begins anew.
    pub fn restart(&mut self, config: Config) {
        self.replace(config);
        self.start();
    }

    /// The same, before it is told anything.
    pub fn replace(&mut self, config: Config) {
        self.monitor = Monitor::new(config);
        self.now.mono = Mono::from_origin(secs(1.0));
        self.start = Mono::ORIGIN;
        self.pending.clear();
        self.wake = None;
        self.say("-- restart".to_owned());
    }

    fn next_version(&mut self) -> ResourceVersion {
        self.version += 1;
        ResourceVersion::from(self.version.to_string())
    }

    pub fn put_node(&mut self, node: &str, uid: &str, ready: ReadyStatus) {
        let heartbeat = (ready != ReadyStatus::Absent).then_some(self.now.wall);
        let pressure = if ready == ReadyStatus::Absent {
            ReadyStatus::Absent
        } else {
            ReadyStatus::False
        };
        let facts = NodeFacts {
            name: name(node),
            uid: NodeUid::from(uid),
            resource_version: self.next_version(),
            created: self.now.wall,
            zone: Zone::new("r", "z"),
            excluded: false,
            ready: ReadyFacts {
                status: ready,
                reason: Arc::from(if ready == ReadyStatus::Absent { "" } else { "Kubelet" }),
                heartbeat,
                since: heartbeat,
            },
            pressures: Pressures {
                memory: pressure,
                disk: pressure,
                pid: pressure,
            },
        };
        self.nodes.insert(name(node), facts);
    }

    pub fn put_lease(&mut self, node: &str) {
        let lease = LeaseFacts {
            name: name(node),
            resource_version: self.next_version(),
            renewed: Some(self.now.wall),
        };
        self.leases.insert(name(node), lease);
    }

    /// A node is created.
    pub fn create(&mut self, node: &str, uid: &str, ready: ReadyStatus) {
        self.put_node(node, uid, ready);
        self.tell_node(node);
    }

    /// A node is deleted.
    pub fn delete(&mut self, node: &str) {
        if let Some(facts) = self.nodes.remove(&name(node)) {
            self.give_watched(Input::NodeDeleted {
                name: facts.name,
                uid: facts.uid,
            });
        }
    }

    /// A node's facts change, and the watch says so.
    pub fn change(&mut self, node: &str, change: impl FnOnce(&mut NodeFacts)) {
        let version = self.next_version();
        let facts = self.nodes.get_mut(node).expect("the node exists");
        change(facts);
        facts.resource_version = version;
        self.tell_node(node);
    }

    /// The kubelet posts its status.
    pub fn post(&mut self, node: &str, ready: ReadyStatus) {
        let wall = self.now.wall;
        self.change(node, |facts| {
            facts.ready.heartbeat = Some(wall);
            if facts.ready.status != ready {
                facts.ready.since = Some(wall);
            }
            facts.ready.status = ready;
            facts.ready.reason = Arc::from("Kubelet");
        });
    }

    /// The kubelet renews its lease.
    pub fn renew(&mut self, node: &str) {
        self.renew_at(node, Some(self.now.wall));
    }

    /// The lease gets this renewTime.
    pub fn renew_at(&mut self, node: &str, renewed: Option<Wall>) {
        self.put_lease(node);
        let lease = self.leases.get_mut(node).expect("just put");
        lease.renewed = renewed;
        let lease = lease.clone();
        self.give_watched(Input::LeaseApplied(lease));
    }

    pub fn tell_node(&mut self, node: &str) {
        let facts = self.nodes[node].clone();
        self.give_watched(Input::NodeApplied(facts));
    }

    pub fn give_watched(&mut self, input: Input) {
        let of_leases = matches!(input, Input::LeaseApplied(_) | Input::LeaseDeleted(_));
        if let Some(watches) = &mut self.lagging {
            watches[usize::from(of_leases)].push_back(input);
        } else if !self.watch_stalled {
            self.give(input);
        }
    }

    /// Time passes; the monitor is woken when it asked to be.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.now.mono + secs(seconds);
        while let Some(wake) = self.wake.filter(|&wake| wake <= end) {
            self.move_to(wake.max(self.now.mono));
            self.wake = None;
            self.wakes += 1;
            self.give(Input::Wake);
        }
        self.move_to(end);
    }

    /// Time passes and the process does not run.
    pub fn stand_still(&mut self, seconds: f64) {
        self.move_to(self.now.mono + secs(seconds));
    }

    /// `pass`, with leases of these nodes renewed every second.
    pub fn pass_alive(&mut self, seconds: f64, alive: &[&str]) {
        let whole = seconds as u64;
        for _ in 0..whole {
            self.pass(1.0);
            for node in alive {
                self.renew(node);
            }
        }
        self.pass(seconds - whole as f64);
    }

    fn move_to(&mut self, mono: Mono) {
        let by = mono.saturating_since(self.now.mono);
        self.now.wall = self.now.wall.checked_add(by).unwrap();
        self.now.mono = mono;
    }

    /// Everything is held from outside, or nothing is any more.
    pub fn brake(&mut self, on: bool) {
        let hold = Hold {
            reason: HoldReason::Paused,
            detail: "as the test wanted".to_owned(),
            since: self.now.wall,
            until: None,
        };
        self.hold(on.then_some((HoldScope::All, hold)).into_iter().collect());
    }

    /// These holds are in force.
    pub fn hold(&mut self, holds: Holds) {
        self.holds = holds.clone();
        self.give(Input::Braked(holds));
    }

    pub fn give(&mut self, input: Input) {
        self.inbox.push_back(input);
        if std::mem::replace(&mut self.busy, true) {
            return;
        }
        while let Some(input) = self.inbox.pop_front() {
            for effect in self.monitor.apply(input, self.now) {
                self.perform(effect);
            }
        }
        self.busy = false;
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Confirm { asked, by, nodes } => {
                let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
                self.say(format!(
                    "{} {}",
                    if by == ReadBy::Get { "get" } else { "list" },
                    names.join(",")
                ));
                self.take(Pending::Read(asked, by, nodes));
            }
            Effect::WriteUnknown(write) => {
                let kinds: Vec<String> = write
                    .conditions
                    .iter()
                    .map(|c| format!("{}{}", c.kind, if c.heartbeat.is_some() { "(never)" } else { "" }))
                    .collect();
                self.say(format!("write {} {}", write.node.name, kinds.join(",")));
                self.writes.push((write.node.name.clone(), self.elapsed()));
                self.take(Pending::Write(write));
            }
            Effect::CallOff(node) => {
                self.say(format!("call off {}", node.name));
                // What is kept was not sent.
                let is_it = |pending: &Pending| matches!(pending, Pending::Write(write) if write.node == node);
                if let Some(at) = self.pending.iter().position(is_it) {
                    self.pending.remove(at);
                    let outcome = WriteOutcome::CalledOff;
                    self.give(Input::Written { node, outcome });
                }
            }
            Effect::Publish { health, trace } => self.publish(health, trace),
            Effect::Retract(node) => {
                self.topic.remove(&node);
                self.say(format!("retract {node}"));
            }
            Effect::Complete => {
                self.topic.retain(|node, _| self.told_anew.contains(node));
                self.say("complete".to_owned());
            }
            Effect::Event(event) => self.say(format!(
                "event {} {} {}",
                event.kind.reason(),
                event.node.name,
                event.node.uid
            )),
            Effect::Measure(Measurement::Loss(news)) => self.losses.push(news),
            Effect::Measure(measurement) => self.told.push((self.elapsed(), measurement)),
            Effect::WakeAt(at) => self.wake = Some(at),
        }
    }

    fn publish(&mut self, health: Box<NodeHealth>, trace: Option<TraceContext>) {
        let known = self.topic.get(&health.node.name).map(|known| &known.health);
        let is_only_heard = known.is_some_and(|known| {
            known.verdict == health.verdict && known.last_sign_of_life.is_none() && health.last_sign_of_life.is_some()
        });
        // That a node was heard of for the first time is part of no story but its own.
        if !is_only_heard {
            self.said += 1;
            self.say(format!("{} {}", health.node.name, health.verdict.as_str()));
        }
        self.told_anew.insert(health.node.name.clone());
        self.topic.insert(health.node.name.clone(), Inherited { health, trace });
    }

    fn say(&mut self, what: String) {
        let at = self.now.mono.saturating_since(self.start).as_millis() as f64 / 1000.0;
        self.log.push(format!("{at} {what}"));
    }

    /// The log since the last call.
    pub fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Records published since the last call.
    pub fn published(&mut self) -> usize {
        std::mem::take(&mut self.said)
    }

    /// Verdict on record.
    pub fn verdict(&self, node: &str) -> &'static str {
        self.topic.get(node).map_or("none", |record| record.health.verdict.as_str())
    }

    /// The record.
    pub fn record(&self, node: &str) -> &NodeHealth {
        &self.topic[node].health
    }

    /// Ready in the API.
    pub fn ready(&self, node: &str) -> ReadyStatus {
        self.nodes[node].ready.status
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        self.now.mono.saturating_since(self.start).as_secs_f64()
    }
}

#[track_caller]
pub fn check(world: &mut World, wanted: &[&str]) {
    assert_eq!(world.story(), wanted);
}
