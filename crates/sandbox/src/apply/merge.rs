//! Merging what is applied into what there is, and taking away what is stated no more.

use serde_json::Value;

use super::fields::{Fields, field_type, item_key};
use crate::schema::{Merge, Type};

/// Puts everything that `applied` states into `target`.
pub fn apply(target: &mut Value, applied: &Value, ty: Option<&Type>) {
    match (ty, applied) {
        (Some(Type::List(element, Merge::Keys(keys))), Value::Array(items)) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            if let Value::Array(current) = target {
                merge_items(current, items, keys, element);
            }
        }
        (Some(Type::List(_, Merge::Set)), Value::Array(items)) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            if let Value::Array(current) = target {
                for item in items {
                    if !current.contains(item) {
                        current.push(item.clone());
                    }
                }
            }
        }
        (None | Some(Type::Struct(_) | Type::Map(_, Merge::Keys(_))), Value::Object(fields)) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            if let Value::Object(current) = target {
                for (name, value) in fields {
                    let field = field_type(ty, name);
                    apply(current.entry(name.as_str()).or_insert(Value::Null), value, field.as_ref());
                }
            }
        }
        _ => *target = applied.clone(),
    }
}

/// What is applied comes in the order it is applied; what is not stays where it was among what is.
fn merge_items(current: &mut Vec<Value>, applied: &[Value], keys: &[&str], element: &Type) {
    let wanted: Vec<String> = applied.iter().map(|item| item_key(item, keys)).collect();
    let mut merged = Vec::with_capacity(current.len() + applied.len());
    let mut waiting = applied.iter().zip(&wanted).peekable();
    let known: Vec<(String, Value)> = std::mem::take(current)
        .into_iter()
        .map(|item| (item_key(&item, keys), item))
        .collect();
    let put = |merged: &mut Vec<Value>, item: &Value, key: &String| {
        let before = known.iter().find(|(one, _)| one == key);
        let mut result = before.map_or(Value::Null, |(_, value)| value.clone());
        apply(&mut result, item, Some(element));
        merged.push(result);
    };
    for (key, item) in &known {
        if !wanted.contains(key) {
            merged.push(item.clone());
            continue;
        }
        // Everything that is applied up to and including this one, unless it came already.
        let ahead = waiting.clone().any(|(_, one)| one == key);
        while ahead && let Some((item, one)) = waiting.next() {
            put(&mut merged, item, one);
            if one == key {
                break;
            }
        }
    }
    for (item, key) in waiting {
        put(&mut merged, item, key);
    }
    *current = merged;
}

/// Removes the members of `gone` that nobody else owns, or owns anything below.
pub fn prune(target: &mut Value, gone: &Fields, others: &Fields) {
    let (_, below) = gone.parts();
    let (_, kept) = others.parts();
    for (key, node) in below {
        let other = kept.get(key);
        let (here, _) = node.parts();
        if here && other.is_none_or(Fields::is_empty) {
            remove(target, key);
        } else if let Some(child) = find(target, key) {
            prune(child, node, other.unwrap_or(&Fields::default()));
        }
    }
}

fn remove(target: &mut Value, key: &str) {
    match (target, key.split_at_checked(2)) {
        (Value::Object(fields), Some(("f:", name))) => {
            fields.shift_remove(name);
        }
        (Value::Array(items), Some(("k:", keys))) => items.retain(|item| !has_keys(item, keys)),
        (Value::Array(items), Some(("v:", value))) => {
            let value: Value = serde_json::from_str(value).unwrap_or_default();
            items.retain(|item| *item != value);
        }
        _ => {}
    }
}

fn find<'a>(target: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match (target, key.split_at_checked(2)?) {
        (Value::Object(fields), ("f:", name)) => fields.get_mut(name),
        (Value::Array(items), ("k:", keys)) => items.iter_mut().find(|item| has_keys(item, keys)),
        _ => None,
    }
}

fn has_keys(item: &Value, keys: &str) -> bool {
    let keys: Value = serde_json::from_str(keys).unwrap_or_default();
    let mut pairs = keys.as_object().into_iter().flatten();
    pairs.all(|(key, value)| item.get(key).map_or(*value == "TCP" || *value == "", |own| own == value))
}
