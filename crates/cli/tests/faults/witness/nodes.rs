//! Nodes, and the Leases of their kubelets.

use jiff::Timestamp;

use super::{Change, Seen, condition, is_skewed, text, time};

/// Taint of a silent node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node as it was seen, over all of its versions.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub zone: String,
    /// When it was marked Unknown, each time.
    pub unknown: Vec<Timestamp>,
    /// When it was isolated, each time.
    pub isolated: Vec<Timestamp>,
    /// Last renewal of its lease before it was marked, by its kubelet.
    pub renewed: Option<Timestamp>,
    /// It has any taint now, or is not ready.
    pub is_troubled: bool,
    /// It was isolated by a clock that was off.
    pub is_skewed: bool,
    is_unknown: bool,
    /// Since when it is isolated, as the API says it; empty if it is not.
    since: String,
}

impl Seen {
    pub(super) fn node(&mut self, change: &Change<'_>) {
        let object = change.object;
        let node = self.nodes.entry(text(&object["metadata"]["name"])).or_default();
        node.zone = text(&object["metadata"]["labels"]["topology.kubernetes.io/zone"]);
        let ready = condition(object, "Ready");
        let is_unknown = ready["status"] == "Unknown";
        if is_unknown && !node.is_unknown {
            node.unknown.push(change.at);
        }
        node.is_unknown = is_unknown;
        let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let isolation = taints
            .iter()
            .find(|taint| taint["key"] == UNREACHABLE && taint["effect"] == "NoExecute");
        let since = isolation.map(|taint| text(&taint["timeAdded"])).unwrap_or_default();
        if node.since != since && !since.is_empty() {
            node.isolated.push(change.at);
            node.is_skewed |= since.parse().is_ok_and(|said| is_skewed(said, change.at));
        }
        node.since = since;
        node.is_troubled = !taints.is_empty() || ready["status"] != "True";
    }

    pub(super) fn node_lease(&mut self, change: &Change<'_>) {
        let node = self.nodes.entry(text(&change.object["metadata"]["name"])).or_default();
        // What it did before it was marked is what counts.
        if node.unknown.is_empty() {
            node.renewed = time(&change.object["spec"]["renewTime"]);
        }
    }
}
