//! The bytes of a ControllerRevision's data: kept as given, seen through protobuf, and never changed by anything.

use serde_json::Value;

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, STRATEGIC, Server};

const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

async fn create(server: &Server, media: &str, data: &str) {
    let text =
        format!(r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"r"}},"revision":1,"data":{data}}}"#);
    let (status, answer) = server.send_text("POST", REVISIONS, &[("content-type", media)], &text).await;
    assert_eq!(status, 201, "{answer:?}");
}

async fn read(server: &Server, path: &str, accept: &str) -> Vec<u8> {
    let (status, bytes) = server.send_text("GET", path, &[("accept", accept)], "").await;
    assert_eq!(status, 200);
    bytes.to_vec()
}

/// DS-207, DS-208
#[tokio::test(start_paused = true)]
async fn bytes_are_kept_and_only_canonical_ones_can_be_written_over() {
    let strategic = (STRATEGIC, r#"{"metadata":{"labels":{"x":"y"}}}"#);
    let merge = (MERGE, r#"{"metadata":{"labels":{"x":"z"}}}"#);
    let json = (
        "application/json-patch+json",
        r#"[{"op":"add","path":"/metadata/labels","value":{"q":"z"}}]"#,
    );
    let apply = (
        "application/apply-patch+yaml",
        "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: r, labels: {p: q}}\nrevision: 7\n",
    );
    // Answers to: strategic, merge, json patch, apply.
    for (data, answers) in [
        (r#"{"a":1,"b":2}"#, [200, 200, 200, 200]),
        (r#"{"a": 1, "b": "\u003c"}"#, [422, 422, 422, 422]),
        (r#"{"b":1,"a":2}"#, [422, 200, 200, 422]),
        (r#"{"a":"<"}"#, [422, 422, 422, 422]),
        (r#"{"a":1.0}"#, [422, 200, 200, 422]),
    ] {
        let server = Server::new();
        create(&server, JSON, data).await;
        let one = format!("{REVISIONS}/r");
        assert!(contains(&read(&server, &one, PROTOBUF).await, data), "{data}");
        assert!(contains(&read(&server, REVISIONS, PROTOBUF).await, data), "in a list: {data}");
        for ((media, patch), expected) in [strategic, merge, json, apply].into_iter().zip(answers) {
            let path = format!("{one}?force=true&fieldManager=m");
            let path = if media.contains("apply") { path } else { one.clone() };
            let (status, answer) = server.send_text("PATCH", &path, &[("content-type", media)], patch).await;
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(status, expected, "{data} {media}: {answer}");
            if status == 422 {
                let cause = &answer["details"]["causes"][0];
                assert_eq!(
                    (&cause["reason"], &cause["field"]),
                    (&"FieldValueInvalid".into(), &"data".into())
                );
            }
        }
        assert!(contains(&read(&server, &one, PROTOBUF).await, data), "after patches: {data}");
    }
}

/// DS-151, DS-207: what a controller posts it finds again, byte for byte, in either form.
#[tokio::test(start_paused = true)]
async fn what_go_escapes_stays_escaped() {
    let server = Server::new();
    let data = r#"{"\u003c":"\u003ca\u003e\u0026\u2028\u2029\"\n"}"#;
    create(&server, JSON, data).await;
    let one = format!("{REVISIONS}/r");
    for path in [&*one, REVISIONS] {
        for accept in [PROTOBUF, JSON] {
            assert!(contains(&read(&server, path, accept).await, data), "{path} {accept}");
        }
    }
    let watched = format!("{REVISIONS}?watch=true&timeoutSeconds=1");
    for accept in [format!("{PROTOBUF};stream=watch"), JSON.to_owned()] {
        assert!(contains(&read(&server, &watched, &accept).await, data), "watch {accept}");
    }
    // What is not canonical is shown as if it were, but through protobuf.
    let server = Server::new();
    create(&server, JSON, r#"{"a":"<"}"#).await;
    assert!(contains(&read(&server, &one, JSON).await, r#"{"a":"\u003c"}"#));
}

/// DS-209
#[tokio::test(start_paused = true)]
async fn an_update_must_repeat_the_bytes() {
    let server = Server::new();
    create(&server, JSON, r#"{"a": 1}"#).await;
    let one = format!("{REVISIONS}/r");
    let put = async |data: &str, number: u8| {
        let current: Value = serde_json::from_slice(&read(&server, &one, JSON).await).expect("JSON");
        let metadata = &current["metadata"];
        let text = format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"revision":{number},"data":{data}}}"#
        );
        server.send_text("PUT", &one, &[("content-type", JSON)], &text).await.0
    };
    assert_eq!(put(r#"{"a":1}"#, 2).await, 422);
    assert_eq!(put(r#"{"a": 1}"#, 3).await, 200);
    assert!(contains(&read(&server, &one, PROTOBUF).await, r#"{"a": 1}"#));
}

#[tokio::test(start_paused = true)]
async fn yaml_becomes_sorted_json() {
    let server = Server::new();
    let text = "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: r}\nrevision: 1\ndata: {b: 1, a: '<'}\n";
    let (status, _) = server
        .send_text("POST", REVISIONS, &[("content-type", "application/yaml")], text)
        .await;
    assert_eq!(status, 201);
    let bytes = read(&server, &format!("{REVISIONS}/r"), PROTOBUF).await;
    assert!(contains(&bytes, r#"{"a":"\u003c","b":1}"#));
}

/// DS-206
#[tokio::test(start_paused = true)]
async fn a_document_that_comes_as_protobuf_is_kept_too() {
    let server = Server::new();
    create(&server, JSON, r#"{ "a" : 1 }"#).await;
    let one = format!("{REVISIONS}/r");
    let document = read(&server, &one, PROTOBUF).await;
    let (status, _) = server.send_bytes("PUT", &one, &[("content-type", PROTOBUF)], document).await;
    assert_eq!(status, 200);
    assert!(contains(&read(&server, &one, PROTOBUF).await, r#"{ "a" : 1 }"#));
}
