//! No input makes the server panic, hang or blame itself.

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::api::handle;
use bailiff_sandbox::api::request::{Body, Query, Request};
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use proptest::prelude::*;

#[path = "../fuzz/requests.rs"]
#[allow(clippy::panic, reason = "what does not hold fails the test")]
mod requests;

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];
const PATHS: [&str; 22] = [
    "/",
    "/api",
    "/apis//v1/pods",
    "/api/v1/nodes",
    "/api/v1/nodes/n1",
    "/api/v1/nodes/n1/status",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/a",
    "/api/v1/namespaces/default/pods/a/status",
    "/api/v1/namespaces/default/pods/a/eviction",
    "/api/v1/namespaces/default/pods/a/binding",
    "/api/v1/namespaces/default/bindings",
    "/api/v1/namespaces/default/serviceaccounts/s/token",
    "/api/v1/namespaces/default/finalize",
    "/api/v1/namespaces/a/finalize",
    "/apis/apps/v1/namespaces/default/daemonsets/d",
    "/apis/apps/v1/namespaces/default/controllerrevisions",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];
const QUERIES: [&str; 12] = [
    "",
    "watch=true&timeoutSeconds=1",
    "limit=1&continue=eyJ9",
    "limit=-9223372036854775808",
    "labelSelector=a+in+(&fieldSelector=%00",
    "fieldSelector=metadata.name%3D%5C",
    "resourceVersion=18446744073709551615&resourceVersionMatch=Exact",
    "fieldManager=m&force=true",
    "dryRun=All&fieldValidation=Strict",
    "gracePeriodSeconds=-9223372036854775808",
    "propagationPolicy=Orphan",
    "sendInitialEvents=true&allowWatchBookmarks=true&watch=1&resourceVersionMatch=NotOlderThan",
];
const TYPES: [&str; 7] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const BODIES: [&str; 22] = [
    "",
    "null",
    "[]",
    "{}",
    "\"x\"",
    "{\"metadata\":\"x\"}",
    "{\"metadata\":{\"name\":null,\"labels\":[],\"generation\":1e400}}",
    "{\"metadata\":{\"name\":\"a\",\"finalizers\":[null]},\"spec\":{\"containers\":[null,{\"name\":\"m\",\"image\":\"i\"}]}}",
    "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"m\",\"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":\"9e99\"}}}]}}",
    "{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":\"+999999-01-01T00:00:00Z\"},\"spec\":null,\"status\":null}",
    "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"renewTime\":\"é024-03-01T10:00:00.000000Z\"}}",
    "{\"spec\":{\"$patch\":\"delete\",\"containers\":[{\"$patch\":\"replace\"}]}}",
    "{\"spec\":{\"$setElementOrder/containers\":7,\"$retainKeys\":{},\"$deleteFromPrimitiveList/x\":1}}",
    "{\"metadata\":{\"managedFields\":[{},{\"fieldsV1\":{\"k:\":{},\"f\":1,\"é\":{}}}]}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"m\",\"ports\":[{}]}]}}",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"gracePeriodSeconds\":-5,\"preconditions\":{\"uid\":7}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"a\",\"labels\":7},\"target\":{\"name\":\"n1\"}}",
    "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"a\"},\"deleteOptions\":[]}",
    "[{\"op\":\"add\",\"path\":\"/metadata\",\"value\":1},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/spec\"}]",
    "[{\"op\":\"move\",\"from\":\"/metadata/name\",\"path\":\"/metadata/name/x\"},{\"op\":7}]",
    "k8s\0\n\x02\n\0\x12\x7f",
    "&a [*a, *a]",
];

#[tokio::test(start_paused = true)]
async fn every_request_is_answered_with_something_sensible() {
    let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
    let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
    let admin = User::admin();
    let (mut requests, mut choice) = (0, 0_usize);
    for method in METHODS {
        for path in PATHS {
            for body in BODIES {
                for media in TYPES {
                    // Queries take turns, or there would be millions of requests.
                    choice += 1;
                    let request = Request {
                        method: method.to_owned(),
                        path: path.to_owned(),
                        query: Query::parse(QUERIES[choice % QUERIES.len()]),
                        accept: [
                            "",
                            "application/json;as=Table;v=v1;g=meta.k8s.io",
                            "application/vnd.kubernetes.protobuf",
                        ][choice % 3]
                            .to_owned(),
                        content_type: Some(media.to_owned()),
                        body: Body::Bytes(body.as_bytes().into()),
                        ..Request::default()
                    };
                    let reply = handle(&sandbox, &request, Some(&admin));
                    let shown = format!("{reply:?}");
                    assert!(
                        reply.status < 500 || requests::is_upstream(reply.status, method, media, &shown),
                        "{method} {path} {media} {:?} {body}: {shown}",
                        request.query
                    );
                    requests += 1;
                }
            }
        }
    }
    assert!(requests > 20_000);
}

/// Requests as text, in the form that the fuzzers read, with what made them worth keeping.
const FOUND: [(&str, &str); 5] = [
    (
        "a list in a strategic merge patch where the object has none needs no keys",
        "PATCH /api/v1/namespaces/default/pods/a\napplication/strategic-merge-patch+json\napplication/json\n\
         {\"spec\":{\"containers\":[{\"name\":\"m\",\"volumeMounts\":[{}]}]}}",
    ),
    (
        "what is taken from a list that is not there",
        "PATCH /api/v1/namespaces/default/configmaps/m\napplication/strategic-merge-patch+json\napplication/json\n\
         {\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":1}}",
    ),
    (
        "keys to retain that are no list",
        "PATCH /api/v1/namespaces/default/pods/a\napplication/strategic-merge-patch+json\napplication/json\n\
         {\"spec\":{\"$retainKeys\":{}}}",
    ),
    (
        "a new object at revision 0",
        "POST /api/v1/namespaces/default/configmaps\napplication/json\napplication/json\n\
         {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"z\",\"resourceVersion\":\"0\"}}",
    ),
    (
        "an apply of what does not exist, at a revision",
        "PATCH /api/v1/namespaces/default/configmaps/y?fieldManager=m\napplication/apply-patch+yaml\napplication/json\n\
         {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"y\",\"resourceVersion\":\"7\"}}",
    ),
];

#[test]
fn what_was_found_before_is_answered() {
    for (what, text) in FOUND {
        let requests = requests::written(text.as_bytes());
        assert_eq!(requests.len(), 1, "{what}");
        requests::play(&requests);
    }
}

/// With a step for each pair of elements, this would take minutes.
#[test]
fn long_lists_cost_what_they_are_long() {
    let names: Vec<String> = (0..20_000).map(|nth| format!("\"example.com/{nth}\"")).collect();
    let list = names.join(",");
    let owners: Vec<String> = (0..5_000)
        .map(|nth| format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"{nth}\"}}"))
        .collect();
    let owners = owners.join(",");
    let object = "/api/v1/namespaces/default/configmaps/m";
    let patches = [
        (
            "strategic-merge-patch+json",
            "",
            format!("{{\"metadata\":{{\"finalizers\":[{list}]}}}}"),
        ),
        (
            "strategic-merge-patch+json",
            "",
            format!("{{\"metadata\":{{\"$deleteFromPrimitiveList/finalizers\":[{list}]}}}}"),
        ),
        (
            "strategic-merge-patch+json",
            "",
            format!("{{\"metadata\":{{\"ownerReferences\":[{owners}]}}}}"),
        ),
        (
            "apply-patch+yaml",
            "?fieldManager=m&force=true",
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"m\",\"finalizers\":[{list}],\"ownerReferences\":[{owners}]}}}}"
            ),
        ),
    ];
    let text: Vec<String> = patches
        .iter()
        .map(|(media, query, body)| format!("PATCH {object}{query}\napplication/{media}\napplication/json\n{body}"))
        .collect();
    let bytes: Vec<Vec<u8>> = text.into_iter().map(String::into_bytes).collect();
    assert_eq!(requests::play(&requests::written(&bytes.join(&0xff))), [200; 4]);
}

/// The same for what is taken away: each of these lines would take half a minute or more with a step for each pair.
#[test]
fn what_is_taken_away_costs_what_it_is_long() {
    let object = "/api/v1/namespaces/default/configmaps/m";
    let joined = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<String>>().join(",");
    let identity = "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"";
    let applied = |metadata: &str, rest: &str| format!("{{{identity},\"metadata\":{{\"name\":\"m\"{metadata}}}{rest}}}");
    let finalizers = joined(20_000, &|nth| format!("\"example.com/{nth}\""));
    let owners = joined(5_000, &|nth| {
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"{nth}\"}}")
    });
    let data = joined(60_000, &|nth| format!("\"k{nth}\":\"\""));
    let gone = format!("{{\"data\":{{{}}}}}", joined(60_000, &|nth| format!("\"k{nth}\":null")));
    let ones = joined(700_000, &|_| "1".to_owned());
    let grown = joined(9_990, &|_| "{\"op\":\"add\",\"path\":\"/x/0\",\"value\":1}".to_owned());
    let moved = joined(9_990, &|_| "{\"op\":\"move\",\"from\":\"/x\",\"path\":\"/x\"}".to_owned());
    let (smp, merge) = ("strategic-merge-patch+json", "merge-patch+json");
    let patches = [
        ("apply-patch+yaml", applied("", &format!(",\"data\":{{{data}}}"))),
        ("apply-patch+yaml", applied("", "")),
        (merge, format!("{{\"data\":{{{data}}}}}")),
        (merge, gone.clone()),
        (smp, format!("{{\"data\":{{{data}}}}}")),
        (smp, gone),
        (
            "apply-patch+yaml",
            applied(&format!(",\"finalizers\":[{finalizers}],\"ownerReferences\":[{owners}]"), ""),
        ),
        ("apply-patch+yaml", applied("", "")),
        (
            "json-patch+json",
            format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":[{ones}]}},{grown}]"),
        ),
        (
            "json-patch+json",
            format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":[{ones}]}},{moved}]"),
        ),
    ];
    let text: Vec<Vec<u8>> = patches
        .iter()
        .map(|(media, body)| {
            let query = if media.starts_with("apply") {
                "?fieldManager=m&force=true"
            } else {
                ""
            };
            format!("PATCH {object}{query}\napplication/{media}\napplication/json\n{body}").into_bytes()
        })
        .collect();
    let answers = requests::play(&requests::written(&text.join(&0xff)));
    assert_eq!(answers, [200, 200, 200, 200, 200, 200, 200, 200, 413, 413]);
}

/// Somebody else is served between one object and the next. When a thread runs is chance, so the collection is a long one, and there
/// are several rounds.
#[test]
fn others_are_served_while_a_collection_is_deleted() {
    let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
    let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
    let admin = User::admin();
    let maps = "/api/v1/namespaces/default/configmaps";
    let count = |sandbox: &Sandbox| sandbox.list("configmaps").1.len();
    let seen = (0..20).any(|_| {
        for nth in 0..2_000 {
            let map = serde_json::json!({"metadata": {"name": format!("m{nth}")}});
            sandbox.request(&admin, Verb::Create, maps, &map).expect("it is created");
        }
        std::thread::scope(|scope| {
            let deleting = scope.spawn(|| sandbox.request(&admin, Verb::Delete, maps, &serde_json::Value::Null));
            let mut seen = false;
            while !deleting.is_finished() {
                seen |= (1..2_000).contains(&count(&sandbox));
            }
            deleting.join().expect("it ends").expect("they are deleted");
            assert_eq!(count(&sandbox), 0);
            seen
        })
    });
    assert!(seen, "a part of them was there");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The fuzzer's requests, as far as fixed bytes lead: no panic, no hang, no blame on the server, every refusal a Status.
    #[test]
    fn bent_requests_are_answered_and_leave_nothing_broken(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        requests::play(&requests::requests(&bytes));
    }
}
