//! Requests per second, by kind, and how they depend on how much is stored.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Client, Prepared, busy};
use super::report::Report;
use super::{fill, runtime};

/// Measures all kinds of requests at each number of pods.
pub fn measure(sizes: &[usize], rounds: usize, report: &mut Report) {
    let runtime = runtime(false);
    let mut client = Client::new();
    let mut filled = 0;
    runtime.block_on(fill::namespaces(&mut client));
    for &size in sizes {
        runtime.block_on(async {
            fill::pods(&mut client, filled..size).await;
        });
        filled = filled.max(size);
        let at = format!("{size} pods");
        for Batch { what, share, make } in BATCHES {
            let count = (rounds as f64 * share).ceil() as usize;
            let requests: Vec<Prepared> = (0..count).map(|nth| make(&client, size, nth)).collect();
            let cost = cost(&runtime, &mut client, &requests);
            report.add(what, at.clone(), 1.0 / cost.as_secs_f64(), "requests/s");
            report.add(what, at.clone(), cost.as_secs_f64() * 1e6, "us/request");
        }
    }
}

/// What one request keeps a processor busy.
fn cost(runtime: &tokio::runtime::Runtime, client: &mut Client, requests: &[Prepared]) -> Duration {
    let busy = busy(|| {
        runtime.block_on(async {
            for request in requests {
                client.send(request).await;
            }
        });
    });
    busy / u32::try_from(requests.len().max(1)).unwrap_or(u32::MAX)
}

/// A kind of request.
struct Batch {
    what: &'static str,
    /// How many are sent, as a share of the rounds.
    share: f64,
    /// The nth, of so many pods.
    make: fn(&Client, usize, usize) -> Prepared,
}

/// All kinds. They are sent in this order: what is created is deleted again.
const BATCHES: [Batch; 10] = [
    Batch {
        what: "get pod",
        share: 1.0,
        make: |_, size, nth| Prepared::bare("GET", fill::pod_path(spread(size, nth))),
    },
    Batch {
        what: "list pods of a node",
        share: 0.1,
        make: |_, size, nth| {
            let node = fill::node_name(spread(size, nth) / fill::PODS_PER_NODE);
            Prepared::bare("GET", format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"))
        },
    },
    Batch {
        what: "list page of 500 pods",
        share: 0.1,
        make: |_, _, _| Prepared::bare("GET", "/api/v1/pods?limit=500".to_owned()),
    },
    Batch {
        what: "create pod",
        share: 1.0,
        make: |_, _, nth| {
            let path = format!("/api/v1/namespaces/{}/pods", fill::namespace(NEW + nth));
            Prepared::with("POST", path, &fill::pod(NEW + nth))
        },
    },
    Batch {
        what: "update pod",
        share: 1.0,
        make: |client, size, nth| update(client, spread(size, nth), nth),
    },
    Batch {
        what: "patch pod status (strategic)",
        share: 1.0,
        make: |_, size, nth| {
            let condition = json!({"type": "Ready", "status": "False", "message": format!("turn {nth}")});
            let body = json!({"status": {"conditions": [condition]}});
            Prepared::with("PATCH", format!("{}/status", fill::pod_path(spread(size, nth))), &body)
        },
    },
    Batch {
        what: "delete pod",
        share: 1.0,
        make: |_, _, nth| Prepared::bare("DELETE", format!("{}?gracePeriodSeconds=0", fill::pod_path(NEW + nth))),
    },
    Batch {
        what: "create lease",
        share: 1.0,
        make: |_, _, nth| Prepared::with("POST", fill::LEASES.to_owned(), &fill::lease(nth)),
    },
    Batch {
        what: "renew lease (update)",
        share: 1.0,
        make: |client, _, nth| fill::renewal(client, nth, 1),
    },
    Batch {
        what: "delete lease",
        share: 1.0,
        make: |_, _, nth| Prepared::bare("DELETE", fill::lease_path(nth)),
    },
];

/// Numbers of pods that only the requests make.
const NEW: usize = 10_000_000;

/// Some pod of so many: neighbours in time are none in the store.
fn spread(size: usize, nth: usize) -> usize {
    nth * 7919 % size.max(1)
}

/// An update of a pod as a controller makes it: the whole object, one label changed.
fn update(client: &Client, nth: usize, turn: usize) -> Prepared {
    let object = client.sandbox.get("pods", &fill::namespace(nth), &fill::pod_name(nth));
    let mut value = object.map(|object| object.value()).unwrap_or_default();
    value["metadata"]["labels"]["turn"] = turn.to_string().into();
    if let Value::Object(metadata) = &mut value["metadata"] {
        // The same pod may be updated twice.
        metadata.remove("resourceVersion");
    }
    Prepared::with("PUT", fill::pod_path(nth), &value)
}
