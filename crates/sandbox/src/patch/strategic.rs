//! Strategic merge patch: a merge patch that knows which lists are merged, by which key, and in what order.
//!
//! Directives: `$patch` (`replace`, `delete`, `merge`) in maps and list elements, `$setElementOrder/FIELD`,
//! `$deleteFromPrimitiveList/FIELD`, `$retainKeys`. Lists keep the order the server had; what the patch names comes in the patch's
//! order, before what it does not name unless the server's order says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Error;
use crate::go_json::printed;
use crate::schema::{Merge, Type, lookup};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Applies a patch to an object of a named type.
///
/// # Errors
/// [`Error::Malformed`] when the patch is no object, or `$retainKeys` does not fit it, [`Error::Directive`] when an element lacks its merge key or a directive is
/// misused.
pub fn apply(target: &Value, patch: &Value, type_name: &str) -> Result<Value, Error> {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(Error::Malformed("a strategic merge patch is an object".to_owned()));
    };
    let ty = Type::Struct(lookup(type_name).map_or("", |found| found.name));
    map(target.clone(), patch, &ty).map(Value::Object)
}

fn map(mut target: Map<String, Value>, patch: &Map<String, Value>, ty: &Type) -> Result<Map<String, Value>, Error> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => return Ok(without_directives(patch)),
        Some("delete") => return Ok(Map::new()),
        None | Some("merge") => {}
        Some(other) => return Err(Error::Directive(format!("unknown patch type found in map: {other}"))),
    }
    if let Some(retained) = patch.get(RETAIN) {
        retain(&mut target, patch, retained)?;
    }
    let original = order_source(&target, patch);
    // All at once: an object moves together behind each field that is taken out of it alone.
    if patch.values().any(Value::is_null) {
        target.retain(|name, _| name.starts_with('$') || !patch.get(name).is_some_and(Value::is_null));
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE) {
            delete_primitives(&mut target, field, value);
        } else if !name.starts_with('$') && !value.is_null() {
            merge_field(&mut target, name, value, ty)?;
        }
    }
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix(ORDER) {
            check_order(patch, field, order, ty)?;
            reorder(&mut target, field, order, original.get(field), ty)?;
        }
    }
    Ok(target)
}

/// The lists that `$setElementOrder` will arrange, as the server had them.
fn order_source(target: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .keys()
        .filter_map(|name| name.strip_prefix(ORDER))
        .filter_map(|field| Some((field.to_owned(), target.get(field)?.clone())))
        .collect()
}

fn merge_field(target: &mut Map<String, Value>, name: &str, value: &Value, ty: &Type) -> Result<(), Error> {
    if value.is_object() && is_replaced(ty, name) {
        target.insert(name.to_owned(), value.clone());
        return Ok(());
    }
    let field = field_type(ty, name);
    let merged = match (target.get_mut(name), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            Value::Object(map(std::mem::take(current), patch, field.unwrap_or(&Type::Any))?)
        }
        (Some(Value::Array(current)), Value::Array(patch)) => list(std::mem::take(current), patch, field.unwrap_or(&Type::Any))?,
        (None | Some(Value::Null), Value::Array(patch)) if patch.iter().any(|item| item.get(PATCH).is_some()) => {
            list(Vec::new(), patch, field.unwrap_or(&Type::Any))?
        }
        // A directive about what is not there takes what comes with it along.
        (None | Some(Value::Null), Value::Object(patch)) if patch.contains_key(PATCH) => Value::Object(Map::new()),
        (_, value) => cleaned(value),
    };
    target.insert(name.to_owned(), merged);
    Ok(())
}

/// Whether the API declares that a field is never merged.
fn is_replaced(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Struct(owner) => lookup(owner)
            .and_then(|owner| owner.field(name))
            .is_some_and(|field| field.replace),
        _ => false,
    }
}

fn field_type<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    match ty {
        Type::Struct(owner) => lookup(owner)?.field(name).map(|field| &field.ty),
        Type::Map(element, _) => Some(element),
        _ => None,
    }
}

fn list(current: Vec<Value>, patch: &[Value], ty: &Type) -> Result<Value, Error> {
    let Type::List(element, merge) = ty else {
        return Ok(Value::Array(patch.iter().map(cleaned).collect()));
    };
    match merge {
        Merge::Atomic => Ok(Value::Array(patch.iter().map(cleaned).collect())),
        Merge::Set => {
            let mut merged = current.clone();
            let mut known: BTreeSet<String> = current.iter().map(Value::to_string).collect();
            merged.extend(patch.iter().filter(|item| known.insert(item.to_string())).cloned());
            Ok(Value::Array(arrange(merged, patch, &current, None)))
        }
        Merge::Keys(keys) => keyed(current, patch, element, keys.first().copied().unwrap_or_default()),
    }
}

fn keyed(current: Vec<Value>, patch: &[Value], element: &Type, key: &str) -> Result<Value, Error> {
    let (mut merged, replace) = remove_special(current.clone(), patch, key)?;
    let ordinary: Vec<Value> = patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect();
    if replace {
        return Ok(Value::Array(ordinary.iter().map(cleaned).collect()));
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (place, item) in merged.iter().enumerate() {
        places.entry(id(item, Some(key))).or_insert(place);
    }
    for item in &ordinary {
        if item.get(key).is_none() {
            return Err(Error::Directive(format!(
                "map: {} does not contain declared merge key: {key}",
                printed(item)
            )));
        }
        let next = merged.len();
        let place = *places.entry(id(item, Some(key))).or_insert(next);
        match (merged.get_mut(place), item) {
            (Some(Value::Object(current)), Value::Object(fields)) => {
                *current = map(std::mem::take(current), fields, element)?;
            }
            _ => merged.push(cleaned(item)),
        }
    }
    Ok(Value::Array(arrange(merged, &ordinary, &current, Some(key))))
}

/// What identifies an element of a list: the value of its key, or all of it.
fn id(item: &Value, key: Option<&str>) -> String {
    match key {
        Some(key) => item.get(key).map(Value::to_string).unwrap_or_default(),
        None => item.to_string(),
    }
}

/// Takes away what elements with `$patch: delete` name; says whether one asks to replace the whole list.
fn remove_special(mut current: Vec<Value>, patch: &[Value], key: &str) -> Result<(Vec<Value>, bool), Error> {
    let mut replace = false;
    let mut gone = BTreeSet::new();
    for item in patch {
        match item.get(PATCH).and_then(Value::as_str) {
            Some("delete") if item.get(key).is_some() => {
                gone.insert(id(item, Some(key)));
            }
            Some("delete") => {
                return Err(Error::Directive(format!(
                    "map: {} does not contain declared merge key: {key}",
                    printed(item)
                )));
            }
            Some("replace") => replace = true,
            Some("merge") | None => {}
            Some(other) => return Err(Error::Directive(format!("unknown patch type found in list: {other}"))),
        }
    }
    if !gone.is_empty() {
        current.retain(|one| !gone.contains(&id(one, Some(key))));
    }
    Ok((current, replace))
}

/// Brings merged items into order: those that `wanted` names in its order, the others in the server's, interleaved where the
/// server's order knows both.
fn arrange(merged: Vec<Value>, wanted: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let places = |list: &[Value]| {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (place, item) in list.iter().enumerate() {
            places.entry(id(item, key)).or_insert(place);
        }
        places
    };
    let (wanted, server) = (places(wanted), places(server));
    let place = |places: &BTreeMap<String, usize>, item: &Value| places.get(&id(item, key)).copied();
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged.into_iter().partition(|item| place(&wanted, item).is_some());
    named.sort_by_cached_key(|item| place(&wanted, item));
    others.sort_by_cached_key(|item| place(&server, item).unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let take_other = match (named.peek(), others.peek()) {
            (None, None) => return result,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(one), Some(other)) => match (place(&server, other), place(&server, one)) {
                (Some(other), Some(one)) => other < one,
                _ => false,
            },
        };
        result.extend(if take_other { others.next() } else { named.next() });
    }
}

/// What a patch names in a list must come in the order that it asks for.
fn check_order(patch: &Map<String, Value>, field: &str, order: &Value, ty: &Type) -> Result<(), Error> {
    let key = match field_type(ty, field) {
        Some(Type::List(_, Merge::Keys(keys))) => keys.first().copied(),
        _ => None,
    };
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for (place, item) in order.as_array().into_iter().flatten().enumerate() {
        wanted.entry(id(item, key)).or_insert(place);
    }
    let items = patch.get(field).and_then(Value::as_array).into_iter().flatten();
    let named: Vec<&Value> = items.filter(|item| item.get(PATCH).is_none()).collect();
    let mut places = named.iter().map(|item| wanted.get(&id(item, key)).copied());
    let mut last = None;
    if places.all(|place| place.is_some() && std::mem::replace(&mut last, place) <= place) {
        return Ok(());
    }
    Err(Error::Directive(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        printed(&named.into_iter().cloned().collect()),
        printed(order)
    )))
}

fn reorder(target: &mut Map<String, Value>, field: &str, order: &Value, server: Option<&Value>, ty: &Type) -> Result<(), Error> {
    let Value::Array(order) = order else {
        return Err(Error::Directive(format!("{ORDER}{field} is no list")));
    };
    let key = match field_type(ty, field) {
        Some(Type::List(_, Merge::Keys(keys))) => keys.first().copied(),
        _ => None,
    };
    if let Some(Value::Array(items)) = target.get_mut(field) {
        let server = server.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        *items = arrange(std::mem::take(items), order, server, key);
    }
    Ok(())
}

/// Anything but a list is taken from nothing, as the real server sees it.
fn delete_primitives(target: &mut Map<String, Value>, field: &str, values: &Value) {
    if let (Some(Value::Array(items)), Value::Array(values)) = (target.get_mut(field), values) {
        let gone: BTreeSet<String> = values.iter().map(Value::to_string).collect();
        items.retain(|item| !gone.contains(&item.to_string()));
    }
}

fn retain(target: &mut Map<String, Value>, patch: &Map<String, Value>, retained: &Value) -> Result<(), Error> {
    let malformed = || Error::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(retained) = retained else {
        return Err(malformed());
    };
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let kept = |name: &str| retained.contains(name);
    if patch
        .iter()
        .any(|(name, value)| !name.starts_with('$') && !value.is_null() && !kept(name))
    {
        return Err(malformed());
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
        .map(|(name, value)| (name.clone(), cleaned(value)))
        .collect()
}

/// What a patch says about something that the object does not have yet.
fn cleaned(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_directives(fields)),
        Value::Array(items) => Value::Array(
            items
                .iter()
                .filter(|item| item.get(PATCH).and_then(Value::as_str) != Some("delete"))
                .map(cleaned)
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(type_name: &str, target: &Value, patch: &Value, expected: &Value) {
        let once = apply(target, patch, type_name).expect("it applies");
        assert_eq!(&once, expected, "{patch}");
        let twice = apply(&once, patch, type_name).expect("it applies again");
        assert_eq!(twice, once, "applying {patch} twice is the same as once");
    }

    #[test]
    fn lists_merge_by_key_and_keep_the_servers_order() {
        let pod = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        check(
            "PodSpec",
            &pod,
            &json!({"containers": [{"name": "b", "image": "2"}]}),
            &json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        );
        check(
            "PodSpec",
            &pod,
            &json!({"containers": [{"$patch": "delete", "name": "a"}]}),
            &json!({"containers": [{"name": "b", "image": "1"}]}),
        );
        check(
            "PodSpec",
            &pod,
            &json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            &json!({"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]}),
        );
        check(
            "PodSpec",
            &pod,
            &json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            &json!({"containers": [{"name": "z"}]}),
        );
    }

    #[test]
    fn lists_without_a_key_are_replaced_and_sets_grow() {
        check(
            "PodSpec",
            &json!({"tolerations": [{"key": "a"}]}),
            &json!({"tolerations": [{"key": "b"}]}),
            &json!({"tolerations": [{"key": "b"}]}),
        );
        check(
            "ObjectMeta",
            &json!({"finalizers": ["a"]}),
            &json!({"finalizers": ["b"]}),
            &json!({"finalizers": ["b", "a"]}),
        );
        check(
            "ObjectMeta",
            &json!({"finalizers": ["a", "b"]}),
            &json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
            &json!({"finalizers": ["b"]}),
        );
        check(
            "ObjectMeta",
            &json!({"finalizers": ["a", "b"]}),
            &json!({"$deleteFromPrimitiveList/finalizers": "a"}),
            &json!({"finalizers": ["a", "b"]}),
        );
    }

    #[test]
    fn maps_merge_replace_and_retain() {
        check(
            "ObjectMeta",
            &json!({"labels": {"a": "1", "b": "2"}}),
            &json!({"labels": {"$patch": "replace", "c": "3"}}),
            &json!({"labels": {"c": "3"}}),
        );
        check(
            "DeploymentSpec",
            &json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}),
            &json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            &json!({"strategy": {"type": "Recreate"}}),
        );
    }

    #[test]
    fn what_says_so_is_replaced() {
        check(
            "PodDisruptionBudgetSpec",
            &json!({"selector": {"matchLabels": {"a": "1"}}}),
            &json!({"selector": {"matchLabels": {"b": "2"}}}),
            &json!({"selector": {"matchLabels": {"b": "2"}}}),
        );
        check(
            "DeploymentSpec",
            &json!({"selector": {"matchLabels": {"a": "1"}}}),
            &json!({"selector": {"matchLabels": {"b": "2"}}}),
            &json!({"selector": {"matchLabels": {"a": "1", "b": "2"}}}),
        );
    }

    #[test]
    fn an_element_without_its_key_is_refused() {
        let refused = apply(
            &json!({"containers": []}),
            &json!({"containers": [{"image": "x"}]}),
            "PodSpec",
        );
        assert!(matches!(refused, Err(Error::Directive(_))), "{refused:?}");
    }
}
