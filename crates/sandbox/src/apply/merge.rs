//! Merging what is applied into what there is, and taking away what is stated no more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{Fields, Structure, field_type, item_key};
use crate::schema::Type;

/// Puts everything that `applied` states into `target`.
pub fn apply(target: &mut Value, applied: &Value, ty: Option<&Type>) {
    match (Structure::of(ty), applied) {
        (Structure::Items(keys, element), Value::Array(items)) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            if let Value::Array(current) = target {
                merge_items(current, items, keys, element);
            }
        }
        (Structure::Set, Value::Array(items)) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            if let Value::Array(current) = target {
                let mut known: BTreeSet<String> = current.iter().map(Value::to_string).collect();
                current.extend(items.iter().filter(|item| known.insert(item.to_string())).cloned());
            }
        }
        (Structure::Fields, Value::Object(fields)) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            if let Value::Object(current) = target {
                for (name, value) in fields {
                    apply(
                        current.entry(name.as_str()).or_insert(Value::Null),
                        value,
                        field_type(ty, name),
                    );
                }
            }
        }
        _ => *target = applied.clone(),
    }
}

/// What is applied comes in the order it is applied; what is not stays where it was among what is.
fn merge_items(current: &mut Vec<Value>, applied: &[Value], keys: &[&str], element: &Type) {
    let wanted: Vec<String> = applied.iter().map(|item| item_key(item, keys)).collect();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, key) in wanted.iter().enumerate() {
        places.insert(key, place);
    }
    let known: Vec<(String, Value)> = std::mem::take(current)
        .into_iter()
        .map(|item| (item_key(&item, keys), item))
        .collect();
    let mut before: BTreeMap<&str, &Value> = BTreeMap::new();
    for (key, item) in &known {
        before.entry(key).or_insert(item);
    }
    let merged = |item: &Value, key: &str| {
        let mut result = before.get(key).map_or(Value::Null, |value| (*value).clone());
        apply(&mut result, item, Some(element));
        result
    };
    let mut waiting = applied.iter().zip(&wanted).enumerate().peekable();
    for (key, item) in &known {
        let Some(last) = places.get(key.as_str()) else {
            current.push(item.clone());
            continue;
        };
        // Everything that is applied up to and including this one, unless it came already.
        let is_ahead = waiting.peek().is_some_and(|(place, _)| place <= last);
        while is_ahead && let Some((_, (item, one))) = waiting.next() {
            current.push(merged(item, one));
            if one == key {
                break;
            }
        }
    }
    current.extend(waiting.map(|(_, (item, key))| merged(item, key)));
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
