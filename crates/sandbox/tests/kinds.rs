//! What is particular to kinds and paths in a kube-apiserver 1.36, beside the recorded topics.

use bailiff_sandbox::User;
use serde_json::{Value, json};

#[path = "kinds/scales.rs"]
mod scales;
#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, Server, causes, pod};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DAEMONSETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "application/json";

fn lease(metadata: Value) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": "h"}})
}

fn budget(metadata: Value) -> Value {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
}

fn event(metadata: Value) -> Value {
    let about = json!({"kind": "Pod", "name": "a", "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, "reason": "R", "type": "Normal"})
}

fn map(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

#[tokio::test(start_paused = true)]
async fn names_and_finalizers_are_checked_as_each_kind_does() {
    let server = Server::new();
    let pods = pod("p", json!({}), json!({}));
    let held = |name: &str| json!({"name": name, "finalizers": ["bad"]});
    let mut held_pod = pods.clone();
    held_pod["metadata"] = held("p");
    for (path, object, expected) in [
        (LEASES, lease(json!({"name": "Bad!"})), 422),
        (LEASES, lease(held("l")), 201),
        (BUDGETS, budget(json!({"name": "Bad!"})), 201),
        (BUDGETS, budget(held("b")), 201),
        (EVENTS, event(json!({"name": "Bad!"})), 201),
        (EVENTS, event(held("e")), 201),
        (PODS, held_pod, 422),
        (MAPS, map("Bad!", json!({})), 422),
    ] {
        let (code, answer) = server.post(path, &object).await;
        assert_eq!(code, expected, "{object} {answer}");
    }
    for (prefix, expected) in [
        ("C-", vec!["Invalid metadata.name"]),
        ("x_", vec!["Invalid metadata.generateName", "Invalid metadata.name"]),
        ("x.", vec!["Invalid metadata.generateName"]),
        ("x-", vec![]),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": prefix}});
        let (_, answer) = server.post(MAPS, &object).await;
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(causes(&answer), expected, "{prefix}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_precondition_that_fails_is_told_with_the_kinds_own_names() {
    let server = Server::new();
    assert_eq!(server.post(LEASES, &lease(json!({"name": "l"}))).await.0, 201);
    assert_eq!(server.post(MAPS, &map("m", json!({}))).await.0, 201);
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    assert_eq!(server.post("/api/v1/namespaces", &space).await.0, 201);
    let options = json!({"preconditions": {"uid": "other"}});
    for (path, group, kind) in [
        (format!("{LEASES}/l"), json!("coordination.k8s.io"), "Lease"),
        (format!("{MAPS}/m"), Value::Null, "ConfigMap"),
        ("/api/v1/namespaces/n".to_owned(), Value::Null, "namespaces"),
    ] {
        let (code, _, answer) = server.send("DELETE", &path, JSON, &options).await;
        let details = &answer["details"];
        let found = (code, details["group"].clone(), details["kind"].clone());
        assert_eq!(found, (409, group, json!(kind)), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_what_belongs_to_an_event() {
    let server = Server::new();
    assert_eq!(server.post(EVENTS, &event(json!({"name": "e"}))).await.0, 201);
    let options = json!({"propagationPolicy": "Foreground"});
    let (code, _, answer) = server.send("DELETE", &format!("{EVENTS}/e"), JSON, &options).await;
    assert_eq!((code, &answer["kind"]), (200, &json!("Status")));
    assert_eq!(server.get(&format!("{EVENTS}/e")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_deployment_count_and_its_status_brings_no_labels() {
    let server = Server::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    assert_eq!(server.post(DEPLOYMENTS, &deployment).await.0, 201);
    let path = format!("{DEPLOYMENTS}/d");
    let change = json!({"metadata": {"annotations": {"x": "y"}}});
    let (_, answer) = server.patch(&path, MERGE, change).await;
    assert_eq!(answer["metadata"]["generation"], 2);
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    let (_, answer) = server.patch(&format!("{path}/status"), MERGE, change).await;
    assert_eq!(answer["metadata"].get("labels"), None);
    let (code, answer) = {
        let (code, _, answer) = server.send("PUT", &format!("{path}/scale"), JSON, &deployment).await;
        (code, answer)
    };
    assert_eq!(code, 400, "{answer}");
}

/// DS-171
#[tokio::test(start_paused = true)]
async fn a_new_daemonset_may_bring_the_generation_of_its_template() {
    let server = Server::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let annotation = "deprecated.daemonset.template.generation";
    for (name, given, created, changed) in [
        ("none", None, "1", "2"),
        ("higher", Some("5"), "5", "6"),
        ("lower", Some("-3"), "1", "2"),
    ] {
        let annotations = given.map_or(json!({}), |given| json!({annotation: given}));
        let set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        });
        let (code, answer) = server.post(DAEMONSETS, &set).await;
        assert_eq!(
            (code, &answer["metadata"]["annotations"][annotation]),
            (201, &json!(created)),
            "{name}"
        );
        // Afterwards it only counts.
        let change = json!({
            "metadata": {"annotations": {annotation: "9"}},
            "spec": {"template": {"metadata": {"labels": {"c": "d"}}}},
        });
        let (_, answer) = server.patch(&format!("{DAEMONSETS}/{name}"), MERGE, change).await;
        assert_eq!(answer["metadata"]["annotations"][annotation], changed, "{name}");
        assert_eq!(answer["metadata"]["generation"], 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn paths_that_lead_nowhere_are_told_from_methods_that_a_path_lacks() {
    let server = Server::new();
    assert_eq!(server.post(MAPS, &map("m", json!({}))).await.0, 201);
    for (method, path, expected) in [
        ("GET", format!("{MAPS}/m/status"), 404),
        ("POST", format!("{MAPS}/m"), 405),
        ("GET", format!("{MAPS}/a%2Fb"), 404),
        ("GET", "/api/v1/pods/x".to_owned(), 404),
        ("DELETE", "/api/v1/pods".to_owned(), 405),
        ("POST", "/api/v1/bindings".to_owned(), 404),
        ("OPTIONS", "/apis/apps/v1/none".to_owned(), 404),
        ("OPTIONS", "/apis/apps/v1/daemonsets".to_owned(), 405),
        ("POST", "/apis".to_owned(), 200),
        ("DELETE", "/apis/apps".to_owned(), 200),
        ("POST", "/api".to_owned(), 405),
        ("GET", "/healthz/etcd".to_owned(), 200),
        ("GET", "/healthz/".to_owned(), 404),
        ("PUT", "/api/v1/namespaces/default/finalize".to_owned(), 400),
        ("GET", "/api/v1/namespaces/default/services/none/proxy".to_owned(), 404),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx".to_owned(), 400),
        ("GET", format!("{MAPS}?limit=1&continue=garbage"), 400),
    ] {
        let body = if method == "PUT" { json!({}) } else { Value::Null };
        let (code, _, answer) = server.send(method, &path, JSON, &body).await;
        assert_eq!(code, expected, "{method} {path} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_kubelet_could_answer_is_refused_as_without_one() {
    let server = Server::new();
    assert_eq!(server.post(PODS, &pod("p", json!({}), json!({}))).await.0, 201);
    assert_eq!(
        server.post(PODS, &pod("q", json!({"nodeName": "gone"}), json!({}))).await.0,
        201
    );
    for (rest, expected) in [
        ("p/log", 204),
        ("p/log?tailLines=-1", 422),
        ("p/log?tailLines=x", 400),
        ("p/log?limitBytes=0", 422),
        ("p/log?container=none", 400),
        ("q/log", 404),
        ("p/exec?command=ls", 400),
        ("p/portforward?ports=x", 400),
        ("p/proxy", 400),
        ("none/proxy", 404),
    ] {
        let (code, answer) = server.get(&format!("{PODS}/{rest}")).await;
        assert_eq!(code, expected, "{rest} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_page_is_followed_by_another_while_anything_is_left() {
    let server = Server::new();
    for (name, labels) in [("a", json!({"x": "1"})), ("b", json!({"x": "1"})), ("c", json!({}))] {
        assert_eq!(server.post(MAPS, &map(name, labels)).await.0, 201);
    }
    let (_, first) = server.get(&format!("{MAPS}?labelSelector=x%3D1&limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    assert!(!token.is_empty());
    let (_, second) = server
        .get(&format!("{MAPS}?labelSelector=x%3D1&limit=2&continue={token}"))
        .await;
    assert_eq!((&second["items"], second["metadata"].get("continue")), (&json!([]), None));
}

#[tokio::test(start_paused = true)]
async fn the_roles_of_a_new_server_are_there() {
    let server = Server::new();
    let bob = || User::new("bob", &["system:authenticated"]);
    let (_, view) = server.get(&format!("{RBAC}/clusterroles/view")).await;
    assert_eq!(view.get("rules"), Some(&Value::Null));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(server.post(&path, &binding).await.0, 201);
    let json_type = ("content-type", JSON);
    let given = pod("p", json!({}), json!({}));
    for (method, path, body, expected) in [
        ("POST", PODS, &given, 201),
        ("GET", "/api/v1/nodes", &Value::Null, 403),
        ("GET", "/api/v1/namespaces/kube-system/pods", &Value::Null, 403),
        ("GET", "/apis", &Value::Null, 200),
        ("GET", "/metrics", &Value::Null, 403),
    ] {
        let (code, _, answer) = server.send_as(bob(), method, path, json_type, body).await;
        assert_eq!(code, expected, "{path} {answer}");
    }
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "bob", "resourceAttributes": attributes},
    });
    let (_, answer) = server
        .post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)
        .await;
    let why = "RBAC: allowed by RoleBinding \"b/default\" of ClusterRole \"cluster-admin\" to User \"bob\"";
    assert_eq!(answer["status"], json!({"allowed": true, "reason": why}));
}

#[tokio::test(start_paused = true)]
async fn whoever_may_only_patch_creates_nothing() {
    let server = Server::new();
    let bob = || User::new("bob", &["system:authenticated"]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"verbs": ["patch", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}],
    });
    assert_eq!(server.post(&format!("{RBAC}/namespaces/default/roles"), &role).await.0, 201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(server.post(&path, &binding).await.0, 201);
    let given = lease(json!({"name": "l"}));
    let apply = ("content-type", "application/apply-patch+yaml");
    let applied = format!("{LEASES}/l?fieldManager=m");
    assert_eq!(server.send_as(bob(), "PATCH", &applied, apply, &given).await.0, 403);
    let json_type = ("content-type", JSON);
    let put = format!("{LEASES}/l");
    assert_eq!(server.send_as(bob(), "PUT", &put, json_type, &given).await.0, 403);
    assert_eq!(server.post(LEASES, &given).await.0, 201);
    assert_eq!(server.send_as(bob(), "PATCH", &applied, apply, &given).await.0, 200);
}

/// The key is that of a real server, whose names of old some kinds keep.
#[tokio::test(start_paused = true)]
async fn an_update_of_another_object_is_told_where_this_one_is_kept() {
    let server = Server::new();
    let names = json!({"plural": "ws", "kind": "W"});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ws.e.org"},
        "spec": {"group": "e.org", "scope": "Cluster", "names": names, "versions": [version]},
    });
    let named = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let mut service = named("v1", "Service");
    service["spec"] = json!({"ports": [{"port": 1}]});
    for (path, object, key) in [
        (MAPS, map("a", json!({})), "configmaps/default/a"),
        (LEASES, lease(json!({"name": "a"})), "leases/default/a"),
        ("/api/v1/nodes", named("v1", "Node"), "minions/a"),
        ("/api/v1/namespaces", named("v1", "Namespace"), "namespaces/a"),
        ("/api/v1/namespaces/default/services", service, "services/specs/default/a"),
        (
            "/api/v1/namespaces/default/endpoints",
            named("v1", "Endpoints"),
            "services/endpoints/default/a",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
            "apiextensions.k8s.io/customresourcedefinitions/ws.e.org",
        ),
        ("/apis/e.org/v1/ws", named("e.org/v1", "W"), "e.org/ws/a"),
    ] {
        let (code, mut object) = server.post(path, &object).await;
        assert_eq!(code, 201, "{object}");
        object["metadata"]["uid"] = "other".into();
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        let (code, _, answer) = server.send("PUT", &path, JSON, &object).await;
        let told = answer["message"].as_str().unwrap_or_default();
        assert!(
            code == 409 && told.contains(&format!(" Key: /registry/{key}, ")),
            "{path}: {code} {told}"
        );
    }
}

fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

/// DS-159, DS-173
#[tokio::test(start_paused = true)]
async fn the_status_of_a_daemonset_is_written_by_itself_and_its_collisions_never_fall() {
    let server = Server::new();
    let (code, made) = server.post(DAEMONSETS, &daemon_set("d")).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{DAEMONSETS}/d/status");
    let change = json!({
        "metadata": {"labels": {"by": "status"}}, "spec": {"minReadySeconds": 9},
        "status": {"numberReady": 1, "collisionCount": 2},
    });
    let (code, answer) = server.patch(&path, MERGE, change).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(
        (&answer["spec"], &answer["metadata"]["generation"]),
        (&made["spec"], &json!(1)),
        "the spec is none of its business"
    );
    assert_eq!(
        (&answer["metadata"]["labels"]["by"], &answer["status"]["collisionCount"]),
        (&json!("status"), &json!(2))
    );
    for (status, expected) in [
        (json!({"numberReady": -1}), 422),
        (json!({"observedGeneration": -1}), 422),
        (json!({"collisionCount": 1}), 422),
        (json!({"collisionCount": null}), 422),
        (json!({"collisionCount": 3}), 200),
    ] {
        let (code, answer) = server.patch(&path, MERGE, json!({"status": status})).await;
        assert_eq!(code, expected, "{status} {answer}");
    }
    let mut other = answer;
    other["metadata"]["uid"] = json!("another");
    other["metadata"]["resourceVersion"] = Value::Null;
    let (code, _, answer) = server.send("PUT", &path, JSON, &other).await;
    assert_eq!(code, 409, "{answer}");
}

/// DS-176
#[tokio::test(start_paused = true)]
async fn a_daemonset_is_gone_at_once_unless_its_dependents_are_to_go_first() {
    let server = Server::new();
    for (name, options, after, finalizers) in [
        ("default", Value::Null, 404, Value::Null),
        ("background", json!({"propagationPolicy": "Background"}), 404, Value::Null),
        (
            "foreground",
            json!({"propagationPolicy": "Foreground"}),
            200,
            json!(["foregroundDeletion"]),
        ),
    ] {
        assert_eq!(server.post(DAEMONSETS, &daemon_set(name)).await.0, 201);
        let path = format!("{DAEMONSETS}/{name}");
        let (code, _, answer) = server.send("DELETE", &path, JSON, &options).await;
        assert_eq!(code, 200, "{name} {answer}");
        let (code, answer) = server.get(&path).await;
        assert_eq!((code, &answer["metadata"]["finalizers"]), (after, &finalizers), "{name}");
    }
    let (_, answer) = server.get("/apis/apps/v1").await;
    let resources = answer["resources"].as_array().expect("a list");
    let found = resources.iter().find(|resource| resource["name"] == "daemonsets");
    let found = found.expect("served");
    assert_eq!(
        (&found["shortNames"], &found["categories"]),
        (&json!(["ds"]), &json!(["all"]))
    );
}
