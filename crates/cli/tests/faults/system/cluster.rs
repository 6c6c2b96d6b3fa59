//! The cluster that the system looks after, and what becomes of its nodes.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::stage::PUBLISHERS;
use super::{Stage, System};
use crate::clock;

/// How long the pods tolerate a silent node.
pub const TOLERATION: SignedDuration = SignedDuration::from_secs(3);
/// The zone that falls silent.
pub const SILENT_ZONE: &str = "sandbox-b";
/// Nodes of each of three zones: enough for one to be isolated after each fault.
pub const PER_ZONE: usize = 40;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

impl System {
    /// Kubelets that renew often and start pods slowly, pods that tolerate little, and DaemonSets.
    pub(super) fn prepare(&mut self) {
        let all = self.api.request("GET", NODES, "application/json", &Value::Null);
        for node in all["items"].as_array().unwrap() {
            let name = node["metadata"]["name"].as_str().unwrap();
            self.annotate(
                name,
                &json!({"sandbox.bailiff.dev/lease-interval": "500ms", "sandbox.bailiff.dev/run-delay": "500ms"}),
            );
            if node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "sandbox-c" {
                continue;
            }
            let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(
                |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION.as_secs()}),
            );
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("app-{name}")},
                "spec": {"nodeName": name, "tolerations": tolerations, "containers": [{"name": "main", "image": "pause"}]},
            });
            self.api.request("POST", PODS, "application/json", &pod);
        }
        self.make_daemon_sets();
        self.witness.with(|seen| seen.begin = clock::wall());
    }

    fn annotate(&self, node: &str, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.api
            .request("PATCH", &format!("{NODES}/{node}"), "application/merge-patch+json", &patch);
    }

    /// Waits until everything works.
    pub fn settle(&mut self) {
        for stage in Stage::ALL {
            self.leader(stage);
        }
        self.until_published();
        self.until("all nodes", |system| {
            system
                .witness
                .with(|seen| seen.nodes.values().filter(|node| !node.is_troubled).count() == 3 * PER_ZONE)
        });
        self.until_rolled_out();
    }

    /// Waits until the leaders publish.
    pub(super) fn until_published(&mut self) {
        for stage in PUBLISHERS {
            self.until("a producer", |system| system.is_led(stage, |replica| replica.publishes));
        }
    }

    /// A zone falls silent.
    pub fn silence(&self) {
        self.set_alive("false");
    }

    /// It is back.
    pub fn wake(&self) {
        self.set_alive("true");
    }

    fn set_alive(&self, alive: &str) {
        let nodes = self.witness.with(|seen| seen.nodes.clone());
        for (name, _) in nodes.iter().filter(|(_, node)| node.zone == SILENT_ZONE) {
            self.annotate(name, &json!({"sandbox.bailiff.dev/alive": alive}));
        }
    }

    /// Waits until so many nodes were isolated.
    pub fn until_isolated(&mut self, nodes: usize) {
        self.until("an isolation", |system| system.witness.isolated() >= nodes);
    }

    /// Waits until so many pods were evicted.
    pub fn until_evicted(&mut self, pods: usize) {
        self.until("an eviction", |system| {
            system.witness.with(|seen| {
                let apps = seen.pods.values().filter(|pod| pod.daemon_set.is_none());
                apps.filter(|pod| pod.deleted.is_some()).count() >= pods
            })
        });
    }

    /// Waits until one more node is isolated: what has gone wrong is no reason to stop the work. There has to be one left.
    pub(super) fn until_work_went_on(&mut self, meanwhile: &'static str) {
        self.until_work_went_on_while(meanwhile, |_| true);
    }

    /// The same, which is over as well, and of no account, once `is_so` no more.
    pub(super) fn until_work_went_on_while(&mut self, meanwhile: &'static str, is_so: impl Fn(&Self) -> bool) {
        let isolated = self.witness.isolated();
        self.premises.saw_so_many(meanwhile, 0);
        if isolated < PER_ZONE {
            self.until("an isolation", |system| {
                !is_so(system) || system.witness.isolated() > isolated
            });
            self.premises.saw_so_many(meanwhile, usize::from(is_so(self)));
        }
    }

    /// Waits until the silent zone has no pods that tolerate it no longer.
    pub fn until_emptied(&mut self) {
        self.until("the last eviction", |system| {
            system.witness.with(|seen| {
                let apps = seen.pods.values().filter(|pod| pod.daemon_set.is_none());
                let mut silent = apps.filter(|pod| seen.nodes[&pod.node].zone == SILENT_ZONE);
                silent.all(|pod| pod.deleted.is_some())
            })
        });
    }

    /// Waits until all nodes are well, and have their daemon pods.
    pub fn until_recovered(&mut self) {
        self.until("the recovery", |system| {
            system.witness.with(|seen| seen.nodes.values().all(|node| !node.is_troubled))
        });
        self.until_rolled_out();
    }
}
