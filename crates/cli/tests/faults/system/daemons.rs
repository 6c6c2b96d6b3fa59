//! DaemonSets, which are rolled out while the zone is silent.

use serde_json::{Value, json};

use super::cluster::{PER_ZONE, SILENT_ZONE};
use super::{Stage, System};
use crate::witness::Seen;
use crate::witness::pods::{EDIT, Pod};

const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";

/// A DaemonSet.
#[derive(Clone, Copy, Debug)]
pub struct DaemonSet {
    pub name: &'static str,
    pub max_unavailable: usize,
    pub max_surge: usize,
    /// It is for the silent zone, too.
    is_everywhere: bool,
}

/// One that goes on although a whole zone is unavailable, and one that surges: beside a silent node nothing would ever be ready.
pub const ALL: &[DaemonSet] = &[
    DaemonSet {
        name: "agent",
        max_unavailable: PER_ZONE + 4,
        max_surge: 0,
        is_everywhere: true,
    },
    DaemonSet {
        name: "proxy",
        max_unavailable: 0,
        max_surge: 4,
        is_everywhere: false,
    },
];

impl DaemonSet {
    /// It has pods on the nodes of this zone.
    pub fn is_for(&self, zone: &str) -> bool {
        self.is_everywhere || zone != SILENT_ZONE
    }

    fn object(&self) -> Value {
        let labels = json!({"app": self.name});
        let operator = if self.is_everywhere { "Exists" } else { "NotIn" };
        let zones = if self.is_everywhere { json!([]) } else { json!([SILENT_ZONE]) };
        let zone = json!({"key": "topology.kubernetes.io/zone", "operator": operator, "values": zones});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [zone]}]});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": self.name},
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": self.max_unavailable, "maxSurge": self.max_surge},
                },
                "template": {
                    "metadata": {"labels": labels, "annotations": {EDIT: "0"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
                        "containers": [{"name": "main", "image": "pause"}],
                    },
                },
            },
        })
    }

    /// On how many nodes it has an available pod of this edit, and on how many it should.
    fn progress(&self, seen: &Seen, edit: &str) -> (usize, usize) {
        let nodes = seen.nodes.values().filter(|node| self.is_for(&node.zone)).count();
        let is_there = |pod: &&Pod| pod.edit == edit && pod.was_available(seen.moment + 1);
        let of_set = seen.pods.values().filter(|pod| pod.daemon_set.as_deref() == Some(self.name));
        (of_set.filter(is_there).count(), nodes)
    }
}

impl System {
    pub(super) fn make_daemon_sets(&self) {
        for set in ALL {
            self.api.request("POST", DAEMON_SETS, "application/json", &set.object());
        }
    }

    /// Waits until all daemon pods are those of the last edit, and nothing else is left.
    pub(super) fn until_rolled_out(&mut self) {
        let edit = self.edits.to_string();
        self.until("the end of the rollout", |system| {
            system.witness.with(|seen| {
                ALL.iter().all(|set| {
                    let of_set = seen.pods.values().filter(|pod| pod.daemon_set.as_deref() == Some(set.name));
                    let (there, nodes) = set.progress(seen, &edit);
                    there == nodes && of_set.filter(|pod| pod.ended.is_none()).count() == nodes
                })
            })
        });
    }

    /// Edits all DaemonSets, and waits until each has some pods of it, and needs more.
    pub(super) fn until_rolling(&mut self) {
        self.leader(Stage::DaemonsetSyncer);
        self.edits += 1;
        let edit = self.edits.to_string();
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {EDIT: edit}}}}});
        for set in ALL {
            self.api.request(
                "PATCH",
                &format!("{DAEMON_SETS}/{}", set.name),
                "application/merge-patch+json",
                &patch,
            );
        }
        self.until("the middle of a rollout", |system| {
            system
                .witness
                .with(|seen| ALL.iter().all(|set| set.progress(seen, &edit).0 >= 4))
        });
        let is_amid = self.witness.with(|seen| {
            let mut all = ALL.iter().map(|set| set.progress(seen, &edit));
            all.any(|(there, nodes)| there < nodes)
        });
        self.premises.saw_so_many("a rollout was under way", usize::from(is_amid));
    }
}
