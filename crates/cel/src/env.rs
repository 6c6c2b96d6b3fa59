//! What an expression may name, and the functions there are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::types::Type;

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: BTreeMap<String, Type>,
    objects: BTreeMap<String, BTreeMap<String, Type>>,
}

/// One way to call a function.
#[derive(Clone, Debug)]
pub struct Overload {
    /// Whether it is called on its first parameter.
    pub member: bool,
    /// What it takes.
    pub params: Vec<Type>,
    /// What it gives.
    pub result: Type,
}

/// The functions and operators, each with the ways to call it.
type Functions = BTreeMap<&'static str, Vec<Overload>>;

impl Env {
    /// Adds a variable. A name with a dot is one variable all the same.
    pub fn declare(&mut self, name: &str, of: Type) {
        self.variables.insert(name.to_owned(), of);
    }

    /// Adds a field of a type of objects.
    pub fn declare_field(&mut self, object: &str, field: &str, of: Type) {
        self.objects
            .entry(object.to_owned())
            .or_default()
            .insert(field.to_owned(), of);
    }

    /// Adds a type of objects, and its fields as `name: type` each.
    pub fn declare_object(&mut self, object: &str, fields: &[(&str, Type)]) {
        self.objects.entry(object.to_owned()).or_default();
        for (field, of) in fields {
            self.declare_field(object, field, of.clone());
        }
    }

    /// The type of a variable.
    pub fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    /// The type of a field.
    pub fn field(&self, object: &str, field: &str) -> Option<&Type> {
        self.objects.get(object)?.get(field)
    }
}

/// The ways to call a function.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(read).get(name).map(Vec::as_slice)
}

fn read() -> Functions {
    let mut functions = Functions::new();
    for line in include_str!("functions.txt").lines() {
        let Some((call, result)) = line.split_once("-> ") else {
            continue;
        };
        let mut words = call.split_whitespace();
        let Some(name) = words.next() else { continue };
        let overload = Overload {
            member: name.starts_with('.'),
            params: words.map(Type::parse).collect(),
            result: Type::parse(result),
        };
        functions.entry(name.trim_start_matches('.')).or_default().push(overload);
    }
    for other in ["_<=_", "_>_", "_>=_"] {
        let overloads = functions.get("_<_").cloned().unwrap_or_default();
        functions.insert(other, overloads);
    }
    functions
}

/// The type that a name stands for where values are expected.
pub fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" | "int" | "uint" | "double" | "string" | "bytes" => Type::plain(name),
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::plain("null"),
        "type" => Type::Kind(Type::Dyn.into()),
        "optional_type" => Type::Optional(Type::Dyn.into()),
        "google.protobuf.Timestamp" => Type::plain("timestamp"),
        "google.protobuf.Duration" => Type::plain("duration"),
        "kubernetes.Quantity" | "kubernetes.URL" | "kubernetes.Semver" | "net.IP" | "net.CIDR" => Type::plain(name),
        _ => return None,
    })
}
