//! What a daemonset-syncer does and must not do.

use crate::item::Item;

pub static COMPLETE: Item = Item::required(
    "complete",
    "publishes daemon-rollouts: a session that is complete and live",
    "explain and status cannot tell a rollout that waits from one that nobody looks after",
);
pub static PLACES: Item = Item::required(
    "places",
    "runs one pod of a DaemonSet on every node that it selects and whose taints it tolerates",
    "nodes are without their network or their logs",
);
pub static OWNED: Item = Item::required(
    "owns",
    "creates pods with a controller reference to the DaemonSet, its labels, and affinity to their node",
    "garbage collection, kubectl drain and other controllers do not know whose they are",
);
pub static NEW_NODES: Item = Item::required(
    "follows-nodes",
    "runs a pod on a node that joins",
    "new nodes never become ready where a DaemonSet brings their network",
);
pub static MISPLACED: Item = Item::forbidden(
    "misplaces",
    "runs a pod on a node that the DaemonSet does not select, or whose taints its pods do not tolerate",
    "agents run where somebody kept them out",
);
pub static LEAVES: Item = Item::required(
    "removes-misplaced",
    "deletes its pod from a node that the DaemonSet selects no more",
    "agents stay where somebody took them off",
);
pub static TWICE: Item = Item::forbidden(
    "places-twice",
    "runs two pods of a DaemonSet on one node at a time, without maxSurge",
    "two agents fight for one port or one disk",
);
pub static REVISIONS: Item = Item::required(
    "keeps-revisions",
    "keeps a ControllerRevision for every template",
    "kubectl rollout history and undo have nothing to work with",
);
pub static STATUS: Item = Item::required(
    "keeps-status",
    "keeps the status of the DaemonSet: how many pods are desired, current, ready, updated, available, observedGeneration",
    "kubectl rollout status waits for ever",
);
pub static ROLLS_OUT: Item = Item::required(
    "rolls-out",
    "replaces every pod after a change of the template (RollingUpdate)",
    "nodes run what was replaced",
);
pub static UNAVAILABLE: Item = Item::forbidden(
    "exceeds-max-unavailable",
    "deletes pods of a rollout while maxUnavailable others are not available",
    "a bad template takes every node's agent away at once",
);
pub static ON_DELETE: Item = Item::forbidden(
    "rolls-out-on-delete",
    "replaces pods of a DaemonSet with updateStrategy OnDelete",
    "somebody wanted to say when",
);
pub static STRANGERS: Item = Item::forbidden(
    "touches-strangers",
    "changes or deletes a pod that another controller owns or that the selector does not match",
    "workloads that have nothing to do with DaemonSets are lost",
);
pub static RESTART: Item = Item::forbidden(
    "restarts-pods-on-restart",
    "creates or deletes pods because it was restarted",
    "every update of the syncer restarts the agents of all nodes",
);
pub static ALONE: Item = Item::required(
    "works-without-bus",
    "goes on placing pods while the bus cannot be reached",
    "the syncer creates the network that bus and stages themselves may need",
);
pub static TELLS: Item = Item::required(
    "tells-rollouts",
    "publishes what is true of each DaemonSet: observed generation and current revision",
    "explain daemonset has nothing to say",
);
pub static OWN_WRITES: Item = Item::forbidden(
    "writes-beyond-its-part",
    "writes anything but daemon pods, ControllerRevisions, DaemonSet status, Events and its own Leases",
    "two stages write the same field, or a user's object is changed",
);
