//! JSON patch (RFC 6902), with the limits and leniencies of the API server.

use serde_json::Value;

use super::Error;

/// Operations per patch, as the real server's limit.
const MOST_OPERATIONS: usize = 10_000;
/// Bytes that the copies of one patch may make together: as many as a request may carry.
const MOST_COPIED: usize = 3 * 1024 * 1024;
/// Values that one patch may move: those behind an element that comes or goes, and those below what is moved elsewhere. More than it takes
/// to remove as many fields of one object as there may be operations, each the first of those that are left.
const MOST_MOVED: usize = 60_000_000;
/// How deep a patch may reach. No object of the API is a tenth as deep.
const DEEPEST: usize = 200;

/// Applies a list of operations, all or none.
///
/// # Errors
/// [`Error::Malformed`] for what is no patch, [`Error::Unfit`] for what does not fit or a failed test.
pub fn apply(target: &Value, patch: &Value) -> Result<Value, Error> {
    let Value::Array(operations) = patch else {
        return Err(Error::Malformed(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned(),
        ));
    };
    if operations.len() > MOST_OPERATIONS {
        return Err(Error::TooMany(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut result = target.clone();
    let mut spent = Spent::default();
    for operation in operations {
        step(&mut result, operation, &mut spent)?;
    }
    Ok(result)
}

/// What the operations of a patch have cost so far.
#[derive(Debug, Default)]
struct Spent {
    /// Bytes of copies.
    copied: usize,
    /// Values that were moved.
    moved: usize,
}

impl Spent {
    /// Counts values that are about to be moved.
    fn shift(&mut self, count: usize) -> Result<(), Error> {
        self.moved = self.moved.saturating_add(count);
        if self.moved <= MOST_MOVED {
            return Ok(());
        }
        Err(Error::TooMany(format!(
            "The operations of a JSON patch may move {MOST_MOVED} values at most"
        )))
    }
}

fn step(target: &mut Value, operation: &Value, spent: &mut Spent) -> Result<(), Error> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let op = text("op").unwrap_or_default();
    let path = rooted(text("path").ok_or_else(|| unfit(op, "missing path"))?);
    if path.is_empty() && matches!(op, "add" | "replace" | "remove") {
        return Err(missing(op, path));
    }
    shallow(path, &Value::Null)?;
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let from = || text("from").map(rooted).ok_or_else(|| unfit(op, "missing from"));
    match op {
        "add" => insert(target, path, value(), spent),
        "remove" => remove(target, path, spent).map(|_| ()),
        // The server's library replaces what is not there in an object, too.
        "replace" if !is_element(target, path) => insert(target, path, value(), spent),
        "replace" => {
            let slot = find(target, path).ok_or_else(|| missing("replace", path))?;
            *slot = value();
            Ok(())
        }
        "move" => {
            let moved = remove(target, from()?, spent)?;
            spent.shift(size(&moved))?;
            shallow(path, &moved)?;
            insert(target, path, moved, spent)
        }
        "copy" => {
            let from = from()?;
            // The server's library copies null from where an object has nothing.
            let parent = split(from).filter(|(parent, _)| find(target, parent).is_some_and(|parent| parent.is_object()));
            let copy = match (find(target, from), parent) {
                (Some(found), _) => found.clone(),
                (None, Some(_)) => Value::Null,
                (None, None) => return Err(missing("copy", from)),
            };
            shallow(path, &copy)?;
            spent.copied += copy.to_string().len();
            if spent.copied > MOST_COPIED {
                return Err(unfit(op, "the copies of the patch are too large"));
            }
            insert(target, path, copy, spent)
        }
        "test" => {
            let expected = value();
            match find(target, path) {
                Some(found) if *found == expected => Ok(()),
                // An absent value passes for null.
                None if expected.is_null() => Ok(()),
                _ => Err(Error::Unfit(format!("testing value {path} failed: test failed"))),
            }
        }
        other => Err(Error::Unfit(format!("Unexpected kind: {other}"))),
    }
}

/// What comes before the first slash of a path does not count.
fn rooted(path: &str) -> &str {
    path.find('/').map_or("", |start| path.get(start..).unwrap_or_default())
}

/// Keeps what a patch builds from growing deeper than anything can read.
fn shallow(path: &str, value: &Value) -> Result<(), Error> {
    let steps = path.bytes().filter(|byte| *byte == b'/').count();
    if steps + crate::schema::decode::depth(value) <= DEEPEST {
        return Ok(());
    }
    Err(Error::Unfit("the patch reaches too deep".to_owned()))
}

/// Whether the path names an element of a list.
fn is_element(target: &mut Value, path: &str) -> bool {
    split(path).is_some_and(|(parent, _)| find(target, parent).is_some_and(|parent| parent.is_array()))
}

/// How many values a value consists of.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn insert(target: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), Error> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, last) = split(path).ok_or_else(|| missing("add", path))?;
    match find(target, parent) {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if last == "-" {
                items.len()
            } else {
                position(&last, items.len(), true)?
            };
            spent.shift(items.len() - index)?;
            items.insert(index, value);
            Ok(())
        }
        _ => Err(missing("add", path)),
    }
}

fn remove(target: &mut Value, path: &str, spent: &mut Spent) -> Result<Value, Error> {
    let (parent, last) = split(path).ok_or_else(|| missing("remove", path))?;
    match find(target, parent) {
        Some(Value::Object(fields)) => {
            spent.shift(fields.len())?;
            fields.shift_remove(&last).ok_or_else(|| missing("remove", path))
        }
        Some(Value::Array(items)) => {
            let index = position(&last, items.len(), false)?;
            spent.shift(items.len() - index)?;
            Ok(items.remove(index))
        }
        _ => Err(missing("remove", path)),
    }
}

fn find<'a>(target: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut current = target;
    if path.is_empty() {
        return Some(current);
    }
    for token in path.strip_prefix('/')?.split('/') {
        current = match current {
            Value::Object(fields) => fields.get_mut(&unescape(token))?,
            Value::Array(items) => {
                let index = position(token, items.len(), false).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    Some(current)
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, unescape(last)))
}

/// Negative indexes count from the end, which the server's library allows.
fn position(token: &str, length: usize, append: bool) -> Result<usize, Error> {
    let out = || Error::Unfit(format!("Unable to access invalid index: {token}: invalid index referenced"));
    let index: i64 = token.parse().map_err(|_| out())?;
    let length_signed = i64::try_from(length).map_err(|_| out())?;
    let slots = length_signed + i64::from(append);
    let index = if index < 0 { index + slots } else { index };
    if (0..slots).contains(&index) {
        usize::try_from(index).map_err(|_| out())
    } else {
        Err(out())
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn unfit(op: &str, why: &str) -> Error {
    Error::Unfit(format!("{op} operation: {why}"))
}

fn missing(op: &str, path: &str) -> Error {
    Error::Unfit(format!(
        "{op} operation does not apply: doc is missing path: \"{path}\": missing value"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(target: Value, patch: Value, expected: Option<Value>) {
        assert_eq!(apply(&target, &patch).ok(), expected, "{target} {patch}");
    }

    /// As many fields of one object may go as there may be operations; a long list may not be shifted that often.
    #[test]
    fn what_is_moved_is_bounded() {
        let fields = (0..MOST_OPERATIONS).map(|nth| (format!("k{nth}"), json!(0))).collect();
        let removals: Value = (0..MOST_OPERATIONS)
            .map(|nth| json!({"op": "remove", "path": format!("/k{nth}")}))
            .collect();
        assert_eq!(apply(&Value::Object(fields), &removals), Ok(json!({})));
        let list: Value = (0..MOST_MOVED / 9_000).map(Value::from).collect();
        let insertions: Value = (0..9_001).map(|_| json!({"op": "add", "path": "/x/0", "value": 1})).collect();
        let result = apply(&json!({"x": list}), &insertions);
        assert!(matches!(result, Err(Error::TooMany(_))), "{:?}", result.map(|_| ()));
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        check(
            json!({"a": [1]}),
            json!([{"op": "add", "path": "/a/-", "value": 2}]),
            Some(json!({"a": [1, 2]})),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "add", "path": "/a/0", "value": 2}]),
            Some(json!({"a": [2, 1]})),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "remove", "path": "/a/-1"}]),
            Some(json!({"a": []})),
        );
        check(
            json!({"a/b": 1}),
            json!([{"op": "replace", "path": "/a~1b", "value": 2}]),
            Some(json!({"a/b": 2})),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "move", "from": "/a", "path": "/b"}]),
            Some(json!({"b": 1})),
        );
        check(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 2}]), None);
        check(
            json!({"a": 1}),
            json!([{"op": "replace", "path": "/b", "value": 2}]),
            Some(json!({"a": 1, "b": 2})),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "replace", "path": "/a/1", "value": 2}]),
            None,
        );
        check(json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]), None);
        check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/5", "value": 2}]), None);
        check(json!({}), json!({"op": "add"}), None);
    }

    #[test]
    fn patches_cannot_grow_without_bound() {
        let doubling: Vec<Value> = (0..64)
            .map(|index| json!({"op": "copy", "from": "", "path": format!("/{index}")}))
            .collect();
        check(json!({"a": 1}), json!(doubling), None);
        let deep = format!("/{}", vec!["a"; 300].join("/"));
        check(json!({}), json!([{"op": "add", "path": deep, "value": 1}]), None);
    }
}
