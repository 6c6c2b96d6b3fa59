//! What all writes share: which changes count, and putting the result where it belongs.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Call, custom, input, raw};
use crate::Status;
use crate::api::encode;
use crate::api::reply::Reply;
use crate::apply::managers::{self, Managers};
use crate::rules::pod::part::Part;
use crate::rules::{equal, meta};
use crate::status::Cause;
use crate::store::{Key, Object, Store};

/// The message of every lost race.
pub const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

/// A change to an object that exists.
#[derive(Debug)]
pub struct Change {
    /// The object as it is to be, in the version of the request.
    pub object: Value,
    /// Whether only the status is written.
    pub status: bool,
    /// What the answer is to warn about.
    pub warnings: Vec<String>,
    /// The bytes of a raw field, where the object does not say them.
    pub raw: Option<Box<[u8]>>,
    /// Who owns what afterwards; the change is tracked as a plain write if it does not say.
    pub managers: Option<Managers>,
}

impl Call<'_> {
    /// Whether the request is about the subresource `status`.
    pub fn about_status(&self) -> bool {
        self.target.subresource == "status"
    }

    /// Carries out a change of `current`, which is `old`: keeps what clients may not touch, prepares, validates, stores.
    ///
    /// # Errors
    /// 422 when the result breaks rules.
    pub fn commit(&self, store: &mut Store, current: &Arc<Object>, old: &Value, change: Change) -> Result<Reply, Status> {
        let mut object = change.object;
        self.own(&mut object, old, change.managers);
        let mut object = self.kind.rules.to_storage(object);
        keep_system_metadata(&mut object, old);
        if change.status {
            self.kind.rules.prepare_status(&mut object, old);
        } else if let Some(part) = self.part() {
            part.prepare(&mut object, old);
        } else {
            let context = self.context(store);
            self.kind.rules.prepare_update(&mut object, old, &context)?;
        }
        super::escalation::check(self, store, &object, Some(old))?;
        let object = input::tidy_stored(object, self.kind);
        input::readable(&object)?;
        let mut causes = Vec::new();
        meta::validate(&object, &*self.kind.rules, &mut causes);
        meta::validate_update(&object, old, &mut causes);
        if change.status {
            self.kind.rules.validate_status(&object, old, &mut causes);
        } else if let Some(part) = self.part() {
            part.validate(&object, old, &mut causes);
        } else {
            self.kind.rules.validate_update(&object, old, &mut causes);
        }
        causes.extend(raw::changed(self, &object, change.raw.as_deref(), current));
        if !causes.is_empty() {
            let name = current.name();
            return Err(self.invalid(name, causes));
        }
        if self.target.subresource != "scale" {
            self.admit_update(store, &object, old)?;
        }
        if let Some(part) = self.part() {
            part.admit(&object, old, &self.context(store))?;
        }
        let mut warnings = change.warnings;
        warnings.extend(self.kind.rules.warnings(&object));
        let stored = self.store_object(store, current, old, object);
        encode::object(self, 200, stored).map(|reply| reply.warn(&warnings))
    }

    /// The part of a pod's spec that the subresource is about.
    fn part(&self) -> Option<Part> {
        match self.target.subresource.as_str() {
            "ephemeralcontainers" => Some(Part::EphemeralContainers),
            "resize" => Some(Part::Resources),
            _ => None,
        }
    }

    fn own(&self, object: &mut Value, old: &Value, managers: Option<Managers>) {
        match managers {
            Some(managers) => managers.write(object),
            None if self.kind.rules.converts() => managers::track(self, Some(&self.kind.rules.to_served(old.clone())), object),
            None => managers::track(self, Some(old), object),
        }
    }

    /// Stores a state of an object that is valid and was `old`, unless it is the same; removes it if that was all it waited for.
    pub fn store_object(&self, store: &mut Store, current: &Arc<Object>, old: &Value, object: Value) -> Stored {
        if same(&object, old) {
            return Stored::Kept(current.clone());
        }
        if self.dry_run() {
            return Stored::Dry(object);
        }
        if is_done(&object) {
            // The answer is the object as it was to be written: that it went is another write.
            store.remove(&self.kind.storage, current.key(), Some(object.clone()), self.now);
            custom::written(self, store, current.key());
            return Stored::Dry(object);
        }
        let stored = store.put(&self.kind.storage, object, self.now);
        custom::written(self, store, current.key());
        Stored::Kept(stored.unwrap_or_else(|| current.clone()))
    }

    /// 422 about an object of this kind.
    pub fn invalid(&self, name: &str, causes: Vec<Cause>) -> Status {
        let group = self.kind.rules.stored_group().unwrap_or(&self.kind.group);
        Status::invalid(group, &self.kind.kind, name, causes)
    }

    /// The object that the path names.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn current(&self, store: &Store) -> Result<Arc<Object>, Status> {
        store
            .get(&self.kind.storage, &self.key())
            .cloned()
            .ok_or_else(|| self.not_found())
    }

    /// Where the object that the path names is.
    pub fn key(&self) -> Key {
        let namespace = if self.kind.namespaced {
            self.target.namespace.as_str()
        } else {
            ""
        };
        Key::new(namespace, &self.target.name)
    }
}

/// A written object, or what would have been written.
#[derive(Debug)]
pub enum Stored {
    /// It is in the store, or was until now.
    Kept(Arc<Object>),
    /// It is not.
    Dry(Value),
}

/// Whether nothing but the record of who owns what, and when, differs.
pub fn same(object: &Value, old: &Value) -> bool {
    alike(object, old, "", &|field, one, other| match field {
        "metadata" => alike(
            one,
            other,
            "resourceVersion",
            &|field, one, other| match (field, one, other) {
                ("managedFields", Value::Array(ones), Value::Array(others)) => {
                    let is_same = |(one, other)| alike(one, other, "time", &|_, one, other| equal(one, other));
                    ones.len() == others.len() && ones.iter().zip(others).all(is_same)
                }
                _ => equal(one, other),
            },
        ),
        _ => equal(one, other),
    })
}

/// Whether two objects have the same fields, but for one that does not count, and fields that compare alike.
fn alike(one: &Value, other: &Value, but: &str, is_same: &dyn Fn(&str, &Value, &Value) -> bool) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return one == other;
    };
    let count = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key(but));
    count(one) == count(other)
        && one
            .iter()
            .filter(|(field, _)| *field != but)
            .all(|(field, value)| other.get(field).is_some_and(|before| is_same(field, value, before)))
}

/// Whether an object that is being deleted has nothing left to wait for.
fn is_done(object: &Value) -> bool {
    let deleted = crate::rules::find(object, "/metadata/deletionTimestamp").is_some();
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    deleted && grace == 0 && !meta::is_held(object)
}

/// What only the server sets.
pub fn keep_system_metadata(object: &mut Value, old: &Value) {
    let metadata = crate::rules::section(object, "metadata");
    let before = old.get("metadata").unwrap_or(&Value::Null);
    for field in ["creationTimestamp", "generation", "selfLink"] {
        match before.get(field) {
            Some(value) => {
                metadata.insert(field.to_owned(), value.clone());
            }
            None => {
                metadata.shift_remove(field);
            }
        }
    }
    // What says that it goes may be left out, but not be changed.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let (None | Some(Value::Null), Some(value)) = (metadata.get(field), before.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty()
        && let Some(uid) = before.get("uid")
    {
        metadata.insert("uid".to_owned(), uid.clone());
    }
    if let Some(revision) = before.get("resourceVersion") {
        metadata.insert("resourceVersion".to_owned(), revision.clone());
    }
}
