//! What the demonstration sets up, and what it expects.

use std::time::Duration;

use bailiff_model::{NodeName, Zone, wellknown};
use bailiff_runtime::GoDuration;
use bailiff_sandbox::cluster::ClusterSpec;
use serde_json::{Value, json};

use crate::report::Figures;

/// The set-up of a demonstration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Zones.
    pub zones: usize,
    /// Nodes per zone.
    pub nodes_per_zone: usize,
    /// Pods per node, daemon pods not counted.
    pub pods_per_node: usize,
    /// Silence after which a node is judged (`--node-monitor-grace-period`).
    pub grace: Duration,
    /// How often kubelets renew their Leases.
    pub lease_interval: Duration,
    /// Nodes isolated per second and zone (`--node-eviction-rate`).
    pub eviction_rate: f32,
    /// Time before anything happens.
    pub quiet: Duration,
    /// How long the zone is silent.
    pub silence: Duration,
    /// How long some of the pods tolerate an unreachable node.
    pub toleration: Duration,
    /// More flags for the stages.
    pub more_flags: Vec<String>,
}

impl Default for Plan {
    /// A zone of twenty dies for 36 s: judged after 8 s, isolated at one node per second, so the last pods go 8 + 20 + 5 s later.
    fn default() -> Self {
        Self {
            zones: 3,
            nodes_per_zone: 20,
            pods_per_node: 5,
            grace: Duration::from_secs(8),
            lease_interval: Duration::from_secs(2),
            eviction_rate: 1.0,
            quiet: Duration::from_secs(6),
            silence: Duration::from_secs(38),
            toleration: Duration::from_secs(5),
            more_flags: Vec::new(),
        }
    }
}

impl Plan {
    /// The cluster to build; pods come on top.
    pub fn cluster(&self) -> ClusterSpec {
        ClusterSpec {
            nodes: self.zones * self.nodes_per_zone,
            zones: self.zones,
            ..ClusterSpec::default()
        }
    }

    /// The zone that falls silent, and its nodes: the second zone, or the only one.
    pub fn silent(&self) -> (String, Vec<NodeName>) {
        let cluster = self.cluster();
        let mut zones = cluster.layout().zones;
        let silent = 1.min(zones.len().saturating_sub(1));
        let (zone, nodes) = zones.swap_remove(silent);
        // As the nodes' labels have it, and so every record and line.
        (
            Zone::new(&cluster.region, &format!("{}-{zone}", cluster.region)).to_string(),
            nodes,
        )
    }

    /// What the stages are told.
    pub fn flags(&self) -> Vec<String> {
        let seconds = |flag: &str, span: Duration| format!("--{flag}={}", GoDuration::new(span));
        let mut flags = vec![
            seconds("node-monitor-period", Duration::from_secs(1)),
            seconds("node-monitor-grace-period", self.grace),
            seconds("node-startup-grace-period", self.grace * 2),
            format!("--node-eviction-rate={}", self.eviction_rate),
        ];
        flags.extend(self.more_flags.iter().cloned());
        flags
    }

    /// The pods of a node, as they are created.
    pub fn pods(&self, node: &NodeName) -> Vec<Value> {
        (0..self.pods_per_node).map(|index| self.pod(node, index)).collect()
    }

    fn pod(&self, node: &NodeName, index: usize) -> Value {
        let tolerations = [wellknown::TAINT_NOT_READY, wellknown::TAINT_UNREACHABLE].map(|key| {
            let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
            if let Some(seconds) = self.toleration(index) {
                toleration["tolerationSeconds"] = json!(seconds);
            }
            toleration
        });
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("app-{node}-{index}"), "labels": {"app": "app"}},
            "spec": {
                "nodeName": node.as_str(),
                "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
                "tolerations": tolerations,
            },
        })
    }

    /// The DaemonSet.
    pub fn daemon_set() -> Value {
        let labels = json!({"app": "agent"});
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
                },
            },
        })
    }

    /// How pod `index` of a node tolerates an unreachable node: the seconds, or `None` for ever.
    ///
    /// In turn: 0 s, the plan's time, the plan's time, admission's default of 300 s, for ever.
    pub fn toleration(&self, index: usize) -> Option<i64> {
        let time = i64::try_from(self.toleration.as_secs()).unwrap_or(i64::MAX);
        match index % 5 {
            0 => Some(0),
            1 | 2 => Some(time),
            3 => Some(300),
            _ => None,
        }
    }

    /// Pods of a node that go while it is silent.
    fn going_per_node(&self) -> usize {
        let limit = i64::try_from(self.silence.as_secs()).unwrap_or(i64::MAX);
        (0..self.pods_per_node)
            .filter(|index| self.toleration(*index).is_some_and(|seconds| seconds < limit))
            .count()
    }

    /// One paragraph for people.
    pub fn describe(&self) -> String {
        let Self {
            zones,
            nodes_per_zone,
            pods_per_node,
            grace,
            lease_interval,
            eviction_rate,
            quiet: _,
            silence,
            toleration,
            more_flags: _,
        } = self;
        format!(
            "{zones} zones × {nodes_per_zone} nodes, {pods_per_node} pods each and a DaemonSet; leases every {lease_interval:?}, grace \
             {grace:?} (Kubernetes: 50s), {eviction_rate} node/s and zone (Kubernetes: 0.1), pods tolerate an unreachable node 0s, \
             {toleration:?}, {toleration:?}, 300s or for ever; zone {} will be silent for {silence:?}",
            self.silent().0
        )
    }

    /// What `figures` lack.
    pub fn judge(&self, figures: &Figures) -> Vec<String> {
        let nodes = self.nodes_per_zone;
        let pods = nodes * self.going_per_node();
        let mut failures = figures.not_recovered.clone();
        let expectations = [
            ("nodes detected", figures.nodes_detected, nodes),
            ("nodes isolated", figures.nodes_isolated, nodes),
            ("pods evicted", figures.pods_evicted, pods),
            ("pods kept", figures.pods_kept, nodes * self.pods_per_node - pods),
            ("early evictions", figures.early_evictions, 0),
            ("daemon pods lost", figures.daemon_pods_lost, 0),
        ];
        for (what, found, wanted) in expectations {
            if found != wanted {
                failures.push(format!("{what}: {found}, expected {wanted}"));
            }
        }
        failures
    }
}
