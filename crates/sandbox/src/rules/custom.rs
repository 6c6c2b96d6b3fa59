//! Objects of kinds that a CustomResourceDefinition brings. They are plain: no schema is looked at.

use serde_json::{Map, Value};

use super::{Context, Rules, keep, meta};
use crate::Status;

/// Rules for the objects of a custom kind in one of its versions.
#[derive(Debug)]
pub struct Objects {
    /// The version that is served, with its group.
    pub served: String,
    /// The version that is stored, with its group.
    pub stored: String,
    /// Whether objects may be stored in another version than the one that is served.
    pub converts: bool,
    /// Whether status is a subresource.
    pub status: bool,
}

impl Rules for Objects {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        if self.status
            && let Value::Object(fields) = object
        {
            fields.shift_remove("status");
        }
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        if self.status {
            keep(object, old, "status");
        }
        if content(object) != content(old) {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    /// Of a status nothing but the status is taken, and who owns it.
    fn prepare_status(&self, object: &mut Value, old: &Value) {
        let given = std::mem::replace(object, old.clone());
        keep(object, &given, "status");
        if let (Some(given), Some(metadata)) = (given.get("metadata"), object.get_mut("metadata")) {
            keep(metadata, given, "managedFields");
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn to_storage(&self, object: Value) -> Value {
        self.versioned(object, &self.stored)
    }

    fn to_served(&self, object: Value) -> Value {
        self.versioned(object, &self.served)
    }

    fn converts(&self) -> bool {
        self.converts
    }
}

impl Objects {
    /// Versions differ in their names only.
    fn versioned(&self, mut object: Value, version: &str) -> Value {
        if self.converts
            && let Some(named) = object.get_mut("apiVersion")
        {
            *named = version.into();
        }
        object
    }
}

/// Everything but metadata.
fn content(object: &Value) -> Map<String, Value> {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.shift_remove("metadata");
    fields.shift_remove("apiVersion");
    fields
}
