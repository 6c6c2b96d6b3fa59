//! What a node-health-monitor does and must not do.

use crate::item::Item;

pub static COMPLETE: Item = Item::required(
    "complete",
    "publishes node-health: a session that is complete and live, with a record of every node",
    "no stage after it acts before it knows the health of every node",
);
pub static TELLS_HEALTHY: Item = Item::required(
    "tells-healthy",
    "says HEALTHY, with the last sign of life, of a node whose kubelet renews its Lease",
    "a healthy node without a sign of life counts as late, and the brake holds its zone",
);
pub static FINDS_SILENCE: Item = Item::required(
    "finds-silence",
    "says UNREACHABLE of a node that was silent for --node-monitor-grace-period",
    "nothing ever happens to the pods of a dead node",
);
pub static SETS_UNKNOWN: Item = Item::required(
    "sets-unknown",
    "sets the condition Ready of a silent node to Unknown before it says UNREACHABLE",
    "a verdict that the API does not show is one that nobody can check; schedulers and Services go by the condition",
);
pub static EARLY: Item = Item::forbidden(
    "judges-early",
    "says UNREACHABLE, or sets Ready to Unknown, before the grace is over",
    "pods of a node that is well are evicted",
);
pub static TELLS_LATE: Item = Item::required(
    "tells-late",
    "says LATE of a node once three quarters of its grace have passed in silence",
    "when everything falls silent at once the first nodes are isolated before the brake can see it",
);
pub static FINDS_RETURN: Item = Item::required(
    "finds-return",
    "says HEALTHY of a node that is back",
    "its pods are evicted although it is well",
);
pub static FINDS_NOT_READY: Item = Item::required(
    "finds-not-ready",
    "says NOT_READY of a node whose kubelet reports Ready False",
    "the pods of a node that cannot run them stay there",
);
pub static HEARTBEATS: Item = Item::forbidden(
    "publishes-heartbeats",
    "publishes a record although nothing changed but the time of a renewal",
    "thousands of records a second cross the bus of a large cluster, and all history is gone in a minute",
);
pub static HEARSAY: Item = Item::forbidden(
    "judges-on-hearsay",
    "says UNREACHABLE of a node after not having reached the API server itself",
    "an outage of the API server looks like a dead cluster",
);
pub static REMEMBERS: Item = Item::forbidden(
    "forgets-on-restart",
    "says HEALTHY of a silent node because it was restarted",
    "evictions of dead nodes are called off with every restart",
);
pub static FRESH_GRACE: Item = Item::forbidden(
    "judges-on-restart",
    "says UNREACHABLE of a node that was not late before, without having watched it in silence for a whole grace since its restart",
    "silence of the monitor is taken for silence of the node",
);
pub static UID: Item = Item::required(
    "knows-uids",
    "publishes the uid of a node that replaces another of the same name, and judges it anew",
    "a new machine inherits the failure of the one before",
);
pub static GONE: Item = Item::required(
    "removes-the-deleted",
    "removes the record of a node that was deleted",
    "a machine that is not there counts as not ready for ever, and brakes its zone",
);
pub static OWN_WRITES: Item = Item::forbidden(
    "writes-beyond-its-part",
    "writes anything but conditions of nodes, Events and its own Leases",
    "taints and pods are other stages' part: two that write the same field undo each other's work",
);
