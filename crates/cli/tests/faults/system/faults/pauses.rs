//! A pause, which is no fault: what it holds goes on when it is over.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::clock;
use crate::system::{SILENT_ZONE, Stage, System};

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

impl System {
    /// The silent zone is paused while who evicts in it renews its Lease some times.
    pub fn pause_zone(&mut self) {
        let now = clock::wall();
        let entry = json!({
            "zone": format!("sandbox:{SILENT_ZONE}"), "since": now, "until": now + SignedDuration::from_hours(1),
            "reason": "a look at its switch", "by": "ada",
        });
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bailiff-pauses"}, "data": {"switch": entry.to_string()},
        });
        self.api.request("POST", CONFIG_MAPS, "application/json", &map);
        self.until_renewed(Stage::ZoneEvictor, 4);
        self.api.request(
            "DELETE",
            &format!("{CONFIG_MAPS}/bailiff-pauses"),
            "application/json",
            &Value::Null,
        );
    }
}
