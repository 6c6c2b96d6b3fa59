//! What is answered: reasons, messages, warnings, and when a policy holds.

use serde_json::{Value, json};

use super::server::{MERGE, Server};
use super::{BINDINGS, MAPS, POLICIES, binding, bound, create, map, policy};

#[tokio::test(start_paused = true)]
async fn reasons_messages_and_actions_decide_the_answer() {
    for (spec, actions, status, told, warned) in [
        (
            json!({"validations": [{"expression": "false"}]}),
            json!(["Deny"]),
            422,
            "failed expression: false",
            false,
        ),
        (
            json!({"validations": [{"expression": " false ", "message": " no "}]}),
            json!(["Deny", "Audit"]),
            422,
            "no",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "Forbidden"}]}),
            json!(["Deny"]),
            403,
            "failed expression: false",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "Unauthorized"}]}),
            json!(["Deny"]),
            401,
            "failed expression: false",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "reason": "RequestEntityTooLarge"}]}),
            json!(["Deny"]),
            413,
            "failed expression: false",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "'a' + object.metadata.name"}]}),
            json!(["Deny"]),
            422,
            "acm",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "string(object.none)", "message": "no"}]}),
            json!(["Deny"]),
            422,
            "no",
            false,
        ),
        (
            json!({"validations": [{"expression": "false", "messageExpression": "'  '"}]}),
            json!(["Deny"]),
            422,
            "failed expression: false",
            false,
        ),
        (
            json!({"validations": [{"expression": "true"}, {"expression": "false", "message": "second"}]}),
            json!(["Deny"]),
            422,
            "second",
            false,
        ),
        (
            json!({"validations": [{"expression": "false"}]}),
            json!(["Warn"]),
            201,
            "",
            true,
        ),
        (
            json!({"validations": [{"expression": "false"}]}),
            json!(["Audit"]),
            201,
            "",
            false,
        ),
        (
            json!({"validations": [{"expression": "object.none == 1"}]}),
            json!(["Deny"]),
            422,
            "expression 'object.none == 1' resulted in error: no such key: none",
            false,
        ),
        (
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.none == 1"}]}),
            json!(["Deny"]),
            201,
            "",
            false,
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "object.none"}]}),
            json!(["Deny"]),
            0,
            "",
            false,
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "string(object.none)"}]}),
            json!(["Deny"]),
            422,
            "expression 'string(object.none)' resulted in error: no such key: none",
            false,
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": "object.none == 1"}], "validations": [{"expression": "true"}]}),
            json!(["Deny"]),
            422,
            "expression 'object.none == 1' resulted in error: no such key: none",
            false,
        ),
        (
            json!({
                "matchConditions": [{"name": "c", "expression": "object.none == 1"}, {"name": "d", "expression": "false"}],
                "validations": [{"expression": "false"}],
            }),
            json!(["Deny"]),
            201,
            "",
            false,
        ),
        (
            json!({
                "variables": [{"name": "a", "expression": "object.none"}, {"name": "b", "expression": "variables.a + 1"}],
                "validations": [{"expression": "variables.b == 2"}],
            }),
            json!(["Deny"]),
            422,
            "expression 'variables.b == 2' resulted in error: composited variable \"b\" fails to evaluate: composited variable \"a\" \
             fails to evaluate: no such key: none",
            false,
        ),
    ] {
        let server = Server::new();
        let (created, _) = server.post(POLICIES, &policy("p", spec.clone())).await;
        if status == 0 {
            assert_eq!(created, 422, "{spec}");
            continue;
        }
        assert_eq!(created, 201, "{spec}");
        create(&server, BINDINGS, binding("p", json!({"validationActions": actions}))).await;
        let (given, warning, answer) = server.send("POST", MAPS, "application/json", &map("cm", json!({}))).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(
            (given, message.rsplit("denied request: ").next()),
            (status, Some(told)),
            "{spec}"
        );
        let expected = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': failed expression: false";
        assert_eq!(warning.is_some_and(|warning| warning.contains(expected)), warned, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_holds_at_once() {
    let server = Server::new();
    bound(&server, json!({"validations": [{"expression": "false"}]})).await;
    let send = || async { server.post(&format!("{MAPS}?dryRun=All"), &map("cm", json!({}))).await.0 };
    assert_eq!(send().await, 422);
    let spec = json!({"spec": {"validations": [{"expression": "object.kind == 'ConfigMap'"}]}});
    let (status, answer) = server.patch(&format!("{POLICIES}/p"), MERGE, spec).await;
    assert_eq!((status, &answer["metadata"]["generation"]), (200, &json!(2)), "{answer}");
    assert_eq!(send().await, 201);
    let back = json!({"spec": {"validations": [{"expression": "false"}]}});
    server.patch(&format!("{POLICIES}/p"), MERGE, back).await;
    assert_eq!(send().await, 422);
    server
        .send("DELETE", &format!("{BINDINGS}/p"), "application/json", &Value::Null)
        .await;
    assert_eq!(send().await, 201);
}

#[tokio::test(start_paused = true)]
async fn a_costly_policy_refuses_rather_than_hangs() {
    let server = Server::new();
    let loops = "lists.range(900).all(a, lists.range(900).all(b, lists.range(900).all(c, a + b + c >= 0)))";
    bound(&server, json!({"validations": [{"expression": loops}]})).await;
    let (status, answer) = server.post(MAPS, &map("cm", json!({}))).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        status == 422 && message.ends_with("operation cancelled: actual cost limit exceeded"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn variables_that_use_each_other_are_not_followed_without_end() {
    let server = Server::new();
    let mut variables = vec![json!({"name": "v0", "expression": "object.kind"})];
    for nth in 1..200 {
        let expression = format!("{}variables.v{}{}", "dyn(".repeat(20), nth - 1, ")".repeat(20));
        variables.push(json!({"name": format!("v{nth}"), "expression": expression}));
    }
    let validations = json!([{"expression": "variables.v199 == 'ConfigMap'"}]);
    bound(&server, json!({"variables": variables, "validations": validations})).await;
    let (status, answer) = server.post(MAPS, &map("cm", json!({}))).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        status == 422 && message.ends_with("operation cancelled: actual cost limit exceeded"),
        "{answer}"
    );
}
