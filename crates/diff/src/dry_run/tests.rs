use proptest::prelude::*;

use super::*;

fn try_it(method: &str, uri: &str, kind: &str, body: &[u8]) -> Result<(String, String, Vec<u8>), Refusal> {
    let (method, uri) = (method.parse().expect("a method"), uri.parse().expect("a URI"));
    harmless(&method, &uri, kind, body.to_vec())
}

#[test]
fn reads_pass_and_writes_become_dry_runs() {
    let pod = "/api/v1/namespaces/default/pods/web-1";
    let cases = [
        ("GET", "/api/v1/nodes?watch=1", "/api/v1/nodes?watch=1"),
        ("GET", "/readyz", "/readyz"),
        ("PATCH", "/api/v1/nodes/a", "/api/v1/nodes/a?dryRun=All"),
        (
            "PATCH",
            "/api/v1/nodes/a/status?fieldManager=m",
            "/api/v1/nodes/a/status?fieldManager=m&dryRun=All",
        ),
        ("PUT", "/api/v1/nodes/a?dryRun=", "/api/v1/nodes/a?dryRun=All"),
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            "/api/v1/namespaces/default/pods?dryRun=All",
        ),
        ("POST", &format!("{pod}/eviction"), &format!("{pod}/eviction?dryRun=All")),
        (
            "POST",
            "/apis/events.k8s.io/v1/namespaces/x/events",
            "/apis/events.k8s.io/v1/namespaces/x/events?dryRun=All",
        ),
    ];
    for (method, uri, wanted) in cases {
        let passed = try_it(method, uri, JSON, b"{}").expect(uri);
        assert_eq!(passed, (wanted.to_owned(), JSON.to_owned(), b"{}".to_vec()), "{method} {uri}");
    }
}

#[test]
fn what_a_dry_run_does_not_keep_from_having_effects_is_refused() {
    let pod = "/api/v1/namespaces/default/pods/web-1";
    for (method, uri) in [
        ("GET", format!("{pod}/exec?command=x")),
        ("POST", format!("{pod}/attach")),
        ("GET", format!("{pod}/portforward")),
        ("GET", "/api/v1/nodes/a/proxy/pods".to_owned()),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/a/token".to_owned()),
        ("PUT", "/api/v1/namespaces/default/finalize".to_owned()),
        ("POST", format!("{pod}/ephemeralcontainers")),
        ("POST", "/version".to_owned()),
    ] {
        let refused = try_it(method, &uri, JSON, b"{}").expect_err(&uri);
        assert_eq!(refused.code, StatusCode::FORBIDDEN, "{method} {uri}");
    }
    // The server goes by what these mean when they are decoded.
    for uri in [
        "/api/v1/nodes%2Fa%2Fproxy%2Frun/x",
        "/api/v1/nodes/a/%70roxy/pods",
        "/api/v1/namespaces//pods/x/exec",
        "/api/v1/nodes/a/../b/proxy",
    ] {
        for method in ["GET", "POST"] {
            let refused = try_it(method, uri, JSON, b"{}").expect_err(uri);
            assert_eq!(refused.code, StatusCode::BAD_REQUEST, "{method} {uri}");
        }
    }
}

#[test]
fn a_deletion_says_it_in_its_options_whatever_they_are_in() {
    let pod = "/api/v1/namespaces/default/pods/web-1";
    let wanted = format!("{pod}?dryRun=All");
    let options = |kind: &str, body: &[u8]| {
        let (uri, kind, body) = try_it("DELETE", pod, kind, body).expect("options");
        assert_eq!(uri, wanted);
        (kind, body)
    };
    let (kind, body) = options("", b"");
    let read: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((kind.as_str(), &read["dryRun"]), (JSON, &json!(["All"])));

    let (_, body) = options(JSON, br#"{"preconditions":{"uid":"u"},"dryRun":[]}"#);
    let read: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(read, json!({"preconditions": {"uid": "u"}, "dryRun": ["All"]}));

    // An envelope with a type (field 1) and options with gracePeriodSeconds 0 (field 1).
    let (kind, body) = options(PROTOBUF, b"k8s\0\x0a\x02\x0a\0\x12\x02\x08\0");
    assert_eq!(kind, PROTOBUF);
    assert_eq!(body, b"k8s\0\x0a\x02\x0a\0\x12\x07\x2a\x03All\x08\0");
    // A field that claims more bytes than there are does not get ours.
    let (_, body) = options(PROTOBUF, b"k8s\0\x12\x02\x12\x05");
    assert_eq!(body, b"k8s\0\x12\x07\x2a\x03All\x12\x05");

    for body in [&b"["[..], b"3", b"k8s\0\x0d", b"k8s\0\x12\x09\x08"] {
        let refused = try_it("DELETE", pod, JSON, body).expect_err("no options");
        assert_eq!(refused.code, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{body:?}");
    }
}

proptest! {
    /// No deletion passes that does not say that it is a dry run.
    #[test]
    fn no_deletion_is_in_earnest(body in prop::collection::vec(any::<u8>(), 0..64), is_document in any::<bool>()) {
        let body = if is_document { [MAGIC, &body].concat() } else { body };
        if let Ok((uri, kind, body)) = try_it("DELETE", "/api/v1/namespaces/a/pods/b", PROTOBUF, &body) {
            prop_assert!(uri.ends_with("?dryRun=All"));
            if kind == JSON {
                let read: Value = serde_json::from_slice(&body).expect("JSON");
                prop_assert_eq!(&read["dryRun"], &json!(["All"]));
            } else {
                // It is the first field of the message, or of each part of it.
                let (mut rest, mut is_said) = (body.strip_prefix(MAGIC).expect("a document"), false);
                while !rest.is_empty() {
                    let (tag, after) = varint(rest).expect("a tag");
                    let (length, after) = varint(after).expect("a length");
                    let (value, after) = after.split_at(usize::try_from(length).expect("short"));
                    is_said |= tag == 0x12 && value.starts_with(b"\x2a\x03All");
                    rest = after;
                }
                prop_assert!(is_said);
            }
        }
    }
}
