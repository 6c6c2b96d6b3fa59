//! What is particular to each kind: defaults, admission, what a write may change, validation, selectable fields.

use std::fmt::Debug;

use bailiff_model::Now;
use bailiff_runtime::Seed;
use serde_json::{Map, Value};

use crate::Status;
use crate::status::Cause;
use crate::store::{Fields, Store};

pub mod access;
pub mod admission;
pub mod budget;
pub mod config;
pub mod custom;
pub mod definition;
pub mod endpoints;
pub mod event;
pub mod lease;
pub mod meta;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod podspec;
pub mod priority;
pub mod service;
pub mod workload;

/// What rules may look at beside the object.
pub struct Context<'a> {
    /// All objects.
    pub store: &'a Store,
    /// The present.
    pub now: Now,
    /// Randomness.
    pub seed: &'a Seed,
}

/// What is particular to a kind. Every method has the behaviour of a plain object as default.
pub trait Rules: Debug + Sync {
    /// Fills in what a client may leave out. Applied when an object is read from a request.
    fn defaults(&self, _object: &mut Value) {}

    /// Admission, then what the kind does to a new object.
    ///
    /// # Errors
    /// When admission refuses it.
    fn prepare_create(&self, _object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// What the kind does to a new object once its name was generated.
    fn named(&self, _object: &mut Value) {}

    /// Admission, then what the kind does to a changed object; `status` is not to be changed here.
    ///
    /// # Errors
    /// When admission refuses it.
    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        if self.has_generation() && !equal_field(object, old, "spec") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    /// What the kind does when the subresource `status` is written: only status and labels, annotations, finalizers change.
    fn prepare_status(&self, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
    }

    /// Rules for every object.
    fn validate(&self, _object: &Value, _causes: &mut Vec<Cause>) {}

    /// What the answer to a create or an update is to warn about.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Rules for a change.
    fn validate_update(&self, object: &Value, _old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
    }

    /// Rules for a change of status.
    fn validate_status(&self, _object: &Value, _old: &Value, _causes: &mut Vec<Cause>) {}

    /// Rules for its name.
    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::subdomain(name)
    }

    /// Whether finalizers without a domain must be among those that the server knows.
    fn strict_finalizers(&self) -> bool {
        true
    }

    /// Whether what belongs to an object is looked after when it goes, so that the delete may say how.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` counts changes.
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether an update may come without a resourceVersion.
    fn unconditional_update(&self) -> bool {
        true
    }

    /// Whether an update of what does not exist creates it.
    fn create_on_update(&self) -> bool {
        false
    }

    /// Whether a delete is answered with the object rather than a Status.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// The grace period of a delete, in seconds, if the kind has such a thing. `asked` is what the request says.
    fn grace(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// From the request's version to the stored one, for kinds that are stored in another.
    fn to_storage(&self, object: Value) -> Value {
        object
    }

    /// The other way.
    fn to_served(&self, object: Value) -> Value {
        object
    }

    /// A field selector in the names of the stored version.
    ///
    /// # Errors
    /// 400 for fields that the served version does not have.
    fn stored_fields(&self, selector: &str) -> Result<String, Status> {
        Ok(selector.to_owned())
    }

    /// The group that refusals name, if it is not the kind's own.
    fn stored_group(&self) -> Option<&'static str> {
        None
    }

    /// The finalizer that a delete adds, if the kind has one.
    fn finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Whether objects are stored in another version.
    fn converts(&self) -> bool {
        false
    }
}

/// Nothing particular.
#[derive(Debug)]
pub struct Plain;

/// Nothing particular, but a delete is answered with the object.
#[derive(Debug)]
pub struct Returned;

impl Rules for Plain {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Rules for Returned {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// What field selectors of a table's objects can ask for.
pub fn fields_of(storage: &str) -> fn(&Value) -> Fields {
    match storage {
        "pods" => pod::fields,
        "nodes" => node::fields,
        "events" => event::fields,
        "namespaces" => namespace::fields,
        "secrets" => config::secret_fields,
        "services" => service::fields,
        _ => |_| Fields::new(),
    }
}

/// The object's field, as it was before.
pub(crate) fn keep(object: &mut Value, old: &Value, field: &str) {
    let Value::Object(fields) = object else { return };
    match old.get(field) {
        Some(value) if fields.get(field).is_some_and(|own| equal(own, value)) => {}
        Some(value) => {
            fields.insert(field.to_owned(), value.clone());
        }
        None => {
            fields.shift_remove(field);
        }
    }
}

/// Whether two values are equal. Quick where their fields come in the same order, as those of two states of an object do: nothing is
/// looked up.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|((key, value), (other_key, other_value))| {
                    if key == other_key {
                        equal(value, other_value)
                    } else {
                        other.get(key).is_some_and(|found| equal(value, found))
                    }
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        _ => one == other,
    }
}

/// Whether two objects have equal values in a field, or neither has it.
pub(crate) fn equal_field(one: &Value, other: &Value, field: &str) -> bool {
    match (one.get(field), other.get(field)) {
        (Some(one), Some(other)) => equal(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// A nested value. [`Value::pointer`] allocates for each step, lest it be escaped; pointers here never are.
pub(crate) fn find<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A nested text, `""` if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    find(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A nested list, empty if there is none.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    find(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A nested object, made if there is none.
pub(crate) fn section<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.get(field).is_some_and(Value::is_object) {
        if !object.is_object() {
            *object = Value::Object(Map::new());
        }
        object[field] = Value::Object(Map::new());
    }
    object[field].as_object_mut().expect("it was just made sure to be one")
}

/// Sets a field that is absent.
pub(crate) fn default(fields: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if fields.get(field).is_none_or(Value::is_null) {
        fields.insert(field.to_owned(), value.into());
    }
}
