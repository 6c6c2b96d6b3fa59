//! Nodes, and the Leases of their kubelets.

use jiff::Timestamp;

use super::{Change, Seen, condition, is_skewed, revision, text, time};
use crate::system::GRACE;

/// Taint of a silent node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node was marked, or isolated.
#[derive(Clone, Debug)]
pub struct Write {
    pub seen: Timestamp,
    pub revision: u64,
}

/// A time without a renewal by a node's kubelet.
#[derive(Clone, Copy, Debug)]
pub struct Lapse {
    /// The last one before it.
    pub renewed: Timestamp,
    /// When the next one was seen, or the present.
    pub until: Timestamp,
}

/// A node as it was seen, over all of its versions.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub zone: String,
    /// When it was marked Unknown, each time.
    pub unknown: Vec<Write>,
    /// When it was isolated, each time.
    pub isolated: Vec<Write>,
    /// It has any taint now, or is not ready.
    pub is_troubled: bool,
    /// It was isolated by a clock that was off.
    pub is_skewed: bool,
    /// Last renewal of its lease, by its kubelet.
    renewed: Option<Timestamp>,
    /// Those times without one that are over, and were as long as its grace.
    lapses: Vec<Lapse>,
    is_unknown: bool,
    /// Since when it is isolated, as the API says it; empty if it is not.
    since: String,
}

impl Node {
    /// The last time it was marked before this revision.
    pub fn marked_before(&self, revision: u64) -> Option<&Write> {
        self.unknown.iter().rfind(|mark| mark.revision < revision)
    }
}

impl Lapse {
    /// What is left of it after `begin` is as long as a node's grace.
    fn is_silence(&self, begin: Timestamp) -> bool {
        self.until.duration_since(self.renewed.max(begin)) >= GRACE
    }
}

impl Seen {
    /// When a node was silent for as long as its grace, as far as can be seen: those times that were, and perhaps more. A machine that is
    /// too slow for its kubelets makes nodes silent that were not to be.
    pub fn lapses(&self, node: &Node, now: Timestamp) -> Vec<Lapse> {
        let last = node.renewed.map(|renewed| Lapse { renewed, until: now });
        let all = node.lapses.iter().copied().chain(last);
        all.filter(|lapse| lapse.is_silence(self.begin)).collect()
    }

    /// The silence that a node may have been marked for: long enough when the mark was seen, and not over for as long again when it was
    /// made. Whoever marks a node looks at its Lease before, and both may take their time.
    pub fn silence(&self, lapses: &[Lapse], mark: &Write) -> Option<Lapse> {
        let made = self.not_before(mark.revision);
        let may_be = |lapse: &Lapse| mark.seen.duration_since(lapse.renewed) >= GRACE && lapse.until + GRACE >= made;
        lapses.iter().copied().find(may_be)
    }

    pub(super) fn node(&mut self, change: &Change<'_>) {
        let object = change.object;
        let node = self.nodes.entry(text(&object["metadata"]["name"])).or_default();
        node.zone = text(&object["metadata"]["labels"]["topology.kubernetes.io/zone"]);
        let ready = condition(object, "Ready");
        let is_unknown = ready["status"] == "Unknown";
        if is_unknown && !node.is_unknown {
            node.unknown.push(Write {
                seen: change.at,
                revision: revision(object),
            });
        }
        node.is_unknown = is_unknown;
        let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let isolation = taints
            .iter()
            .find(|taint| taint["key"] == UNREACHABLE && taint["effect"] == "NoExecute");
        let since = isolation.map(|taint| text(&taint["timeAdded"])).unwrap_or_default();
        if node.since != since && !since.is_empty() {
            node.isolated.push(Write {
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
            let until = change.at;
            let lapse = node.renewed.map(|renewed| Lapse { renewed, until });
            node.lapses.extend(lapse.filter(|lapse| lapse.is_silence(self.begin)));
            node.renewed = renewed;
            self.signs.extend(renewed.map(|at| (revision(change.object), at)));
        }
    }
}
