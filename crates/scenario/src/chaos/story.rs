//! What happens in a run, made up from a seed.

use std::fmt;
use std::time::Duration;

use bailiff_model::{EvictionMode, Profile};
use bailiff_runtime::{GoDuration, Seed};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::faults::Storm;
use super::timeline::MEMORY;
use crate::StageName;

/// When the first thing happens: the cluster is up and quiet by then.
const QUIET: Duration = Duration::from_secs(12);
/// For how long things happen.
const TROUBLE: Duration = Duration::from_secs(90);
/// How long it takes at most, once nothing happens any more, until everything that follows has happened: graces, queues, the longest
/// toleration and the backoff of what failed.
const SETTLING: Duration = Duration::from_secs(150);
/// After that nothing may be written for so long.
pub const STILL: Duration = Duration::from_secs(20);
/// Where nothing is late, what a stage acts on is as old as its requests in a row take, and here they take no time.
pub(super) const PROMPT: Duration = Duration::from_millis(1200);
/// Tolerations of pods, in seconds; `None` is for ever.
const TOLERATIONS: [Option<i64>; 6] = [Some(0), Some(3), Some(10), Some(30), None, Some(-1)];

/// The settings of the stages in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// `--node-monitor-grace-period`.
    pub grace: Duration,
    /// `--node-eviction-rate`, per second.
    pub rate: f64,
    /// `--eviction-mode`.
    pub mode: EvictionMode,
    /// `--pod-eviction-timeout`.
    pub pod_eviction_timeout: Duration,
    /// `--profile`.
    pub profile: Profile,
    /// How old what a stage acts on may be: moments, or where requests and watches fare badly, as long as they may take.
    pub latency: Duration,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// Kubelets fall silent.
    Silence(Vec<String>),
    /// Kubelets come back.
    Return(Vec<String>),
    /// Kubelets say that their nodes are not ready, or are again.
    Ready(Vec<String>, bool),
    /// An operator adds a NoExecute taint, or changes its value.
    Taint {
        /// The node.
        node: String,
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// An operator removes the taints of a key.
    Untaint {
        /// The node.
        node: String,
        /// Key.
        key: String,
    },
    /// A node is deleted.
    DeleteNode(String),
    /// A node is there again, with another uid.
    CreateNode(String, String),
    /// A node moves to another zone.
    Relabel(String, String),
    /// A pod is created on a node.
    CreatePod {
        /// Name.
        name: String,
        /// Node.
        node: String,
        /// How it tolerates everything, in seconds.
        tolerates: Option<i64>,
    },
    /// A pod is deleted.
    DeletePod(String),
    /// The DaemonSet gets another image.
    Image(u64),
    /// A stage dies and is back after a while.
    Kill(StageName, Duration),
    /// The bus dies, forgets everything, and is back after a while.
    KillBus(Duration),
    /// The connections to the bus break.
    Disconnect,
    /// The wall clock of a stage's machine is stepped.
    Step(StageName, SignedDuration),
    /// From now on, the API server is like this.
    Storm(Storm),
}

/// What is set up and what happens when.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Where everything draws from.
    pub seed: u64,
    /// Settings of the stages.
    pub terms: Terms,
    /// Nodes, with their zones.
    pub nodes: Vec<(String, String)>,
    /// What happens, in order.
    pub deeds: Vec<(Duration, Deed)>,
    /// When the run ends.
    pub end: Duration,
}

// === impl Terms ===

impl Default for Terms {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            rate: 0.5,
            mode: EvictionMode::Taint,
            pod_eviction_timeout: Duration::from_secs(10),
            profile: Profile::Bailiff,
            latency: PROMPT,
        }
    }
}

impl Terms {
    /// As flags of the stages.
    pub fn flags(&self) -> Vec<String> {
        let seconds = |flag: &str, span: Duration| format!("--{flag}={}", GoDuration::new(span));
        let mode = match self.mode {
            EvictionMode::Taint => "taint",
            EvictionMode::Node => "node",
        };
        vec![
            seconds("node-monitor-period", Duration::from_secs(1)),
            seconds("node-monitor-grace-period", self.grace),
            seconds("node-startup-grace-period", self.grace * 2),
            seconds("pod-eviction-timeout", self.pod_eviction_timeout),
            format!("--node-eviction-rate={}", self.rate),
            format!("--eviction-mode={mode}"),
            format!("--profile={}", self.profile),
        ]
    }
}

// === impl Story ===

impl Story {
    /// The story of this seed.
    pub fn from_seed(seed: u64) -> Self {
        Author::new(seed).write()
    }

    /// The DaemonSet of every story.
    pub fn daemon_set(image: u64) -> Value {
        let labels = json!({"app": "agent"});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": format!("registry.example/agent:v{image}")}]},
                },
            },
        })
    }

    /// A pod bound to a node, tolerating every NoExecute taint for so many seconds.
    pub fn pod(name: &str, node: &str, tolerates: Option<i64>) -> Value {
        let mut toleration = json!({"operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = tolerates {
            toleration["tolerationSeconds"] = seconds.into();
        }
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 1, "tolerations": [toleration],
                "containers": [{"name": "main", "image": "registry.example/app:v1"}],
            },
        })
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.terms.flags().join(" "))?;
        let nodes: Vec<String> = self.nodes.iter().map(|(node, zone)| format!("{node} in {zone}")).collect();
        writeln!(f, "nodes {}", nodes.join(", "))?;
        for (at, deed) in &self.deeds {
            writeln!(f, "{:>7.2} s  {deed}", at.as_secs_f64())?;
        }
        write!(f, "{:>7.2} s  the end", self.end.as_secs_f64())
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(nodes) => write!(f, "{} fall silent", nodes.join(", ")),
            Self::Return(nodes) => write!(f, "{} come back", nodes.join(", ")),
            Self::Ready(nodes, ready) => write!(
                f,
                "{} say that they are {}ready",
                nodes.join(", "),
                if *ready { "" } else { "not " }
            ),
            Self::Taint { node, key, value } => write!(f, "{node} gets taint {key}={value}:NoExecute"),
            Self::Untaint { node, key } => write!(f, "{node} loses its taint {key}"),
            Self::DeleteNode(node) => write!(f, "{node} is deleted"),
            Self::CreateNode(node, zone) => write!(f, "{node} is created in {zone}"),
            Self::Relabel(node, zone) => write!(f, "{node} moves to {zone}"),
            Self::CreatePod { name, node, tolerates } => match tolerates {
                Some(seconds) => write!(f, "pod {name} is created on {node}, tolerating everything for {seconds} s"),
                None => write!(f, "pod {name} is created on {node}, tolerating everything"),
            },
            Self::DeletePod(name) => write!(f, "pod {name} is deleted"),
            Self::Image(version) => write!(f, "the DaemonSet gets image v{version}"),
            Self::Kill(stage, span) => write!(f, "the {} dies for {span:?}", stage.as_str()),
            Self::KillBus(span) => write!(f, "the bus dies for {span:?}, and forgets"),
            Self::Disconnect => f.write_str("the connections to the bus break"),
            Self::Step(stage, by) => write!(f, "the clock of the {} is stepped by {by:#}", stage.as_str()),
            Self::Storm(storm) if *storm == Storm::default() => f.write_str("the API server is well"),
            Self::Storm(storm) => write!(f, "the API server is like this: {storm:?}"),
        }
    }
}

/// Makes up a story.
struct Author {
    seed: u64,
    draw: Seed,
    nodes: Vec<(String, String)>,
    zones: u64,
    deeds: Vec<(Duration, Deed)>,
    pods: u64,
    images: u64,
    /// What a restart without memory has to go by is a wall clock: who steps clocks does not also lose the bus.
    steps_clocks: bool,
}

impl Author {
    fn new(seed: u64) -> Self {
        let draw = Seed::new(seed).fork("story");
        let zones = 1 + draw.below(3);
        let mut nodes = Vec::new();
        for zone in 0..zones {
            for node in 0..=draw.below(4) {
                nodes.push((format!("z{zone}-n{node}"), format!("z{zone}")));
            }
        }
        Self {
            seed,
            nodes,
            zones,
            deeds: Vec::new(),
            pods: 0,
            images: 1,
            steps_clocks: draw.below(2) == 0,
            draw,
        }
    }

    fn write(mut self) -> Story {
        let terms = self.terms();
        for (node, _) in self.nodes.clone() {
            for _ in 0..=self.draw.below(3) {
                let deed = self.new_pod(node.clone());
                self.deeds.push((Duration::from_secs(3), deed));
            }
        }
        for _ in 0..(4 + self.draw.below(14)) {
            let at = self.moment();
            self.trouble(at);
        }
        self.heal();
        self.deeds.sort_by_key(|(at, _)| *at);
        let is_stormy = |deed: &Deed| matches!(deed, Deed::Storm(storm) if *storm != Storm::default());
        let terms = Terms {
            latency: if self.deeds.iter().any(|(_, deed)| is_stormy(deed)) {
                MEMORY
            } else {
                PROMPT
            },
            ..terms
        };
        Story {
            seed: self.seed,
            terms,
            nodes: self.nodes,
            deeds: self.deeds,
            end: QUIET + TROUBLE + SETTLING + STILL,
        }
    }

    fn terms(&self) -> Terms {
        // Not 1.0: in upstream's profile a zone that was stopped stays so at exactly that (NL-083).
        Terms {
            rate: [0.2, 0.5, 1.5, 5.0][self.draw.below(4) as usize],
            mode: if self.draw.below(4) == 0 {
                EvictionMode::Node
            } else {
                EvictionMode::Taint
            },
            profile: if self.draw.below(3) == 0 {
                Profile::Upstream
            } else {
                Profile::Bailiff
            },
            ..Terms::default()
        }
    }

    fn moment(&self) -> Duration {
        QUIET + Duration::from_millis(self.draw.below(TROUBLE.as_millis() as u64))
    }

    fn span(&self) -> Duration {
        Duration::from_millis(500 + self.draw.below(40_000))
    }

    fn node(&self) -> (String, String) {
        self.nodes[self.draw.below(self.nodes.len() as u64) as usize].clone()
    }

    fn zone(&self) -> (String, Vec<String>) {
        let zone = format!("z{}", self.draw.below(self.zones));
        let nodes = self.nodes.iter().filter(|(_, of)| *of == zone).map(|(node, _)| node.clone());
        (zone.clone(), nodes.collect())
    }

    fn stage(&self) -> StageName {
        StageName::ALL[self.draw.below(4) as usize]
    }

    fn new_pod(&mut self, node: String) -> Deed {
        self.pods += 1;
        let tolerates = TOLERATIONS[self.draw.below(TOLERATIONS.len() as u64) as usize];
        Deed::CreatePod {
            name: format!("app-{}", self.pods),
            node,
            tolerates,
        }
    }

    /// Something at `at`, and what ends it.
    fn trouble(&mut self, at: Duration) {
        let later = at + self.span();
        match self.draw.below(16) {
            0..=2 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 1),
            3 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 2),
            4 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 3),
            5 => self.both(
                at,
                later,
                |nodes| (Deed::Ready(nodes.clone(), false), Deed::Ready(nodes, true)),
                1,
            ),
            6..=8 => self.taint(at, later),
            9 => {
                let (node, zone) = self.node();
                self.deeds.push((at, Deed::DeleteNode(node.clone())));
                self.deeds
                    .push((later.min(at + Duration::from_secs(9)), Deed::CreateNode(node, zone)));
            }
            10 => {
                let (node, _) = self.node();
                let deed = self.new_pod(node);
                self.deeds.push((at, deed));
                let victim = format!("app-{}", 1 + self.draw.below(self.pods));
                self.deeds.push((later, Deed::DeletePod(victim)));
            }
            11 => {
                self.images += 1;
                self.deeds.push((at, Deed::Image(self.images)));
            }
            12 | 13 => self.deeds.push((at, Deed::Kill(self.stage(), self.span()))),
            14 if self.steps_clocks => {
                let by = SignedDuration::from_secs(self.draw.below(7200) as i64 - 3600);
                self.deeds.push((at, Deed::Step(self.stage(), by)));
            }
            14 if self.draw.below(2) == 0 => self.deeds.push((at, Deed::Disconnect)),
            14 => self.deeds.push((at, Deed::KillBus(self.span()))),
            _ => {
                let some = |most: u64| self.draw.below(most);
                let storm = Storm {
                    refused: some(200),
                    unanswered: some(60),
                    unheard: some(60),
                    slow: some(200),
                    late: some(200),
                    cut: some(60),
                };
                self.deeds.push((at, Deed::Storm(storm)));
                self.deeds.push((later, Deed::Storm(Storm::default())));
            }
        }
    }

    /// A deed and its opposite, for one node (1), a zone (2) or everything (3).
    fn both(&mut self, at: Duration, later: Duration, deeds: impl Fn(Vec<String>) -> (Deed, Deed), whom: u8) {
        let nodes = match whom {
            1 => vec![self.node().0],
            2 => self.zone().1,
            _ => self.nodes.iter().map(|(node, _)| node.clone()).collect(),
        };
        let (deed, opposite) = deeds(nodes);
        self.deeds.push((at, deed));
        self.deeds.push((later, opposite));
    }

    fn taint(&mut self, at: Duration, later: Duration) {
        let (node, _) = self.node();
        let key = format!("example.com/{}", ["a", "b"][self.draw.below(2) as usize]);
        let taint = |value: &str| Deed::Taint {
            node: node.clone(),
            key: key.clone(),
            value: value.to_owned(),
        };
        self.deeds.push((at, taint("1")));
        if self.draw.below(3) == 0 {
            self.deeds.push((at + (later - at) / 2, taint("2")));
        }
        if self.draw.below(3) > 0 {
            self.deeds.push((later, Deed::Untaint { node, key }));
        }
    }

    /// At the end everything is well again, except for nodes that stay silent.
    fn heal(&mut self) {
        let at = QUIET + TROUBLE + Duration::from_secs(1);
        self.deeds.retain(|(when, _)| *when < at);
        let all: Vec<String> = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let deleted: Vec<(String, String)> = self
            .nodes
            .iter()
            .filter(|(node, _)| {
                self.deeds
                    .iter()
                    .any(|(_, deed)| matches!(deed, Deed::DeleteNode(one) if one == node))
            })
            .cloned()
            .collect();
        for (node, zone) in deleted {
            self.deeds.push((at, Deed::CreateNode(node, zone)));
        }
        self.deeds.push((at, Deed::Storm(Storm::default())));
        self.deeds.push((at, Deed::Ready(all.clone(), true)));
        self.deeds.push((at, Deed::Return(all)));
        if self.draw.below(2) == 0 {
            let (node, _) = self.node();
            self.deeds.push((at + Duration::from_secs(1), Deed::Silence(vec![node])));
        }
    }
}
