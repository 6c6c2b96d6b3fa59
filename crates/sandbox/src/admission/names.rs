//! The names that expressions of policies may use, with their types.

use bailiff_cel::{Env, Type};

/// Which names there are beside those that always are.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Whether there are parameters.
    pub params: bool,
    /// Whether it can be asked who may do what.
    pub authorizer: bool,
    /// Whether the policy has variables.
    pub variables: bool,
}

/// The type of `variables`.
pub const VARIABLES: &str = "kubernetes.variables";

const REQUEST: &str = "kubernetes.AdmissionRequest";
const USER: &str = "kubernetes.UserInfo";
const KIND: &str = "kubernetes.GroupVersionKind";
const RESOURCE: &str = "kubernetes.GroupVersionResource";
const NAMESPACE: &str = "kubernetes.Namespace";
const METADATA: &str = "kubernetes.NamespaceMetadata";
const SPEC: &str = "kubernetes.NamespaceSpec";
const STATUS: &str = "kubernetes.NamespaceStatus";
const CONDITION: &str = "kubernetes.NamespaceCondition";

/// The fields of each type of objects; a type that is no other's name is one of the language.
const OBJECTS: [(&str, &[(&str, &str)]); 9] = [
    (KIND, &[("group", "string"), ("version", "string"), ("kind", "string")]),
    (
        RESOURCE,
        &[("group", "string"), ("version", "string"), ("resource", "string")],
    ),
    (
        USER,
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list(string)"),
            ("extra", "map(string,list(string))"),
        ],
    ),
    (
        REQUEST,
        &[
            ("kind", KIND),
            ("resource", RESOURCE),
            ("subResource", "string"),
            ("requestKind", KIND),
            ("requestResource", RESOURCE),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", USER),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    ),
    (
        CONDITION,
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
    (STATUS, &[("conditions", "conditions"), ("phase", "string")]),
    (SPEC, &[("finalizers", "list(string)")]),
    (
        METADATA,
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map(string,string)"),
            ("annotations", "map(string,string)"),
            ("UID", "string"),
            ("creationTimestamp", "timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "timestamp"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list(string)"),
        ],
    ),
    (NAMESPACE, &[("metadata", METADATA), ("spec", SPEC), ("status", STATUS)]),
];

/// The names that an expression may use.
pub fn env(names: Names) -> Env {
    let mut env = Env::default();
    for (object, fields) in OBJECTS {
        for (field, of) in fields {
            env.declare_field(object, field, type_of(of));
        }
    }
    env.declare("object", Type::Dyn);
    env.declare("oldObject", Type::Dyn);
    env.declare("request", Type::Object(REQUEST.into()));
    env.declare("namespaceObject", Type::Object(NAMESPACE.into()));
    if names.params {
        env.declare("params", Type::Dyn);
    }
    if names.authorizer {
        env.declare("authorizer", Type::plain("kubernetes.authorization.Authorizer"));
        let check = Type::plain("kubernetes.authorization.ResourceCheck");
        env.declare("authorizer.requestResource", check);
    }
    if names.variables {
        env.declare_object(VARIABLES, &[]);
        env.declare("variables", Type::Object(VARIABLES.into()));
    }
    env
}

fn type_of(name: &str) -> Type {
    if name == "conditions" {
        return Type::list(Type::Object(CONDITION.into()));
    }
    if OBJECTS.iter().any(|(object, _)| *object == name) {
        return Type::Object(name.into());
    }
    Type::parse(name)
}
