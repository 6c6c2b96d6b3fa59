//! What a renewal of a Lease allocates on its way from a watch to the core, which allocates nothing for it.

use std::convert::Infallible;
use std::time::Duration;

use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{Api, Metrics, View, Watch};
use bailiff_footprint::{Bytes, taken};
use bailiff_node_health_monitor::views::LeaseView;
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{Config, Sandbox, protobuf};
use futures::stream;
use http::{Request, Response, StatusCode, header};
use http_body_util::StreamBody;
use kube::client::Body;
use serde_json::{Value, json};

/// Renewals that come at once, as at a look in a large cluster, and how often.
const AT_ONCE: usize = 100;
const LOOKS: usize = 101;

fn mk_renewal(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": "kube-node-lease", "uid": "8ccc4b4f-0f0a-4f6a-9e4a-5b0e3ab4a0c1", "resourceVersion": "123456789",
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2024-01-01T00:00:00.123456Z"},
    })
}

/// Bytes that are allocated for each renewal that is read of a node's Lease.
async fn taken_by(name: &str) -> usize {
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let sandbox = Sandbox::new(Config::default(), clock.clone(), &Seed::new(1));
    let document = |object: &Value| protobuf::document(object, &sandbox.kinds()).expect("a kind that is served");
    let none =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {"resourceVersion": "1"}, "items": []});
    let list = bytes::Bytes::from(document(&none));
    let renewal = protobuf::frame("MODIFIED", &document(&mk_renewal(name)));
    let renewals = bytes::Bytes::from(renewal.repeat(AT_ONCE));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, parts) = match request.uri().query().unwrap_or_default() {
            query if query.contains("sendInitialEvents") => (StatusCode::BAD_REQUEST, Vec::new()),
            query if query.contains("watch=true") => (StatusCode::OK, vec![renewals.clone(); LOOKS]),
            _ => (StatusCode::OK, vec![list.clone()]),
        };
        let parts = parts
            .into_iter()
            .map(|part| Ok::<_, Infallible>(http_body::Frame::data(part)));
        let answer = Response::builder().status(code);
        let answer = answer.header(header::CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
        async move { answer.body(StreamBody::new(stream::iter(parts))) }
    });
    let api = Api::new(kube::Client::new(service, "default"), clock, Metrics::default());
    let mut watch: Watch<LeaseView> = Watch::start(&api, Source::all("/leases"), &Seed::new(1));
    let (mut seen, mut before) = (0, 0);
    while seen < AT_ONCE * LOOKS {
        let Event::Applied(lease) = watch.next().await else { continue };
        seen += 1;
        assert_eq!(lease.meta().name, name);
        assert!(lease.into_facts().renewed.is_some());
        // What comes first finds no room that others left.
        if seen == AT_ONCE {
            before = taken();
        }
    }
    (taken() - before) / (seen - AT_ONCE)
}

#[tokio::test(start_paused = true)]
async fn a_renewal_takes_its_event_and_its_name() {
    for (name, known) in [("node-a-001", 193), ("ip-10-0-123-217.eu-central-1.compute.internal", 268)] {
        let bytes = Bytes { known, most: 320 };
        let taken = tokio::time::timeout(Duration::from_secs(3600), taken_by(name)).await;
        bytes.check("renewal", taken.expect("all of them are read"));
    }
}
