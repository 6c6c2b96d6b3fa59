//! What is refused when a policy or a binding is created.

use bailiff_sandbox::admission::policy::Policy;
use serde_json::{Value, json};

use super::server::{Server, causes};
use super::{BINDINGS, POLICIES, binding, everything, policy};

#[tokio::test(start_paused = true)]
async fn bad_policies_are_refused_for_the_field_that_is_wrong() {
    let server = Server::new();
    let ok = json!([{"expression": "true"}]);
    let rule = |more: Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        super::merge(&mut rule, more);
        json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]})
    };
    let rules = "spec.matchConstraints.resourceRules[0]";
    for (spec, expected) in [
        (json!({}), vec!["Required spec.auditAnnotations", "Required spec.validations"]),
        (
            json!({"validations": ok, "matchConstraints": null}),
            vec!["Required spec.matchConstraints"],
        ),
        (
            json!({"validations": ok, "matchConstraints": {}}),
            vec!["Required spec.matchConstraints.resourceRules"],
        ),
        (
            json!({"validations": ok, "failurePolicy": "X"}),
            vec!["NotSupported spec.failurePolicy"],
        ),
        (
            json!({"validations": [{"expression": " "}]}),
            vec!["Required spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "1"}]}),
            vec!["Invalid spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "int('x') == 1"}]}),
            vec!["InternalError spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            vec!["Invalid spec.validations[0].messageExpression"],
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}]}),
            vec!["Invalid spec.validations[0].messageExpression"],
        ),
        (
            json!({"validations": [{"expression": "true", "message": "a\nb"}]}),
            vec!["Invalid spec.validations[0].message"],
        ),
        (
            json!({"validations": [{"expression": "true", "reason": "Gone"}]}),
            vec!["NotSupported spec.validations[0].reason"],
        ),
        (
            json!({"validations": [{"expression": "params.x == 1"}]}),
            vec!["Invalid spec.validations[0].expression"],
        ),
        (
            json!({"validations": [{"expression": "variables.x == 1"}]}),
            vec!["Invalid spec.validations[0].expression"],
        ),
        (
            json!({"validations": ok, "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]}),
            vec!["Invalid spec.variables[0].expression"],
        ),
        (
            json!({"validations": ok, "variables": [{"name": "for", "expression": "1"}]}),
            vec!["Invalid spec.variables[0].name"],
        ),
        (
            json!({"validations": ok, "matchConditions": [{"name": "a b", "expression": "object.x"}]}),
            vec![
                "Invalid spec.matchConditions[0].expression",
                "Invalid spec.matchConditions[0].name",
            ],
        ),
        (
            json!({"auditAnnotations": [{"key": "a", "valueExpression": "1"}, {"key": "a", "valueExpression": "'x'"}]}),
            vec![
                "Duplicate spec.auditAnnotations[1].key",
                "Invalid spec.auditAnnotations[0].valueExpression",
            ],
        ),
        (
            json!({"validations": ok, "paramKind": {"kind": "ConfigMap"}}),
            vec!["Required spec.paramKind.apiVersion"],
        ),
        (
            rule(json!({"operations": ["X"]})),
            vec![&format!("NotSupported {rules}.operations[0]")],
        ),
        (
            rule(json!({"operations": ["*", "CREATE"]})),
            vec![&format!("Invalid {rules}.operations")],
        ),
        (rule(json!({"operations": []})), vec![&format!("Required {rules}.operations")]),
        (
            rule(json!({"resources": ["*/*", "pods"]})),
            vec![&format!("Invalid {rules}.resources")],
        ),
        (
            rule(json!({"resources": ["pods/*", "pods/status"]})),
            vec![&format!("Invalid {rules}.resources[1]")],
        ),
        (rule(json!({"scope": "X"})), vec![&format!("NotSupported {rules}.scope")]),
        (
            rule(json!({"resourceNames": ["a", "a"]})),
            vec![&format!("Duplicate {rules}.resourceNames[1]")],
        ),
    ] {
        let (status, answer) = server.post(POLICIES, &policy("p", spec.clone())).await;
        assert_eq!(
            (status, causes(&answer)),
            (422, expected.into_iter().map(str::to_owned).collect()),
            "{spec}: {answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_expression_is_shown_with_the_place() {
    let server = Server::new();
    let spec = json!({"validations": [{"expression": "object.spec.x > 1 && foo.bar"}]});
    let (_, answer) = server.post(POLICIES, &policy("x", spec)).await;
    let expected = "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"x\" is invalid: spec.validations[0].expression: Invalid \
                    value: \"object.spec.x > 1 && foo.bar\": compilation failed: ERROR: <input>:1:22: undeclared reference to 'foo' \
                    (in container '')\n | object.spec.x > 1 && foo.bar\n | .....................^";
    assert_eq!(answer["message"], expected);
}

#[tokio::test(start_paused = true)]
async fn bad_bindings_are_refused_for_the_field_that_is_wrong() {
    let server = Server::new();
    let reference = |reference: Value| json!({"paramRef": reference});
    for (spec, expected) in [
        (json!({"policyName": ""}), vec!["Required spec.policyName"]),
        (json!({"policyName": "A_"}), vec!["Invalid spec.policyName"]),
        (json!({"validationActions": []}), vec!["Required spec.validationActions"]),
        (
            json!({"validationActions": ["Deny", "Warn"]}),
            vec!["Invalid spec.validationActions"],
        ),
        (
            json!({"validationActions": ["X"]}),
            vec!["NotSupported spec.validationActions[0]"],
        ),
        (
            reference(json!({"name": "a"})),
            vec!["Required spec.paramRef.parameterNotFoundAction"],
        ),
        (
            reference(json!({"parameterNotFoundAction": "Deny"})),
            vec!["Required spec.paramRef"],
        ),
        (
            reference(json!({"name": "a", "selector": {}, "parameterNotFoundAction": "X"})),
            vec![
                "Forbidden spec.paramRef.name",
                "Forbidden spec.paramRef.selector",
                "NotSupported spec.paramRef.parameterNotFoundAction",
            ],
        ),
        (
            json!({"matchResources": {"matchPolicy": "X"}}),
            vec!["NotSupported spec.matchResources.matchPolicy"],
        ),
    ] {
        let (status, answer) = server.post(BINDINGS, &binding("p", spec.clone())).await;
        assert_eq!(
            (status, causes(&answer)),
            (422, expected.into_iter().map(str::to_owned).collect()),
            "{spec}: {answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn defaults_are_filled_in() {
    let server = Server::new();
    let mut given = policy(
        "p",
        json!({"validations": [{"expression": "true"}], "matchConstraints": everything()}),
    );
    given["status"] = json!({"observedGeneration": 7});
    let (status, answer) = server.post(POLICIES, &given).await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(answer["spec"]["failurePolicy"], "Fail");
    let constraints = &answer["spec"]["matchConstraints"];
    assert_eq!(
        (
            &constraints["matchPolicy"],
            &constraints["namespaceSelector"],
            &constraints["objectSelector"]
        ),
        (&json!("Equivalent"), &json!({}), &json!({}))
    );
    assert_eq!(constraints["resourceRules"][0]["scope"], "*");
    assert_eq!(
        (&answer["metadata"]["generation"], answer["status"].get("observedGeneration")),
        (&json!(1), None)
    );
}

/// With all levels of their types compared at each use, these would take minutes, and others wait.
#[tokio::test(start_paused = true)]
async fn variables_that_nest_those_before_them_cost_what_they_are_long() {
    let nested = |variables: usize, uses: usize| {
        let list = |nth: usize| format!("[{}]", vec![format!("variables.v{nth}"); uses].join(","));
        let first = json!({"name": "v0", "expression": "object"});
        let others = (1..variables).map(|nth| json!({"name": format!("v{nth}"), "expression": list(nth - 1)}));
        let variables: Vec<Value> = std::iter::once(first).chain(others).collect();
        let spec = json!({"variables": variables, "validations": [{"expression": "variables.v3[0][0].size() > 0"}]});
        policy("nested", spec)
    };
    // What is compared is the levels that a type has, which a few variables show.
    let read = Policy::read(&nested(100, 1), &mut Vec::new());
    let programs = read
        .variables
        .iter()
        .filter_map(|(_, expression)| expression.program.as_ref().ok());
    let levels: Vec<usize> = programs
        .map(|program| program.result().formal().matches("list(").count())
        .collect();
    assert_eq!((levels.len(), levels.iter().max()), (100, Some(&16)), "{levels:?}");
    let (code, answer) = Server::new().post(POLICIES, &nested(1000, 100)).await;
    assert_eq!(code, 201, "{answer}");
}
