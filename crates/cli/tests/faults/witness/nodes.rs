//! Nodes, and the Leases of their kubelets.

use jiff::Timestamp;

use super::{Change, Seen, condition, is_skewed, revision, text, time};
use crate::system::GRACE;

/// Taint of a silent node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node was isolated.
#[derive(Clone, Debug)]
pub struct Isolation {
    pub seen: Timestamp,
    pub revision: u64,
}

/// A node as it was seen, over all of its versions.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub zone: String,
    /// When it was marked Unknown, each time.
    pub unknown: Vec<Timestamp>,
    /// When it was isolated, each time.
    pub isolated: Vec<Isolation>,
    /// It has any taint now, or is not ready.
    pub is_troubled: bool,
    /// It was isolated by a clock that was off.
    pub is_skewed: bool,
    /// Last renewal of its lease, by its kubelet.
    renewed: Option<Timestamp>,
    /// Those that were the last for as long as its grace.
    lapses: Vec<Timestamp>,
    is_unknown: bool,
    /// Since when it is isolated, as the API says it; empty if it is not.
    since: String,
}

impl Node {
    /// The renewals after which it was silent for as long as its grace, as far as can be seen: those that were, and perhaps more. A
    /// machine that is too slow for its kubelets makes nodes silent that were not to be.
    pub fn lapses(&self, now: Timestamp) -> Vec<Timestamp> {
        let last = self.renewed.filter(|at| now.duration_since(*at) >= GRACE);
        self.lapses.iter().copied().chain(last).collect()
    }
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
            node.isolated.push(Isolation {
                seen: change.at,
                revision: revision(object),
            });
            node.is_skewed |= since.parse().is_ok_and(|said| is_skewed(said, change.at));
        }
        node.since = since;
        node.is_troubled = !taints.is_empty() || ready["status"] != "True";
    }

    pub(super) fn node_lease(&mut self, change: &Change<'_>) {
        let node = self.nodes.entry(text(&change.object["metadata"]["name"])).or_default();
        let renewed = time(&change.object["spec"]["renewTime"]);
        if node.renewed != renewed {
            node.lapses = node.lapses(change.at);
            node.renewed = renewed;
            self.signs.extend(renewed.map(|at| (revision(change.object), at)));
        }
    }
}
