//! What a kube-apiserver 1.36 answers beside the recorded topics: tables, subresources, rights, paths.

use bailiff_sandbox::User;
use serde_json::{Value, json};

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, STRATEGIC, Server, causes, pod};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

async fn cells(server: &Server, path: &str) -> Value {
    let admin = User::new("admin", &["system:masters"]);
    let (_, _, table) = server.send_as(admin, "GET", path, ("accept", TABLE), &Value::Null).await;
    table["rows"][0]["cells"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_row_says_how_many_containers_are_ready_and_what_the_pod_does() {
    let server = Server::new();
    let init = json!([{"name": "i", "image": "x"}, {"name": "s", "image": "y", "restartPolicy": "Always"}]);
    let gates = json!([{"conditionType": "x/y"}]);
    let given = pod(
        "p",
        json!({"nodeName": "n1", "initContainers": init, "readinessGates": gates}),
        json!({}),
    );
    assert_eq!(server.post(PODS, &given).await.0, 201);
    let status = |name: &str, ready: bool, restarts: i64, state: Value| {
        json!({
            "name": name, "ready": ready, "started": ready, "restartCount": restarts, "image": "x", "imageID": "y", "state": state,
        })
    };
    let done = status("i", true, 0, json!({"terminated": {"exitCode": 0}}));
    let sidecar = status("s", true, 1, json!({"running": {}}));
    for (change, expected) in [
        (json!({}), ["0/2", "Pending", "0", "0/1"]),
        (
            json!({"initContainerStatuses": [status("i", false, 0, json!({"waiting": {"reason": "ImagePullBackOff"}}))]}),
            ["0/2", "Init:ImagePullBackOff", "0", "0/1"],
        ),
        (
            json!({"initContainerStatuses": [status("i", false, 2, json!({"terminated": {"exitCode": 3}}))]}),
            ["0/2", "Init:ExitCode:3", "2", "0/1"],
        ),
        (
            json!({
                "phase": "Running", "conditions": [{"type": "x/y", "status": "True"}],
                "initContainerStatuses": [done, sidecar],
                "containerStatuses": [status("main", true, 3, json!({"running": {}}))],
            }),
            ["2/2", "Running", "4", "1/1"],
        ),
        (
            json!({"containerStatuses": [status("main", false, 3, json!({"terminated": {"exitCode": 1, "signal": 9}}))]}),
            ["1/2", "Signal:9", "4", "1/1"],
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted", "containerStatuses": []}),
            ["1/2", "Evicted", "1", "1/1"],
        ),
    ] {
        let (code, answer) = server
            .patch(&format!("{PODS}/p/status"), MERGE, json!({"status": change}))
            .await;
        assert_eq!(code, 200, "{answer}");
        let row = cells(&server, &format!("{PODS}/p")).await;
        let found = [&row[1], &row[2], &row[3], &row[8]].map(|cell| cell.as_str().unwrap_or_default());
        assert_eq!(found, expected, "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn containers_for_debugging_are_only_added() {
    let server = Server::new();
    assert_eq!(server.post(PODS, &pod("p", json!({}), json!({}))).await.0, 201);
    let path = format!("{PODS}/p/ephemeralcontainers");
    for (container, expected) in [
        (json!({"name": "d", "image": "d:1"}), vec![]),
        (
            json!({"name": "d", "image": "d:2"}),
            vec!["Forbidden spec.ephemeralContainers"],
        ),
        (
            json!({"name": "main", "image": "d:1"}),
            vec!["Duplicate spec.ephemeralContainers[0].name"],
        ),
        (
            json!({"name": "e", "image": "d:1", "targetContainerName": "none"}),
            vec!["NotFound spec.ephemeralContainers[0].targetContainerName"],
        ),
        (
            json!({"name": "e", "image": "d:1", "ports": [{"containerPort": 1}]}),
            vec!["Forbidden spec.ephemeralContainers[0].ports"],
        ),
    ] {
        let change = json!({"metadata": {"labels": {"not": "kept"}}, "spec": {"ephemeralContainers": [container]}});
        let (_, answer) = server.patch(&path, STRATEGIC, change.clone()).await;
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(causes(&answer), expected, "{change}");
        assert_eq!(answer.pointer("/metadata/labels"), None);
    }
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    assert_eq!(pod["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_resized_within_its_class() {
    let server = Server::new();
    let requests = json!({"resources": {"requests": {"cpu": "1"}}});
    assert_eq!(server.post(PODS, &pod("p", json!({"nodeName": "n1"}), requests)).await.0, 201);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let resize =
        |resources: Value| json!({"spec": {"containers": [{"name": "main", "image": "ignored:1", "resources": resources}]}});
    let path = format!("{PODS}/p/resize");
    let (status, _) = server
        .patch(&path, STRATEGIC, resize(json!({"requests": {"cpu": "2"}})))
        .await;
    assert_eq!(status, 403, "the node is not there");
    assert_eq!(server.post("/api/v1/nodes", &node).await.0, 201);
    let guaranteed = json!({"cpu": "2", "memory": "1Gi"});
    let (_, answer) = server
        .patch(
            &path,
            STRATEGIC,
            resize(json!({"limits": guaranteed, "requests": guaranteed})),
        )
        .await;
    assert_eq!(causes(&answer), ["Invalid spec"]);
    let (status, answer) = server
        .patch(&path, STRATEGIC, resize(json!({"requests": {"cpu": "2"}})))
        .await;
    assert_eq!(status, 200, "{answer}");
    let main = &answer["spec"]["containers"][0];
    assert_eq!(
        (&main["image"], &main["resources"]["requests"]["cpu"]),
        (&json!("example.org/app:1"), &json!("2"))
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_what_they_do_not_hold() {
    let server = Server::new();
    let bob = || User::new("bob", &["system:authenticated"]);
    let role = |name: &str, verbs: Value, resource: &str| {
        let rule = json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": [resource]});
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
    };
    let binding = |name: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": "bob"}],
        })
    };
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.post(ROLES, &role("maker", json!(["create", "get"]), "*")).await.0, 201);
    assert_eq!(server.post(ROLES, &role("everything", json!(["*"]), "*")).await.0, 201);
    assert_eq!(server.post(bindings, &binding("maker", "maker")).await.0, 201);
    let json_type = ("content-type", "application/json");
    for (path, object, expected) in [
        (ROLES, role("more", json!(["*"]), "roles"), 403),
        (ROLES, role("less", json!(["get"]), "roles"), 201),
        (bindings, binding("all", "everything"), 403),
        (bindings, binding("none", "none"), 404),
        (bindings, binding("less", "less"), 201),
    ] {
        let (status, _, answer) = server.send_as(bob(), "POST", path, json_type, &object).await;
        assert_eq!(status, expected, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn access_reviews_must_say_what_and_who() {
    let server = Server::new();
    let review = |kind: &str, spec: Value| json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let resource = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    for (path, kind, spec, expected) in [
        (
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            json!({}),
            vec!["Invalid spec.resourceAttributes"],
        ),
        (
            "subjectaccessreviews",
            "SubjectAccessReview",
            json!({"resourceAttributes": resource}),
            vec!["Invalid spec.user"],
        ),
        (
            "subjectaccessreviews",
            "SubjectAccessReview",
            json!({"user": "bob", "resourceAttributes": {}, "nonResourceAttributes": {}}),
            vec!["Invalid spec.nonResourceAttributes"],
        ),
        (
            "namespaces/other/localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            json!({"user": "bob", "resourceAttributes": resource}),
            vec!["Invalid spec.resourceAttributes.namespace"],
        ),
    ] {
        let path = format!("/apis/authorization.k8s.io/v1/{path}");
        let (_, answer) = server.post(&path, &review(kind, spec.clone())).await;
        assert_eq!(causes(&answer), expected, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_told_apart() {
    let server = Server::new();
    for (path, status) in [
        ("/api/v1/foos", true),
        ("/apis/apps/v9/daemonsets", true),
        ("/api/v1/namespaces/default/nodes", true),
        ("/apis/none/v1/x", false),
    ] {
        let (code, answer) = server.get(path).await;
        assert_eq!((code, answer["kind"] == "Status"), (404, status), "{path}");
    }
    let admin = User::new("admin", &["system:masters"]);
    let any = ("accept", "application/*");
    let (code, _, _) = server.send_as(admin, "GET", "/api/v1/nodes", any, &Value::Null).await;
    assert_eq!(code, 406);
}

#[tokio::test(start_paused = true)]
async fn events_of_the_newer_group_are_short_and_new() {
    let server = Server::new();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (field, value, expected) in [
        ("reason", json!("r".repeat(129)), "Invalid reason"),
        ("note", json!("n".repeat(1025)), "Invalid message"),
        ("deprecatedCount", json!(3), "Invalid count"),
        (
            "series",
            json!({"count": 1, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}),
            "Invalid series.count",
        ),
    ] {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "R", "type": "Normal", "action": "A",
            "reportingController": "x.y/z", "reportingInstance": "i", "eventTime": "2024-01-01T00:00:00.000000Z",
        });
        event[field] = value;
        let (_, answer) = server.post(path, &event).await;
        assert_eq!(
            (causes(&answer), answer.pointer("/details/group")),
            (vec![expected.to_owned()], None),
            "{field}"
        );
    }
    for (field, expected) in [("regarding.name=a", 200), ("involvedObject.name=a", 400)] {
        let (code, _) = server.get(&format!("{path}?fieldSelector={field}")).await;
        assert_eq!(code, expected, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_surprises_is_warned_about() {
    let server = Server::new();
    let long = "x".repeat(64);
    for (given, part) in [
        (pod(&long, json!({}), json!({})), "hostname"),
        (
            pod("a", json!({"imagePullSecrets": [{"name": ""}]}), json!({})),
            "invalid empty name",
        ),
        (
            pod("b", json!({}), json!({"env": [{"name": "A"}, {"name": "A"}]})),
            "hides previous definition",
        ),
    ] {
        let (status, warning, _) = server.send("POST", PODS, "application/json", &given).await;
        assert_eq!(status, 201);
        assert!(warning.as_deref().unwrap_or_default().contains(part), "{part}: {warning:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_written_in_plain_and_kept_encoded() {
    let server = Server::new();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}, "data": {"b": "AAEC"},
    });
    let (_, made) = server.post("/api/v1/namespaces/default/secrets", &secret).await;
    assert_eq!(
        (made.get("stringData"), &made["data"]),
        (None, &json!({"b": "AAEC", "k": "dg=="}))
    );
}

#[tokio::test(start_paused = true)]
async fn the_default_priority_class_is_given_to_pods_that_name_none() {
    let server = Server::new();
    let class = |name: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 7,
            "globalDefault": true, "preemptionPolicy": "Never",
        })
    };
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(server.post(classes, &class("one")).await.0, 201);
    assert_eq!(server.post(classes, &class("two")).await.0, 403);
    let (_, made) = server.post(PODS, &pod("p", json!({}), json!({}))).await;
    let spec = &made["spec"];
    assert_eq!(
        (&spec["priorityClassName"], &spec["priority"], &spec["preemptionPolicy"]),
        (&json!("one"), &json!(7), &json!("Never"))
    );
}

/// What is drawn may be taken; another name is drawn then.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_not_generated() {
    let generated = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"},
    });
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let maps = "/api/v1/namespaces/default/configmaps";
    // What comes second is always the same, whatever the first was called.
    let first = Server::new();
    assert_eq!(first.post(maps, &named("other")).await.0, 201);
    let (_, made) = first.post(maps, &generated).await;
    let name = made["metadata"]["name"].as_str().expect("a name");
    let second = Server::new();
    assert_eq!(second.post(maps, &named(name)).await.0, 201);
    let (code, made) = second.post(maps, &generated).await;
    assert_eq!(code, 201, "{made}");
    assert_ne!(made["metadata"]["name"], name);
}

/// What comes into a selection is added to what a watch of it tells, and what leaves it is deleted, whatever happened to the object.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_selection_tells_what_comes_into_it_and_leaves_it() {
    let server = Server::new();
    let (_, before) = server.get(PODS).await;
    let from = before["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut given = pod("a", json!({}), json!({}));
    given["metadata"]["labels"] = json!({"app": "a"});
    assert_eq!(server.post(PODS, &given).await.0, 201);
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(server.post(&format!("{PODS}/a/binding"), &binding).await.0, 201);
    let unlabelled = json!({"metadata": {"labels": null}});
    assert_eq!(server.patch(&format!("{PODS}/a"), MERGE, unlabelled).await.0, 200);
    for (selector, expected) in [
        ("", &["ADDED", "MODIFIED", "MODIFIED"][..]),
        ("fieldSelector=spec.nodeName!%3D", &["ADDED", "MODIFIED"]),
        ("fieldSelector=spec.nodeName%3D", &["ADDED", "DELETED"]),
        ("fieldSelector=spec.nodeName%3Dn2", &[]),
        ("labelSelector=app%3Da", &["ADDED", "MODIFIED", "DELETED"]),
    ] {
        for path in [PODS, "/api/v1/pods", "/api/v1/namespaces/kube-system/pods"] {
            let path = format!("{path}?watch=1&resourceVersion={from}&timeoutSeconds=1&{selector}");
            let (_, bytes) = server.send_text("GET", &path, &[], "").await;
            let lines = bytes.split(|byte| *byte == b'\n');
            let events: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
            let types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
            let expected = if path.contains("kube-system") { &[] } else { expected };
            assert_eq!(types, expected, "{path}");
        }
    }
}

/// Of a list whose state is forgotten, the rest can be had as it is now, and the answer says how.
#[tokio::test(start_paused = true)]
async fn the_rest_of_a_list_that_is_too_old_can_be_had_as_it_is_now() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        assert_eq!(server.post(PODS, &pod(name, json!({}), json!({}))).await.0, 201);
    }
    let (_, first) = server.get(&format!("{PODS}?limit=1")).await;
    let text = |pointer: &str| first.pointer(pointer).and_then(Value::as_str).expect("a text");
    let (token, revision) = (text("/metadata/continue"), text("/metadata/resourceVersion"));
    let (code, _, _) = server
        .send("DELETE", &format!("{PODS}/b?gracePeriodSeconds=0"), "", &Value::Null)
        .await;
    assert_eq!(code, 200);
    server.compact();
    let (code, refusal) = server.get(&format!("{PODS}?limit=1&continue={token}")).await;
    assert_eq!((code, &refusal["reason"]), (410, &json!("Expired")), "{refusal}");
    let token = refusal["metadata"]["continue"].as_str().expect("a token");
    let (code, rest) = server.get(&format!("{PODS}?limit=1&continue={token}")).await;
    assert_eq!(
        (code, &rest["items"][0]["metadata"]["name"], rest["metadata"].get("continue")),
        (200, &json!("c"), None),
        "{rest}"
    );
    // One that is no rest of anything has to start again.
    let (code, refusal) = server
        .get(&format!("{PODS}?resourceVersion={revision}&resourceVersionMatch=Exact"))
        .await;
    assert_eq!(
        (code, &refusal["metadata"], &refusal["message"]),
        (
            410,
            &json!({}),
            &json!("The resourceVersion for the provided list is too old.")
        )
    );
}
