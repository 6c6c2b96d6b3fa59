//! Which requests a policy is about.

use serde_json::{Value, json};

use super::server::{MERGE, Server};
use super::{BINDINGS, MAPS, POLICIES, binding, create, map, policy};

/// What a policy's constraints are, and whether creating the ConfigMap `cm` in `default` is judged by it.
fn constraints() -> Vec<(Value, bool)> {
    let rule = |more: Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        super::merge(&mut rule, more);
        rule
    };
    let one = |more: Value| json!({"resourceRules": [rule(more)]});
    let with = |more: Value| {
        let mut all = one(json!({}));
        super::merge(&mut all, more);
        all
    };
    let selector = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let home = "kubernetes.io/metadata.name";
    vec![
        (one(json!({})), true),
        (one(json!({"operations": ["UPDATE", "DELETE"]})), false),
        (one(json!({"operations": ["*"]})), true),
        (one(json!({"apiGroups": ["apps"]})), false),
        (
            one(json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]})),
            true,
        ),
        (one(json!({"resources": ["*/*"]})), true),
        (one(json!({"resources": ["configmaps/status"]})), false),
        (one(json!({"resources": ["configmaps/*"]})), true),
        (one(json!({"resources": ["*/status"]})), false),
        (one(json!({"apiVersions": ["v2"]})), false),
        (one(json!({"scope": "Namespaced"})), true),
        (one(json!({"scope": "Cluster"})), false),
        (one(json!({"resourceNames": ["cm"]})), true),
        (one(json!({"resourceNames": ["other"]})), false),
        (with(json!({"excludeResourceRules": [rule(json!({}))]})), false),
        (
            with(json!({"excludeResourceRules": [rule(json!({"resourceNames": ["other"]}))]})),
            true,
        ),
        (with(json!({"namespaceSelector": selector(home, "default")})), true),
        (with(json!({"namespaceSelector": selector(home, "other")})), false),
        (with(json!({"objectSelector": selector("x", "y")})), true),
        (with(json!({"objectSelector": selector("x", "z")})), false),
        (
            with(json!({"objectSelector": {"matchExpressions": [{"key": "q", "operator": "DoesNotExist"}]}})),
            true,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn constraints_say_what_is_judged() {
    let refuse = json!([{"expression": "false"}]);
    for (constraints, judged) in constraints() {
        // As constraints of the policy, and of its binding.
        for of_binding in [false, true] {
            let server = Server::new();
            let (of_policy, resources) = if of_binding {
                (super::everything(), constraints.clone())
            } else {
                (constraints.clone(), Value::Null)
            };
            create(
                &server,
                POLICIES,
                policy("p", json!({"matchConstraints": of_policy, "validations": refuse})),
            )
            .await;
            create(&server, BINDINGS, binding("p", json!({"matchResources": resources}))).await;
            let (status, answer) = server.post(MAPS, &map("cm", json!({}))).await;
            assert_eq!(status, if judged { 422 } else { 201 }, "{constraints}: {answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_resource_in_another_version_is_meant_unless_exactly_one_is() {
    for (policy_kind, status, told) in [("Equivalent", 422, "Event core: note"), ("Exact", 201, "")] {
        let server = Server::new();
        let constraints = json!({
            "matchPolicy": policy_kind,
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]},
            ],
        });
        let message = "request.kind.kind + ' ' + (request.kind.group == '' ? 'core' : 'other') + ': ' + object.message";
        let validations = json!([{"expression": "request.requestKind.group == ''", "messageExpression": message}]);
        create(
            &server,
            POLICIES,
            policy("p", json!({"matchConstraints": constraints, "validations": validations})),
        )
        .await;
        create(&server, BINDINGS, binding("p", json!({}))).await;
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": "2026-11-21T01:00:00.000000Z",
            "reportingController": "example.org/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal", "note": "note",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        });
        let (given, answer) = server.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(
            (given, message.rsplit("denied request: ").next()),
            (status, Some(told)),
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn labels_before_or_after_a_change_will_do() {
    let server = Server::new();
    create(&server, MAPS, map("cm", json!({}))).await;
    let mut constraints = super::everything();
    constraints["objectSelector"] = json!({"matchLabels": {"x": "y"}});
    create(
        &server,
        POLICIES,
        policy(
            "p",
            json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]}),
        ),
    )
    .await;
    create(&server, BINDINGS, binding("p", json!({}))).await;
    let (status, _) = server
        .patch(&format!("{MAPS}/cm"), MERGE, json!({"metadata": {"labels": null}}))
        .await;
    assert_eq!(status, 422);
}
