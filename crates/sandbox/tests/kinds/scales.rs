//! Scales: how many replicas there are to be, read and changed as an object of its own.

use serde_json::{Value, json};

use super::server::{MERGE, STRATEGIC, Server};
use super::{DEPLOYMENTS, JSON};

const APPLY: &str = "application/apply-patch+yaml";

/// A server with a Deployment of two replicas.
async fn deployed() -> Server {
    let server = Server::new();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    assert_eq!(server.post(DEPLOYMENTS, &deployment).await.0, 201);
    server
}

#[tokio::test(start_paused = true)]
async fn custom_resources_have_a_scale_where_their_definition_says() {
    let server = Server::new();
    let paths =
        json!({"specReplicasPath": ".spec.wanted", "statusReplicasPath": ".status.found", "labelSelectorPath": ".status.sel"});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": paths},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(definitions, &definition).await.0, 201);
    let widgets = "/apis/example.org/v1/namespaces/default/widgets";
    let widget = |name: &str, spec: Value| {
        let meta = json!({"name": name});
        json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": meta, "spec": spec})
    };
    assert_eq!(server.post(widgets, &widget("a", json!({"wanted": 3}))).await.0, 201);
    assert_eq!(server.post(widgets, &widget("b", json!({}))).await.0, 201);
    let (_, scale) = server.get(&format!("{widgets}/a/scale")).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let change = |replicas: i64| json!({"spec": {"replicas": replicas}});
    let (_, scale) = server.patch(&format!("{widgets}/a/scale"), MERGE, change(5)).await;
    assert_eq!(scale["spec"]["replicas"], 5);
    let (_, found) = server.get(&format!("{widgets}/a")).await;
    assert_eq!(
        (&found["spec"]["wanted"], &found["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    for (path, media, replicas, expected) in [
        (format!("{widgets}/a/scale"), MERGE, -1, 422),
        (format!("{widgets}/a/scale"), STRATEGIC, 1, 415),
        (format!("{widgets}/none/scale"), MERGE, 1, 404),
    ] {
        let (code, answer) = server.patch(&path, media, change(replicas)).await;
        assert_eq!(code, expected, "{path} {answer}");
    }
    let applied = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 7}});
    for (query, expected) in [("fieldManager=m", 409), ("fieldManager=m&force=true", 200)] {
        let path = format!("{widgets}/a/scale?{query}");
        assert_eq!(server.patch(&path, APPLY, applied.clone()).await.0, expected, "{query}");
    }
    assert_eq!(server.get(&format!("{widgets}/a")).await.1["spec"]["wanted"], 7);
    assert_eq!(server.get(&format!("{widgets}/b/scale")).await.0, 500);
    assert_eq!(server.get(&format!("{widgets}/a/none")).await.1["details"]["kind"], "widgets");
    let (_, list) = server.get(widgets).await;
    assert_eq!(
        (&list["items"][0]["kind"], &list["metadata"]["continue"]),
        (&json!("Widget"), &json!(""))
    );
}

/// What was sent is read before it is looked what there is to scale; only what is wrong with a patch is told afterwards.
#[tokio::test(start_paused = true)]
async fn a_scale_is_read_as_any_object_is() {
    let server = deployed().await;
    let scale =
        |metadata: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": 3}});
    let change = json!({"spec": {"replicas": 3}});
    for (method, name, media, body, expected) in [
        ("PUT", "none", JSON, json!([]), 400),
        ("PUT", "none", JSON, scale(json!({})), 400),
        ("PUT", "none", JSON, scale(json!({"name": "d"})), 400),
        ("PUT", "none", JSON, scale(json!({"name": "none"})), 404),
        ("PUT", "d", JSON, scale(json!({"name": "d", "namespace": "other"})), 400),
        ("PUT", "d", JSON, scale(json!({"name": "d", "resourceVersion": "1"})), 409),
        ("PATCH", "none", JSON, change.clone(), 415),
        ("PATCH", "none", MERGE, json!([]), 404),
        ("PATCH", "d", MERGE, json!([]), 400),
        ("PATCH", "d", MERGE, json!({"spec": 7}), 422),
    ] {
        let (code, _, answer) = server
            .send(method, &format!("{DEPLOYMENTS}/{name}/scale"), media, &body)
            .await;
        assert_eq!(code, expected, "{method} {name} {media} {body}: {answer}");
    }
    // A dry run shows what would be, and leaves what is.
    for (query, stored) in [("?dryRun=All", 2), ("", 3)] {
        let path = format!("{DEPLOYMENTS}/d/scale{query}");
        let (code, answer) = server.patch(&path, MERGE, change.clone()).await;
        assert_eq!((code, &answer["spec"]["replicas"]), (200, &json!(3)), "{answer}");
        let (_, found) = server.get(&format!("{DEPLOYMENTS}/d")).await;
        assert_eq!(found["spec"]["replicas"], stored);
    }
}

/// A patch that is null is no list of operations, but none; it cannot be merged.
#[tokio::test(start_paused = true)]
async fn a_scale_is_patched_as_any_object_is() {
    let server = deployed().await;
    let one = format!("{DEPLOYMENTS}/d");
    let list = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    for path in [one.clone(), format!("{one}/scale")] {
        for (query, media, patch, expected, why) in [
            ("", "application/json-patch+json", "null", 200, ""),
            ("", "application/json-patch+json", "{}", 400, list),
            ("", MERGE, "null", 400, "Invalid JSON Patch"),
            ("?fieldValidation=Never", MERGE, "{}", 422, "PatchOptions"),
            ("?force=true", MERGE, "{}", 422, "force: Forbidden"),
        ] {
            let path = format!("{path}{query}");
            let (code, answer) = server.send_text("PATCH", &path, &[("content-type", media)], patch).await;
            let answer = String::from_utf8_lossy(&answer);
            assert!(
                code == expected && answer.contains(why),
                "{path} {media} {patch}: {code} {answer}"
            );
        }
    }
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let path = format!("{one}/scale?fieldValidation=Never");
    assert_eq!(server.send("PUT", &path, JSON, &scale).await.0, 422);
}

/// Whoever owns the replicas of an object owns those of its scale, and the other way round.
#[tokio::test(start_paused = true)]
async fn a_scale_is_applied() {
    let server = deployed().await;
    let scale = |spec: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": spec});
    let conflict = "Apply failed with 1 conflict: conflict with \"unknown\" using autoscaling/v1: .spec.replicas";
    let other = "Apply failed with 1 conflict: conflict with \"m\" with subresource \"scale\": .spec.replicas";
    let version = "invalid object type: apps/v1, Kind=Scale";
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Scale", "metadata": {"name": "d"}});
    for (what, query, body, expected, said) in [
        ("another kind", "fieldManager=m", wrong, 400, version),
        ("nobody", "force=true", scale(json!({"replicas": 3})), 422, "fieldManager"),
        (
            "an unknown field",
            "fieldManager=m",
            scale(json!({"size": 3})),
            500,
            "field not declared in schema",
        ),
        (
            "less than none",
            "fieldManager=m&force=true",
            scale(json!({"replicas": -1})),
            422,
            "greater than or equal to 0",
        ),
        ("another's", "fieldManager=m", scale(json!({"replicas": 3})), 409, conflict),
        ("the same", "fieldManager=n", scale(json!({"replicas": 2})), 200, "2"),
        (
            "left out as null",
            "fieldManager=n",
            scale(json!({"replicas": null})),
            200,
            "2",
        ),
        (
            "by force",
            "fieldManager=m&force=true",
            scale(json!({"replicas": 3})),
            200,
            "3",
        ),
        ("another's again", "fieldManager=n", scale(json!({"replicas": 4})), 409, other),
        ("its own", "fieldManager=m", scale(json!({"replicas": 5})), 200, "5"),
        (
            "no more, by null",
            "fieldManager=m",
            scale(json!({"replicas": null})),
            200,
            "null",
        ),
        (
            "once more",
            "fieldManager=m&force=true",
            scale(json!({"replicas": 5})),
            200,
            "5",
        ),
        ("no more", "fieldManager=m", scale(json!({})), 200, "null"),
    ] {
        let (code, answer) = server.patch(&format!("{DEPLOYMENTS}/d/scale?{query}"), APPLY, body).await;
        let replicas = &answer["spec"]["replicas"];
        let told = answer["message"].as_str().map_or(replicas.to_string(), str::to_owned);
        assert!(code == expected && told.contains(said), "{what}: {code} {answer}");
        let (_, found) = server.get(&format!("{DEPLOYMENTS}/d")).await;
        let wanted = replicas.as_i64().unwrap_or(0);
        assert!(code != 200 || found["spec"]["replicas"] == wanted, "{what}: {found}");
    }
    let path = format!("{DEPLOYMENTS}/none/scale?fieldManager=m");
    assert_eq!(server.patch(&path, APPLY, json!([])).await.0, 404);
}
