//! DELETE of objects and collections: preconditions, grace, finalizers.

use std::sync::Arc;

use bailiff_model::Wall;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::input;
use super::options::DeleteOptions;
use super::paging::Paged;
use super::reply::Reply;
use super::write::Stored;
use super::{Call, custom, encode, read};
use crate::Status;
use crate::rules::{items, meta, section, text};
use crate::schema::decode::Oddities;
use crate::schema::time;
use crate::store::{Object, Store};

/// Namespaces that admission protects.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What became of an object that was to be deleted.
#[derive(Debug)]
pub enum Outcome {
    /// It is gone; this was its last state.
    Gone(Stored),
    /// It stays for now, in this state.
    Pending(Stored),
}

/// Serves a delete of one object.
///
/// # Errors
/// The refusal.
pub fn delete(call: &Call<'_>) -> Result<Reply, Status> {
    if call.kind.storage == "namespaces" && IMMORTAL.contains(&call.target.name.as_str()) {
        return Err(Status::forbidden(
            "",
            "namespaces",
            &call.target.name,
            "this namespace may not be deleted",
        ));
    }
    if call.kind.storage == "priorityclasses.scheduling.k8s.io" && call.target.name.starts_with("system-") {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(&call.kind.group, "priorityclasses", &call.target.name, why));
    }
    let options = options(call)?;
    let mut store = call.judged_store();
    let current = call.current(&store)?;
    match remove(call, &mut store, &current, &options)? {
        Outcome::Pending(object) => encode::object(call, 200, object),
        Outcome::Gone(object) if call.kind.rules.returns_deleted() => encode::object(call, 200, object),
        Outcome::Gone(_) => Ok(Reply::object(200, success(call, &current))),
    }
}

fn success(call: &Call<'_>, object: &Object) -> Value {
    let mut details = json!({"name": object.name()});
    if !call.kind.group.is_empty() {
        details["group"] = call.kind.group.as_str().into();
    }
    details["kind"] = call.kind.resource.as_str().into();
    details["uid"] = object.uid().into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Serves a delete of all objects that a selector means.
///
/// # Errors
/// The refusal.
pub fn collection(call: &Call<'_>) -> Result<Reply, Status> {
    let options = options(call)?;
    let selector = read::selector(call)?;
    read::revision(call)?;
    let limit = call.request.query.number("limit")?.filter(|limit| *limit > 0);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let (page, revision) = {
        let store = call.store();
        let revision = store.revision();
        let page = Paged::cut(call, read::objects(call, &store).cloned(), limit, &selector, revision);
        (page, revision)
    };
    // One by one, as others are served meanwhile: what is gone by then needs no deleting, and what changed goes as it is then.
    for object in &page.chosen {
        let mut store = call.judged_store();
        let current = store.get(&call.kind.storage, object.key()).cloned();
        if let Some(current) = current.filter(|current| current.uid() == object.uid()) {
            remove(call, &mut store, &current, &options)?;
        }
        // Merely released, it would be had again here before those who wait for it are awake.
        parking_lot::MutexGuard::unlock_fair(store);
    }
    encode::list(call, &page.chosen, revision, page.token, page.remaining)
}

fn options(call: &Call<'_>) -> Result<DeleteOptions, Status> {
    if call.request.body.is_empty() {
        return DeleteOptions::of_query(&call.request.query);
    }
    let mut oddities = Oddities::default();
    let body = input::value(call, "DeleteOptions", &mut oddities)?;
    let kind = text(&body, "/kind");
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as DeleteOptions"
        )));
    }
    let bare = body.as_object().cloned().map(|mut fields| {
        fields.shift_remove("kind");
        fields.shift_remove("apiVersion");
        Value::Object(fields)
    });
    let typed = crate::schema::decode::normal(bare.unwrap_or(body), "DeleteOptions", &mut oddities)
        .map_err(|why| Status::bad_request(format!("DeleteOptions cannot be read: {why}")))?;
    let mut options = DeleteOptions::of_body(&typed)?;
    options.dry_run |= call.dry_run();
    Ok(options)
}

/// Deletes an object as far as its grace period and finalizers let it.
///
/// # Errors
/// 409 when a precondition does not hold.
pub fn remove(call: &Call<'_>, store: &mut Store, current: &Arc<Object>, options: &DeleteOptions) -> Result<Outcome, Status> {
    remove_as(call, store, current, None, options)
}

/// The same for an object that is changed on its way out, in the same write.
///
/// # Errors
/// 409 when a precondition does not hold.
pub fn remove_as(
    call: &Call<'_>,
    store: &mut Store,
    current: &Arc<Object>,
    changed: Option<Value>,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    check_preconditions(call, current, options)?;
    if current.field("status.phase") == Some("Terminating") && call.kind.storage == "namespaces" {
        return Ok(Outcome::Pending(Stored::Kept(current.clone())));
    }
    let mut object = changed.unwrap_or_else(|| current.value());
    let graceful = match begin(call, &mut object, options) {
        Begun::Already => return Ok(Outcome::Pending(Stored::Kept(current.clone()))),
        Begun::Graceful => true,
        Begun::Immediate => false,
    };
    // An eviction was judged as what it is.
    if call.target.subresource.is_empty() {
        call.admit_delete(store, &current.value())?;
    }
    let mut finalizers = if call.kind.rules.has_dependents() {
        finalizers(&object, options)
    } else {
        items(&object, "/metadata/finalizers").to_vec()
    };
    if let Some(finalizer) = call.kind.rules.finalizer()
        && crate::rules::find(&object, "/metadata/deletionTimestamp").is_none()
        && !finalizers.iter().any(|one| one == finalizer)
    {
        finalizers.push(finalizer.into());
    }
    if finalizers != items(&object, "/metadata/finalizers") {
        set_finalizers(&mut object, &finalizers);
    }
    let pending = meta::is_held(&object);
    if !graceful && pending {
        mark(&mut object, call.now.wall);
    }
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let stays = pending || (graceful && grace > 0);
    let object = input::tidy_stored(object, call.kind);
    if options.dry_run || call.dry_run() {
        let dry = Stored::Dry(object);
        return Ok(if stays { Outcome::Pending(dry) } else { Outcome::Gone(dry) });
    }
    if stays {
        if super::write::same(&object, &current.value()) {
            return Ok(Outcome::Pending(Stored::Kept(current.clone())));
        }
        let stored = store.put(&call.kind.storage, object, call.now);
        custom::written(call, store, current.key());
        return Ok(Outcome::Pending(Stored::Kept(stored.unwrap_or_else(|| current.clone()))));
    }
    if graceful {
        // The end of the grace period is a write of its own: watchers see it before the object goes.
        store.put(&call.kind.storage, object.clone(), call.now);
    }
    let last = graceful.then_some(object);
    let removed = store.remove(&call.kind.storage, current.key(), last, call.now);
    custom::written(call, store, current.key());
    Ok(Outcome::Gone(Stored::Kept(removed.unwrap_or_else(|| current.clone()))))
}

fn check_preconditions(call: &Call<'_>, current: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |what: &str, given: &str, found: &str, why: &str| {
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({found}). The object might have been {why}"
        );
        let group = call.kind.rules.stored_group().unwrap_or(&call.kind.group);
        Status::conflict(group, &call.kind.kind, current.name(), &why)
    };
    let conflict = |what: &str, given: &str, found: &str, happened: &str| {
        if call.kind.storage != "namespaces" {
            return conflict(what, given, found, happened);
        }
        let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}");
        call.conflict(current.name(), &why)
    };
    if let Some(uid) = &options.uid
        && uid != current.uid()
    {
        return Err(conflict("UID", uid, current.uid(), "deleted and then recreated"));
    }
    let revision = current.revision().to_string();
    if let Some(given) = &options.resource_version
        && *given != revision
    {
        return Err(conflict("ResourceVersion", given, &revision, "modified"));
    }
    Ok(())
}

enum Begun {
    /// A deletion that is at least as soon is under way.
    Already,
    /// The object has (been given) a grace period.
    Graceful,
    /// The kind knows no grace.
    Immediate,
}

fn begin(call: &Call<'_>, object: &mut Value, options: &DeleteOptions) -> Begun {
    let running = crate::rules::find(object, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let asked = options.grace.map(|asked| if asked < 0 { 1 } else { asked });
    let since = text(object, "/metadata/deletionTimestamp").parse::<Wall>();
    if let Ok(ends) = since {
        let Some(running) = running else { return Begun::Immediate };
        return match asked {
            Some(asked) if asked < running => {
                let ends = ends.checked_sub(SignedDuration::from_secs(running - asked)).unwrap_or(ends);
                set_grace(object, ends, asked);
                Begun::Graceful
            }
            // The policy may still change while finalizers hold the object.
            _ if running == 0 && call.kind.rules.grace(object, None).is_none() => Begun::Immediate,
            _ => Begun::Already,
        };
    }
    let Some(grace) = call.kind.rules.grace(object, options.grace) else {
        return Begun::Immediate;
    };
    let ends = call
        .now
        .wall
        .checked_add(SignedDuration::from_secs(grace))
        .unwrap_or(Wall::MAX);
    set_grace(object, ends, grace);
    if let Some(generation) = crate::rules::find(object, "/metadata/generation").and_then(Value::as_i64)
        && generation > 0
    {
        let old = object.clone();
        meta::grow_generation(object, &old);
    }
    Begun::Graceful
}

fn set_grace(object: &mut Value, ends: Wall, seconds: i64) {
    let metadata = section(object, "metadata");
    metadata.insert("deletionTimestamp".to_owned(), time::seconds(ends).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

/// Marks an object without grace as being deleted.
fn mark(object: &mut Value, now: Wall) {
    if crate::rules::find(object, "/metadata/deletionTimestamp").is_none() {
        if crate::rules::find(object, "/metadata/generation")
            .and_then(Value::as_i64)
            .unwrap_or(0)
            > 0
        {
            let old = object.clone();
            meta::grow_generation(object, &old);
        }
        set_grace(object, now, 0);
    } else {
        section(object, "metadata").insert("deletionGracePeriodSeconds".to_owned(), 0.into());
    }
    if meta::is_namespace(object) {
        section(object, "status").insert("phase".to_owned(), "Terminating".into());
        section(object, "metadata").shift_remove("deletionGracePeriodSeconds");
    }
}

fn set_finalizers(object: &mut Value, finalizers: &[Value]) {
    let metadata = section(object, "metadata");
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

/// The finalizers that the propagation policy leaves or adds.
fn finalizers(object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let current = items(object, "/metadata/finalizers");
    let has = |name: &str| current.iter().any(|one| one == name);
    let policy = options.propagation.as_deref();
    let orphan = match (options.orphan, policy) {
        (Some(orphan), _) => orphan,
        (None, Some(policy)) => policy == "Orphan",
        (None, None) => has(ORPHAN),
    };
    let foreground = match (options.orphan, policy) {
        (Some(_), _) => false,
        (None, Some(policy)) => policy == "Foreground",
        (None, None) => has(FOREGROUND),
    };
    let mut finalizers: Vec<Value> = current
        .iter()
        .filter(|one| *one != ORPHAN && *one != FOREGROUND)
        .cloned()
        .collect();
    if orphan {
        finalizers.push(ORPHAN.into());
    }
    if foreground && !orphan {
        finalizers.push(FOREGROUND.into());
    }
    finalizers
}
