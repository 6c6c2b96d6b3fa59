//! What a zone-evictor does and must not do.

use crate::item::Item;

pub static COMPLETE: Item = Item::required(
    "complete",
    "publishes eviction-outcomes: a session that is complete and live",
    "without it nobody can tell an eviction that is not wanted from one that nobody decides about",
);
pub static ISOLATES: Item = Item::required(
    "isolates",
    "adds the NoExecute taint that a NodeIsolation asks for",
    "pods of a dead node are never evicted",
);
pub static TELLS_ISOLATION: Item = Item::required(
    "tells-isolation",
    "publishes ISOLATED for a node whose taint stands",
    "explain, status and whoever depends on outcomes see a node that waits for ever",
);
pub static EVICTS: Item = Item::required(
    "evicts",
    "deletes a pod whose PodEviction is DUE and justified by the taints of its node",
    "pods of a dead node are never replaced",
);
pub static MARKS: Item = Item::required(
    "marks",
    "sets condition DisruptionTarget on a pod before deleting it",
    "Jobs count the eviction as a failure of the pod",
);
pub static TELLS_EVICTION: Item = Item::required(
    "tells-eviction",
    "publishes DELETED for a pod that it deleted",
    "nobody can follow what became of the intent",
);
pub static WRITES_FIRST: Item = Item::forbidden(
    "publishes-before-writing",
    "says that a node is isolated or a pod deleted before the API server has it",
    "what fails then was never true, and others acted on it",
);
pub static EARLY: Item = Item::forbidden(
    "evicts-early",
    "deletes a pod whose PodEviction is SCHEDULED",
    "the time that the pod tolerates its node's failure is not over",
);
pub static WITHDRAWN: Item = Item::forbidden(
    "evicts-withdrawn",
    "deletes a pod whose eviction was withdrawn while it was held",
    "a pod of a healthy node is lost",
);
pub static UNJUSTIFIED: Item = Item::forbidden(
    "evicts-unjustified",
    "deletes a pod that no NoExecute taint of its node justifies, because an intent says so",
    "a broken stage before it can delete every pod of the cluster",
);
pub static TELLS_REFUSAL: Item = Item::required(
    "tells-refusal",
    "publishes REFUSED for an intent that the API does not justify",
    "nobody learns that a stage before it is broken",
);
pub static WRONG_UID: Item = Item::forbidden(
    "forgets-uid",
    "deletes a pod that has the name of the one that was meant, but another uid",
    "the replacement of a pod is deleted in its stead",
);
pub static FOREIGN_TAINTS: Item = Item::forbidden(
    "drops-taints",
    "removes or changes a taint that is not its own",
    "what somebody else keeps off the node is let in",
);
pub static RELEASES: Item = Item::required(
    "releases",
    "removes its NoExecute taint once the node is well and nobody wants it isolated",
    "a node that is back stays empty",
);
pub static TELLS_RELEASE: Item = Item::required(
    "tells-release",
    "says no more that a node is ISOLATED once its taint is gone",
    "nobody can tell a node that is back from one that is lost",
);
pub static IGNORES_HOLDS: Item = Item::forbidden(
    "ignores-holds",
    "evicts or isolates because of health while the node-health-monitor is not live",
    "what was true when it fell silent may be wrong by now",
);
pub static TELLS_HOLD: Item = Item::optional(
    "tells-hold",
    "publishes HELD with a reason for what it holds",
    "operators see an eviction that is due and does not happen, and no reason",
);
pub static HAND_MADE: Item = Item::required(
    "evicts-for-hand-made-taints",
    "evicts for a taint made by hand also while node-health is not live",
    "a drain by taint stands still because of a stage that it does not depend on",
);
pub static RESUMES: Item = Item::required(
    "resumes",
    "does what was held once the reason is gone, by itself",
    "a hold of a second becomes one for ever",
);
pub static BRAKE: Item = Item::forbidden(
    "isolates-everything",
    "adds a NoExecute taint because of health while every node of every zone is unhealthy",
    "a failure of the network or of the API server empties the cluster",
);
pub static TOO_FAST: Item = Item::forbidden(
    "exceeds-the-rate",
    "isolates nodes of a zone faster than --node-eviction-rate",
    "pods of a whole zone are evicted before anybody can look",
);
pub static WAITS_ITS_TURN: Item = Item::required(
    "isolates-at-the-rate",
    "isolates every node that waits in a zone's queue, one after the other",
    "who came second is never isolated",
);
pub static FREE_NODE: Item = Item::forbidden(
    "free-node-after-restart",
    "isolates a node at once after a restart, although the zone's last grant is younger than its rate allows",
    "a process that crashes again and again has no rate at all",
);
pub static STRIPS: Item = Item::forbidden(
    "strips-taints-on-restart",
    "removes a NoExecute taint because it was restarted",
    "the toleration times of all pods of the node start anew",
);
pub static OWN_WRITES: Item = Item::forbidden(
    "writes-beyond-its-part",
    "writes anything but NoExecute health taints, DisruptionTarget, pod deletions, Events and its own Leases",
    "two stages write the same field, or a user's object is changed",
);
