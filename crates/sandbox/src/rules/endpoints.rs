//! EndpointSlices, Endpoints and PodTemplates: plain objects whose parts have defaults.

use serde_json::{Map, Value, json};

use super::{Context, Rules, default, keep, meta, podspec, section};
use crate::Status;

/// Rules for EndpointSlices.
#[derive(Debug)]
pub struct Slices;

/// Rules for Endpoints.
#[derive(Debug)]
pub struct Endpoints;

/// Rules for templates of pods.
#[derive(Debug)]
pub struct Templates;

impl Rules for Slices {
    fn defaults(&self, object: &mut Value) {
        for port in list(object.get_mut("ports")) {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
        for endpoint in list(object.get_mut("endpoints")) {
            default(endpoint, "conditions", json!({}));
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        // Labels say which service it is of, so they count as well.
        let counted = |object: &Value| {
            let mut counted = object.clone();
            if let Value::Object(fields) = &mut counted {
                let labels = fields.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
                fields.insert("metadata".to_owned(), labels.unwrap_or_default());
            }
            counted
        };
        if counted(object) != counted(old) {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn has_generation(&self) -> bool {
        true
    }
}

impl Rules for Endpoints {
    fn defaults(&self, object: &mut Value) {
        for subset in list(object.get_mut("subsets")) {
            for port in list(subset.get_mut("ports")) {
                default(port, "protocol", "TCP");
            }
        }
    }

    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

impl Rules for Templates {
    fn defaults(&self, object: &mut Value) {
        section(object, "template");
        podspec::defaults(section(&mut object["template"], "spec"));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        if object.get("template") != old.get("template") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

fn list(value: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    value
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
