//! What it costs to decode a pod, a node with 50 images, and a Lease: by the API's own types from JSON, and into what a stage reads of
//! them, from JSON and from protobuf. Ratios are to the first.
//!
//! The objects are those of the tests, as an API server writes them.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::alloc::System;
use std::hint::black_box;
use std::time::Instant;

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{CompactString, Condition, Meta, TaintView, named, time, tolerations};
use bailiff_cluster::{Decode, Encoded};
use bailiff_model::{Toleration, Wall};
use bytes::Bytes;
use cap::Cap;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Counts what is allocated; there is no limit.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Objects decoded at once, and how often: the fastest batch counts, whatever else the machine does.
const BATCH: u32 = 1_000;
const BATCHES: usize = 20;

/// What the taint-manager reads of a pod.
#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct PodView {
    metadata: Meta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
#[allow(dead_code, reason = "it is decoded")]
struct PodSpec {
    node_name: CompactString,
    #[serde(deserialize_with = "tolerations")]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct PodStatus {
    #[serde(deserialize_with = "pod_conditions")]
    conditions: Vec<Condition>,
}

fn pod_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    named(deserializer, &["Ready", "PodScheduled", "DisruptionTarget"])
}

/// What the zone-evictor reads of a node.
#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct NodeView {
    metadata: NodeMeta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "it is decoded")]
struct NodeMeta {
    name: CompactString,
    uid: String,
    resource_version: CompactString,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Wall>,
    labels: Labels,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct Labels {
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Option<CompactString>,
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Option<CompactString>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct NodeSpec {
    taints: Vec<TaintView>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct NodeStatus {
    #[serde(deserialize_with = "node_conditions")]
    conditions: Vec<Condition>,
}

fn node_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    named(deserializer, &["Ready"])
}

/// What the node-health-monitor reads of a Lease.
#[derive(Deserialize)]
#[allow(dead_code, reason = "it is decoded")]
struct LeaseView {
    metadata: LeaseMeta,
    spec: LeaseSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "it is decoded")]
struct LeaseMeta {
    name: CompactString,
    namespace: CompactString,
    resource_version: CompactString,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "it is decoded")]
struct LeaseSpec {
    #[serde(deserialize_with = "time")]
    renew_time: Option<Wall>,
}

impl Decode for PodView {
    const MESSAGE: Option<&'static Message> = Some(&schema::POD);
}

impl Decode for NodeView {
    const MESSAGE: Option<&'static Message> = Some(&schema::NODE);
}

impl Decode for LeaseView {
    const MESSAGE: Option<&'static Message> = Some(&schema::LEASE);
}

/// Time and allocated bytes of one run of the work.
struct Cost {
    seconds: f64,
    bytes: usize,
}

fn measure(mut work: impl FnMut()) -> Cost {
    work();
    let before = ALLOCATOR.total_allocated();
    work();
    let bytes = ALLOCATOR.total_allocated() - before;
    let times = (0..BATCHES).map(|_| {
        let begun = Instant::now();
        for _ in 0..BATCH {
            work();
        }
        begun.elapsed().as_secs_f64() / f64::from(BATCH)
    });
    Cost {
        seconds: times.fold(f64::INFINITY, f64::min),
        bytes,
    }
}

fn compare<T: DeserializeOwned, V: Decode>(name: &str, json: &str, protobuf: &'static [u8]) {
    let typed = measure(|| drop(black_box(serde_json::from_str::<T>(black_box(json)))));
    let json_view = Encoded::Json(json);
    let selective = measure(|| drop(black_box(V::decode(black_box(&json_view)))));
    let message = Encoded::Protobuf(Bytes::from_static(protobuf));
    let scan = measure(|| drop(black_box(V::decode(black_box(&message)))));
    assert!(V::decode(&json_view).is_ok() && V::decode(&message).is_ok(), "{name} decodes");
    for (way, size, cost) in [
        ("JSON, its type", json.len(), &typed),
        ("JSON, what is read", json.len(), &selective),
        ("protobuf, what is read", protobuf.len(), &scan),
    ] {
        let (micros, ratio) = (cost.seconds * 1e6, typed.seconds / cost.seconds);
        println!(
            "{name:<6} {way:<23} {size:>7} {micros:>9.2} µs {ratio:>7.1} {:>10}",
            cost.bytes
        );
    }
}

macro_rules! recorded {
    ($name:literal) => {
        (
            include_str!(concat!("../tests/scan/objects/", $name, ".json")),
            include_bytes!(concat!("../tests/scan/objects/", $name, ".pb")),
        )
    };
}

fn main() {
    println!(
        "{:<6} {:<23} {:>7} {:>12} {:>7} {:>10}",
        "object", "from", "bytes", "time", "ratio", "allocated"
    );
    let (json, protobuf) = recorded!("pod");
    compare::<Pod, PodView>("pod", json, protobuf);
    let (json, protobuf) = recorded!("node");
    compare::<Node, NodeView>("node", json, protobuf);
    let (json, protobuf) = recorded!("lease");
    compare::<Lease, LeaseView>("lease", json, protobuf);
}
