//! ValidatingAdmissionPolicies: which requests they judge and what they see of them, what is answered, what is refused at creation.
//! What is expected here is what kube-apiserver 1.36 answered to the same requests.

use bailiff_sandbox::User;
use serde_json::{Value, json};

#[path = "admission/answers.rs"]
mod answers;
#[path = "admission/chart.rs"]
mod chart;
#[path = "admission/creation.rs"]
mod creation;
#[path = "admission/matching.rs"]
mod matching;
#[path = "admission/params.rs"]
mod params;
#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, Server, merge, pod};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const APPLY: &str = "application/apply-patch+yaml";

fn everything() -> Value {
    json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]})
}

fn policy(name: &str, spec: Value) -> Value {
    let mut all = json!({"matchConstraints": everything()});
    merge(&mut all, spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": all,
    })
}

fn binding(name: &str, spec: Value) -> Value {
    let mut all = json!({"policyName": name, "validationActions": ["Deny"]});
    merge(&mut all, spec);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": all,
    })
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"x": "y"}}, "data": data})
}

async fn create(server: &Server, path: &str, object: Value) {
    let (status, answer) = server.post(path, &object).await;
    assert_eq!(status, 201, "{answer}");
}

async fn bound(server: &Server, spec: Value) {
    create(server, POLICIES, policy("p", spec)).await;
    create(server, BINDINGS, binding("p", json!({}))).await;
}

fn bob() -> User {
    User::new("bob", &["system:masters"])
}

/// What a request of bob's is answered: the status, and the message after what it begins with.
async fn answer(server: &Server, method: &str, path: &str, media: &str, body: &Value) -> (u16, String) {
    let (status, _, answer) = server.send_as(bob(), method, path, ("content-type", media), body).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let told = message.rsplit("denied request: ").next().unwrap_or_default();
    (status, told.to_owned())
}

/// A policy that refuses everything of bob's, and says what it saw.
async fn watched() -> Server {
    let server = Server::new();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
    });
    for (path, object) in [
        (PODS, pod("p3", json!({}), json!({}))),
        (MAPS, map("cm", json!({}))),
        (
            "/api/v1/namespaces",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n3"}}),
        ),
        (
            "/api/v1/nodes",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node3"}}),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}}),
        ),
        ("/apis/apps/v1/namespaces/default/replicasets", set),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease),
    ] {
        create(&server, path, object).await;
    }
    let seen = "'%s|%s|%s|%s|%s|%s|%s|%s'.format([request.operation, request.name, has(request.namespace) ? request.namespace : '-', \
                request.kind.kind, request.resource.resource, has(request.subResource) ? request.subResource : '-', \
                object == null ? 'null' : object.kind, oldObject == null ? 'null' : oldObject.kind]) + '|' + \
                string(request.options.kind) + '|' + string(request.dryRun) + '|' + \
                (namespaceObject == null ? '-' : namespaceObject.metadata.name)";
    let spec = json!({
        "matchConditions": [{"name": "m", "expression": "request.userInfo.username == 'bob'"}],
        "validations": [{"expression": "false", "messageExpression": seen}],
    });
    bound(&server, spec).await;
    server
}

#[tokio::test(start_paused = true)]
async fn policies_see_what_was_asked() {
    let server = watched().await;
    let json_media = "application/json";
    let at = |rest: &str| format!("/api/v1/namespaces/default/{rest}");
    let named = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    let bind = |name: &str| {
        let mut binding = named("v1", "Binding", name);
        binding["target"] = json!({"kind": "Node", "name": "node3"});
        binding
    };
    let sets = "/apis/apps/v1/namespaces/default/replicasets/rs";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    for (method, path, media, body, expected) in [
        (
            "POST",
            at("pods"),
            json_media,
            pod("p3", json!({}), json!({})),
            "CREATE|p3|default|Pod|pods|-|Pod|null|CreateOptions|false|default",
        ),
        (
            "POST",
            "/api/v1/namespaces".to_owned(),
            json_media,
            named("v1", "Namespace", "n4"),
            "CREATE|n4|n4|Namespace|namespaces|-|Namespace|null|CreateOptions|false|-",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/n3".to_owned(),
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}),
            "UPDATE|n3|n3|Namespace|namespaces|-|Namespace|Namespace|UpdateOptions|false|-",
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n3".to_owned(),
            json_media,
            Value::Null,
            "DELETE|n3|n3|Namespace|namespaces|-|null|Namespace|DeleteOptions|false|-",
        ),
        (
            "PATCH",
            at("pods/p3"),
            MERGE,
            json!({}),
            "UPDATE|p3|default|Pod|pods|-|Pod|Pod|UpdateOptions|false|default",
        ),
        (
            "PATCH",
            at("pods/p3/status"),
            MERGE,
            json!({"status": {"phase": "Running"}}),
            "UPDATE|p3|default|Pod|pods|status|Pod|Pod|UpdateOptions|false|default",
        ),
        (
            "PATCH",
            at("configmaps/ap?fieldManager=x"),
            APPLY,
            named("v1", "ConfigMap", "ap"),
            "CREATE|ap|default|ConfigMap|configmaps|-|ConfigMap|null|CreateOptions|false|default",
        ),
        (
            "PATCH",
            at("configmaps/cm?fieldManager=x&dryRun=All"),
            APPLY,
            named("v1", "ConfigMap", "cm"),
            "UPDATE|cm|default|ConfigMap|configmaps|-|ConfigMap|ConfigMap|UpdateOptions|true|default",
        ),
        (
            "DELETE",
            at("pods/p3"),
            json_media,
            Value::Null,
            "DELETE|p3|default|Pod|pods|-|null|Pod|DeleteOptions|false|default",
        ),
        // Which objects go is not known from the request: there is no name that the expression could show.
        (
            "DELETE",
            at("configmaps?labelSelector=x=y"),
            json_media,
            Value::Null,
            "failed expression: false",
        ),
        (
            "POST",
            at("pods/p3/eviction"),
            json_media,
            named("policy/v1", "Eviction", "p3"),
            "CREATE|p3|default|Eviction|pods|eviction|Eviction|null|CreateOptions|false|default",
        ),
        (
            "POST",
            at("pods/nope/eviction"),
            json_media,
            named("policy/v1", "Eviction", "nope"),
            "CREATE|nope|default|Eviction|pods|eviction|Eviction|null|CreateOptions|false|default",
        ),
        (
            "POST",
            at("pods/p3/binding"),
            json_media,
            bind("p3"),
            "CREATE|p3|default|Binding|pods|binding|Binding|null|CreateOptions|false|default",
        ),
        (
            "POST",
            at("bindings"),
            json_media,
            bind("p3"),
            "CREATE|p3|default|Binding|bindings|-|Binding|null|CreateOptions|false|default",
        ),
        (
            "POST",
            at("serviceaccounts/sa/token"),
            json_media,
            token,
            "CREATE|sa|default|TokenRequest|serviceaccounts|token|TokenRequest|null|CreateOptions|false|default",
        ),
        (
            "PATCH",
            format!("{sets}/scale"),
            MERGE,
            json!({"spec": {"replicas": 1}}),
            "UPDATE|rs|default|Scale|replicasets|scale|Scale|Scale|UpdateOptions|false|default",
        ),
        (
            "PUT",
            "/api/v1/namespaces/n3/finalize".to_owned(),
            json_media,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n3"}, "spec": {"finalizers": []}}),
            "UPDATE|n3|n3|Namespace|namespaces|finalize|Namespace|Namespace|UpdateOptions|false|-",
        ),
        // Connections have no options that the expression could show.
        (
            "POST",
            at("pods/p3/exec?command=ls"),
            json_media,
            Value::Null,
            "failed expression: false",
        ),
        (
            "PUT",
            format!("{leases}/l3"),
            json_media,
            named("coordination.k8s.io/v1", "Lease", "l3"),
            "CREATE|l3|default|Lease|leases|-|Lease|null|CreateOptions|false|default",
        ),
    ] {
        let given = answer(&server, method, &path, media, &body).await;
        assert_eq!(given, (422, expected.to_owned()), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_refusals_come_first_and_some_requests_are_not_judged() {
    let server = watched().await;
    let json_media = "application/json";
    let invalid = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"containers": []}});
    let precondition = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let misnamed = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "zz"}});
    for (method, path, media, body, expected) in [
        ("POST", PODS, json_media, invalid, 422),
        ("PATCH", "/api/v1/namespaces/default/pods/nope", MERGE, json!({}), 404),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/p3",
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
        ),
        ("DELETE", "/api/v1/namespaces/default/pods/nope", json_media, Value::Null, 404),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/cm",
            json_media,
            precondition,
            409,
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps?labelSelector=x=zzz",
            json_media,
            Value::Null,
            200,
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods/p3/eviction",
            json_media,
            misnamed,
            400,
        ),
        ("GET", "/api/v1/namespaces/default/pods/p3", json_media, Value::Null, 200),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json_media,
            review,
            201,
        ),
        (
            "PATCH",
            &format!("{POLICIES}/p"),
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}),
            200,
        ),
        ("DELETE", &format!("{BINDINGS}/p"), json_media, Value::Null, 200),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/cm",
            json_media,
            Value::Null,
            200,
        ),
    ] {
        let (status, told) = answer(&server, method, path, media, &body).await;
        assert_eq!(status, expected, "{method} {path}: {told}");
        assert!(!told.contains('|'), "{method} {path}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_answered_as_the_real_server_does() {
    let server = Server::new();
    let spec = json!({"validations": [{"expression": "object.metadata.name.startsWith('ok')", "message": "creation denied"}]});
    bound(&server, spec).await;
    let mut generated = pod("", json!({}), json!({}));
    generated["metadata"] = json!({"generateName": "p-"});
    let (status, answer) = server.post(PODS, &generated).await;
    let name = answer["details"]["name"].as_str().unwrap_or_default().to_owned();
    assert!(name.starts_with("p-") && name.len() == 7, "{answer}");
    let why = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: creation denied";
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("pods \"{name}\" is forbidden: {why}"), "reason": "Invalid",
        "details": {"name": name, "kind": "pods", "causes": [{"message": why}]}, "code": 422,
    });
    assert_eq!((status, answer), (422, expected));
}
