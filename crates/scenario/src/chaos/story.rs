//! What happens in a run, made up from a seed.

mod author;
mod tell;

use std::time::Duration;

use bailiff_model::{EvictionMode, HoldScope, Profile};
use bailiff_runtime::GoDuration;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::faults::{Cut, Storm};
use crate::StageName;
use crate::fixture::Division;

/// After that nothing may be written for so long.
pub const STILL: Duration = Duration::from_secs(20);
/// For so long before the end all stages have been started anew.
pub const ANEW: Duration = Duration::from_secs(15);
/// How long `--hold-on-correlated-loss` holds in a run.
pub(super) const HELD_FOR: Duration = Duration::from_secs(30);
/// How long a watch may be silent before it counts as stale, and what it takes to notice.
pub(super) const BLIND: Duration = Duration::from_secs(75);
/// Where nothing is late, what a stage acts on is as old as its requests in a row take, and here they take no time.
pub(super) const PROMPT: Duration = Duration::from_millis(1200);
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
    /// How old what the daemonset-syncer acts on may be.
    pub blindness: Duration,
    /// `--eviction-method`.
    pub method: Method,
    /// `--hold-on-correlated-loss` is given.
    pub holds_losses: bool,
    /// `maxUnavailable` and `maxSurge` of the DaemonSet.
    pub rollout: (u32, u32),
    /// Into how many shards each stage is divided at first, in pipeline order, with replicas that stand for them; `None`: stages run
    /// alone.
    pub shards: Option<[u32; 4]>,
}

/// `--eviction-method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `delete`.
    Delete,
    /// `evict`.
    Evict,
    /// `evict-then-delete`.
    EvictThenDelete(Duration),
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
    /// A replica of a stage dies and is back after a while.
    KillReplica(StageName, u32, Duration),
    /// The replicas of a stage are replaced, one by one, by ones that divide its work into so many shards.
    Divide(StageName, u32),
    /// The bus dies, forgets everything, and is back after a while.
    KillBus(Duration),
    /// The connections to the bus break.
    Disconnect,
    /// The wall clock of a stage's machine is stepped.
    Step(StageName, SignedDuration),
    /// From now on, the API server is like this.
    Storm(Storm),
    /// Something between one stage and the others breaks.
    Cut(StageName, Cut),
    /// It is whole again.
    Mend(StageName, Cut),
    /// A person pauses something for a while.
    Pause(HoldScope, Duration),
    /// A person ends a pause.
    Resume(HoldScope),
    /// A person writes something into the ConfigMap of pauses that cannot be read.
    Scribble,
    /// The ConfigMap of pauses is deleted.
    ForgetPauses,
    /// A kube-controller-manager leads and does what we do, for a while.
    Rival(Duration),
    /// A budget wants so many application pods, at least.
    Budget(usize),
    /// Somebody takes the daemon pod of a node out of the selector.
    Release(String),
    /// The daemon pod of a node is deleted by hand.
    DeleteDaemon(String),
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
            blindness: PROMPT,
            method: Method::Delete,
            holds_losses: false,
            rollout: (1, 0),
            shards: None,
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
        let method = match self.method {
            Method::Delete => "delete".to_owned(),
            Method::Evict => "evict".to_owned(),
            Method::EvictThenDelete(after) => format!("evict-then-delete={}", GoDuration::new(after)),
        };
        let mut flags = vec![
            seconds("node-monitor-period", Duration::from_secs(1)),
            seconds("node-monitor-grace-period", self.grace),
            seconds("node-startup-grace-period", self.grace * 2),
            seconds("pod-eviction-timeout", self.pod_eviction_timeout),
            format!("--node-eviction-rate={}", self.rate),
            format!("--eviction-mode={mode}"),
            format!("--profile={}", self.profile),
        ];
        if self.method != Method::Delete {
            flags.push(format!("--eviction-method={method}"));
        }
        if self.holds_losses {
            flags.push(format!("--hold-on-correlated-loss=0.5/10s/{}", GoDuration::new(HELD_FOR)));
        }
        flags
    }
}

// === impl Story ===

impl Story {
    /// The story of this seed.
    pub fn from_seed(seed: u64) -> Self {
        author::write(seed)
    }

    /// How a stage of so many shards is replicated: two replicas, so that one is left, and each has something to do.
    pub const fn division(shards: u32) -> Division {
        Division { shards, replicas: 2 }
    }

    /// The DaemonSet of every story.
    pub fn daemon_set(image: u64, (max_unavailable, max_surge): (u32, u32)) -> Value {
        let labels = json!({"app": "agent"});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}},
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
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 1, "tolerations": [toleration],
                "containers": [{"name": "main", "image": "registry.example/app:v1"}],
            },
        })
    }
}
