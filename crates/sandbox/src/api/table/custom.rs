//! Columns of custom resources: those that their definition asks for, or their age.

use bailiff_model::Wall;
use serde_json::{Value, json};

use super::cells::age;
use crate::rules::{items, text};

/// A column beside the name.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    ty: String,
    format: String,
    description: String,
    priority: i64,
    path: String,
}

// === impl Column ===

impl Column {
    /// The columns that a version of a definition asks for.
    pub fn of(version: &Value) -> Vec<Self> {
        let asked = items(version, "/additionalPrinterColumns");
        if asked.is_empty() {
            return vec![Self::age()];
        }
        let column = |column: &Value| Self {
            name: text(column, "/name").to_owned(),
            ty: text(column, "/type").to_owned(),
            format: text(column, "/format").to_owned(),
            description: match text(column, "/description") {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text(column, "/jsonPath")
                ),
                description => description.to_owned(),
            },
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: text(column, "/jsonPath").to_owned(),
        };
        asked.iter().map(column).collect()
    }

    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            ty: "date".to_owned(),
            format: String::new(),
            description: super::age_description(),
            priority: 0,
            path: ".metadata.creationTimestamp".to_owned(),
        }
    }

    /// The column, as a table describes it.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.ty, "format": self.format, "description": self.description, "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Wall) -> Value {
        let Some(found) = find(object, &self.path) else {
            return Value::Null;
        };
        match (self.ty.as_str(), found) {
            ("date", Value::String(time)) => age(time, now).into(),
            ("integer", Value::Number(number)) if number.is_i64() || number.is_u64() => found.clone(),
            ("integer", Value::Number(number)) => number.as_f64().map_or(Value::Null, |number| json!(number as i64)),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => found.clone(),
            ("string", other) => other.to_string().into(),
            _ => Value::Null,
        }
    }
}

/// The cells of an object.
pub fn cells(object: &Value, columns: &[Column], now: Wall) -> Vec<Value> {
    let name = text(object, "/metadata/name").into();
    std::iter::once(name)
        .chain(columns.iter().map(|column| column.cell(object, now)))
        .collect()
}

/// What a path leads to, of the kind that printer columns have: `.a.b`, `.a['b']`, `.a[0]`, `.a[?(@.b=="c")].d`.
fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = match inside.strip_prefix("?(") {
                Some(_) => inside.split_once(")]")?,
                None => inside.split_once(']')?,
            };
            found = index(found, step)?;
            rest = after;
        } else {
            let field = rest.strip_prefix('.')?;
            let end = field.find(['.', '[']).unwrap_or(field.len());
            let (name, after) = field.split_at_checked(end)?;
            found = found.get(name)?;
            rest = after;
        }
    }
    Some(found)
}

fn index<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    if let Some(condition) = step.strip_prefix("?(@.") {
        let (field, wanted) = condition.split_once("==")?;
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        let is_it = |one: &&Value| one.get(field.trim()).and_then(Value::as_str) == Some(wanted);
        return value.as_array()?.iter().find(is_it);
    }
    match step.parse::<usize>() {
        Ok(nth) => value.as_array()?.get(nth),
        Err(_) => value.get(step.trim_matches(['"', '\''])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_columns_lead_to_values() {
        let object = json!({"a": {"b": 1, "c": [{"type": "x.y", "status": "True"}], "d.e": "f"}});
        for (path, expected) in [
            (".a.b", json!(1)),
            (".a.c[0].status", json!("True")),
            (".a.c[?(@.type==\"x.y\")].status", json!("True")),
            (".a.c[?(@.type=='z')].status", Value::Null),
            (".a['d.e']", json!("f")),
            (".a.none", Value::Null),
            ("a.b", Value::Null),
            (".a[", Value::Null),
        ] {
            assert_eq!(find(&object, path).cloned().unwrap_or_default(), expected, "{path}");
        }
    }
}
