//! A manager with a clock, and what it said so far: published records, events, requests under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::intent::{Intent, IntentState, PodEviction};
use bailiff_model::{
    Effect as TaintEffect, Hold, HoldReason, HoldScope, Load, Mono, NodeHealth, NodeName, NodeRef, Now, Operator, Origin, PodRef,
    Ready, ReadyStatus, Revision, Taint, Toleration, TraceContext, Verdict, Wall, Zone,
};
use bailiff_taint_core::{
    Answer, Config, Effect, Event, HealthRecord, Inherited, Input, Manager, NodeFacts, NodePatch, NodeReady, PodFacts, PodMark,
    Profile, Told,
};

/// Wall time of second 0 of every test.
pub const EPOCH: i64 = 1_000_000;

pub struct Harness {
    pub manager: Manager,
    pub millis: u64,
    /// By so much the wall clock is ahead, in seconds.
    pub ahead: i64,
    pub published: BTreeMap<String, Inherited>,
    /// When each record was published, in milliseconds.
    published_at: BTreeMap<String, u64>,
    pub events: Vec<String>,
    pub all_events: Vec<Event>,
    pub patches: Vec<NodePatch>,
    pub marks: Vec<PodMark>,
    pub called_off: Vec<String>,
    pub reads: Vec<String>,
    pub told: Vec<Told>,
    pub completed: usize,
    pub wake_at: Option<Mono>,
    pub publications: usize,
}

pub fn mk_config(profile: Profile) -> Config {
    Config {
        profile,
        ..Config::default()
    }
}

impl Harness {
    /// A manager that knows nothing.
    pub fn new(config: Config) -> Self {
        Self {
            manager: Manager::new(config),
            millis: 0,
            ahead: 0,
            published: BTreeMap::new(),
            published_at: BTreeMap::new(),
            events: Vec::new(),
            all_events: Vec::new(),
            patches: Vec::new(),
            marks: Vec::new(),
            called_off: Vec::new(),
            reads: Vec::new(),
            told: Vec::new(),
            completed: 0,
            wake_at: None,
            publications: 0,
        }
    }

    /// A manager that has begun with these nodes and pods and nothing remembered, and to which no node has a record.
    pub fn begun(profile: Profile, nodes: Vec<NodeFacts>, pods: Vec<PodFacts>) -> Self {
        let mut harness = Self::new(mk_config(profile));
        harness.begin(nodes, pods, Vec::new());
        harness.health(Vec::new());
        harness
    }

    pub fn begin(&mut self, nodes: Vec<NodeFacts>, pods: Vec<PodFacts>, inherited: Vec<Inherited>) {
        self.apply(Input::Nodes(nodes.into()));
        self.apply(Input::Pods(pods.into()));
        self.apply(Input::Inherit(inherited));
    }

    pub fn now(&self) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_millis(self.millis)),
            wall: wall(self.ahead) + Duration::from_millis(self.millis),
        }
    }

    /// Lets time pass until `seconds`, waking whenever it was asked for.
    pub fn at(&mut self, seconds: u64) -> &mut Self {
        let end = Mono::from_origin(Duration::from_secs(seconds));
        while let Some(at) = self.wake_at.filter(|at| *at <= end) {
            self.millis = self.millis.max(u64::try_from(at.since_origin().as_millis()).expect("small"));
            self.wake_at = None;
            self.apply(Input::Wake);
        }
        self.millis = self.millis.max(seconds * 1000);
        self
    }

    /// Applies an input, takes in the effects, and returns them.
    pub fn apply(&mut self, input: Input) -> Vec<Effect> {
        let now = self.now();
        let effects = self.manager.apply(input, now);
        for effect in &effects {
            self.take(effect.clone());
        }
        effects
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::PatchNode(patch) => self.patches.push(patch),
            Effect::ReadNode(name) => self.reads.push(format!("node/{name}")),
            Effect::MarkPod(mark) => self.marks.push(mark),
            Effect::CallOff(uid) => self.called_off.push(uid.to_string()),
            Effect::ReadPod(pod) => self.reads.push(format!("pod/{}", pod.uid)),
            Effect::Tell(told) => self.told.push(*told),
            Effect::Event(event) => {
                self.events.push(event.message.clone());
                self.all_events.push(event);
            }
            Effect::Publish {
                intent,
                derived_from,
                trace,
            } => {
                self.publications += 1;
                let key = match &intent {
                    Intent::Isolation(wish) => format!("node/{}", wish.node.name),
                    Intent::NodeEviction(wish) => format!("node/{}", wish.node.name),
                    Intent::Pod(eviction) => format!("pod/{}", eviction.pod.uid),
                };
                let record = Inherited {
                    intent,
                    age: None,
                    derived_from,
                    trace,
                };
                self.published_at.insert(key.clone(), self.millis);
                self.published.insert(key, record);
            }
            Effect::Remove { key } => {
                assert!(self.published.remove(&key).is_some(), "{key} was never published");
            }
            Effect::Complete => self.completed += 1,
            Effect::WakeAt(at) => self.wake_at = Some(at),
        }
    }

    pub fn node(&mut self, facts: NodeFacts) {
        self.apply(Input::Node(facts));
    }

    pub fn pod(&mut self, facts: PodFacts) {
        self.apply(Input::Pod(facts));
    }

    pub fn health(&mut self, records: Vec<HealthRecord>) {
        self.apply(Input::Health {
            snapshot: false,
            complete: true,
            records,
            unreadable: Vec::new(),
        });
    }

    /// What was published about pod `uid`.
    pub fn eviction(&self, uid: &str) -> Option<&PodEviction> {
        match &self.published.get(&format!("pod/{uid}"))?.intent {
            Intent::Pod(eviction) => Some(eviction),
            other => unreachable!("{other:?} under a pod's key"),
        }
    }

    pub fn state(&self, uid: &str) -> Option<IntentState> {
        self.eviction(uid).map(|eviction| eviction.state)
    }

    /// When pod `uid` is due, in seconds of the test.
    pub fn due(&self, uid: &str) -> Option<i64> {
        Some(seconds(self.eviction(uid)?.due_at))
    }

    /// What the bus would remember now.
    pub fn memory(&self) -> Vec<Inherited> {
        self.memory_at_millis(self.millis)
    }

    /// What the bus would remember in second `seconds`, had this process died before.
    pub fn memory_at(&self, seconds: u64) -> Vec<Inherited> {
        self.memory_at_millis(seconds * 1000)
    }

    fn memory_at_millis(&self, millis: u64) -> Vec<Inherited> {
        let aged = |(key, record): (&String, &Inherited)| Inherited {
            age: Some(Duration::from_millis(millis - self.published_at[key])),
            ..record.clone()
        };
        self.published.iter().map(aged).collect()
    }

    /// Asserts state and due time, in seconds of the test, of pod `uid`.
    pub fn assert_state(&self, uid: &str, state: IntentState, due: i64) {
        assert_eq!(
            (self.state(uid), self.due(uid)),
            (Some(state), Some(due)),
            "{uid} at {} ms",
            self.millis
        );
    }

    /// Asserts that everything that was published about pods is about these.
    pub fn assert_only(&self, uids: &[&str]) {
        let found: BTreeSet<&str> = self.published.keys().filter_map(|key| key.strip_prefix("pod/")).collect();
        assert_eq!(found, uids.iter().copied().collect(), "at {} ms", self.millis);
    }
}

// === Builders ===

pub fn wall(seconds: i64) -> Wall {
    Wall::from_second(EPOCH + seconds).expect("in range")
}

pub fn seconds(wall: Wall) -> i64 {
    wall.as_second() - EPOCH
}

/// Node `name` with uid `name-1`, Ready, created long ago, with NoExecute taints of these keys (`key` or `key=value`).
pub fn mk_node(name: &str, taints: &[&str]) -> NodeFacts {
    NodeFacts {
        node: NodeRef {
            name: name.into(),
            uid: format!("{name}-1").into(),
            resource_version: "1".into(),
        },
        created: Some(wall(-900_000)),
        taints: taints.iter().map(|text| mk_taint(text)).collect(),
        ready: mk_ready(ReadyStatus::True),
        ..NodeFacts::default()
    }
}

pub fn mk_ready(status: ReadyStatus) -> NodeReady {
    NodeReady {
        status,
        stopped_posting: status == ReadyStatus::Unknown,
        since: None,
    }
}

pub fn mk_taint(text: &str) -> Taint {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Taint {
        value: value.into(),
        ..Taint::new(key, TaintEffect::NoExecute)
    }
}

/// Another version of a node.
pub fn at_version(facts: NodeFacts, version: &str) -> NodeFacts {
    NodeFacts {
        node: NodeRef {
            resource_version: version.into(),
            ..facts.node
        },
        ..facts
    }
}

/// Another Node under the same name.
pub fn recreated(facts: NodeFacts) -> NodeFacts {
    NodeFacts {
        node: NodeRef {
            uid: format!("{}-2", facts.node.name).into(),
            ..facts.node
        },
        ..facts
    }
}

/// A toleration `key`, `key=value`, with seconds or without limit. An empty key tolerates everything.
pub fn mk_toleration(text: &str, seconds: Option<i64>) -> Toleration {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Toleration {
        operator: if text.contains('=') {
            Operator::Equal
        } else {
            Operator::Exists
        },
        value: value.into(),
        seconds,
        ..Toleration::exists(key, TaintEffect::NoExecute)
    }
}

/// What is held from outside, if anything.
pub fn brake(h: &mut Harness, scope: Option<HoldScope>) {
    let hold = Hold {
        reason: HoldReason::Paused,
        detail: "as the test wanted".to_owned(),
        since: h.now().wall,
        until: None,
    };
    h.apply(Input::Braked(scope.map(|scope| (scope, hold)).into_iter().collect()));
}

/// What became of marking a pod not ready.
pub fn answer(h: &mut Harness, uid: &str, answer: Answer) {
    h.apply(Input::PodMarked { uid: uid.into(), answer });
}

/// A pod on `n1` with this condition Ready.
pub fn mk_pod_ready(uid: &str, ready: ReadyStatus) -> PodFacts {
    PodFacts {
        ready,
        ..mk_pod(uid, "n1", &[])
    }
}

/// Pod `uid` on `node`, named like its uid, Ready, bound long ago.
pub fn mk_pod(uid: &str, node: &str, tolerations: &[(&str, Option<i64>)]) -> PodFacts {
    PodFacts {
        pod: PodRef {
            namespace: "default".into(),
            name: uid.into(),
            uid: uid.into(),
            resource_version: "1".into(),
            ..PodRef::default()
        },
        node: node.into(),
        tolerations: tolerations
            .iter()
            .map(|(text, seconds)| mk_toleration(text, *seconds))
            .collect(),
        ready: ReadyStatus::True,
        ready_since: None,
        bound: Some(wall(-800_000)),
        terminating: false,
    }
}

/// A health record of node `name`, uid `name-1`, judged at `decided` after silence since `counted`.
pub fn mk_health(name: &str, revision: u64, verdict: Verdict, counted: i64, decided: i64) -> HealthRecord {
    let status = match verdict {
        Verdict::Healthy | Verdict::Late => ReadyStatus::True,
        Verdict::NotReady => ReadyStatus::False,
        Verdict::Unreachable => ReadyStatus::Unknown,
        Verdict::NoStatus => ReadyStatus::Absent,
    };
    HealthRecord {
        name: NodeName::from(name),
        origin: mk_origin(revision),
        trace: Some(TraceContext::derived(&["incident", name])),
        health: Some(NodeHealth {
            node: mk_node(name, &[]).node,
            zone: Zone::new("r", "z"),
            excluded_from_disruption: false,
            ready: Ready {
                status,
                reason: "Because".to_owned(),
                since: Some(wall(decided)),
            },
            verdict,
            last_sign_of_life: None,
            late_since: None,
            counted_from: wall(counted),
            grace: Duration::from_secs(50),
            decided_at: wall(decided),
            held: None,
        }),
    }
}

/// The health record at this revision.
pub fn mk_origin(revision: u64) -> Origin {
    Origin::new("bus-1".into(), Revision(revision))
}

pub fn mk_tombstone(name: &str, revision: u64) -> HealthRecord {
    HealthRecord {
        name: name.into(),
        origin: mk_origin(revision),
        trace: None,
        health: None,
    }
}

pub fn done(version: &str) -> Answer {
    Answer::Done(version.into())
}

pub const FAILED: Answer = Answer::Failed {
    retry_after: None,
    load: Load::Overloaded,
};
