//! What judging costs, as far as no budget of a policy pays for it.

use std::cell::Cell;

use serde_json::json;

use super::*;
use crate::Change;

thread_local! {
    /// How many values were made of requests.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// Counts a value that is made of a request.
pub fn count_made() {
    MADE.set(MADE.get() + 1);
}

/// A world of one Namespace and one set of parameters, which counts how often each is read; in a list it is there many times.
#[derive(Default)]
struct Counting {
    read: Cell<usize>,
    params: Value,
    params_read: Cell<usize>,
    listed: usize,
}

impl Counting {
    fn stored(&self) -> Arc<Object> {
        Arc::new(Object::encode(self.params.clone(), 1, Change::Added, |_| Vec::new()))
    }
}

impl World for Counting {
    fn scope(&self, _kind: &ParamKind) -> Option<bool> {
        Some(true)
    }

    fn object(&self, _kind: &ParamKind, _namespace: &str, _name: &str) -> Option<Arc<Object>> {
        Some(self.stored())
    }

    fn objects(&self, _kind: &ParamKind, _namespace: &str) -> Vec<Arc<Object>> {
        vec![self.stored(); self.listed]
    }

    fn read(&self, _kind: &ParamKind, object: &Object) -> Value {
        self.params_read.set(self.params_read.get() + 1);
        object.value()
    }

    fn namespace(&self, name: &str) -> Option<Value> {
        self.read.set(self.read.get() + 1);
        Some(json!({"metadata": {"name": name}}))
    }

    fn decide(&self, _check: &Check) -> Decision {
        Decision::default()
    }
}

/// What a policy with this expression, bound so many times, says about the creation of an object.
fn judged(expression: &str, bindings: usize, object: Value, world: &Counting) -> Option<Denial> {
    judged_by(PER_REQUEST, expression, vec![json!({"name": "a"}); bindings], object, world)
}

/// The same within a budget, where each binding means these parameters.
fn judged_by(budget: u64, expression: &str, params: Vec<Value>, object: Value, world: &Counting) -> Option<Denial> {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {}, "objectSelector": {}},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": expression}],
    }});
    let binding = |params: &Value| {
        let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        binding["spec"]["paramRef"] = params.clone();
        Binding::of(&binding)
    };
    let policies = Policies {
        list: vec![Bound {
            policy: Arc::new(Policy::read(&policy, &mut Vec::new())),
            bindings: params.iter().map(binding).collect(),
            revision: 0,
        }],
    };
    let form = Form {
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        object,
        ..Form::default()
    };
    let attributes = Attributes {
        operation: "CREATE",
        forms: vec![form],
        subresource: String::new(),
        namespace: "default".to_owned(),
        name: "m".to_owned(),
        user: &User::admin(),
        dry_run: false,
        options: Value::Null,
    };
    judge_within(budget, &policies, &attributes, world).denial
}

#[test]
fn what_all_bindings_see_is_made_once() {
    let world = Counting::default();
    let expression =
        "namespaceObject.metadata.name == 'default' && request.operation == 'CREATE' && object.a == 1 && oldObject == null";
    assert_eq!(judged(expression, 100, json!({"a": 1}), &world), None);
    assert_eq!((world.read.get(), MADE.get()), (1, 4));
}

/// The object is there once, but parameters are as many as bindings and what they select.
#[test]
fn parameters_cost_what_they_are_large() {
    let large = json!({"list": vec![1; 1_000_000]});
    let world = Counting {
        params: large.clone(),
        ..Counting::default()
    };
    assert_eq!(judged("object.list.size() > 0", 1, large, &world), None);
    let denial = judged("params.list.size() > 0", 1, json!({}), &world).expect("it is refused");
    assert!(
        denial.message.ends_with("operation cancelled: actual cost limit exceeded"),
        "{denial:?}"
    );
}

/// Each binding may mean all objects there are; only what an expression looks at is parsed, once for each.
#[test]
fn parameters_are_read_when_they_are_looked_at() {
    let world = Counting {
        params: json!({"a": 1, "b": 2}),
        listed: 7,
        ..Counting::default()
    };
    for (expression, read) in [
        ("true", 0),
        ("object.a == 1 || params.a == 1", 0),
        ("params.a == 1 && params.b == 2", 14),
    ] {
        world.params_read.set(0);
        assert_eq!(
            judged_by(
                PER_REQUEST,
                expression,
                vec![json!({"selector": {}}); 2],
                json!({"a": 1}),
                &world
            ),
            None
        );
        assert_eq!(world.params_read.get(), read, "{expression}");
    }
}

/// Bindings are as many as somebody makes, and so is what they select: all of it together costs no more than a request may.
#[test]
fn a_request_costs_no_more_than_its_budget() {
    let many = || vec![json!({"selector": {"matchLabels": {"no": "such"}}}); 1_000];
    let all = || vec![json!({"selector": {}}); 1_000];
    for (what, params, expression) in [
        ("looking for parameters", many(), "true"),
        ("evaluating", all(), "true"),
        ("reading parameters", all(), "params.a == 1"),
    ] {
        let world = Counting {
            params: json!({"a": 1}),
            listed: 1_000,
            ..Counting::default()
        };
        let budget = 100_000;
        let denial = judged_by(budget, expression, params, json!({}), &world).expect(what);
        assert!(denial.message.contains("running out of cost budget"), "{what}: {denial:?}");
        assert!(
            world.params_read.get() < 1_000,
            "{what}: {} sets were read",
            world.params_read.get()
        );
    }
}
