//! Tables: what `kubectl get` prints.

use bailiff_model::Wall;
use serde_json::{Map, Value, json};

use super::Call;
use super::kinds::Kind;
use super::negotiate::Shape;
use crate::Status;
use custom::Column;

pub mod cells;
pub mod custom;
mod pods;

/// The table of a request's objects.
pub fn of_call(call: &Call<'_>, version: &str, objects: &[Value], metadata: Map<String, Value>) -> Value {
    let include = call.request.query.get("includeObject");
    table(call.kind, include, call.now.wall, version, objects, metadata, true)
}

/// Checks what a request says about the objects of a table.
///
/// # Errors
/// 400.
pub fn check(call: &Call<'_>) -> Result<(), Status> {
    let include = call.request.query.get("includeObject");
    let is_table = matches!(call.accepted.shape, Shape::Table(_));
    if !is_table || call.request.method != "GET" || matches!(include, "" | "None" | "Metadata" | "Object") {
        return Ok(());
    }
    let why = format!("includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty");
    Err(Status::bad_request(format!("Unable to convert to Table as requested: {why}")))
}

/// A table of objects of a kind. `header` asks for the column definitions.
pub fn table(
    kind: &Kind,
    include: &str,
    now: Wall,
    version: &str,
    objects: &[Value],
    metadata: Map<String, Value>,
    header: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(object, kind, include, now, version))
        .collect();
    let mut table = Map::new();
    table.insert("kind".to_owned(), "Table".into());
    table.insert("apiVersion".to_owned(), version.into());
    table.insert("metadata".to_owned(), Value::Object(metadata));
    let definitions = if header { Value::Array(columns(kind)) } else { Value::Null };
    table.insert("columnDefinitions".to_owned(), definitions);
    table.insert("rows".to_owned(), Value::Array(rows));
    Value::Object(table)
}

fn row(object: &Value, kind: &Kind, include: &str, now: Wall, version: &str) -> Value {
    let mut row = if kind.rules.converts() {
        json!({"cells": cells(&kind.rules.to_storage(object.clone()), kind, now)})
    } else {
        json!({"cells": cells(object, kind, now)})
    };
    if kind.kind == "Pod"
        && kind.custom.is_none()
        && let Some(conditions) = pods::conditions(object)
    {
        row["conditions"] = conditions;
    }
    row["object"] = shown(object, include, version);
    row
}

fn shown(object: &Value, include: &str, version: &str) -> Value {
    match include {
        "None" => Value::Null,
        "Object" => object.clone(),
        _ => partial(object, version),
    }
}

/// The metadata of an object as an object of its own.
pub fn partial(object: &Value, version: &str) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // This annotation stands for a field that is no metadata; the real server adds it only to whole objects.
    if object.get("kind").is_some_and(|kind| kind == "DaemonSet")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.shift_remove(crate::rules::workload::TEMPLATE_GENERATION);
        if annotations.is_empty()
            && let Value::Object(metadata) = &mut metadata
        {
            metadata.shift_remove("annotations");
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata})
}

fn cells(object: &Value, kind: &Kind, now: Wall) -> Vec<Value> {
    match &kind.custom {
        Some(custom) => custom::cells(object, &custom.columns, now),
        None => cells::of(object, &kind.kind, now),
    }
}

fn columns(kind: &Kind) -> Vec<Value> {
    let Some(custom) = &kind.custom else {
        return built_in(&kind.kind);
    };
    let name = built_in("").into_iter().take(1);
    name.chain(custom.columns.iter().map(Column::definition)).collect()
}

/// What is said about ages.
fn age_description() -> String {
    let columns = built_in("Namespace");
    let age = columns.iter().find(|column| column["name"] == "Age");
    age.and_then(|column| column["description"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// The table of a scale.
pub fn of_scale(call: &Call<'_>, version: &str, scale: &Value) -> Value {
    let include = call.request.query.get("includeObject");
    let row = json!({"cells": cells::of(scale, "Scale", call.now.wall), "object": shown(scale, include, version)});
    let revision = scale.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let (metadata, columns) = (json!({"resourceVersion": revision}), built_in("Scale"));
    json!({"kind": "Table", "apiVersion": version, "metadata": metadata, "columnDefinitions": columns, "rows": [row]})
}

fn built_in(kind: &str) -> Vec<Value> {
    let text = include_str!("table/columns.txt");
    let wanted = format!("kind {kind}");
    let known = text.lines().any(|line| line == wanted);
    let start = if known { wanted } else { "kind ".to_owned() };
    text.lines()
        .skip_while(|line| *line != start)
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let mut parts = line.splitn(5, '|');
            let mut next = || parts.next();
            let (name, ty, format) = (next()?, next()?, next()?);
            let priority: i64 = next()?.parse().ok()?;
            let description = next()?.replace("\\n", "\n");
            Some(json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority}))
        })
        .collect()
}
