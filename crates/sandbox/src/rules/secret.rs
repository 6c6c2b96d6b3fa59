//! Secrets, as far as they have a type.

use serde_json::Value;

use super::{Context, Rules, default, text};
use crate::Status;
use crate::store::Fields;

/// Rules for secrets.
#[derive(Debug)]
pub struct Secrets;

impl Rules for Secrets {
    fn defaults(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            default(fields, "type", "Opaque");
        }
    }

    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    vec![("type", text(object, "/type").into())]
}
