//! The cluster that the system looks after, and what becomes of it.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::stage::PUBLISHERS;
use super::{Stage, System};

/// How long the pods tolerate a silent node.
pub const TOLERATION: SignedDuration = SignedDuration::from_secs(3);
/// The zone that falls silent.
pub const SILENT_ZONE: &str = "sandbox-b";
/// Nodes of each of three zones.
pub const PER_ZONE: usize = 12;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

impl System {
    /// Kubelets that renew often, and pods that tolerate little.
    pub(super) fn prepare(&self) {
        let all = self.api.request("GET", NODES, "application/json", &Value::Null);
        for node in all["items"].as_array().unwrap() {
            let name = node["metadata"]["name"].as_str().unwrap();
            self.annotate(name, &json!({"sandbox.bailiff.dev/lease-interval": "500ms"}));
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

    pub fn until_isolated(&mut self, nodes: usize) {
        self.until("an isolation", |system| system.witness.isolated() >= nodes);
    }

    pub fn until_emptied(&mut self) {
        self.until("the last eviction", |system| {
            system.witness.with(|seen| {
                let silent = seen.pods.values().filter(|pod| seen.nodes[&pod.node].zone == SILENT_ZONE);
                silent.into_iter().all(|pod| pod.deleted.is_some())
            })
        });
    }

    pub fn until_recovered(&mut self) {
        self.until("the recovery", |system| {
            system.witness.with(|seen| seen.nodes.values().all(|node| !node.is_troubled))
        });
    }
}
