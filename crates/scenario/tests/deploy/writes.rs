//! Every kind of write of each stage, allowed or not: `writes.yaml`, with the committed roles and policies.

use std::collections::BTreeMap;

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::service::Service;
use bailiff_sandbox::{Sandbox, User, Verb};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::door::{REPLACE, STAGES, config, lay, token};
use super::read;

fn table() -> Value {
    serde_saphyr::from_str(&read("crates/scenario/tests/deploy/writes.yaml")).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The same with names and uids in the place of `<stage>` and `<uid …>`.
fn filled(value: &Value, stage: &str, uids: &BTreeMap<String, String>) -> Value {
    let mut text = value.to_string().replace("<stage>", stage);
    for (name, uid) in uids {
        text = text.replace(&format!("<uid {name}>"), uid);
    }
    serde_json::from_str(&text).unwrap()
}

/// A cluster with the objects that are written to; and their uids.
fn mk_cluster(table: &Value) -> (Sandbox, BTreeMap<String, String>) {
    let wall = "2026-01-01T00:00:00Z".parse().expect("a time");
    let sandbox = Sandbox::new(config(), Clock::virtual_from(wall), &Seed::new(6));
    lay(&sandbox, REPLACE);
    let mut uids = BTreeMap::new();
    for entry in list(&table["objects"]) {
        let path = entry["path"].as_str().unwrap();
        let object = filled(&entry["object"], "", &uids);
        let name = object["metadata"]["name"].as_str().unwrap();
        let request = |verb, path: &str, body: &Value| {
            let answer = sandbox.request(&User::admin(), verb, path, body);
            answer.unwrap_or_else(|status| panic!("{path} {name}: {status}"))
        };
        let created = request(Verb::Create, path, &object);
        uids.entry(name.to_owned())
            .or_insert_with(|| created["metadata"]["uid"].as_str().unwrap().to_owned());
        if !entry["status"].is_null() {
            let status = json!({"status": entry["status"]});
            request(Verb::MergePatch, &format!("{path}/{name}/status"), &status);
        }
    }
    (sandbox, uids)
}

/// Sends a dry run with a token; answers the status and the message.
async fn send(sandbox: &Sandbox, token: &str, case: &Value) -> (u16, String) {
    let text = |field: &str| case[field].as_str().unwrap_or_default();
    let media = match (text("method"), text("type")) {
        ("PATCH", "strategic") => "application/strategic-merge-patch+json",
        ("PATCH", "json") => "application/json-patch+json",
        ("PATCH", _) => "application/merge-patch+json",
        _ => "application/json",
    };
    let mut body = case["body"].clone();
    match text("method") {
        // A body takes the place of the query.
        "DELETE" if body.is_object() => body["dryRun"] = json!(["All"]),
        "PUT" => {
            let path = text("path");
            let found = sandbox.request(&User::admin(), Verb::Get, path, &Value::Null).unwrap();
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        }
        _ => {}
    }
    let query = if text("method") == "GET" { "" } else { "?dryRun=All" };
    let mut request = http::Request::builder()
        .method(text("method"))
        .uri(format!("{}{query}", text("path")))
        .header("content-type", media)
        .header("authorization", format!("Bearer {token}"));
    if case["impersonate"].is_string() {
        request = request.header("impersonate-user", text("impersonate"));
    }
    let bytes = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let request = request.body(Full::new(bytes)).unwrap();
    let response = Service::new(sandbox.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    (status, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// Design §3: each stage writes its own fields, and no others. Roles refuse with 403 and say who cannot do what; policies name themselves.
#[tokio::test(start_paused = true)]
async fn each_stage_writes_its_own_fields_and_no_others() {
    let table = table();
    let (sandbox, uids) = mk_cluster(&table);
    let (mut played, mut wrong) = (0, Vec::new());
    for stage in STAGES {
        let token = token(&sandbox, REPLACE, stage);
        let account = format!("system:serviceaccount:{}:{stage}", REPLACE.namespace);
        for case in list(&table["everyone"]).iter().chain(list(&table["stages"][stage])) {
            let case = filled(case, stage, &uids);
            let (status, message) = send(&sandbox, &token, &case).await;
            let is_policys = message.contains("ValidatingAdmissionPolicy 'bailiff-");
            let is_as_wanted = match case["answer"].as_str().unwrap() {
                "ok" => status < 300,
                "forbidden" => status == 403 && !is_policys && message.contains(&format!("User \"{account}\" cannot")),
                wanted => (status == 403 || status == 422) && is_policys && message.contains(wanted),
            };
            if !is_as_wanted {
                let what = case["do"].as_str().unwrap();
                wrong.push(format!("{stage}: {what}: {}, got {status} {message}", case["answer"]));
            }
            played += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(played > 180, "{played}");
}

/// What others do is none of the policies' business.
#[tokio::test(start_paused = true)]
async fn policies_concern_nobody_else() {
    let table = table();
    let (sandbox, uids) = mk_cluster(&table);
    for stage in STAGES {
        for case in list(&table["stages"][stage]) {
            let case = filled(case, stage, &uids);
            let verb = match (case["method"].as_str().unwrap(), case["type"].as_str()) {
                ("PATCH", Some("strategic")) => Verb::StrategicMergePatch,
                ("PATCH", Some("json")) => Verb::JsonPatch,
                ("PATCH", _) => Verb::MergePatch,
                ("DELETE", _) => Verb::Delete,
                ("POST", _) => Verb::Create,
                _ => continue,
            };
            let mut body = case["body"].clone();
            if verb == Verb::Delete {
                body["dryRun"] = json!(["All"]);
            }
            let path = format!("{}?dryRun=All", case["path"].as_str().unwrap());
            if let Err(status) = sandbox.request(&User::admin(), verb, &path, &body) {
                assert!(!status.to_string().contains("ValidatingAdmissionPolicy"), "{case}: {status}");
            }
        }
    }
}
