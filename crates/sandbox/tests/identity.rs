//! Who acts as whom, and who owns what: facts about a kube-apiserver 1.36 beside the recorded topics.

use bailiff_sandbox::User;
use serde_json::{Value, json};

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, Server, causes, pod};

const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[tokio::test(start_paused = true)]
async fn whoever_may_do_everything_may_act_as_anybody() {
    let server = Server::new();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    for (header, name, groups) in [
        ("jane", "jane", json!(["system:authenticated"])),
        (
            "system:serviceaccount:default:x",
            "system:serviceaccount:default:x",
            json!([
                "system:serviceaccounts",
                "system:serviceaccounts:default",
                "system:authenticated"
            ]),
        ),
        ("system:node:n1", "system:node:n1", json!(["system:authenticated"])),
    ] {
        let admin = User::new("admin", &["system:masters"]);
        let (code, _, answer) = server
            .send_as(admin, "POST", REVIEWS, ("impersonate-user", header), &review)
            .await;
        assert_eq!(code, 201, "{answer}");
        let info = &answer["status"]["userInfo"];
        assert_eq!((&info["username"], &info["groups"]), (&json!(name), &groups));
    }
    let admin = User::new("admin", &["system:masters"]);
    let (code, _, answer) = server
        .send_as(admin, "GET", PODS, ("impersonate-group", "devs"), &Value::Null)
        .await;
    assert_eq!((code, &answer["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn others_may_act_as_those_whom_a_role_names() {
    let server = Server::new();
    let bob = || User::new("bob", &["system:authenticated"]);
    let as_user = |name: &'static str| ("impersonate-user", name);
    let about = |answer: &Value| (answer["details"]["kind"].clone(), answer["details"]["name"].clone());
    let (code, _, answer) = server.send_as(bob(), "GET", PODS, as_user("jane"), &Value::Null).await;
    assert_eq!((code, about(&answer)), (403, (json!("pods"), Value::Null)));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "as-jane"},
        "rules": [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"]}],
    });
    assert_eq!(server.post(&format!("{RBAC}/clusterroles"), &role).await.0, 201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "as-jane"},
        "roleRef": {"kind": "ClusterRole", "name": "as-jane"}, "subjects": [{"kind": "User", "name": "bob"}],
    });
    assert_eq!(server.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.0, 201);
    let (code, _, answer) = server.send_as(bob(), "GET", PODS, as_user("joe"), &Value::Null).await;
    assert_eq!((code, about(&answer)), (403, (json!("users"), json!("joe"))));
    let (code, _, answer) = server.send_as(bob(), "GET", PODS, as_user("jane"), &Value::Null).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(code == 403 && message.contains("User \"jane\" cannot list"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_owned_belongs_to_whoever_was_before_the_first_apply() {
    let server = Server::new();
    assert_eq!(server.post(MAPS, &map("m", json!({"k": "v"}))).await.0, 201);
    let path = format!("{MAPS}/m");
    let forget = json!({"metadata": {"managedFields": [{}]}});
    assert_eq!(server.patch(&path, MERGE, forget).await.0, 200);
    let apply = format!("{path}?fieldManager=m1");
    let (code, answer) = server.patch(&apply, APPLY, map("m", json!({"k": "z"}))).await;
    assert_eq!(
        (code, causes(&answer)),
        (409, vec!["FieldManagerConflict .data.k".to_owned()])
    );
    let (code, answer) = server.patch(&apply, APPLY, map("m", json!({"k": "v", "n": "1"}))).await;
    assert_eq!(code, 200, "{answer}");
    let managers: Vec<&Value> = answer["metadata"]["managedFields"].as_array().into_iter().flatten().collect();
    let named: Vec<&Value> = managers.iter().map(|entry| &entry["manager"]).collect();
    assert_eq!(named, ["m1", "before-first-apply"]);
}

#[tokio::test(start_paused = true)]
async fn an_apply_may_say_which_object_it_means() {
    let server = Server::new();
    let with = |field: &str, value: &str| {
        let mut object = map("m", json!({"k": "v"}));
        object["metadata"][field] = value.into();
        object
    };
    let path = format!("{MAPS}/m?fieldManager=m1");
    for (object, expected) in [
        (with("uid", "123"), 409),
        (with("resourceVersion", "5"), 201),
        (with("resourceVersion", "0"), 200),
        (with("resourceVersion", "5"), 409),
        (with("resourceVersion", "x"), 500),
        (with("uid", "123"), 422),
    ] {
        let (code, answer) = server.patch(&path, APPLY, object.clone()).await;
        assert_eq!(code, expected, "{object} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_are_base64() {
    let server = Server::new();
    for (given, expected) in [
        ("YQ==", Some("YQ==")),
        ("Y\nQ==", Some("YQ==")),
        ("YR==", Some("YQ==")),
        ("", Some("")),
        ("YQ", None),
        ("*", None),
        (" YQ==", None),
        ("-_-_", None),
    ] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": given}});
        let (code, answer) = server.post("/api/v1/namespaces/default/secrets?dryRun=All", &secret).await;
        assert_eq!(code, if expected.is_some() { 201 } else { 400 }, "{given:?} {answer}");
        assert_eq!(answer.pointer("/data/a").and_then(Value::as_str), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn deprecated_kinds_say_so_with_every_answer() {
    let server = Server::new();
    let path = "/api/v1/namespaces/default/endpoints";
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"},
        "subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}], "ports": [{"port": 80}, {"port": 81}]}],
    });
    let (code, warning, _) = server.send("POST", path, "application/json", &endpoints).await;
    assert_eq!(code, 201);
    assert!(warning.is_some_and(|text| text.contains("v1 Endpoints is deprecated in v1.33+")));
    let (code, warning, _) = server
        .send("GET", &format!("{path}/none"), "application/json", &Value::Null)
        .await;
    assert!(code == 404 && warning.is_some());
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let admin = || User::new("admin", &["system:masters"]);
    let (_, _, answer) = server.send_as(admin(), "GET", path, table, &Value::Null).await;
    let shown = "1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 1 more...";
    assert_eq!(answer["rows"][0]["cells"], json!(["e", shown, "0s"]));
    let bad = format!("{path}?includeObject=Bad");
    assert_eq!(server.send_as(admin(), "GET", &bad, table, &Value::Null).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn what_is_null_is_nothing() {
    let server = Server::new();
    let roles = format!("{RBAC}/clusterroles");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []});
    let (_, answer) = server.post(&roles, &role).await;
    assert_eq!(answer.get("rules"), Some(&Value::Null));
    assert_eq!(server.post(PODS, &pod("p", json!({}), json!({}))).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn versions_that_a_group_does_not_have_are_no_paths() {
    let server = Server::new();
    for path in ["/api/v2", "/apis/apps/v9"] {
        let (code, answer) = server.get(path).await;
        assert_eq!((code, &answer["reason"]), (404, &json!("NotFound")), "{path}");
    }
}
