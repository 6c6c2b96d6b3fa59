//! Policies with parameters.

use serde_json::{Value, json};

use super::server::Server;
use super::{BINDINGS, MAPS, POLICIES, binding, create, map, policy};

const WIDGETS: &str = "/apis/example.com/v1/widgets";

async fn world() -> Server {
    let server = Server::new();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    create(
        &server,
        "/api/v1/namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}),
    )
    .await;
    create(&server, MAPS, map("limits", json!({"most": "2"}))).await;
    create(
        &server,
        "/api/v1/namespaces/other/configmaps",
        map("elsewhere", json!({"most": "9"})),
    )
    .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"most": 2}});
    create(&server, WIDGETS, widget).await;
    server
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_as_the_binding_says() {
    let maps = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let widgets = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    let of_map = "int(params.data.most) >= size(object.data)";
    let of_widget = "params.spec.most >= size(object.data) && params.kind == 'Widget'";
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let named = |name: &str, action: &str| json!({"name": name, "parameterNotFoundAction": action});
    let elsewhere = |name: &str| json!({"name": name, "namespace": "other", "parameterNotFoundAction": "Deny"});
    for (kind, expression, reference, refusal) in [
        (
            &maps,
            of_map,
            named("limits", "Deny"),
            Some("failed expression: int(params.data.most) >= size(object.data)"),
        ),
        (&maps, of_map, elsewhere("elsewhere"), None),
        (&maps, of_map, named("elsewhere", "Deny"), Some(missing)),
        (&maps, of_map, named("elsewhere", "Allow"), None),
        (
            &maps,
            of_map,
            json!({"selector": {"matchLabels": {"x": "y"}}, "parameterNotFoundAction": "Deny"}),
            Some("failed expression: int(params.data.most) >= size(object.data)"),
        ),
        (
            &maps,
            of_map,
            json!({"selector": {"matchLabels": {"x": "n"}}, "parameterNotFoundAction": "Allow"}),
            None,
        ),
        (&maps, "params == null", Value::Null, None),
        (
            &widgets,
            of_widget,
            named("w", "Deny"),
            Some("failed expression: params.spec.most >= size(object.data) && params.kind == 'Widget'"),
        ),
        (
            &widgets,
            of_widget,
            elsewhere("w"),
            Some("failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
        ),
        (
            &json!({"apiVersion": "example.com/v1", "kind": "Gadget"}),
            "true",
            named("w", "Allow"),
            Some("failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gadget'"),
        ),
    ] {
        let server = world().await;
        create(
            &server,
            POLICIES,
            policy("p", json!({"paramKind": kind, "validations": [{"expression": expression}]})),
        )
        .await;
        create(&server, BINDINGS, binding("p", json!({"paramRef": reference}))).await;
        let data = json!({"a": "1", "b": "2", "c": "3"});
        let (status, answer) = server.post(MAPS, &map("cm", data)).await;
        let message = answer["message"].as_str().unwrap_or_default();
        match refusal {
            None => assert_eq!(status, 201, "{reference}: {answer}"),
            Some(refusal) => assert_eq!(
                (status, message.rsplit("denied request: ").next()),
                (422, Some(refusal)),
                "{reference}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_asks_who_may_do_what() {
    let server = Server::new();
    let check = "authorizer.group('').resource('pods').namespace('default').check('create').allowed()";
    let other = "authorizer.serviceAccount('default', 'x').group('').resource('pods').check('get').allowed()";
    let own = "authorizer.requestResource.check('delete').allowed()";
    let validations = json!([{"expression": check}, {"expression": format!("!{other}")}, {"expression": own}]);
    create(&server, POLICIES, policy("p", json!({"validations": validations}))).await;
    create(&server, BINDINGS, binding("p", json!({}))).await;
    create(&server, MAPS, map("cm", json!({}))).await;
}
