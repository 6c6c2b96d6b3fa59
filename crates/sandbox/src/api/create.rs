//! POST of an object: admission, names, system metadata, validation.

use serde_json::Value;

use super::authz::Attributes;
use super::input::{self, Input};
use super::reply::Reply;
use super::write::Stored;
use super::{Call, custom, encode, options, raw};
use crate::Status;
use crate::apply::managers::{self, Managers};
use crate::rules::{meta, section, text};
use crate::schema::time;
use crate::status::Cause;
use crate::store::{Key, Store};

/// Characters of generated names: no vowels, so that no words come out, as the real server does it.
const NAME_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters that are added to a prefix.
const SUFFIX: usize = 5;
/// Names that are drawn for an object before it is given up.
const DRAWS: usize = 8;
/// What the prefix may take, so that the result fits a label.
const PREFIX: usize = 63 - SUFFIX;

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn create(call: &Call<'_>) -> Result<Reply, Status> {
    options::check_write(&call.request.query, "CreateOptions", false)?;
    let input = input::object(call)?;
    store_new(call, input, None)
}

/// Checks that whoever may write an object may create it, too, where the request was not for that.
///
/// # Errors
/// 403.
pub fn check_right(call: &Call<'_>) -> Result<(), Status> {
    let attributes = Attributes {
        verb: "create".to_owned(),
        ..Attributes::of_request(Some(call.target), call.request)
    };
    attributes.check(call.sandbox, call.user)
}

/// Stores a new object, whichever way it came.
///
/// # Errors
/// The refusal.
pub fn store_new(call: &Call<'_>, input: Input, managers: Option<Managers>) -> Result<Reply, Status> {
    let Input {
        mut object,
        mut warnings,
    } = input;
    if !matches!(text(&object, "/metadata/resourceVersion"), "" | "0") {
        return Err(Status::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    input::place(call, &mut object)?;
    let mut store = call.judged_store();
    custom::check(call)?;
    check_namespace(call, &store, text(&object, "/metadata/name"))?;
    section(&mut object, "metadata").shift_remove("managedFields");
    match managers {
        Some(managers) => managers.write(&mut object),
        None => managers::track(call, None, &mut object),
    }
    let mut object = call.kind.rules.to_storage(object);
    call.kind.rules.prepare_create(&mut object, &call.context(&store))?;
    super::escalation::check(call, &store, &object, None)?;
    stamp(call, &store, &mut object);
    let object = input::tidy_stored(object, call.kind);
    input::readable(&object)?;
    validate(call, &object)?;
    call.admit_create(&store, &object)?;
    warnings.extend(call.kind.rules.warnings(&object));
    let given = raw::given(call, &object);
    let key = Key::of(&object);
    if let Some(existing) = store.get(&call.kind.storage, &key) {
        return Err(taken(call, &existing.value()));
    }
    let stored = if call.dry_run() {
        Stored::Dry(object)
    } else {
        let stored = store.put_given(&call.kind.storage, object, given, call.now);
        custom::written(call, &mut store, &key);
        Stored::Kept(stored.ok_or_else(Status::no_such_path)?)
    };
    encode::object(call, 201, stored).map(|reply| reply.warn(&warnings))
}

fn taken(call: &Call<'_>, existing: &Value) -> Status {
    let name = text(existing, "/metadata/name");
    let mut status = Status::already_exists(&call.kind.group, &call.kind.resource, name);
    if crate::rules::find(existing, "/metadata/deletionTimestamp").is_some() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Nothing is created in a namespace that is missing or going.
///
/// # Errors
/// 404 or 403.
pub fn check_namespace(call: &Call<'_>, store: &Store, name: &str) -> Result<(), Status> {
    if !call.kind.namespaced {
        return Ok(());
    }
    let namespace = call.target.namespace.as_str();
    let Some(found) = store.get("namespaces", &Key::new("", namespace)) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    if found.field("status.phase") == Some("Terminating") {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {namespace} is being terminated"),
        );
        return Err(Status::forbidden(&call.kind.group, &call.kind.resource, name, &why).because(vec![cause]));
    }
    Ok(())
}

/// What the server sets on every new object.
fn stamp(call: &Call<'_>, store: &Store, object: &mut Value) {
    let counted = call.kind.rules.has_generation();
    let metadata = section(object, "metadata");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"] {
        metadata.shift_remove(field);
    }
    if metadata.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        if !prefix.is_empty() {
            let name = generate_name(call, store, prefix);
            metadata.insert("name".to_owned(), name.into());
        }
        call.kind.rules.named(object);
    }
    let metadata = section(object, "metadata");
    metadata.insert("uid".to_owned(), call.sandbox.seed().uuid().into());
    metadata.insert("creationTimestamp".to_owned(), time::seconds(call.now.wall).into());
    if counted {
        metadata.insert("generation".to_owned(), 1.into());
    }
}

/// A name that is free; the last one drawn if none was.
fn generate_name(call: &Call<'_>, store: &Store, prefix: &str) -> String {
    let namespace = if call.kind.namespaced {
        call.target.namespace.as_str()
    } else {
        ""
    };
    let is_free = |name: &String| store.get(&call.kind.storage, &Key::new(namespace, name)).is_none();
    let mut name = draw_name(call, prefix);
    for _ in 1..DRAWS {
        if is_free(&name) {
            break;
        }
        name = draw_name(call, prefix);
    }
    name
}

fn draw_name(call: &Call<'_>, prefix: &str) -> String {
    let mut name: String = prefix.chars().take(PREFIX).collect();
    for _ in 0..SUFFIX {
        let index = usize::try_from(call.sandbox.seed().below(NAME_CHARACTERS.len() as u64)).unwrap_or(0);
        name.push(char::from(NAME_CHARACTERS.get(index).copied().unwrap_or(b'x')));
    }
    name
}

/// What is checked of a prefix: it may end in a hyphen, which then stands for itself and the character before it.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(start) if !start.is_empty() => {
            let kept = start.char_indices().next_back().map_or(0, |(at, _)| at);
            format!("{}a", start.get(..kept).unwrap_or_default())
        }
        _ => prefix.to_owned(),
    }
}

fn validate(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let mut causes = Vec::new();
    let prefix = text(object, "/metadata/generateName");
    if !prefix.is_empty()
        && let Some(complaint) = call.kind.rules.validate_name(&masked(prefix))
    {
        causes.push(Cause::invalid("metadata.generateName", &prefix.into(), complaint));
    }
    meta::validate(object, &*call.kind.rules, &mut causes);
    call.kind.rules.validate(object, &mut causes);
    if causes.is_empty() {
        return Ok(());
    }
    Err(call.invalid(text(object, "/metadata/name"), causes))
}
