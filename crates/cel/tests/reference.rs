//! Holds the language to what kube-apiserver 1.36 answered: types and errors of compilation, values and errors of evaluation.

use bailiff_cel::{Check, CompileError, Decision, Env, EvalError, Host, Meter, Program, Type, Value};
use serde_json::{Value as Json, json};

/// The names that policies may use, as far as the recorded expressions use them.
fn env() -> Env {
    let mut env = Env::default();
    let plain = Type::plain;
    env.declare("object", Type::Dyn);
    env.declare("oldObject", Type::Dyn);
    env.declare("authorizer", plain("kubernetes.authorization.Authorizer"));
    env.declare("authorizer.requestResource", plain("kubernetes.authorization.ResourceCheck"));
    for (name, object) in [("request", "Request"), ("namespaceObject", "Namespace")] {
        env.declare(name, Type::Object(object.into()));
    }
    let strings = || Type::list(plain("string"));
    let user = [
        ("username", plain("string")),
        ("uid", plain("string")),
        ("groups", strings()),
        ("extra", Type::map(plain("string"), strings())),
    ];
    env.declare_object("User", &user);
    let request = [
        ("userInfo", Type::Object("User".into())),
        ("kind", Type::map(plain("string"), plain("string"))),
        ("resource", Type::map(plain("string"), plain("string"))),
        ("subResource", plain("string")),
        ("name", plain("string")),
        ("namespace", plain("string")),
        ("operation", plain("string")),
        ("dryRun", plain("bool")),
        ("options", Type::Dyn),
    ];
    env.declare_object("Request", &request);
    let labels = Type::map(plain("string"), plain("string"));
    env.declare_object(
        "Metadata",
        &[("name", plain("string")), ("UID", plain("string")), ("labels", labels)],
    );
    env.declare_object(
        "Namespace",
        &[("metadata", Type::Object("Metadata".into())), ("spec", Type::Dyn)],
    );
    env
}

/// What the recorded expressions were evaluated on.
struct World(Json);

impl World {
    fn new() -> Self {
        let name = "t";
        Self(json!({
            "object": {
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": name, "namespace": "default", "uid": "0b2f", "creationTimestamp": "2026-01-02T03:04:05Z",
                    "managedFields": [{"manager": "m"}],
                },
                "data": {"a": "abc", "zero": "0", "re": "[", "one": "1", "neg": "-1"},
            },
            "oldObject": null,
            "request": {
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "name": name, "namespace": "default", "operation": "CREATE", "dryRun": true,
                "userInfo": {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]},
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
            },
            "namespaceObject": {
                "metadata": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}}, "spec": {},
            },
        }))
    }
}

impl Host for World {
    fn variable(&self, name: &str, _meter: &mut Meter) -> Result<Value, EvalError> {
        let authority = |authority| Ok(Value::Authority(std::sync::Arc::new(authority)));
        match name {
            "authorizer" => authority(bailiff_cel::Authority::Authorizer(Check::default())),
            "authorizer.requestResource" => authority(bailiff_cel::Authority::Resource(Check::default())),
            name => Value::from_json(&self.0[name]),
        }
    }

    fn decide(&self, check: &Check) -> Decision {
        Decision {
            allowed: check.account.is_none(),
            reason: String::new(),
        }
    }
}

/// The expressions of a file, each with the lines below it.
fn cases(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut cases: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("> "), cases.last_mut()) {
            (Some(expression), _) => cases.push((expression, Vec::new())),
            (None, Some((_, expected))) => expected.push(line),
            (None, None) => {}
        }
    }
    cases
}

/// The type, or what is wrong and where.
fn compiled(expression: &str) -> Vec<String> {
    match Program::compile(expression, &env()) {
        Ok(program) => vec![program.result().formal()],
        Err(CompileError::Issues(report)) => {
            let report = report.to_string();
            let errors = report.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:"));
            errors.map(|error| format!("! {error}")).collect()
        }
        Err(error @ CompileError::Constant(_)) => vec![format!("! {error}")],
    }
}

fn evaluated(expression: &str) -> String {
    let program = match Program::compile(expression, &env()) {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    match program.evaluate(&World::new(), &mut Meter::new(1_000_000)) {
        Ok(Value::Bool(value)) => value.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn expressions_are_accepted_and_refused_as_recorded() {
    let different: Vec<String> = cases(include_str!("compile.txt"))
        .into_iter()
        .filter(|(expression, expected)| compiled(expression) != *expected)
        .map(|(expression, expected)| format!("{expression}\n  want {expected:?}\n  have {:?}", compiled(expression)))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn expressions_evaluate_as_recorded() {
    let different: Vec<String> = cases(include_str!("evaluate.txt"))
        .into_iter()
        .filter(|(expression, expected)| evaluated(expression) != expected.concat())
        .map(|(expression, expected)| format!("{expression}\n  want {}\n  have {}", expected.concat(), evaluated(expression)))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn a_report_shows_where_it_is_wrong() {
    let error = Program::compile("true &&\n  foo == 1", &env()).expect_err("no such name");
    let expected = "compilation failed: ERROR: <input>:2:3: undeclared reference to 'foo' (in container '')\n |   foo == 1\n | ..^";
    assert_eq!(error.to_string(), expected);
}
