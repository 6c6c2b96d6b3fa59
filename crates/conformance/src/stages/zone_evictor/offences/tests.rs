use bailiff_model::Wall;
use bailiff_runtime::Clock;
use bailiff_sandbox::Verb;
use serde_json::json;

use super::*;
use crate::stages::town::Town;

const NODE: &str = "node-a-000";

impl Town {
    /// Where the only pod is.
    fn pod(&self) -> String {
        let (_, pods) = self.sandbox.list("pods");
        format!("/api/v1/namespaces/default/pods/{}", pods[0].name())
    }

    fn mark(&self) {
        let mark =
            json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}});
        self.request(Verb::StrategicMergePatch, &format!("{}/status", self.pod()), &mark);
    }

    fn delete(&self, grace: u64) {
        self.request(Verb::Delete, &self.pod(), &json!({"gracePeriodSeconds": grace}));
    }

    /// Over the Eviction API, which marks it.
    fn evict(&self, grace: u64) {
        let path = self.pod();
        let name = path.rsplit('/').next();
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
            "deleteOptions": {"gracePeriodSeconds": grace},
        });
        self.request(Verb::Create, &format!("{path}/eviction"), &eviction);
    }

    /// The program gives the node these taints.
    fn taint(&self, taints: &Value) {
        let path = format!("/api/v1/nodes/{NODE}");
        self.request(Verb::MergePatch, &path, &json!({"spec": {"taints": taints}}));
    }

    fn seen(&mut self) -> &Timeline {
        self.timeline.catch_up();
        &self.timeline
    }
}

#[test]
fn a_mark_comes_before_the_deletion() {
    type Acts = fn(&Town);
    let cases: [(&str, Acts, bool); 7] = [
        (
            "as it has to be",
            |town| {
                town.mark();
                town.delete(30);
            },
            true,
        ),
        (
            "marked, and gone at once",
            |town| {
                town.mark();
                town.delete(0);
            },
            true,
        ),
        ("by the Eviction API, grace 30", |town| town.evict(30), true),
        ("by the Eviction API, grace 0", |town| town.evict(0), true),
        ("not marked", |town| town.delete(30), false),
        ("not marked, and gone before anybody looked", |town| town.delete(0), false),
        (
            "marked while it goes",
            |town| {
                town.delete(30);
                town.mark();
            },
            false,
        ),
    ];
    for (name, act, is_kept) in cases {
        let mut town = Town::new(Clock::virtual_from(Wall::UNIX_EPOCH));
        act(&town);
        assert_eq!(unmarked(town.seen()).is_none(), is_kept, "{name}");
    }
}

#[test]
fn a_taint_that_was_taken_off_and_set_again_is_found() {
    let taint = |added: &str| json!([{"key": UNREACHABLE, "effect": NO_EXECUTE, "timeAdded": added}]);
    let (none, early, late) = (json!([]), taint("1970-01-01T00:00:00Z"), taint("1970-01-01T00:00:09Z"));
    let cases = [
        (vec![], None),
        (vec![&early], None),
        (vec![&none], Some("node node-a-000 has lost its taint")),
        (vec![&none, &early], Some("node node-a-000 has lost its taint")),
        (vec![&late], Some("the taint of node node-a-000 was made anew")),
    ];
    for (writes, wanted) in cases {
        let mut town = Town::new(Clock::virtual_from(Wall::UNIX_EPOCH));
        town.taint(&early);
        let place = town.seen().place();
        for taints in &writes {
            town.taint(taints);
        }
        assert_eq!(stripped(town.seen(), NODE, place).as_deref(), wanted, "{writes:?}");
    }
}
