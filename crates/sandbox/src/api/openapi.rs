//! Schema documents: enough OpenAPI v3 for `kubectl apply` to know that the server validates, and for `kubectl explain` to list
//! fields. Types, but no prose.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::discovery::{VERSION, etag};
use super::kinds::{Kind, Kinds};
use super::reply::{Content, Reply};
use super::request::Request;
use crate::Sandbox;
use crate::schema::{Merge, Type, lookup};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// Serves a path below `/openapi`; nothing for one that does not exist.
pub fn serve(sandbox: &Sandbox, request: &Request, rest: &[&str]) -> Option<Reply> {
    match rest {
        // Until 1.27 kubectl wants this one, takes nothing else, and leaves validation to the server for what it does not describe.
        ["v2"] if request.accept.contains("proto-openapi") => Some(empty(V2_PROTOBUF)),
        ["v2"] => Some(tagged(&json!({"swagger": "2.0", "info": info(), "paths": {}}))),
        ["v3"] => Some(index(sandbox)),
        ["v3", "api", version] if sandbox.kinds().has("", version) => Some(group(sandbox, request, "", version)),
        ["v3", "apis", group_name, version] if sandbox.kinds().has(group_name, version) => {
            Some(group(sandbox, request, group_name, version))
        }
        _ => None,
    }
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": VERSION})
}

fn tagged(value: &Value) -> Reply {
    let bytes: Bytes = value.to_string().into();
    Reply {
        status: 200,
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("etag", etag(&bytes)),
            // kubectl keeps answers by their path alone unless told.
            ("vary", "Accept".to_owned()),
        ],
        body: Content::Full(bytes),
    }
}

fn index(sandbox: &Sandbox) -> Reply {
    let mut paths = Map::new();
    let kinds = sandbox.kinds();
    for kind in kinds.iter() {
        let path = root(kind);
        // Documents change with the program, and those of custom resources with what there is in their group.
        let tag = match (paths.get(&path), &kind.custom) {
            (None, None) => VERSION.to_owned(),
            (None, Some(_)) => names(&kinds, kind),
            (Some(_), _) => continue,
        };
        let hash = etag(tag.as_bytes());
        let hash = hash.trim_matches('"');
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    Reply::text(200, json!({"paths": paths}).to_string())
}

/// The resources beside one, itself included.
fn names(kinds: &Kinds, kind: &Kind) -> String {
    let beside = kinds.of_version(&kind.group, &kind.version);
    let named: Vec<String> = beside
        .map(|one| format!("{} {} {}", one.resource, one.kind, one.namespaced))
        .collect();
    format!("{VERSION} {}", named.join(","))
}

/// In protobuf there is only an empty document, which is no bytes at all.
fn empty(media: &str) -> Reply {
    Reply {
        status: 200,
        headers: vec![
            ("content-type", media.to_owned()),
            ("etag", etag(b"")),
            ("vary", "Accept".to_owned()),
        ],
        body: Content::Full(Bytes::new()),
    }
}

fn group(sandbox: &Sandbox, request: &Request, group: &str, version: &str) -> Reply {
    if request.accept.contains("proto-openapi") {
        return empty(V3_PROTOBUF);
    }
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for kind in sandbox.kinds().of_version(group, version) {
        paths.insert(object_path(kind), operations(kind));
        let name = schema_name(kind);
        if kind.schema.is_empty() {
            let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            schemas.insert(component(&name), any);
        } else {
            describe(kind.schema, &mut schemas);
        }
        if let Some(Value::Object(schema)) = schemas.get_mut(&component(&name)) {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([identity(kind)]));
        }
    }
    tagged(&json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

fn root(kind: &Kind) -> String {
    let prefix = if kind.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", kind.api_version())
}

fn object_path(kind: &Kind) -> String {
    let namespaces = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("/{}{namespaces}/{}/{{name}}", root(kind), kind.resource)
}

fn identity(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn operations(kind: &Kind) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter).to_vec();
    let schema = json!({"$ref": reference(&schema_name(kind))});
    let answer = json!({"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}});
    json!({
        "get": {"responses": answer, "x-kubernetes-action": "get", "x-kubernetes-group-version-kind": identity(kind)},
        "patch": {
            "parameters": parameters, "responses": answer,
            "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": identity(kind),
        },
    })
}

/// Objects without a type are described by their own name.
fn schema_name(kind: &Kind) -> String {
    if kind.schema.is_empty() {
        format!("{}.{}.{}", kind.group, kind.version, kind.kind)
    } else {
        kind.schema.to_owned()
    }
}

fn component(schema: &str) -> String {
    format!("io.k8s.{schema}")
}

fn reference(schema: &str) -> String {
    format!("#/components/schemas/{}", component(schema))
}

/// Adds a type, and all that it refers to.
fn describe(schema: &str, schemas: &mut Map<String, Value>) {
    let name = component(schema);
    let Some(shape) = lookup(schema) else { return };
    if schemas.contains_key(&name) {
        return;
    }
    // Held before its fields are looked at, because types refer to each other in circles.
    schemas.insert(name.clone(), Value::Null);
    let mut properties = Map::new();
    for field in &shape.fields {
        properties.insert(field.name.to_owned(), property(&field.ty, schemas));
    }
    schemas.insert(name, json!({"type": "object", "properties": properties}));
}

fn property(ty: &Type, schemas: &mut Map<String, Value>) -> Value {
    match ty {
        Type::String => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Number => json!({"type": "number", "format": "double"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Type::IntOrString => json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Any => json!({"type": "object"}),
        Type::Struct(name) => {
            describe(name, schemas);
            json!({"allOf": [{"$ref": reference(name)}]})
        }
        Type::Map(element, _) => json!({"type": "object", "additionalProperties": property(element, schemas)}),
        Type::List(element, merge) => {
            let mut list = json!({"type": "array", "items": property(element, schemas)});
            match merge {
                Merge::Atomic => list["x-kubernetes-list-type"] = "atomic".into(),
                Merge::Set => list["x-kubernetes-list-type"] = "set".into(),
                Merge::Keys(keys) => {
                    list["x-kubernetes-list-type"] = "map".into();
                    list["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
            list
        }
    }
}
