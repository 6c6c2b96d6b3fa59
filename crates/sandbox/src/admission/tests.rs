//! What judging costs, as far as no budget of a policy pays for it.

use std::cell::Cell;

use serde_json::json;

use super::*;

thread_local! {
    /// How many values were made of requests.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// Counts a value that is made of a request.
pub fn count_made() {
    MADE.set(MADE.get() + 1);
}

/// A world of one Namespace, which counts how often it is read, and one set of parameters.
struct Counting {
    read: Cell<usize>,
    params: Value,
}

impl World for Counting {
    fn scope(&self, _kind: &ParamKind) -> Option<bool> {
        Some(true)
    }

    fn object(&self, _kind: &ParamKind, _namespace: &str, _name: &str) -> Option<Value> {
        Some(self.params.clone())
    }

    fn objects(&self, _kind: &ParamKind, _namespace: &str, _selector: &Selector) -> Vec<Value> {
        Vec::new()
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
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {}, "objectSelector": {}},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": expression}],
    }});
    let binding = json!({"metadata": {"name": "b"}, "spec": {
        "policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "a", "parameterNotFoundAction": "Deny"},
    }});
    let policies = Policies {
        list: vec![Bound {
            policy: Arc::new(Policy::read(&policy, &mut Vec::new())),
            bindings: vec![Binding::of(&binding); bindings],
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
    judge(&policies, &attributes, world).denial
}

#[test]
fn what_all_bindings_see_is_made_once() {
    let world = Counting {
        read: Cell::default(),
        params: json!({}),
    };
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
        read: Cell::default(),
        params: large.clone(),
    };
    assert_eq!(judged("object.list.size() > 0", 1, large, &world), None);
    let denial = judged("params.list.size() > 0", 1, json!({}), &world).expect("it is refused");
    assert!(
        denial.message.ends_with("operation cancelled: actual cost limit exceeded"),
        "{denial:?}"
    );
}
