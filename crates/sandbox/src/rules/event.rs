//! Events, in both groups: stored as core/v1, shown in events.k8s.io/v1 under other names.

use serde_json::{Map, Value, json};

use super::{Context, Rules, meta, text};
use crate::Status;
use crate::api::names;
use crate::schema::decode::{Oddities, normal};
use crate::status::Cause;
use crate::store::Fields;

/// Rules for core/v1 events.
#[derive(Debug)]
pub struct CoreEvents;

/// Rules for events.k8s.io/v1 events.
#[derive(Debug)]
pub struct Events;

/// What a field is called in core/v1 and in events.k8s.io/v1.
const NAMES: [(&str, &str); 14] = [
    ("metadata", "metadata"),
    ("involvedObject", "regarding"),
    ("related", "related"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("series", "series"),
    ("action", "action"),
    ("reportingInstance", "reportingInstance"),
];

impl Rules for CoreEvents {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        legacy(object, causes);
        if object.get("eventTime").is_some_and(Value::is_string) {
            modern(object, "reportingComponent", causes);
        }
    }

    fn validate_update(&self, object: &Value, _old: &Value, causes: &mut Vec<Cause>) {
        legacy(object, causes);
    }

    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::segment(name)
    }

    fn strict_finalizers(&self) -> bool {
        false
    }

    fn has_dependents(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

impl Rules for Events {
    fn has_dependents(&self) -> bool {
        false
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, context: &Context<'_>) -> Result<(), Status> {
        CoreEvents.prepare_update(object, old, context)
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        legacy(object, causes);
        modern(object, "reportingController", causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        legacy(object, causes);
        for field in [
            "/involvedObject",
            "/reason",
            "/message",
            "/type",
            "/eventTime",
            "/reportingComponent",
        ] {
            meta::immutable(object, old, field, causes);
        }
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn to_storage(&self, object: Value) -> Value {
        let renamed = rename(
            object,
            |(core, named)| (named, core),
            ("reportingController", "reportingComponent"),
        );
        stored(renamed, "v1", "Event")
    }

    fn to_served(&self, object: Value) -> Value {
        let renamed = rename(
            object,
            |(core, named)| (core, named),
            ("reportingComponent", "reportingController"),
        );
        stored(renamed, "events.k8s.io/v1", "events.Event")
    }

    fn stored_fields(&self, selector: &str) -> Result<String, Status> {
        let mut terms = Vec::new();
        for term in selector.split(',').filter(|term| !term.is_empty()) {
            let end = term.find(['=', '!']).unwrap_or(term.len());
            let (field, rest) = term.split_at(end);
            let field = match field.split_once('.') {
                Some(("regarding", inner)) => format!("involvedObject.{inner}"),
                _ if field == "reportingController" => "reportingComponent".to_owned(),
                Some(("metadata", _)) => field.to_owned(),
                _ if matches!(field, "reason" | "type") => field.to_owned(),
                _ => return Err(Status::bad_request(format!("field label not supported: {field}"))),
            };
            terms.push(format!("{field}{rest}"));
        }
        Ok(terms.join(","))
    }

    fn stored_group(&self) -> Option<&'static str> {
        Some("")
    }

    fn converts(&self) -> bool {
        true
    }
}

fn rename(
    object: Value,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
    reporter: (&str, &str),
) -> Value {
    let Value::Object(mut fields) = object else { return object };
    let mut renamed = Map::new();
    for (from, to) in NAMES.into_iter().map(direction).chain([reporter]) {
        if let Some(value) = fields.swap_remove(from) {
            renamed.insert(to.to_owned(), value);
        }
    }
    Value::Object(renamed)
}

fn stored(object: Value, api_version: &str, schema: &str) -> Value {
    let mut object = normal(object, schema, &mut Oddities::default()).unwrap_or_default();
    if let Value::Object(fields) = &mut object {
        let mut named = Map::new();
        named.insert("kind".to_owned(), "Event".into());
        named.insert("apiVersion".to_owned(), api_version.into());
        named.append(fields);
        *fields = named;
    }
    object
}

fn legacy(object: &Value, causes: &mut Vec<Cause>) {
    let about = text(object, "/involvedObject/namespace");
    let namespace = text(object, "/metadata/namespace");
    // Events about cluster-scoped objects belong into the default namespace.
    let fits = if about.is_empty() {
        namespace == "default"
    } else {
        about == namespace
    };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &json!(about),
            "does not match event.namespace",
        ));
    }
}

fn modern(object: &Value, reporter_field: &str, causes: &mut Vec<Cause>) {
    let reporter = text(object, "/reportingComponent");
    if reporter.is_empty() {
        causes.push(Cause::required(reporter_field, ""));
        causes.push(Cause::invalid(reporter_field, &json!(""), "name part must be non-empty"));
    }
    if !names::is_qualified_name(reporter) {
        causes.push(Cause::invalid(
            reporter_field,
            &json!(reporter),
            names::QUALIFIED_NAME_COMPLAINT,
        ));
    }
    for field in ["reportingInstance", "action"] {
        let given = text(object, &format!("/{field}"));
        if given.is_empty() {
            causes.push(Cause::required(field, ""));
        }
        short(given, field, 128, causes);
    }
    if reporter_field == "reportingController" {
        if !object.get("eventTime").is_some_and(Value::is_string) {
            causes.push(Cause::required("eventTime", ""));
        }
        if text(object, "/reason").is_empty() {
            causes.push(Cause::required("reason", ""));
        }
        short(text(object, "/reason"), "reason", 128, causes);
        short(text(object, "/message"), "message", 1024, causes);
        if let Some(count) = object.pointer("/series/count")
            && count.as_i64().is_none_or(|count| count < 2)
        {
            causes.push(Cause::invalid("series.count", &json!(""), "should be at least 2"));
        }
        older(object, causes);
        if !matches!(text(object, "/type"), "Normal" | "Warning") {
            let given = object.get("type").cloned().unwrap_or(json!(""));
            causes.push(Cause::invalid("type", &given, "has invalid value"));
        }
    }
}

fn short(text: &str, field: &str, most: usize, causes: &mut Vec<Cause>) {
    if text.len() > most {
        let complaint = format!("can have at most {most} characters");
        causes.push(Cause::invalid(field, &json!(""), &complaint));
    }
}

/// Fields that only the older version may set.
fn older(object: &Value, causes: &mut Vec<Cause>) {
    let source = object.get("source").and_then(Value::as_object);
    let set = [
        ("firstTimestamp", object.get("firstTimestamp").is_some_and(Value::is_string)),
        ("lastTimestamp", object.get("lastTimestamp").is_some_and(Value::is_string)),
        ("count", object.get("count").and_then(Value::as_i64).unwrap_or(0) != 0),
        ("source", source.is_some_and(|source| !source.is_empty())),
    ];
    for (field, _) in set.into_iter().filter(|(_, set)| *set) {
        causes.push(Cause::invalid(field, &json!(""), "needs to be unset"));
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    let source = match text(object, "/source/component") {
        "" => text(object, "/reportingComponent"),
        component => component,
    };
    let mut fields: Fields = vec![
        ("reason", text(object, "/reason").into()),
        ("type", text(object, "/type").into()),
        ("reportingComponent", text(object, "/reportingComponent").into()),
        ("source", source.into()),
    ];
    for (name, pointer) in [
        ("involvedObject.kind", "/involvedObject/kind"),
        ("involvedObject.namespace", "/involvedObject/namespace"),
        ("involvedObject.name", "/involvedObject/name"),
        ("involvedObject.uid", "/involvedObject/uid"),
        ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
        ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
        ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ] {
        fields.push((name, text(object, pointer).into()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_component_or_who_reports() {
        let source = |event: Value| {
            let fields = fields(&event);
            fields
                .into_iter()
                .find(|(name, _)| *name == "source")
                .map(|(_, value)| value.to_string())
        };
        let cases = [
            (
                json!({"source": {"component": "kubelet"}, "reportingComponent": "other"}),
                "kubelet",
            ),
            (
                json!({"source": {}, "reportingComponent": "node-controller"}),
                "node-controller",
            ),
            (json!({"reportingComponent": ""}), ""),
        ];
        for (event, wanted) in cases {
            assert_eq!(source(event.clone()).as_deref(), Some(wanted), "{event}");
        }
    }
}
