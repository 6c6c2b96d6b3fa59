//! Fills a sandbox: N nodes in Z zones, and pods on them.
//!
//! Nodes are created as machines that have not said anything yet; their kubelets do that. Nothing runs here: see [`crate::driver`].

use std::collections::BTreeMap;

use bailiff_model::{NodeName, wellknown};
use serde_json::{Value, json};

use crate::{Sandbox, Status, User, Verb};

/// What a cluster consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSpec {
    /// How many nodes, spread evenly over the zones.
    pub nodes: usize,
    /// How many zones, named `a`, `b`, …
    pub zones: usize,
    /// Region of all zones.
    pub region: String,
    /// Plain pods on each node.
    pub pods_per_node: usize,
    /// `true`: pods are kept up by a ReplicaSet and placed by the binder; `false`: bound to their node, and gone when evicted.
    pub replace_evicted: bool,
    /// Of pods that are bound to their node. `true`: it is their controller, as that of static pods; `false`: they have none, and may be
    /// adopted.
    pub node_owned: bool,
    /// `tolerationSeconds` for not-ready and unreachable nodes; `None`: the API's 300 s.
    pub toleration_seconds: Option<u32>,
}

/// The names of what was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes, by zone.
    pub zones: Vec<(String, Vec<NodeName>)>,
}

/// Why a cluster was not built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There cannot be such a cluster.
    #[error("invalid {field} {value}: {allowed}")]
    Spec {
        /// Field of [`ClusterSpec`].
        field: &'static str,
        /// Its value.
        value: usize,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The sandbox refused an object.
    #[error("cannot create {what}")]
    Create {
        /// Which.
        what: String,
        /// Why.
        source: Box<Status>,
    },
}

/// Namespace of the pods.
const NAMESPACE: &str = "default";
/// Name of the ReplicaSet, prefix of pods, and value of their label `app`.
const APP: &str = "app";
/// Zones are named by one letter or two; what would need more is a mistake.
const MAX_ZONES: usize = 26 * 27;

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            nodes: 6,
            zones: 3,
            region: "sandbox".to_owned(),
            pods_per_node: 0,
            replace_evicted: false,
            node_owned: false,
            toleration_seconds: None,
        }
    }
}

// === impl ClusterSpec ===

impl ClusterSpec {
    /// Checks that there can be such a cluster.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |field, value, allowed| Err(Error::Spec { field, value, allowed });
        match self {
            Self { zones, .. } if !(1..=MAX_ZONES).contains(zones) => refuse("zones", *zones, "wanted 1 to 702"),
            // Addresses of nodes: 172.16.0.0/12.
            Self { nodes, .. } if *nodes > 1_000_000 => refuse("nodes", *nodes, "wanted at most 1000000"),
            // A kubelet's default limit; more would only be rejected.
            Self { pods_per_node, .. } if *pods_per_node > 110 => refuse("pods per node", *pods_per_node, "wanted at most 110"),
            _ => Ok(()),
        }
    }

    /// The nodes, by zone: node `i` of all is in zone `i mod zones`, so that zones differ by one node at most.
    pub fn layout(&self) -> Cluster {
        let zones = (0..self.zones).map(|zone| {
            let letters = zone_name(zone);
            let count = (self.nodes + self.zones - 1 - zone) / self.zones;
            let nodes = (0..count)
                .map(|nth| NodeName::from(format!("node-{letters}-{nth:03}")))
                .collect();
            (letters, nodes)
        });
        Cluster { zones: zones.collect() }
    }
}

// === impl Cluster ===

impl Cluster {
    /// All nodes, zone after zone.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.zones.iter().flat_map(|(_, nodes)| nodes)
    }
}

/// Creates the nodes and pods of `spec`. Nodes of all zones are created in turns, as they would join.
///
/// # Errors
/// When the specification is wrong, or the sandbox refuses an object, for example because it exists already.
pub fn build(sandbox: &Sandbox, spec: &ClusterSpec) -> Result<Cluster, Error> {
    spec.validate()?;
    let cluster = spec.layout();
    let longest = cluster.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
    let mut number = 0;
    let mut uids = BTreeMap::new();
    for nth in 0..longest {
        for (zone, nodes) in &cluster.zones {
            if let Some(name) = nodes.get(nth) {
                number += 1;
                let uid = create(sandbox, "/api/v1/nodes", &node(name, spec, zone, number))?;
                uids.insert(name, uid);
            }
        }
    }
    if spec.replace_evicted && spec.pods_per_node > 0 {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/replicasets");
        create(sandbox, &path, &replica_set(spec))?;
    } else {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        for name in cluster.nodes() {
            let owner = uids.get(name).filter(|_| spec.node_owned).map(String::as_str);
            for nth in 0..spec.pods_per_node {
                create(sandbox, &path, &pod(name, nth, owner, spec))?;
            }
        }
    }
    Ok(cluster)
}

/// Creates an object, and answers with its uid.
fn create(sandbox: &Sandbox, path: &str, object: &Value) -> Result<String, Error> {
    let created = sandbox.tell(&User::admin(), Verb::Create, path, object.clone());
    created.map(|identity| identity.uid).map_err(|status| Error::Create {
        what: format!(
            "{} {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        ),
        source: Box::new(status),
    })
}

/// `a` to `z`, then `aa` and so on.
fn zone_name(zone: usize) -> String {
    let letter = |nth: usize| char::from(b'a' + u8::try_from(nth % 26).expect("a remainder of 26 is a byte"));
    match zone / 26 {
        0 => letter(zone).to_string(),
        first => format!("{}{}", letter(first - 1), letter(zone)),
    }
}

fn node(name: &NodeName, spec: &ClusterSpec, zone: &str, number: usize) -> Value {
    let offer = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let address = format!(
        "172.{}.{}.{}",
        16 + ((number >> 16) & 0xf),
        (number >> 8) & 0xff,
        number & 0xff
    );
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name.as_str(), "labels": {
            "kubernetes.io/hostname": name.as_str(),
            wellknown::LABEL_OS: "linux",
            wellknown::LABEL_ARCH: "amd64",
            // Kubelets set these too, still.
            wellknown::LABEL_OS_BETA: "linux",
            wellknown::LABEL_ARCH_BETA: "amd64",
            wellknown::LABEL_REGION: spec.region,
            wellknown::LABEL_ZONE: format!("{}-{zone}", spec.region),
        }},
        "status": {
            "capacity": offer, "allocatable": offer,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name.as_str()}],
        },
    })
}

/// The pod of a node, whose uid is given if it is the controller.
fn pod(node: &NodeName, nth: usize, owner: Option<&str>, spec: &ClusterSpec) -> Value {
    let mut body = pod_template(spec);
    // `node-a-000` has `app-a-000-0`, so that a person sees where a pod belongs.
    let place = node.as_str().strip_prefix("node-").unwrap_or(node.as_str());
    body["apiVersion"] = "v1".into();
    body["kind"] = "Pod".into();
    body["metadata"]["name"] = format!("{APP}-{place}-{nth}").into();
    body["spec"]["nodeName"] = node.as_str().into();
    if let Some(uid) = owner {
        body["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": uid, "controller": true,
        }]);
    }
    body
}

fn replica_set(spec: &ClusterSpec) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": APP, "labels": {"app": APP}},
        "spec": {
            "replicas": spec.nodes * spec.pods_per_node,
            "selector": {"matchLabels": {"app": APP}},
            "template": pod_template(spec),
        },
    })
}

fn pod_template(spec: &ClusterSpec) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": APP}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
    });
    if let Some(seconds) = spec.toleration_seconds {
        let keys = [wellknown::TAINT_NOT_READY, wellknown::TAINT_UNREACHABLE];
        let tolerations =
            keys.map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}));
        template["spec"]["tolerations"] = Value::Array(tolerations.into());
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_spread_evenly_over_named_zones() {
        let spec = ClusterSpec {
            nodes: 7,
            zones: 3,
            ..ClusterSpec::default()
        };
        let cluster = spec.layout();
        let sizes: Vec<(&str, usize)> = cluster
            .zones
            .iter()
            .map(|(zone, nodes)| (zone.as_str(), nodes.len()))
            .collect();
        assert_eq!(sizes, [("a", 3), ("b", 2), ("c", 2)]);
        let names: Vec<&str> = cluster.nodes().map(NodeName::as_str).collect();
        assert_eq!(names[..4], ["node-a-000", "node-a-001", "node-a-002", "node-b-000"]);
        assert_eq!([0, 25, 26, 701].map(zone_name), ["a", "z", "aa", "zz"]);
    }

    #[test]
    fn impossible_clusters_are_refused_with_what_is_allowed() {
        let spec = |nodes, zones, pods_per_node| ClusterSpec {
            nodes,
            zones,
            pods_per_node,
            ..ClusterSpec::default()
        };
        let cases = [
            (spec(3, 0, 0), "invalid zones 0: wanted 1 to 702"),
            (spec(3, 703, 0), "invalid zones 703: wanted 1 to 702"),
            (spec(1_000_001, 3, 0), "invalid nodes 1000001: wanted at most 1000000"),
            (spec(3, 3, 111), "invalid pods per node 111: wanted at most 110"),
        ];
        for (spec, wanted) in cases {
            assert_eq!(spec.validate().unwrap_err().to_string(), wanted);
        }
        assert!(spec(0, 3, 0).validate().is_ok());
    }
}
