//! PUT of an object or its status.

use serde_json::Value;

use super::reply::Reply;
use super::write::Change;
use super::{Call, create, input, options, raw};
use crate::Status;
use crate::rules::text;
use crate::status::Cause;

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn put(call: &Call<'_>) -> Result<Reply, Status> {
    options::check_write(&call.request.query, "UpdateOptions", false)?;
    let mut input = input::object(call)?;
    if text(&input.object, "/metadata/name").is_empty() {
        return Err(input::nameless(call));
    }
    input::place(call, &mut input.object)?;
    let mut store = call.judged_store();
    let Some(current) = store.get(&call.kind.storage, &call.key()).cloned() else {
        drop(store);
        return put_missing(call, input);
    };
    let uid = text(&input.object, "/metadata/uid");
    if !uid.is_empty() && uid != current.uid() {
        return Err(wrong_uid(call, uid, current.uid()));
    }
    let revision = text(&input.object, "/metadata/resourceVersion");
    if (revision.is_empty() || revision == "0") && !call.kind.rules.unconditional_update() {
        let cause = Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
        return Err(Status::invalid(
            &call.kind.group,
            &call.kind.resource,
            &call.target.name,
            vec![cause],
        ));
    }
    input::check_revision(call, revision, &current)?;
    let change = Change {
        raw: raw::given(call, &input.object),
        object: input.object,
        status: call.about_status(),
        warnings: input.warnings,
        managers: None,
    };
    call.commit(&mut store, &current, &current.value(), change)
}

fn put_missing(call: &Call<'_>, mut input: input::Input) -> Result<Reply, Status> {
    if !call.kind.rules.create_on_update() || call.about_status() {
        return Err(call.not_found());
    }
    let uid = text(&input.object, "/metadata/uid");
    if !uid.is_empty() {
        return Err(wrong_uid(call, uid, ""));
    }
    if let Some(Value::Object(metadata)) = input.object.get_mut("metadata")
        && metadata
            .get("resourceVersion")
            .and_then(Value::as_str)
            .is_some_and(|revision| revision != "0" && !revision.is_empty())
    {
        return Err(call.not_found());
    }
    create::check_right(call)?;
    create::store_new(call, input, None)
}

fn wrong_uid(call: &Call<'_>, given: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
         precondition: {given}, UID in object meta: {found}",
        storage_key(call)
    );
    call.conflict(&call.target.name, &why)
}

/// Where a real server keeps the object that the path names.
fn storage_key(call: &Call<'_>) -> String {
    let kind = call.kind;
    let place = match kind.storage.as_str() {
        "endpoints" => "services/endpoints",
        "nodes" => "minions",
        "services" => "services/specs",
        _ => kind.resource.as_str(),
    };
    // Only definitions, and what they brought, are kept by group.
    let group = if kind.custom.is_some() || kind.group == "apiextensions.k8s.io" {
        format!("/{}", kind.group)
    } else {
        String::new()
    };
    let key = call.key();
    let namespace = if kind.namespaced {
        format!("/{}", key.namespace)
    } else {
        String::new()
    };
    format!("/registry{group}/{place}{namespace}/{}", key.name)
}
