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
    let bindings = vec![json!({"paramRef": {"name": "a"}}); bindings];
    judged_by(PER_JUDGEMENT, &validates(expression), &bindings, object, world).denial
}

fn validates(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}

/// The same within a budget, by a policy and bindings that say this.
fn judged_by(budget: u64, says: &Value, bindings: &[Value], object: Value, world: &Counting) -> Verdict {
    let with = |mut spec: Value, says: &Value| {
        for (field, value) in says.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {}, "objectSelector": {}},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    });
    let policy = json!({"metadata": {"name": "p"}, "spec": with(spec, says)});
    let binding = |says: &Value| {
        let spec = json!({"policyName": "p", "validationActions": ["Deny"]});
        Binding::of(&json!({"metadata": {"name": "b"}, "spec": with(spec, says)}))
    };
    let policies = Policies {
        list: vec![Bound {
            policy: Arc::new(Policy::read(&policy, &mut Vec::new())),
            bindings: bindings.iter().map(binding).collect(),
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
    judge_within(budget, &policies, &attributes, world)
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
        let bindings = vec![json!({"paramRef": {"selector": {}}}); 2];
        let verdict = judged_by(PER_JUDGEMENT, &validates(expression), &bindings, json!({"a": 1}), &world);
        assert_eq!(verdict.denial, None, "{expression}");
        assert_eq!(world.params_read.get(), read, "{expression}");
    }
}

/// Bindings are as many as somebody makes, and so is what they select: all of it together costs no more than a judgement may, and nothing
/// is admitted that was not looked at.
#[test]
fn a_judgement_costs_no_more_than_its_budget() {
    let selecting = |selector: Value| json!({"paramRef": {"selector": selector}});
    let many = || vec![selecting(json!({"matchLabels": {"no": "such"}})); 1_000];
    let all = || vec![selecting(json!({})); 1_000];
    let mut elsewhere = vec![json!({"matchResources": {"objectSelector": {"matchLabels": {"no": "such"}}}}); 10_000];
    elsewhere.push(json!({}));
    let list = vec![1; 300];
    // One evaluation takes a part of the budget, and all that are bound by the first binding more than all of it.
    let annotation = json!({"key": "a", "valueExpression": format!("{list:?}.all(x, x == 1) ? 'a' : 'b'")});
    let annotated = json!({"validations": [{"expression": "true"}], "auditAnnotations": vec![annotation; 20]});
    for (what, bindings, says, read) in [
        ("looking at bindings", elsewhere, validates("true"), 0..=0),
        ("looking for parameters", many(), validates("true"), 0..=0),
        ("evaluating", all(), validates("true"), 0..=0),
        ("reading parameters", all(), validates("params.a == 1"), 1..=999),
        ("annotating", vec![selecting(json!({}))], annotated, 0..=0),
    ] {
        let world = Counting {
            params: json!({"a": 1}),
            listed: 1_000,
            ..Counting::default()
        };
        let denial = judged_by(100_000, &says, &bindings, json!({}), &world).denial.expect(what);
        assert!(denial.message.contains("running out of cost budget"), "{what}: {denial:?}");
        let found = world.params_read.get();
        assert!(read.contains(&found), "{what}: {found} sets were read");
    }
}

#[test]
fn a_binding_does_not_warn_of_the_same_again() {
    let world = Counting {
        listed: 3,
        ..Counting::default()
    };
    let warns = json!({"paramRef": {"selector": {}}, "validationActions": ["Warn"]});
    let verdict = judged_by(PER_JUDGEMENT, &validates("false"), &[warns], json!({}), &world);
    assert_eq!((verdict.warnings.len(), verdict.denial), (1, None));
}
