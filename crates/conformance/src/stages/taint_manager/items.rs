//! What a taint-manager does and must not do.

use crate::item::Item;

pub static COMPLETE: Item = Item::required(
    "complete",
    "publishes eviction-intents: a session that is complete and live",
    "the zone-evictor does nothing before it has seen every intent",
);
pub static ADMITS: Item = Item::required(
    "clears-new-nodes",
    "removes the NoSchedule taint not-ready of a node that is ready",
    "new nodes stay empty",
);
pub static KEEPS_OFF: Item = Item::required(
    "taints-unreachable",
    "adds the NoSchedule taint unreachable to a node whose condition Ready is Unknown",
    "new pods are placed on a dead node, and the zone-evictor waits for the taint before it adds its own",
);
pub static MARKS_PODS: Item = Item::required(
    "marks-pods",
    "sets condition Ready of the pods of a silent node to False",
    "Services send requests to pods that nobody hears of",
);
pub static WISHES: Item = Item::required(
    "wants-isolation",
    "publishes a NodeIsolation, derived from the node's newest node-health record, for a node that is UNREACHABLE",
    "a dead node is never isolated; without the record that it is derived from its age is unknown, and it is not acted on",
);
pub static UNWISHES: Item = Item::required(
    "withdraws-isolation",
    "removes the NodeIsolation and its own taint once the node is well",
    "a node that is back is isolated, or stays so",
);
pub static DUE: Item = Item::required(
    "due-untolerated",
    "publishes a DUE PodEviction for a pod that does not tolerate a NoExecute taint, with the uids of pod and node, and the taint with its value",
    "pods stay on a node that somebody wants to empty; what the intent does not name cannot be checked or explained",
);
pub static SCHEDULES: Item = Item::required(
    "schedules-tolerated",
    "publishes a SCHEDULED PodEviction with due-at for a pod that tolerates the taint for a time",
    "nobody sees what is going to happen",
);
pub static EXPIRES: Item = Item::required(
    "due-expired",
    "makes it DUE, with trigger EXPIRED, once that time is over",
    "the pod stays for ever",
);
pub static DUE_EARLY: Item = Item::forbidden(
    "due-early",
    "makes an eviction DUE before the time that the pod tolerates is over",
    "the pod is evicted although its node might have come back in time",
);
pub static TOLERATED: Item = Item::forbidden(
    "evicts-tolerant",
    "wants a pod evicted that tolerates the taint without limit",
    "DaemonSet pods and others that are meant to stay are lost",
);
pub static WITHDRAWS: Item = Item::required(
    "withdraws",
    "withdraws the eviction of a pod once the taint is gone",
    "the pod is evicted from a node that is well",
);
pub static UID: Item = Item::required(
    "knows-uids",
    "publishes an intent of its own for a pod that replaces another of the same name, and none for the one that is gone",
    "the new pod inherits the old one's time, or is never evicted",
);
pub static START_KEPT: Item = Item::required(
    "keeps-time-over-restart",
    "counts on from the same start after a restart",
    "a process that is restarted again and again never evicts anything",
);
pub static OWN_WRITES: Item = Item::forbidden(
    "writes-beyond-its-part",
    "writes anything but NoSchedule condition taints, os and arch labels, Ready of pods, Events and its own Leases",
    "only one stage may evict; two that write the same field undo each other's work",
);
