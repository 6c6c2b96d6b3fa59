//! What a run did to a cluster, computed from the API's watch history alone.
//!
//! No stage's own state is asked: whoever watches the API could draw up the same figures. [`Reader::observe`] takes the history one
//! change at a time; [`Reader::figures`] sums it up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_cluster::views::{self, TaintView};
use bailiff_model::taint::{self, Effect, Taint, Toleration};
use bailiff_model::{Now, ReadyStatus, Wall, Zone, wellknown};
use bailiff_sandbox::{Change, Observation};
use serde::Serialize;

use crate::views::{NodeView, PodView};

/// What became of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How long after the end of their grace silent nodes were marked Unknown.
    pub detection_delay: Percentiles,
    /// Nodes that were marked Unknown.
    pub nodes_detected: usize,
    /// Nodes that got a NoExecute health taint.
    pub nodes_isolated: usize,
    /// Pods deleted, daemon pods not counted.
    pub pods_evicted: usize,
    /// Evicted pods whose node's taints, as the API had them, did not justify it yet.
    pub early_evictions: usize,
    /// Pods that stayed on isolated nodes because they tolerate it.
    pub pods_kept: usize,
    /// Daemon pods deleted.
    pub daemon_pods_lost: usize,
    /// What is not as it was: one sentence each.
    pub not_recovered: Vec<String>,
}

/// Median and 99th percentile, in seconds; absent where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// Something a person would want to know, read off one change.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A node was marked Unknown.
    Detected {
        /// The node.
        node: String,
        /// Its zone.
        zone: Zone,
        /// How long after the end of its grace.
        delay: Duration,
    },
    /// A node got a NoExecute health taint.
    Isolated {
        /// The node.
        node: String,
        /// Its zone.
        zone: Zone,
        /// Key of the taint.
        key: String,
        /// Pods that tolerate the taint without limit, and stay.
        tolerating: usize,
    },
    /// A pod that is no daemon pod was deleted.
    Evicted {
        /// Its node.
        node: String,
        /// Zone of the node.
        zone: Zone,
        /// `<namespace>/<name>`.
        pod: String,
        /// The API did not justify it yet.
        early: bool,
    },
    /// A node is Ready again, and free of health taints.
    Recovered {
        /// The node.
        node: String,
        /// Its zone.
        zone: Zone,
    },
    /// A daemon pod became ready on a node for the first time.
    DaemonPod {
        /// The node.
        node: String,
    },
}

/// Reads the history of one API server.
#[derive(Debug)]
pub struct Reader {
    grace: Duration,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    delays: Vec<Duration>,
    detected: BTreeSet<String>,
    isolated: BTreeSet<String>,
    evicted: usize,
    early: usize,
    daemon_pods_lost: usize,
}

#[derive(Debug, Default)]
struct Node {
    zone: Zone,
    ready: ReadyStatus,
    /// NoExecute taints and when they were first seen.
    taints: Vec<(Taint, Now)>,
    health_taints: bool,
    last_sign: Option<Now>,
    heartbeat: Option<Wall>,
    pods: BTreeSet<String>,
    troubled: bool,
}

#[derive(Debug)]
struct Pod {
    key: String,
    node: String,
    bound_at: Now,
    tolerations: Vec<Toleration>,
    is_daemon: bool,
    is_ready: bool,
    was_ready: bool,
    is_going: bool,
}

// === impl Reader ===

impl Reader {
    /// A reader for a cluster whose nodes have this grace.
    pub fn new(grace: Duration) -> Self {
        Self {
            grace,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            delays: Vec::new(),
            detected: BTreeSet::new(),
            isolated: BTreeSet::new(),
            evicted: 0,
            early: 0,
            daemon_pods_lost: 0,
        }
    }

    /// Takes in one change; what is not of a node, pod or node Lease means nothing here.
    pub fn observe(&mut self, seen: &Observation) -> Vec<Finding> {
        let object = &seen.event.object;
        let is_gone = seen.event.change == Change::Deleted;
        match &*seen.resource {
            "leases.coordination.k8s.io" if object.namespace() == wellknown::NAMESPACE_NODE_LEASE => {
                if let Some(node) = self.nodes.get_mut(object.name()) {
                    node.last_sign = Some(seen.at);
                }
                Vec::new()
            }
            "nodes" if is_gone => {
                self.nodes.remove(object.name());
                Vec::new()
            }
            "nodes" => match object.decode() {
                Ok(view) => self.node(&view, seen.at),
                Err(_) => Vec::new(),
            },
            "pods" => match object.decode() {
                Ok(view) => self.pod(&view, is_gone, seen.at),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The sum of what was observed, at this moment.
    pub fn figures(&self) -> Figures {
        Figures {
            detection_delay: Percentiles::of(&self.delays),
            nodes_detected: self.detected.len(),
            nodes_isolated: self.isolated.len(),
            pods_evicted: self.evicted,
            early_evictions: self.early,
            pods_kept: self.kept(),
            daemon_pods_lost: self.daemon_pods_lost,
            not_recovered: self.not_recovered(),
        }
    }

    /// True while a node is not Ready or carries a health taint, or a pod is on its way out.
    pub fn is_troubled(&self) -> bool {
        !self.not_recovered().is_empty()
    }

    fn kept(&self) -> usize {
        self.isolated
            .iter()
            .filter_map(|name| self.nodes.get(name))
            .map(|node| {
                node.pods
                    .iter()
                    .filter(|uid| self.pods.get(*uid).is_some_and(Pod::is_kept))
                    .count()
            })
            .sum()
    }

    fn not_recovered(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (name, node) in &self.nodes {
            if node.ready != ReadyStatus::True {
                left.push(format!("node {name} is Ready={}", node.ready.as_str()));
            }
            if node.health_taints {
                left.push(format!("node {name} still carries a health taint"));
            }
        }
        for pod in self.pods.values().filter(|pod| pod.is_daemon && !pod.is_ready) {
            left.push(format!("daemon pod {} on node {} is not ready", pod.key, pod.node));
        }
        left
    }

    fn node(&mut self, view: &NodeView, at: Now) -> Vec<Finding> {
        let name = &view.metadata.name;
        let node = self.nodes.entry(name.clone()).or_default();
        node.zone = Zone::from_labels(|key| view.metadata.labels.get(key).map(String::as_str));
        let mut findings = Vec::new();
        let before = node.ready;
        if let Some(ready) = views::condition(&view.status.conditions, wellknown::CONDITION_READY) {
            node.ready = ready.ready_status();
            if ready.last_heartbeat_time.is_some() && ready.last_heartbeat_time != node.heartbeat {
                node.heartbeat = ready.last_heartbeat_time;
                node.last_sign = Some(at);
            }
        }
        if before == ReadyStatus::True && node.ready == ReadyStatus::Unknown {
            let silent = node
                .last_sign
                .map_or(Duration::ZERO, |sign| at.mono.saturating_since(sign.mono));
            let delay = silent.saturating_sub(self.grace);
            self.delays.push(delay);
            self.detected.insert(name.clone());
            node.troubled = true;
            findings.push(Finding::Detected {
                node: name.clone(),
                zone: node.zone.clone(),
                delay,
            });
        }
        let is_isolated_by = node.take_taints(&view.spec.taints, at);
        if let Some(key) = is_isolated_by {
            self.isolated.insert(name.clone());
            node.troubled = true;
            let pods = node.pods.iter().filter_map(|uid| self.pods.get(uid));
            findings.push(Finding::Isolated {
                node: name.clone(),
                zone: node.zone.clone(),
                tolerating: pods.filter(|pod| !pod.is_daemon && node.tolerated_for_ever(pod)).count(),
                key,
            });
        }
        if node.troubled && node.ready == ReadyStatus::True && !node.health_taints {
            node.troubled = false;
            findings.push(Finding::Recovered {
                node: name.clone(),
                zone: node.zone.clone(),
            });
        }
        findings
    }

    fn pod(&mut self, view: &PodView, is_gone: bool, at: Now) -> Vec<Finding> {
        let meta = &view.metadata.meta;
        let mut findings = Vec::new();
        if view.spec.node_name.is_empty() {
            self.pods.remove(&meta.uid);
            return findings;
        }
        let pod = self.pods.entry(meta.uid.clone()).or_insert_with(|| Pod {
            key: format!("{}/{}", meta.namespace, meta.name),
            node: view.spec.node_name.clone(),
            bound_at: at,
            tolerations: Vec::new(),
            is_daemon: view
                .metadata
                .owner_references
                .iter()
                .any(|owner| owner.controller && owner.kind == "DaemonSet"),
            is_ready: false,
            was_ready: false,
            is_going: false,
        });
        pod.tolerations = view.spec.tolerations.clone();
        let ready = views::condition(&view.status.conditions, wellknown::CONDITION_READY);
        pod.is_ready = ready.is_some_and(|condition| condition.status == "True");
        if pod.is_daemon && pod.is_ready && !pod.was_ready {
            pod.was_ready = true;
            findings.push(Finding::DaemonPod { node: pod.node.clone() });
        }
        let node = self.nodes.entry(view.spec.node_name.clone()).or_default();
        node.pods.insert(meta.uid.clone());
        let is_going = is_gone || meta.deletion_timestamp.is_some();
        if is_going && !pod.is_going {
            pod.is_going = true;
            if pod.is_daemon {
                self.daemon_pods_lost += 1;
            } else {
                // Marked or not: nobody else deletes pods in what is reported on.
                let early = !node.justifies(pod, at);
                self.evicted += 1;
                self.early += usize::from(early);
                findings.push(Finding::Evicted {
                    node: pod.node.clone(),
                    zone: node.zone.clone(),
                    pod: pod.key.clone(),
                    early,
                });
            }
        }
        if is_gone {
            node.pods.remove(&meta.uid);
            self.pods.remove(&meta.uid);
        }
        findings
    }
}

// === impl Pod ===

impl Pod {
    /// True for a pod that runs on although its node is isolated; daemon pods always do.
    fn is_kept(&self) -> bool {
        !self.is_daemon && !self.is_going
    }
}

// === impl Node ===

impl Node {
    /// Takes in the taints; answers the key of a NoExecute health taint that was not there before.
    fn take_taints(&mut self, taints: &[TaintView], at: Now) -> Option<String> {
        let is_health = |key: &str| key == wellknown::TAINT_NOT_READY || key == wellknown::TAINT_UNREACHABLE;
        self.health_taints = taints.iter().any(|taint| is_health(&taint.key));
        let before = std::mem::take(&mut self.taints);
        let mut added = None;
        for taint in taints.iter().filter_map(TaintView::to_model) {
            if taint.effect != Effect::NoExecute {
                continue;
            }
            let known = before
                .iter()
                .find(|(old, _)| old.is_same_entry(&taint) && old.value == taint.value);
            if known.is_none() && is_health(&taint.key) && !before.iter().any(|(old, _)| is_health(&old.key)) {
                added = Some(taint.key.to_string());
            }
            let since = known.map_or(at, |(_, since)| *since);
            self.taints.push((taint, since));
        }
        added
    }

    fn tolerated_for_ever(&self, pod: &Pod) -> bool {
        let taints: Vec<Taint> = self.taints.iter().map(|(taint, _)| taint.clone()).collect();
        taint::tolerance(&taints, &pod.tolerations) == taint::Tolerance::Forever
    }

    /// True if the API's own facts make the pod's eviction due at `at`: some NoExecute taint that it does not tolerate, or has not
    /// tolerated for longer than it may (TE-052, TE-055).
    fn justifies(&self, pod: &Pod, at: Now) -> bool {
        self.taints.iter().any(|(taint, since)| {
            let Some(toleration) = taint::used(taint, &pod.tolerations) else {
                return true;
            };
            let Some(seconds) = toleration.seconds else {
                return false;
            };
            let from = since.mono.max(pod.bound_at.mono);
            at.mono.saturating_since(from) >= taint::limit(seconds)
        })
    }
}

// === impl Percentiles ===

impl Percentiles {
    /// Of these durations; nearest rank.
    fn of(durations: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = durations.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied()
        };
        Self {
            p50: rank(0.5),
            p99: rank(0.99),
        }
    }
}
