//! The shape of the API's types: which fields there are, of what type, how they are written, and how lists merge.
//!
//! The table is data (`schema/types.txt`). Everything that walks objects generically reads it: decoding, the two merging patches,
//! server-side apply.

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub mod decode;
mod path;
pub mod quantity;
pub mod time;

/// A field's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
    Number,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, six digits of fraction.
    MicroTime,
    /// An amount with a suffix.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// Base64.
    Bytes,
    /// Anything.
    Any,
    /// Fields of a named type.
    Struct(&'static str),
    /// A list.
    List(Box<Type>, Merge),
    /// A map of texts to something.
    Map(Box<Type>, Merge),
}

/// How a list or map merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// It is replaced as a whole.
    Atomic,
    /// A list without duplicates.
    Set,
    /// A list of structs, identified by these fields; a map, by its keys, with no fields named.
    Keys(Vec<&'static str>),
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Unless it is empty or zero.
    Filled,
    /// Whenever it was set, be it to zero.
    Set,
    /// Always.
    Always,
}

/// A field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// When it is written.
    pub presence: Presence,
    /// Its number in protobuf; of several, the first are those of the messages it is embedded in. Empty if it has none.
    pub number: Vec<u32>,
    /// Whether strategic merge patch honours `$retainKeys` in it.
    pub retain: bool,
    /// Whether strategic merge patch replaces it as a whole.
    pub replace: bool,
}

/// A named type.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Its name.
    pub name: &'static str,
    /// Its fields, in the order they are written.
    pub fields: Vec<Field>,
    by_name: BTreeMap<&'static str, usize>,
}

// === impl Struct ===

impl Struct {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).and_then(|&index| self.fields.get(index))
    }
}

/// The named type; [`Type::Any`] stands in for what the table lacks.
pub fn lookup(name: &str) -> Option<&'static Struct> {
    static TABLE: OnceLock<BTreeMap<&'static str, Struct>> = OnceLock::new();
    TABLE.get_or_init(|| parse(include_str!("schema/types.txt"))).get(name)
}

fn parse(text: &'static str) -> BTreeMap<&'static str, Struct> {
    let mut table: BTreeMap<&'static str, Struct> = BTreeMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        if let Some(name) = line.strip_prefix("type ") {
            current = name;
            table.insert(
                name,
                Struct {
                    name,
                    fields: Vec::new(),
                    by_name: BTreeMap::new(),
                },
            );
        } else if let Some(owner) = table.get_mut(current) {
            let field = parse_field(line);
            owner.by_name.insert(field.name, owner.fields.len());
            owner.fields.push(field);
        }
    }
    table
}

fn parse_field(line: &'static str) -> Field {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let mut ty = words.next().unwrap_or_default();
    let mut number = Vec::new();
    if let Some(path) = ty.strip_prefix('@') {
        number = path.split('.').filter_map(|step| step.parse().ok()).collect();
        ty = words.next().unwrap_or_default();
    }
    let mut merge = None;
    let (mut retain, mut replace) = (false, false);
    for word in words {
        match word {
            "atomic" => merge = Some(Merge::Atomic),
            "set" => merge = Some(Merge::Set),
            "retain" => retain = true,
            "replace" => replace = true,
            _ => merge = word.strip_prefix("key=").map(|keys| Merge::Keys(keys.split(',').collect())),
        }
    }
    let presence = match name.as_bytes().last() {
        Some(b'!') => Presence::Always,
        Some(b'*') => Presence::Set,
        _ => Presence::Filled,
    };
    Field {
        name: name.trim_end_matches(['!', '*']),
        ty: parse_type(ty, merge),
        presence,
        number,
        retain,
        replace,
    }
}

fn parse_type(text: &'static str, merge: Option<Merge>) -> Type {
    if let Some(element) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Type::List(Box::new(parse_type(element, None)), merge.unwrap_or(Merge::Atomic));
    }
    if let Some(value) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return Type::Map(Box::new(parse_type(value, None)), merge.unwrap_or(Merge::Keys(Vec::new())));
    }
    match text {
        "string" => Type::String,
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "number" => Type::Number,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "intstr" => Type::IntOrString,
        "bytes" => Type::Bytes,
        "any" => Type::Any,
        name => Type::Struct(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ty: &Type) -> Vec<&'static str> {
        match ty {
            Type::Struct(name) => vec![name],
            Type::List(inner, _) | Type::Map(inner, _) => named(inner),
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_type_that_a_field_names_is_in_the_table() {
        let table = parse(include_str!("schema/types.txt"));
        for owner in table.values() {
            for field in &owner.fields {
                for name in named(&field.ty) {
                    assert!(table.contains_key(name), "{}.{}: {name}", owner.name, field.name);
                }
                if let Type::List(element, Merge::Keys(keys)) = &field.ty {
                    let Type::Struct(element) = **element else {
                        panic!("{}.{} has keys but no fields", owner.name, field.name)
                    };
                    for key in keys {
                        assert!(table[element].field(key).is_some(), "{}.{}: {key}", owner.name, field.name);
                    }
                }
            }
        }
    }
}
