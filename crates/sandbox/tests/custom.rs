//! Custom resources: what a CustomResourceDefinition brings, and takes with it.

use std::time::Duration;

use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, STRATEGIC, Server, causes};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "/apis/example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {}},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, "parts": ["a", "b"]}})
}

fn conditions(definition: &Value) -> Vec<String> {
    let list = definition.pointer("/status/conditions").and_then(Value::as_array);
    let shown = |one: &Value| format!("{}={}", one["type"], one["status"]).replace('"', "");
    list.into_iter().flatten().map(shown).collect()
}

async fn defined() -> Server {
    let server = Server::new();
    let (code, answer) = server.post(CRDS, &definition()).await;
    assert_eq!(code, 201, "{answer}");
    server
}

/// Whatever is stored can be read again, by every way that there is into the store.
#[tokio::test(start_paused = true)]
async fn an_object_that_would_be_too_deep_to_read_again_is_refused() {
    const APPLY: &str = "application/apply-patch+yaml";
    let server = Server::new();
    let mut given = definition();
    let deep_path = format!(".spec{}", ".a".repeat(150));
    given["spec"]["versions"][1]["subresources"]["scale"] =
        json!({"specReplicasPath": deep_path, "statusReplicasPath": ".status.replicas"});
    let (code, answer) = server.post(CRDS, &given).await;
    assert_eq!(code, 201, "{answer}");
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    let mut kept = 0;
    for levels in (80..=135).chain([150, 190]) {
        let (path, name) = (format!("{WIDGETS}/p"), format!("w{levels}"));
        let mut made = widget(&name);
        made["spec"] = nested(levels);
        let (created, answer) = server.post(WIDGETS, &made).await;
        assert!(matches!(created, 201 | 400), "{levels}: {created} {answer}");
        assert!(
            levels > 100 || created == 201,
            "{levels} levels are no reason to refuse: {answer}"
        );
        kept += usize::from(created == 201);
        assert!(matches!(server.post(WIDGETS, &widget("p")).await.0, 201 | 409));
        let deep = json!({"spec": nested(levels)});
        assert!(matches!(server.patch(&path, MERGE, deep).await.0, 200 | 400), "{levels}");
        let add = json!([{"op": "add", "path": "/spec", "value": nested(levels.min(115))}, {"op": "move", "from": "/spec", "path": "/x"}]);
        let (code, _) = server.patch(&path, "application/json-patch+json", add).await;
        assert!(matches!(code, 200 | 400 | 422), "{levels}: {code}");
        let (code, answer) = server
            .patch(&format!("{WIDGETS}/{name}?fieldManager=m&force=true"), APPLY, made)
            .await;
        assert!(matches!(code, 200 | 201 | 400), "{levels}: {code} {answer}");
        let (code, answer) = server
            .patch(&format!("{path}/status"), MERGE, json!({"status": nested(levels)}))
            .await;
        assert!(matches!(code, 200 | 400), "{levels}: {code} {answer}");
        let replicas = json!({"spec": {"replicas": nested(levels)}});
        let (code, _) = server.patch(&format!("{path}/scale"), MERGE, replicas).await;
        assert!(matches!(code, 400 | 422), "{levels}: {code}");
        // What was stored is read and written by all that follows.
        for path in [path.clone(), format!("{WIDGETS}/{name}"), WIDGETS.to_owned()] {
            let (code, answer) = server.get(&path).await;
            assert!(
                matches!(code, 200 | 404) && answer["kind"] != Value::Null,
                "{levels}: {path} cannot be read"
            );
        }
        let label = json!({"metadata": {"labels": {"a": levels.to_string()}}});
        for name in ["p", &name] {
            let (code, _) = server.patch(&format!("{WIDGETS}/{name}"), MERGE, label.clone()).await;
            assert!(matches!(code, 200 | 404), "{levels}: {code}");
        }
        let scale = json!({"spec": {"replicas": 1}});
        assert_eq!(
            server.patch(&format!("{path}/scale"), MERGE, scale).await.0,
            400,
            "the path of the scale is too deep"
        );
        let (code, _, _) = server.send("DELETE", &path, "application/json", &Value::Null).await;
        assert_eq!(code, 200);
    }
    assert!(kept > 20, "{kept}");
    let (code, _, _) = server.send("DELETE", WIDGETS, "application/json", &Value::Null).await;
    assert_eq!(code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_and_found_by_discovery() {
    let server = defined().await;
    let (_, stored) = server.get(&format!("{CRDS}/widgets.example.com")).await;
    assert_eq!(conditions(&stored), ["NamesAccepted=True", "Established=True"]);
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    let (_, groups) = server.get("/apis").await;
    let last = groups["groups"]
        .as_array()
        .and_then(|groups| groups.last())
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        (&last["name"], &last["preferredVersion"]["version"]),
        (&json!("example.com"), &json!("v1"))
    );
    assert_eq!(last["versions"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get(GROUP).await.1["kind"], "APIGroup");
    let (_, list) = server.get("/apis/example.com/v1").await;
    let names: Vec<&str> = list["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status"]);
    assert_eq!(list["resources"][0]["shortNames"], json!(["wd"]));
    let admin = User::new("admin", &["system:masters"]);
    let accept = (
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    );
    let (_, _, aggregated) = server.send_as(admin, "GET", "/apis", accept, &Value::Null).await;
    let last = aggregated["items"]
        .as_array()
        .and_then(|items| items.last())
        .cloned()
        .unwrap_or_default();
    let resource = &last["versions"][1]["resources"][0];
    assert_eq!(
        resource["responseKind"],
        json!({"group": "example.com", "version": "v1beta1", "kind": "Widget"})
    );
    let (_, schemas) = server.get("/openapi/v3/apis/example.com/v1").await;
    assert!(schemas["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"].is_object());
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_read_patched_and_deleted() {
    let server = defined().await;
    let mut given = widget("w");
    given["status"] = json!({"not": "kept"});
    let (code, created) = server.post(WIDGETS, &given).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(
        (&created["status"], &created["metadata"]["generation"]),
        (&Value::Null, &json!(1))
    );
    let path = format!("{WIDGETS}/w");
    let (_, patched) = server
        .patch(&path, MERGE, json!({"spec": {"size": 2}, "status": {"no": 1}}))
        .await;
    assert_eq!(
        (&patched["spec"]["size"], &patched["metadata"]["generation"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(patched["status"], Value::Null);
    let (_, status) = server
        .patch(
            &format!("{path}/status"),
            MERGE,
            json!({"spec": {"size": 9}, "status": {"phase": "Done"}}),
        )
        .await;
    assert_eq!(
        (&status["spec"]["size"], &status["status"]["phase"]),
        (&json!(2), &json!("Done"))
    );
    assert_eq!(status["metadata"]["generation"], 2);
    let operations = json!([{"op": "add", "path": "/spec/parts/-", "value": "c"}]);
    let (code, patched) = server.patch(&path, "application/json-patch+json", operations).await;
    assert_eq!((code, &patched["spec"]["parts"]), (200, &json!(["a", "b", "c"])));
    assert_eq!(server.patch(&path, STRATEGIC, json!({"spec": {}})).await.0, 415);
    let applied = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}});
    let (code, applied) = server
        .patch(&format!("{path}?fieldManager=me"), "application/apply-patch+yaml", applied)
        .await;
    assert_eq!(
        (code, &applied["spec"]["color"], &applied["spec"]["size"]),
        (200, &json!("red"), &json!(2))
    );
    let mut unversioned = applied.clone();
    unversioned["metadata"]["resourceVersion"] = Value::Null;
    let (code, _, answer) = server.send("PUT", &path, "application/json", &unversioned).await;
    assert_eq!(
        (code, causes(&answer)),
        (422, vec!["Invalid metadata.resourceVersion".to_owned()])
    );
    assert_eq!(server.send("PUT", &path, "application/json", &applied).await.0, 200);
    let (_, list) = server
        .get("/apis/example.com/v1/widgets?fieldSelector=metadata.name%3Dw")
        .await;
    assert_eq!(
        (&list["kind"], list["items"].as_array().map(Vec::len)),
        (&json!("WidgetList"), Some(1))
    );
    let (code, _, gone) = server.send("DELETE", &path, "application/json", &Value::Null).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_must_say_what_it_is_and_have_sound_metadata() {
    let server = defined().await;
    for (change, expected) in [
        (json!({"kind": "Gadget"}), 400),
        (json!({"apiVersion": "example.com/v1beta1"}), 400),
        (json!({"kind": ""}), 400),
        (json!({"metadata": "text"}), 400),
        (json!({"metadata": {"name": "w", "labels": ["x"]}}), 400),
        (json!({"metadata": {"name": "W_"}}), 422),
    ] {
        let mut given = widget("w");
        server::merge(&mut given, change.clone());
        let (code, answer) = server.post(WIDGETS, &given).await;
        assert_eq!(code, expected, "{change} {answer}");
    }
    assert_eq!(
        server
            .post("/apis/example.com/v2/namespaces/default/widgets", &widget("w"))
            .await
            .0,
        404
    );
    assert_eq!(
        server
            .post("/apis/example.com/v1/namespaces/none/widgets", &widget("w"))
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn every_version_serves_the_same_objects() {
    let server = defined().await;
    assert_eq!(server.post(WIDGETS, &widget("w")).await.0, 201);
    let other = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let (_, read) = server.get(&format!("{other}/w")).await;
    assert_eq!(read["apiVersion"], "example.com/v1beta1");
    let (code, patched) = server.patch(&format!("{other}/w"), MERGE, json!({"spec": {"size": 5}})).await;
    assert_eq!((code, &patched["apiVersion"]), (200, &json!("example.com/v1beta1")));
    let (_, read) = server.get(&format!("{WIDGETS}/w")).await;
    assert_eq!(
        (&read["apiVersion"], &read["spec"]["size"]),
        (&json!("example.com/v1"), &json!(5))
    );
    let (_, list) = server.get(other).await;
    assert_eq!(
        (&list["apiVersion"], list["items"][0].get("apiVersion")),
        (&json!("example.com/v1beta1"), Some(&json!("example.com/v1beta1")))
    );
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_columns_that_are_asked_for() {
    let server = Server::new();
    let mut given = definition();
    given["spec"]["scope"] = "Cluster".into();
    given["spec"]["versions"][1]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}, {"name": "None", "type": "string", "jsonPath": ".spec.x[0].y"},
    ]);
    assert_eq!(server.post(CRDS, &given).await.0, 201);
    assert_eq!(server.post("/apis/example.com/v1/widgets", &widget("w")).await.0, 201);
    for (version, names, cells) in [
        ("v1", json!(["Name", "Size", "None"]), json!(["w", 1, null])),
        ("v1beta1", json!(["Name", "Age"]), json!(["w", "0s"])),
    ] {
        let admin = User::new("admin", &["system:masters"]);
        let accept = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let path = format!("/apis/example.com/{version}/widgets");
        let (_, _, table) = server.send_as(admin, "GET", &path, accept, &Value::Null).await;
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let columns: Value = columns.map(|column| column["name"].clone()).collect();
        assert_eq!((columns, &table["rows"][0]["cells"]), (names, &cells), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_held_to_its_rules() {
    let server = Server::new();
    for (pointer, value, expected) in [
        ("/metadata/name", json!("wrong.example.com"), vec!["Invalid metadata.name"]),
        ("/spec/scope", json!("Else"), vec!["NotSupported spec.scope"]),
        ("/spec/versions", json!("text"), vec!["Invalid spec.versions"]),
        ("/spec/versions/0/storage", json!(true), vec!["Invalid spec.versions"]),
        (
            "/spec/versions/1/schema",
            json!(null),
            vec!["Required spec.versions[1].schema.openAPIV3Schema"],
        ),
        ("/spec/names/kind", json!("-"), vec!["Invalid spec.names.kind"]),
    ] {
        let mut given = definition();
        *given.pointer_mut(pointer).expect("it is in the definition") = value;
        let (code, answer) = server.post(CRDS, &given).await;
        let found: Vec<String> = causes(&answer)
            .into_iter()
            .filter(|cause| !cause.contains("listKind"))
            .collect();
        let found: Vec<&str> = found
            .iter()
            .map(String::as_str)
            .filter(|cause| !cause.contains("singular"))
            .collect();
        assert_eq!((code, found), (422, expected), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_are_taken_wait_until_they_are_free() {
    let server = defined().await;
    let mut other = definition();
    other["metadata"]["name"] = "gadgets.example.com".into();
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    assert_eq!(server.post(CRDS, &other).await.0, 201);
    let path = format!("{CRDS}/gadgets.example.com");
    assert_eq!(
        conditions(&server.get(&path).await.1),
        ["NamesAccepted=False", "Established=False"]
    );
    assert_eq!(server.get("/apis/example.com/v1/gadgets").await.0, 404);
    let first = format!("{CRDS}/widgets.example.com");
    assert_eq!(server.send("DELETE", &first, "application/json", &Value::Null).await.0, 200);
    assert_eq!(
        conditions(&server.get(&path).await.1),
        ["NamesAccepted=True", "Established=True"]
    );
    assert_eq!(server.get("/apis/example.com/v1/gadgets").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn what_is_built_in_cannot_be_taken() {
    let server = Server::new();
    let mut given = definition();
    given["metadata"] = json!({"name": "leases.coordination.k8s.io", "annotations": {"api-approved.kubernetes.io": "yes"}});
    given["spec"]["group"] = "coordination.k8s.io".into();
    given["spec"]["names"] = json!({"plural": "leases", "kind": "Else"});
    assert_eq!(server.post(CRDS, &given).await.0, 201);
    let path = format!("{CRDS}/leases.coordination.k8s.io");
    let forged = json!({"status": {"acceptedNames": {"plural": "leases", "kind": "Else"},
        "conditions": [{"type": "Established", "status": "True"}]}});
    assert_eq!(server.patch(&format!("{path}/status"), MERGE, forged).await.0, 200);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(server.post(leases, &lease).await.0, 201);
    assert_eq!(server.send("DELETE", &path, "application/json", &Value::Null).await.0, 200);
    assert_eq!(server.get(&path).await.0, 404);
    assert_eq!(server.get(&format!("{leases}/l")).await.1["kind"], "Lease");
}

#[tokio::test(start_paused = true)]
async fn objects_go_with_their_definition_which_waits_for_their_finalizers() {
    let server = defined().await;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(server.post(WIDGETS, &widget("free")).await.0, 201);
    assert_eq!(server.post(WIDGETS, &held).await.0, 201);
    let path = format!("{CRDS}/widgets.example.com");
    let (code, _, going) = server.send("DELETE", &path, "application/json", &Value::Null).await;
    assert_eq!((code, &going["kind"]), (200, &json!("CustomResourceDefinition")));
    assert!(conditions(&server.get(&path).await.1).contains(&"Terminating=True".to_owned()));
    assert_eq!(server.get(&format!("{WIDGETS}/free")).await.0, 404);
    assert_eq!(server.post(WIDGETS, &widget("late")).await.0, 405);
    let (code, _) = server
        .patch(&format!("{WIDGETS}/held"), MERGE, json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(code, 200);
    assert_eq!(server.get(&path).await.0, 404);
    assert_eq!(server.get(WIDGETS).await.0, 404);
    assert_eq!(server.post(CRDS, &definition()).await.0, 201);
    assert_eq!(server.get(WIDGETS).await.1["items"], json!([]));
}

fn sandbox() -> (Sandbox, User) {
    let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
    let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(3));
    (sandbox, User::admin())
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_of_every_change_and_ends_with_the_definition() {
    let (sandbox, admin) = sandbox();
    let ask = |verb, path: &str, body: &Value| sandbox.request(&admin, verb, path, body).expect("it is served");
    ask(Verb::Create, CRDS, &definition());
    let request = http::Request::get("/apis/example.com/v1/widgets?watch=1")
        .body(Full::new(Bytes::new()))
        .expect("a request");
    let watch = sandbox.service(admin.clone()).oneshot(request).await.expect("an answer");
    ask(Verb::Create, WIDGETS, &widget("w"));
    ask(Verb::MergePatch, &format!("{WIDGETS}/w"), &json!({"spec": {"size": 3}}));
    ask(Verb::Delete, &format!("{CRDS}/widgets.example.com"), &Value::Null);
    let before = tokio::time::Instant::now();
    let bytes = watch.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(before.elapsed().as_secs(), 0, "it does not wait for its timeout");
    let lines: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(lines[1]["object"]["spec"]["size"], 3);
}

/// Namespaces are emptied of custom objects, and what a custom object owns goes with it, or when its owner never was.
#[tokio::test(start_paused = true)]
async fn the_garbage_collector_follows_custom_objects() {
    let (sandbox, admin) = sandbox();
    let shutdown = Shutdown::new();
    let (_driver, _) = Driver::start(&sandbox, &Options::cluster(), &shutdown);
    let ask = |verb, path: &str, body: &Value| sandbox.request(&admin, verb, path, body);
    let settled = || tokio::time::sleep(Duration::from_secs(60));
    settled().await;
    let done = |answer: Result<Value, _>| answer.expect("it is served");
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, owner: &Value| {
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": owner});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}})
    };
    done(ask(Verb::Create, maps, &map("lost", &"none".into())));
    settled().await;
    assert!(
        ask(Verb::Get, &format!("{maps}/lost"), &Value::Null).is_ok(),
        "its owner's kind is unknown"
    );
    done(ask(Verb::Create, CRDS, &definition()));
    let owner = done(ask(Verb::Create, WIDGETS, &widget("w")));
    done(ask(Verb::Create, maps, &map("kept", &owner["metadata"]["uid"])));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    done(ask(Verb::Create, "/api/v1/namespaces", &namespace));
    done(ask(
        Verb::Create,
        "/apis/example.com/v1/namespaces/other/widgets",
        &widget("w"),
    ));
    settled().await;
    assert!(ask(Verb::Get, &format!("{maps}/lost"), &Value::Null).is_err());
    assert!(ask(Verb::Get, &format!("{maps}/kept"), &Value::Null).is_ok());
    done(ask(Verb::Delete, "/api/v1/namespaces/other", &Value::Null));
    done(ask(Verb::Delete, &format!("{CRDS}/widgets.example.com"), &Value::Null));
    settled().await;
    assert!(ask(Verb::Get, "/api/v1/namespaces/other", &Value::Null).is_err());
    assert!(ask(Verb::Get, &format!("{maps}/kept"), &Value::Null).is_err());
    // Served again, in another scope: what follows it must ask in the right place.
    let mut again = definition();
    again["spec"]["scope"] = "Cluster".into();
    done(ask(Verb::Create, CRDS, &again));
    let mut owned = widget("owned");
    owned["metadata"]["ownerReferences"] = map("m", &"none".into())["metadata"]["ownerReferences"].clone();
    done(ask(Verb::Create, "/apis/example.com/v1/widgets", &owned));
    settled().await;
    assert!(ask(Verb::Get, "/apis/example.com/v1/widgets/owned", &Value::Null).is_err());
}
