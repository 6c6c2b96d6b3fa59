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

/// Removes the members of `gone` that nobody else owns, or owns anything below. A field that its type declares goes with the last
/// thing that was owned below it, as in the real server; a key of a map stays. Where no type is known, as in custom resources, every name
/// counts as declared.
pub fn prune(target: &mut Value, gone: &Fields, others: &Fields, ty: Option<&Type>) {
    let (_, below) = gone.parts();
    let (_, kept) = others.parts();
    let nothing = Fields::default();
    let owned = |key: &str| kept.get(key).filter(|other| !other.is_empty());
    let is_member = |node: &Fields| node.parts().0;
    match (Structure::of(ty), target) {
        (Structure::Fields, Value::Object(fields)) => {
            let is_declared = !matches!(ty, Some(Type::Map(..)));
            let mut removed: BTreeSet<&str> = BTreeSet::new();
            for (key, node) in below {
                let Some(name) = key.strip_prefix("f:") else { continue };
                let other = owned(key);
                if other.is_none() && (is_declared || is_member(node)) {
                    removed.insert(name);
                } else if let Some(child) = fields.get_mut(name) {
                    prune(child, node, other.unwrap_or(&nothing), field_type(ty, name));
                }
            }
            if !removed.is_empty() {
                fields.retain(|name, _| !removed.contains(name.as_str()));
            }
        }
        (Structure::Items(keys, element), Value::Array(items)) => items.retain_mut(|item| {
            let key = item_key(item, keys);
            let Some(node) = below.get(&key) else { return true };
            let other = owned(&key);
            let stays = other.is_some() || !is_member(node);
            if stays {
                prune(item, node, other.unwrap_or(&nothing), Some(element));
            }
            stays
        }),
        (Structure::Set, Value::Array(items)) => items.retain(|item| {
            let key = format!("v:{item}");
            owned(&key).is_some() || !below.get(&key).is_some_and(is_member)
        }),
        _ => {}
    }
}
