//! The status of budgets, without an API server.

use bailiff_model::Wall;

use super::*;
use crate::facts::tests::mk_object;

fn at(seconds: u64) -> Now {
    let since = Duration::from_secs(seconds);
    Now {
        mono: Mono::from_origin(since),
        wall: Wall::UNIX_EPOCH + since,
    }
}

fn pod(budgets: &mut Budgets, name: &str, owner: &str, ready: &str) {
    let object = Arc::new(mk_object(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "labels": {"app": "a"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    })));
    let facts = PodFacts::read(&object).unwrap();
    budgets.pod_seen(&object, &facts);
}

fn budget(budgets: &mut Budgets, spec: &Value, status: &Value, now: Now) {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    let metadata = json!({"name": "b", "namespace": "ns", "uid": "b", "generation": 1});
    budgets.budget_seen(
        &Arc::new(mk_object(json!({"metadata": metadata, "spec": spec, "status": status}))),
        now,
    );
}

/// allowed/healthy/desired/expected of what is said.
fn said(effects: &[Effect]) -> String {
    let texts = effects.iter().map(|effect| {
        let Effect::Send(request) = effect else {
            return format!("{effect:?}");
        };
        let fields = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        let numbers = fields.map(|field| request.body["status"][field].to_string());
        format!(
            "{} {}",
            numbers.join("/"),
            request.body["status"]["conditions"][0]["reason"].as_str().unwrap()
        )
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn numbers_follow_from_what_is_wanted_and_what_is_healthy() {
    let cases = [
        (json!({"minAvailable": 2}), "1/3/2/4 SufficientPods"),
        (json!({"minAvailable": 3}), "0/3/3/4 InsufficientPods"),
        (json!({"minAvailable": "50%"}), "0/3/3/5 InsufficientPods"),
        (json!({"maxUnavailable": 3}), "1/3/2/5 SufficientPods"),
        (json!({"maxUnavailable": "41%"}), "1/3/2/5 SufficientPods"),
        (json!({"maxUnavailable": 9}), "3/3/0/5 SufficientPods"),
        (json!({}), "0/3/0/0 InsufficientPods"),
    ];
    for (spec, wanted) in cases {
        let mut budgets = Budgets::default();
        budgets.size_seen("ns", "set", Some(5));
        for (name, ready) in [("p1", "True"), ("p2", "True"), ("p3", "True"), ("p4", "False")] {
            pod(&mut budgets, name, "set", ready);
        }
        budget(&mut budgets, &spec, &json!({}), at(0));
        assert_eq!(said(&budgets.wake(at(0))), wanted, "{spec}");
        assert_eq!(said(&budgets.wake(at(1))), "", "once is enough");
    }
}

#[test]
fn only_what_changes_a_count_is_said() {
    let mut budgets = Budgets::default();
    pod(&mut budgets, "p1", "set", "True");
    let spec = json!({"minAvailable": 1});
    budget(&mut budgets, &spec, &json!({}), at(0));
    let effects = budgets.wake(at(0));
    let Effect::Send(request) = &effects[0] else {
        panic!("{effects:?}")
    };
    let status = request.body["status"].clone();
    budget(&mut budgets, &spec, &status, at(1));
    pod(&mut budgets, "p1", "set", "True");
    assert_eq!(budgets.wake(at(1)), [], "what is said already is not said again");
    budgets.budgets.get_mut("ns").unwrap().get_mut("b").unwrap().sent = 0;
    pod(&mut budgets, "p2", "set", "True");
    assert_eq!(said(&budgets.wake(at(2))), "1/2/1/2 SufficientPods");
    budgets.budgets.get_mut("ns").unwrap().get_mut("b").unwrap().sent = 0;
    budgets.pod_gone("ns", "p2");
    budgets.pod_gone("ns", "p1");
    assert_eq!(said(&budgets.wake(at(3))), "0/0/1/0 InsufficientPods");
}

#[test]
fn an_allowed_eviction_counts_until_its_pod_is_gone_or_two_minutes_passed() {
    let mut budgets = Budgets::default();
    for name in ["p1", "p2", "p3"] {
        pod(&mut budgets, name, "set", "True");
    }
    let status = json!({"disruptedPods": {"p1": "1970-01-01T00:00:00Z"}});
    budget(&mut budgets, &json!({"minAvailable": 1}), &status, at(0));
    assert_eq!(said(&budgets.wake(at(0))), "1/2/1/3 SufficientPods");
    assert_eq!(budgets.next_deadline(), Some(at(120).mono));
    budgets.budgets.get_mut("ns").unwrap().get_mut("b").unwrap().sent = 0;
    let effects = budgets.wake(at(120));
    assert_eq!(said(&effects), "2/3/1/3 SufficientPods");
    let Effect::Send(request) = &effects[0] else {
        panic!("{effects:?}")
    };
    assert_eq!(request.body["status"]["disruptedPods"], json!({"p1": null}));
}
