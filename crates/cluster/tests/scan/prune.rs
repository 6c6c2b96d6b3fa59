//! What of an object in JSON the scan reads.

use bailiff_cluster::scan::{Kind, Message};
use bailiff_model::Wall;
use serde_json::Value;

/// The fields of the table, as far as protobuf has them: it knows no null, and no list or map that is there and empty.
pub fn pruned(message: &'static Message, object: &Value) -> Value {
    let fields = message.fields.iter().filter_map(|field| {
        let value = kept(field.kind, object.get(field.name)?)?;
        (field.when_empty || !is_empty(&value)).then(|| (field.name.to_owned(), value))
    });
    Value::Object(fields.collect())
}

fn kept(kind: Kind, value: &Value) -> Option<Value> {
    Some(match (kind, value) {
        (_, Value::Null) => return None,
        (Kind::Time | Kind::Micros, Value::String(text)) => text.parse::<Wall>().expect("a time").to_string().into(),
        // As it came; a value has lost how that was written.
        (Kind::Json, value) => value.to_string().into(),
        (Kind::Map, Value::Object(entries)) if entries.is_empty() => return None,
        (Kind::Texts | Kind::Many(_), Value::Array(items)) if items.is_empty() => return None,
        (Kind::Many(message), Value::Array(items)) => items.iter().map(|item| pruned(message, item)).collect(),
        (Kind::One(message), value) => pruned(message, value),
        (_, value) => value.clone(),
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
