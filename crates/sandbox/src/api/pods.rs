//! Subresources that are no plain views of an object: binding, eviction, tokens, finalize, scale and the like.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::delete::{self, Outcome};
use super::options::DeleteOptions;
use super::reply::Reply;
use super::selector::Selector;
use super::write::MODIFIED;
use super::{Call, create, encode, input, patching, read, remote, update};
use crate::Status;
use crate::rules::{items, pod, section, text};
use crate::schema::decode::Oddities;
use crate::schema::time;
use crate::status::Cause;
use crate::store::{Key, Object, Store};

/// Pods that a budget remembers as being disrupted before it must be updated.
const MOST_DISRUPTED: usize = 2000;

/// Serves a request for a subresource other than `status`.
///
/// # Errors
/// The refusal.
pub fn subresource(call: &Call<'_>) -> Result<Reply, Status> {
    let method = call.request.method.as_str();
    let sub = call.target.subresource.as_str();
    if sub.split('/').next() == Some("proxy") && matches!(call.kind.storage.as_str(), "pods" | "nodes" | "services") {
        return remote::proxy(call);
    }
    let Some(sub) = call.kind.subresources.iter().find(|sub| sub.name == call.target.subresource) else {
        return Err(Status::no_such_path());
    };
    let verb = match method {
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        _ => "",
    };
    if !sub.verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }
    // These are created like anything else; the others that are posted are connections.
    if matches!((sub.name, verb), ("binding" | "eviction" | "token", "create")) {
        create::check_namespace(call, &call.store(), &call.target.name)?;
    }
    match (sub.name, verb) {
        ("binding", _) => {
            let body = body(call, "Binding")?;
            bind(call, &call.target.name, &body)
        }
        ("eviction", _) => evict(call),
        ("token", _) => super::tokens::request(call),
        ("finalize", _) => finalize(call),
        ("scale", _) => super::scale::serve(call),
        ("log" | "exec" | "attach" | "portforward", _) => remote::process(call, sub.name),
        (_, "get") => read::get(call),
        (_, "patch") => patching::patch(call),
        _ => update::put(call),
    }
}

/// What was sent, as what it is taken for.
pub(super) fn named(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = object.clone();
    if object.is_object() {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
    }
    object
}

pub(super) fn body(call: &Call<'_>, kind: &str) -> Result<Value, Status> {
    let mut oddities = Oddities::default();
    input::value(call, kind, &mut oddities)
}

fn success() -> Reply {
    Reply::object(
        201,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// Assigns a pod to a node, once.
///
/// # Errors
/// The refusal.
pub fn bind(call: &Call<'_>, name: &str, binding: &Value) -> Result<Reply, Status> {
    let binding = &input::formed(binding.clone(), "Binding")?;
    if text(binding, "/metadata/name") != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = text(binding, "/target/kind");
    if !matches!(target, "" | "Node") {
        let why = format!("target.kind: Unsupported value: \"{target}\": supported values: \"Node\", \"<empty>\"");
        return Err(Status::new(500, "", why));
    }
    let node = text(binding, "/target/name");
    if node.is_empty() {
        return Err(Status::new(500, "", "target.name: Required value"));
    }
    let mut store = call.judged_store();
    call.admit_other(&store, "CREATE", &named(binding, "v1", "Binding"), &Value::Null)?;
    let key = Key::new(&call.target.namespace, name);
    let current = store
        .get("pods", &key)
        .cloned()
        .ok_or_else(|| Status::not_found("", "pods", name))?;
    for (what, field, found) in [
        ("UID", "/metadata/uid", current.uid().to_owned()),
        ("ResourceVersion", "/metadata/resourceVersion", current.revision().to_string()),
    ] {
        let given = text(binding, field);
        if !given.is_empty() && given != found {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {what} in precondition: {given}, {what} in object meta: {found}",
                call.target.namespace
            );
            return Err(Status::conflict("", "pods", name, &why));
        }
    }
    let mut object = current.value();
    let refuse = |why: String| Err(Status::conflict("", "pods/binding", name, &why));
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let assigned = text(&object, "/spec/nodeName");
    if !assigned.is_empty() {
        return refuse(format!("pod {name} is already assigned to node \"{assigned}\""));
    }
    if !items(&object, "/spec/schedulingGates").is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    assign(call, &store, &mut object, node, binding);
    if !call.dry_run() {
        store.put("pods", input::tidy_pod(call, object), call.now);
    }
    Ok(success())
}

fn assign(call: &Call<'_>, store: &Store, object: &mut Value, node: &str, binding: &Value) {
    section(object, "spec").insert("nodeName".to_owned(), node.into());
    for field in ["annotations", "labels"] {
        let given = binding.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            section(&mut object["metadata"], field).insert(key.clone(), value.clone());
        }
    }
    // Admission looks at bindings that say what they bind to.
    if text(binding, "/target/kind") == "Node" {
        pod::copy_topology(object, node, &call.context(store));
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": time::seconds(call.now.wall),
    });
    set_condition(object, condition);
}

/// Puts a condition into a status, in place of one of the same type. It holds since the one before did, if that said the same.
fn set_condition(object: &mut Value, mut condition: Value) {
    let conditions = section(object, "status").entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    let same = |one: &&mut Value| one.get("type") == condition.get("type");
    match conditions.iter_mut().find(same) {
        Some(one) => {
            if one.get("status") == condition.get("status")
                && let Some(since) = one.get("lastTransitionTime")
            {
                condition["lastTransitionTime"] = since.clone();
            }
            *one = condition;
        }
        None => conditions.push(condition),
    }
}

fn evict(call: &Call<'_>) -> Result<Reply, Status> {
    let eviction = body(call, "Eviction")?;
    let name = call.target.name.as_str();
    if text(&eviction, "/metadata/name") != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let namespace = text(&eviction, "/metadata/namespace");
    if !namespace.is_empty() && namespace != call.target.namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    let mut options = DeleteOptions::of_body(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
    options.dry_run |= call.dry_run();
    let mut store = call.judged_store();
    call.admit_other(&store, "CREATE", &named(&eviction, "policy/v1", "Eviction"), &Value::Null)?;
    let current = call.current(&store)?;
    let pod = current.value();
    if needs_budget(&pod) {
        spend_budget(call, &mut store, &pod, options.dry_run)?;
    }
    let marked = mark_disrupted(call, &current, &options);
    finish_eviction(call, &mut store, &current, marked, &options)?;
    Ok(success())
}

/// Pods that are done, not yet running or already going cost no budget.
fn needs_budget(pod: &Value) -> bool {
    let phase = text(pod, "/status/phase");
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && pod.pointer("/metadata/deletionTimestamp").is_none()
}

fn is_ready(pod: &Value) -> bool {
    items(pod, "/status/conditions")
        .iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn spend_budget(call: &Call<'_>, store: &mut Store, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let Some(budget) = budget_of(call, store, pod)? else {
        return Ok(());
    };
    let mut value = budget.value();
    let number = |value: &Value, field: &str| value.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    if !is_ready(pod) {
        let always = text(&value, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        let healthy = number(&value, "/status/currentHealthy");
        let desired = number(&value, "/status/desiredHealthy");
        if always || (healthy >= desired && desired > 0) {
            return Ok(());
        }
    }
    check_budget(call, &value)?;
    if dry_run {
        return Ok(());
    }
    let status = section(&mut value, "status");
    let allowed = status.get("disruptionsAllowed").and_then(Value::as_i64).unwrap_or(0);
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    if let Value::Object(disrupted) = disrupted {
        disrupted.insert(text(pod, "/metadata/name").to_owned(), time::seconds(call.now.wall).into());
    }
    let (status, reason) = if allowed > 1 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let condition = json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": number(&value, "/status/observedGeneration"),
        "lastTransitionTime": time::seconds(call.now.wall),
    });
    set_condition(&mut value, condition);
    if let Some(kind) = call.sandbox.kinds().find("policy", "v1", "poddisruptionbudgets") {
        store.put(&kind.storage.clone(), input::tidy(value, kind), call.now);
    }
    Ok(())
}

fn budget_of(call: &Call<'_>, store: &Store, pod: &Value) -> Result<Option<Arc<Object>>, Status> {
    let Some(table) = store.table("poddisruptionbudgets.policy") else {
        return Ok(None);
    };
    let label = |key: &str| {
        pod.pointer("/metadata/labels")
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    let mut found = table.in_namespace(&call.target.namespace).filter(|budget| {
        let selector = budget.value().pointer("/spec/selector").cloned();
        selector.is_some_and(|selector| Selector::of_object(&selector).matches_labels(&label))
    });
    let first = found.next().cloned();
    if found.next().is_some() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::new(500, "", why));
    }
    Ok(first)
}

fn check_budget(call: &Call<'_>, budget: &Value) -> Result<(), Status> {
    let _ = call;
    let number = |field: &str| budget.pointer(field).and_then(Value::as_i64).unwrap_or(0);
    let name = text(budget, "/metadata/name");
    let refuse = |message: String| {
        let cause = Cause::new("DisruptionBudget", "", message);
        let refusal = "Cannot evict pod as it would violate the pod's disruption budget.";
        Status::new(429, "TooManyRequests", refusal).because(vec![cause])
    };
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(why).retry_after(10));
    }
    let allowed = number("/status/disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(
            "policy",
            "poddisruptionbudgets",
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    let disrupted = budget
        .pointer("/status/disruptedPods")
        .and_then(Value::as_object)
        .map_or(0, Map::len);
    if disrupted > MOST_DISRUPTED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden("policy", "poddisruptionbudgets", name, why));
    }
    if allowed == 0 {
        let (desired, healthy) = (number("/status/desiredHealthy"), number("/status/currentHealthy"));
        let why = if healthy <= desired {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        } else {
            format!("The disruption budget {name} does not allow evicting pods currently")
        };
        return Err(refuse(why));
    }
    Ok(())
}

/// The pod with the condition that says why it goes.
fn mark_disrupted(call: &Call<'_>, current: &Object, options: &DeleteOptions) -> Option<Value> {
    let mut object = current.value();
    if object.pointer("/metadata/deletionTimestamp").is_some() || options.dry_run {
        return None;
    }
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": time::seconds(call.now.wall),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    set_condition(&mut object, condition);
    Some(object)
}

fn finish_eviction(
    call: &Call<'_>,
    store: &mut Store,
    current: &Arc<Object>,
    marked: Option<Value>,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    delete::remove_as(call, store, current, marked, options)
}

/// Takes finalizers off a namespace; with the last one, a namespace that is being deleted goes.
fn finalize(call: &Call<'_>) -> Result<Reply, Status> {
    let mut input = input::object(call)?;
    if text(&input.object, "/metadata/name").is_empty() {
        return Err(input::nameless(call));
    }
    input::place(call, &mut input.object)?;
    let mut store = call.judged_store();
    let current = call.current(&store)?;
    let revision = text(&input.object, "/metadata/resourceVersion");
    if !revision.is_empty() && revision != current.revision().to_string() {
        return Err(call.conflict(current.name(), MODIFIED));
    }
    let before = current.value();
    let mut object = input.object;
    crate::rules::keep(&mut object, &before, "status");
    super::write::keep_system_metadata(&mut object, &before);
    call.admit_update(&store, &object, &before)?;
    let stored = call.store_object(&mut store, &current, &before, input::tidy(object, call.kind));
    encode::object(call, 200, stored)
}
