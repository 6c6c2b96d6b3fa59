//! Sets of fields, as managers own them, and their written form (`FieldsV1`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::rules::equal;
use crate::schema::{Merge, Type, lookup};

/// Structs that are owned as a whole, as the API declares them.
const ATOMIC: [&str; 16] = [
    "ConfigMapKeySelector",
    "EndpointPort",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "RoleRef",
    "ScopeSelector",
    "SecretKeySelector",
    "SecretReference",
    "Subject",
    "TypedLocalObjectReference",
];
/// Metadata that is the server's or identifies the object.
const SYSTEM: [&str; 11] = [
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:clusterName",
];

/// A set of fields: a tree whose nodes may be members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    here: bool,
    below: BTreeMap<String, Fields>,
}

/// The first list of a value in which two elements have the same key, for people.
pub fn duplicate(value: &Value, ty: Option<&Type>) -> Option<String> {
    duplicate_below(value, ty, "")
}

fn duplicate_below(value: &Value, ty: Option<&Type>, at: &str) -> Option<String> {
    match (Structure::of(ty), value) {
        (Structure::Fields, Value::Object(map)) => map
            .iter()
            .find_map(|(name, value)| duplicate_below(value, field_type(ty, name), &format!("{at}.{name}"))),
        (Structure::Items(keys, element), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for item in items {
                let key = item_key(item, keys);
                if seen.contains(&key) {
                    return Some(format!("{at}: duplicate entries for key {}", key.trim_start_matches("k:")));
                }
                if let Some(found) = duplicate_below(item, Some(element), at) {
                    return Some(found);
                }
                seen.insert(key);
            }
            None
        }
        _ => None,
    }
}

/// How two states of an object differ.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// What was added or has another value.
    pub set: Fields,
    /// What is there no more.
    pub removed: Fields,
}

impl Fields {
    /// The fields that a value states.
    pub fn of(value: &Value, ty: Option<&Type>) -> Self {
        let mut fields = Self::stated(value, ty);
        fields.here = false;
        fields
    }

    fn stated(value: &Value, ty: Option<&Type>) -> Self {
        let mut fields = Self::default();
        match (Structure::of(ty), value) {
            (Structure::Fields, Value::Object(map)) if !map.is_empty() => {
                for (name, value) in map {
                    fields
                        .below
                        .insert(format!("f:{name}"), Self::stated(value, field_type(ty, name)));
                }
            }
            (Structure::Items(keys, element), Value::Array(items)) => {
                for item in items {
                    let mut node = Self::stated(item, Some(element));
                    node.here = true;
                    fields.below.insert(item_key(item, keys), node);
                }
            }
            (Structure::Set, Value::Array(items)) => {
                for item in items {
                    fields.below.insert(format!("v:{item}"), Self::leaf());
                }
            }
            _ => fields.here = true,
        }
        fields
    }

    fn leaf() -> Self {
        Self {
            here: true,
            below: BTreeMap::new(),
        }
    }

    /// How `new` differs from `old`, but for the record of who owns what.
    pub fn changes(old: &Value, new: &Value, ty: Option<&Type>) -> Changes {
        let mut changes = Changes::default();
        for name in names(Some(old), Some(new)) {
            let (old, new, ty) = (old.get(name), new.get(name), field_type(ty, name));
            let compared = if name == "metadata" && !is_leaf(old) && !is_leaf(new) {
                compare_fields(old, new, ty, "managedFields")
            } else {
                compare(old, new, ty)
            };
            changes.put("f:", name, compared);
        }
        changes.set.here = false;
        changes.removed.here = false;
        changes
    }

    /// Reads the written form.
    pub fn read(value: &Value) -> Self {
        let mut fields = Self::read_node(value);
        fields.here = false;
        fields
    }

    fn read_node(value: &Value) -> Self {
        let Value::Object(map) = value else { return Self::leaf() };
        if map.is_empty() {
            return Self::leaf();
        }
        let below = map
            .iter()
            .filter(|(key, _)| *key != ".")
            .map(|(key, value)| (key.clone(), Self::read_node(value)));
        Self {
            here: map.contains_key("."),
            below: below.collect(),
        }
    }

    /// Writes it.
    pub fn write(&self) -> Value {
        let mut map = Map::new();
        if self.here && !self.below.is_empty() {
            map.insert(".".to_owned(), json!({}));
        }
        for (key, below) in &self.below {
            map.insert(key.clone(), below.write());
        }
        Value::Object(map)
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        !self.here && self.below.values().all(Self::is_empty)
    }

    /// The members of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.add(other);
        union
    }

    fn add(&mut self, other: &Self) {
        self.here |= other.here;
        for (key, below) in &other.below {
            match self.below.get_mut(key) {
                Some(own) => own.add(below),
                None => {
                    self.below.insert(key.clone(), below.clone());
                }
            }
        }
    }

    /// Whether its written form `written` has all of these members.
    pub fn is_within(&self, written: &Value) -> bool {
        self.below.iter().all(|(key, below)| {
            let node = written.get(key);
            node.is_some_and(|node| (!below.here || is_member(node)) && below.is_within(node))
        })
    }

    /// Whether the written form `written` has any of these members.
    pub fn touches(&self, written: &Value) -> bool {
        self.below.iter().any(|(key, below)| {
            let node = written.get(key);
            node.is_some_and(|node| (below.here && is_member(node)) || below.touches(node))
        })
    }

    /// The members that the other lacks.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut rest = Self {
            here: self.here && !other.here,
            below: BTreeMap::new(),
        };
        for (key, below) in &self.below {
            let left = other.below.get(key).map_or_else(|| below.clone(), |other| below.minus(other));
            if !left.is_empty() {
                rest.below.insert(key.clone(), left);
            }
        }
        rest
    }

    /// The members that the other has, too.
    #[must_use]
    pub fn both(&self, other: &Self) -> Self {
        let mut both = Self {
            here: self.here && other.here,
            below: BTreeMap::new(),
        };
        for (key, below) in &self.below {
            if let Some(other) = other.below.get(key) {
                let shared = below.both(other);
                if !shared.is_empty() {
                    both.below.insert(key.clone(), shared);
                }
            }
        }
        both
    }

    /// The member itself, and its children by written key.
    pub fn parts(&self) -> (bool, &BTreeMap<String, Self>) {
        (self.here, &self.below)
    }

    /// Drops what no client owns: identity, and the half of the object that the request does not write.
    pub fn forget_system(&mut self, about_status: bool, has_status: bool) {
        self.below.remove("f:apiVersion");
        self.below.remove("f:kind");
        if about_status {
            self.below.remove("f:spec");
        } else if has_status {
            self.below.remove("f:status");
        }
        if let Some(metadata) = self.below.get_mut("f:metadata") {
            metadata.here = false;
            for field in SYSTEM {
                metadata.below.remove(field);
            }
            if about_status {
                metadata.below.remove("f:ownerReferences");
            }
            if metadata.is_empty() {
                self.below.remove("f:metadata");
            }
        }
    }

    /// The members as paths for people: `.spec.containers[name="main"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, path: &str, paths: &mut Vec<String>) {
        if self.here {
            paths.push(path.to_owned());
        }
        for (key, below) in &self.below {
            let step = match key.split_at_checked(2) {
                Some(("f:", name)) => format!(".{name}"),
                Some(("k:", keys)) => format!("[{}]", shown_keys(keys)),
                Some(("v:", value)) => format!("[={value}]"),
                _ => format!("[{key}]"),
            };
            below.collect(&format!("{path}{step}"), paths);
        }
    }
}

fn shown_keys(keys: &str) -> String {
    let parsed: Value = serde_json::from_str(keys).unwrap_or_default();
    let pairs = parsed
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<String>>().join(",")
}

/// Whether a node of the written form is a member itself.
fn is_member(written: &Value) -> bool {
    written
        .as_object()
        .is_none_or(|fields| fields.is_empty() || fields.contains_key("."))
}

/// How a value is owned, and so how it is merged.
pub(super) enum Structure<'a> {
    /// Field by field.
    Fields,
    /// Element by element, which these keys tell apart.
    Items(&'a [&'static str], &'a Type),
    /// Element by element, each of which is what it is.
    Set,
    /// By one manager.
    Whole,
}

impl<'a> Structure<'a> {
    /// How values of a type are owned.
    pub fn of(ty: Option<&'a Type>) -> Self {
        match ty {
            // Without a schema maps are taken apart and lists are not.
            None => Self::Fields,
            Some(Type::Struct(name)) if !ATOMIC.contains(name) => Self::Fields,
            Some(Type::Map(_, Merge::Keys(_))) => Self::Fields,
            Some(Type::List(element, Merge::Keys(keys))) => Self::Items(keys, element),
            Some(Type::List(_, Merge::Set)) => Self::Set,
            Some(_) => Self::Whole,
        }
    }
}

/// The type of a field; nothing below what has no schema.
pub(super) fn field_type<'a>(ty: Option<&'a Type>, name: &str) -> Option<&'a Type> {
    match ty? {
        Type::Struct(owner) => Some(lookup(owner)?.field(name).map_or(&Type::Any, |field| &field.ty)),
        Type::Map(element, _) => Some(element),
        _ => Some(&Type::Any),
    }
}

/// The written key of an element of an associative list.
pub(super) fn item_key(item: &Value, keys: &[&str]) -> String {
    let mut map = BTreeMap::new();
    for key in keys {
        // A port without a protocol is a TCP port.
        let default = if *key == "protocol" { json!("TCP") } else { json!("") };
        map.insert(*key, item.get(key).cloned().unwrap_or(default));
    }
    format!("k:{}", json!(map))
}

fn compare(old: Option<&Value>, new: Option<&Value>, ty: Option<&Type>) -> Changes {
    let is_same = match (old, new) {
        (Some(old), Some(new)) => equal(old, new),
        _ => old.is_none() && new.is_none(),
    };
    if is_same {
        return Changes::default();
    }
    let mut changes = Changes::presence(old, new);
    match Structure::of(ty) {
        Structure::Fields if !is_leaf(old) || !is_leaf(new) => return compare_fields(old, new, ty, ""),
        Structure::Items(keys, element) => {
            let (old, new) = (items_by_key(old, keys), items_by_key(new, keys));
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let compared = compare(old.get(name).copied(), new.get(name).copied(), Some(element));
                changes.put("", name, compared);
            }
        }
        Structure::Set => {
            let (old, new) = (list(old), list(new));
            let keys = |items: &[Value]| -> BTreeSet<String> { items.iter().map(|item| format!("v:{item}")).collect() };
            let (old, new) = (keys(old), keys(new));
            let members =
                |keys: std::collections::btree_set::Difference<'_, String>| keys.map(|key| (key.clone(), Fields::leaf())).collect();
            changes.set.below = members(new.difference(&old));
            changes.removed.below = members(old.difference(&new));
        }
        _ => changes.set.here |= new.is_some(),
    }
    changes
}

/// How the fields of two objects, but for one field, differ.
fn compare_fields(old: Option<&Value>, new: Option<&Value>, ty: Option<&Type>, but: &str) -> Changes {
    let mut changes = Changes::presence(old, new);
    for name in names(old, new).into_iter().filter(|name| *name != but) {
        let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
        changes.put("f:", name, compare(old, new, field_type(ty, name)));
    }
    changes
}

/// The names of the fields of two objects.
fn names<'a>(old: Option<&'a Value>, new: Option<&'a Value>) -> BTreeSet<&'a str> {
    let names = |value: Option<&'a Value>| value.and_then(Value::as_object).into_iter().flat_map(|fields| fields.keys());
    names(old).chain(names(new)).map(String::as_str).collect()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_leaf(value: Option<&Value>) -> bool {
    !value.is_some_and(Value::is_object)
}

fn items_by_key<'a>(value: Option<&'a Value>, keys: &[&str]) -> BTreeMap<String, &'a Value> {
    list(value).iter().map(|item| (item_key(item, keys), item)).collect()
}

impl Changes {
    /// Whether the value itself came or went.
    fn presence(old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut changes = Self::default();
        changes.set.here = old.is_none() && new.is_some();
        changes.removed.here = old.is_some() && new.is_none();
        changes
    }

    fn put(&mut self, prefix: &str, name: &str, changes: Self) {
        for (into, below) in [(&mut self.set, changes.set), (&mut self.removed, changes.removed)] {
            if !below.is_empty() {
                into.below.insert(format!("{prefix}{name}"), below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Option<Type> {
        Some(Type::Struct("Pod"))
    }

    #[test]
    fn the_written_form_reads_back() {
        let value = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}});
        let set = Fields::of(&value, pod().as_ref());
        let written = set.write();
        assert_eq!(
            written,
            json!({
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:image": {}, "f:name": {}}}},
            })
        );
        assert_eq!(Fields::read(&written), set);
        assert_eq!(set.minus(&set), Fields::default());
        assert_eq!(set.union(&set), set);
        assert_eq!(set.both(&set), set);
    }

    #[test]
    fn changes_name_what_differs() {
        let old = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        let new = json!({"metadata": {"labels": {"a": "1", "c": "3"}}, "spec": {"tolerations": [{"key": "k"}]}});
        let changes = Fields::changes(&old, &new, pod().as_ref());
        assert_eq!(changes.set.paths(), [".metadata.labels.c", ".spec", ".spec.tolerations"]);
        assert_eq!(changes.removed.paths(), [".metadata.labels.b"]);
    }
}
