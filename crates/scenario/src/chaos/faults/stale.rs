//! Views that are stale by one change.

use std::convert::Infallible;
use std::sync::Arc;

use bailiff_sandbox::{Change, Event, Sandbox};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};

use super::refusal;

/// What a path is about: the resource, the namespace and the name, each empty if it names none.
fn parts(path: &str) -> (&str, &str, &str) {
    let path = path.trim_start_matches('/');
    let skipped = if path.starts_with("apis/") { 3 } else { 2 };
    let mut parts = path.split('/').skip(skipped).peekable();
    let namespace = if parts.next_if_eq(&"namespaces").is_some() {
        parts.next().unwrap_or_default()
    } else {
        ""
    };
    (parts.next().unwrap_or_default(), namespace, parts.next().unwrap_or_default())
}

/// Everything an object's writer relied on has changed since: its resourceVersion has.
pub(super) fn overtake(sandbox: &Sandbox, path: &str) {
    let (resource, namespace, name) = parts(path);
    let storage = match resource {
        "nodes" | "pods" => resource,
        "daemonsets" => "daemonsets.apps",
        "controllerrevisions" => "controllerrevisions.apps",
        _ => return,
    };
    let _ = sandbox.modify(storage, (namespace, name, ""), |object| {
        let seen = object.pointer("/metadata/annotations/overtaken").and_then(Value::as_str);
        let times = seen.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0) + 1;
        if !object["metadata"]["annotations"].is_object() {
            object["metadata"]["annotations"] = json!({});
        }
        object["metadata"]["annotations"]["overtaken"] = times.to_string().into();
        true
    });
}

/// Lets a read see what was there before the last change: a list is asked for at that revision, an object is answered as it was.
/// What never changed is read as ever.
pub(super) fn read(sandbox: &Sandbox, request: &mut Request<Body>) -> Option<Response<UnsyncBoxBody<Bytes, Infallible>>> {
    let path = request.uri().path().to_owned();
    let (resource, namespace, name) = parts(&path);
    let history = sandbox.history();
    let of_resource = history
        .iter()
        .filter(|seen| seen.resource.split('.').next() == Some(resource));
    let events: Vec<&Arc<Event>> = of_resource.map(|seen| &seen.event).collect();
    if name.is_empty() {
        let is_listed = |event: &&&Arc<Event>| namespace.is_empty() || event.object.namespace() == namespace;
        let revision = events.iter().rfind(is_listed)?.object.revision();
        let query = request.uri().query().unwrap_or_default();
        let stale = format!(
            "{path}?{query}&resourceVersion={}&resourceVersionMatch=Exact",
            revision.checked_sub(1)?
        );
        *request.uri_mut() = stale.parse().ok()?;
        return None;
    }
    let is_it = |event: &&&Arc<Event>| event.object.namespace() == namespace && event.object.name() == name;
    let before = events.iter().filter(is_it).rev().nth(1);
    Some(match before {
        Some(event) if event.change != Change::Deleted => {
            Response::new(Full::new(Bytes::from(event.object.value().to_string())).boxed_unsync())
        }
        _ => refusal(404),
    })
}
