//! Paths that are no resources: discovery in both forms, version, health, where schema documents would be.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::authz::Attributes;
use super::kinds::{GROUPS, Kind, Kinds};
use super::negotiate;
use super::openapi;
use super::reply::{Content, Reply};
use super::request::Request;
use crate::{Sandbox, Status, User};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The version that is spoken.
pub const VERSION: &str = "v1.36.2";

/// Serves a request for a path that is no resource.
///
/// # Errors
/// The refusal.
pub fn serve(sandbox: &Sandbox, request: &Request, user: &User) -> Result<Reply, Status> {
    let path = request.path.as_str();
    let method = request.method.as_str();
    Attributes::of_request(None, request).check(sandbox, user)?;
    let health = ["/healthz", "/livez", "/readyz"]
        .iter()
        .find_map(|check| path.strip_prefix(check).map(|rest| (*check, rest)));
    if let Some((check, rest)) = health
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Ok(health_reply(check, rest, request));
    }
    let Some(reply) = document(sandbox, request, path)? else {
        return Ok(Reply::text(404, "404 page not found\n"));
    };
    // The other documents are served whatever the method is.
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let is_particular = !matches!(segments.as_slice(), [] | ["apis" | "openapi"] | ["apis", _] | ["openapi", ..]);
    if method == "CONNECT" || (method != "GET" && is_particular) {
        return Err(Status::method_not_allowed());
    }
    Ok(reply)
}

fn document(sandbox: &Sandbox, request: &Request, path: &str) -> Result<Option<Reply>, Status> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let kinds = &*sandbox.kinds();
    let reply = match segments.as_slice() {
        [] => Reply::object(200, json!({"paths": paths(kinds)})),
        ["version"] => Reply::object(200, version()),
        ["metrics"] => metrics(),
        ["api"] if negotiate::aggregated_discovery(&request.accept).is_some() => aggregated(kinds, true),
        ["apis"] if negotiate::aggregated_discovery(&request.accept).is_some() => aggregated(kinds, false),
        ["api"] => plain(
            request,
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        )?,
        ["apis"] => {
            let groups: Vec<Value> = kinds.groups().iter().map(|group| group_of(kinds, group, false)).collect();
            plain(request, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))?
        }
        ["apis", group] if kinds.groups().contains(group) => plain(request, group_of(kinds, group, true))?,
        ["api", version] if kinds.has("", version) => plain(request, resources(kinds, "", version))?,
        ["apis", group, version] if kinds.has(group, version) => plain(request, resources(kinds, group, version))?,
        ["api", _] => return Err(Status::no_such_path()),
        ["apis", group, _] if GROUPS.contains(group) && kinds.groups().contains(group) => return Err(Status::no_such_path()),
        ["openapi", rest @ ..] => match openapi::serve(sandbox, request, rest) {
            Some(reply) => reply,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(reply))
}

fn plain(request: &Request, value: Value) -> Result<Reply, Status> {
    negotiate::choose(&request.accept, true)?;
    Ok(Reply::object(200, value))
}

fn metrics() -> Reply {
    let text = format!(
        "# HELP kubernetes_build_info The version that is spoken.\n# TYPE kubernetes_build_info gauge\n\
         kubernetes_build_info{{git_version=\"{VERSION}\",major=\"1\",minor=\"36\"}} 1\n"
    );
    let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    Reply {
        status: 200,
        headers: vec![("content-type", media.to_owned())],
        body: Content::Full(text.into()),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36",
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": crate::PLATFORM,
    })
}

fn health_reply(check: &str, name: &str, request: &Request) -> Reply {
    match (name, request.query.find("verbose")) {
        ("", Some(_)) => Reply::text(200, format!("[+]ping ok\n{} check passed\n", check.trim_start_matches('/'))),
        ("" | "/ping" | "/log" | "/etcd", _) => Reply::text(200, "ok"),
        _ => Reply::text(404, "404 page not found\n"),
    }
}

fn paths(kinds: &Kinds) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in kinds.groups() {
        paths.push(format!("/apis/{group}"));
        let versions = kinds.versions(group).into_iter();
        paths.extend(versions.map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort_unstable();
    paths
}

fn group_of(kinds: &Kinds, group: &str, alone: bool) -> Value {
    let versions = kinds.versions(group).into_iter();
    let versions: Vec<Value> = versions
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    let mut value = Map::new();
    if alone {
        value.insert("kind".to_owned(), "APIGroup".into());
        value.insert("apiVersion".to_owned(), "v1".into());
    }
    value.insert("name".to_owned(), group.into());
    value.insert("versions".to_owned(), versions.into());
    value.insert("preferredVersion".to_owned(), preferred);
    Value::Object(value)
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for kind in kinds.of_version(group, version) {
        list.push(resource(kind));
        for (name, takes, verbs) in subresources(kind) {
            let mut entry = json!({
                "name": format!("{}/{name}", kind.resource), "singularName": "", "namespaced": kind.namespaced,
            });
            let (group, version, taken) = takes;
            if !group.is_empty() {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            entry["kind"] = taken.into();
            entry["verbs"] = json!(verbs);
            list.push(entry);
        }
    }
    list.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let mut value = json!({"kind": "APIResourceList"});
    if !group.is_empty() {
        value["apiVersion"] = "v1".into();
    }
    value["groupVersion"] = group_version.into();
    value["resources"] = Value::Array(list);
    value
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.resource, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": kind.verbs(),
    });
    if !kind.short.is_empty() {
        entry["shortNames"] = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    entry
}

type Subresource<'a> = (&'a str, (&'a str, &'a str, &'a str), &'a [&'a str]);

fn subresources(kind: &Kind) -> Vec<Subresource<'_>> {
    let mut list: Vec<Subresource<'_>> = kind.subresources.iter().map(|sub| (sub.name, sub.takes, sub.verbs)).collect();
    if kind.status {
        list.push(("status", ("", "", &kind.kind), &["get", "patch", "update"]));
    }
    list.sort_unstable_by_key(|(name, _, _)| *name);
    list
}

fn aggregated(kinds: &Kinds, legacy: bool) -> Reply {
    let groups = if legacy { vec![""] } else { kinds.groups() };
    let items: Vec<Value> = groups.into_iter().map(|group| aggregated_group(kinds, group)).collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let bytes: Bytes = list.to_string().into();
    Reply {
        status: 200,
        headers: vec![("content-type", AGGREGATED.to_owned()), ("etag", etag(&bytes))],
        body: Content::Full(bytes),
    }
}

fn aggregated_group(kinds: &Kinds, group: &str) -> Value {
    let versions = kinds.versions(group).into_iter();
    let versions: Vec<Value> = versions.map(|version| aggregated_version(kinds, group, version)).collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let of_version = kinds.of_version(group, version);
    let mut resources: Vec<Value> = of_version.map(|kind| aggregated_resource(kind)).collect();
    resources.sort_by(|one, other| one["resource"].as_str().cmp(&other["resource"].as_str()));
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "resource": kind.resource,
        "responseKind": response_kind(kind, ("", "", &kind.kind)),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs(),
    });
    if !kind.short.is_empty() {
        entry["shortNames"] = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, takes, verbs)| json!({"subresource": name, "responseKind": response_kind(kind, takes), "verbs": verbs}))
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

/// Built-in kinds leave out what is their own; custom ones say all of it.
fn response_kind(kind: &Kind, (group, version, taken): (&str, &str, &str)) -> Value {
    if kind.custom.is_some() && group.is_empty() {
        json!({"group": kind.group, "version": kind.version, "kind": taken})
    } else {
        json!({"group": group, "version": version, "kind": taken})
    }
}

/// A tag that changes with the bytes.
pub fn etag(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016X}\"")
}
