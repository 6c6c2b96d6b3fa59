//! A big cluster that only lives: how much of one core its kubelets, or clients in their place, keep busy.

use std::time::Duration;

use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::cluster::{self, ClusterSpec};
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::{Config, Sandbox};

use super::measure::{Client, Prepared, median, processor_time, timed};
use super::report::Report;
use super::{fill, runtime};

/// `nodeLeaseDurationSeconds` / 4, the time between renewals.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long the simulated cluster is watched.
const WATCHED: Duration = Duration::from_secs(60);

/// Measures with so many nodes and pods.
pub fn measure(nodes: usize, pods: usize, report: &mut Report) {
    clients(nodes, pods, report);
    simulated(nodes, pods, report);
}

/// Every node's kubelet is a client that updates its lease; somebody watches all leases.
fn clients(nodes: usize, pods: usize, report: &mut Report) {
    let runtime = runtime(false);
    let mut client = Client::new();
    runtime.block_on(async {
        fill::namespaces(&mut client).await;
        fill::pods(&mut client, 0..pods).await;
        fill::leases(&mut client, nodes).await;
    });
    let mut watch = client
        .sandbox
        .watch("leases.coordination.k8s.io", client.sandbox.list("nodes").0);
    let mut turns: Vec<Duration> = (1..=5)
        .map(|turn| {
            let requests: Vec<Prepared> = (0..nodes).map(|nth| fill::renewal(&client, nth, turn)).collect();
            let (taken, ()) = timed(|| {
                runtime.block_on(async {
                    for request in &requests {
                        client.send(request).await;
                    }
                });
                let mut seen = 0;
                while watch.try_next().is_some_and(|event| !event.line().is_empty()) {
                    seen += 1;
                }
                assert_eq!(seen, nodes, "every renewal is watched");
            });
            taken
        })
        .collect();
    let at = format!("{nodes} nodes, {pods} pods");
    let share = median(&mut turns).as_secs_f64() / RENEW_EVERY.as_secs_f64();
    report.add("cluster: leases by clients", at, share * 100.0, "% of one core");
}

/// Kubelets, binder, garbage collector and all as `bailiff sandbox` has them, in virtual time.
fn simulated(nodes: usize, pods: usize, report: &mut Report) {
    let runtime = runtime(true);
    let shutdown = Shutdown::new();
    let (sandbox, task) = runtime.block_on(async {
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
        let (_, task) = Driver::start(&sandbox, &Options::cluster(), &shutdown);
        let spec = ClusterSpec {
            nodes,
            pods_per_node: pods / nodes.max(1),
            ..ClusterSpec::default()
        };
        cluster::build(&sandbox, &spec).expect("there can be such a cluster");
        // Time to start all pods and to post all statuses.
        tokio::time::sleep(Duration::from_secs(30)).await;
        (sandbox, task)
    });
    let before = (processor_time(), sandbox.list("nodes").0);
    runtime.block_on(async { tokio::time::sleep(WATCHED).await });
    let writes = sandbox.list("nodes").0 - before.1;
    let at = format!("{nodes} nodes, {pods} pods");
    report.add(
        "cluster: simulated kubelets",
        at.clone(),
        writes as f64 / WATCHED.as_secs_f64(),
        "writes/s",
    );
    if let (Some(before), Some(after)) = (before.0, processor_time()) {
        let share = after.saturating_sub(before).as_secs_f64() / WATCHED.as_secs_f64();
        report.add("cluster: simulated kubelets", at, share * 100.0, "% of one core");
    }
    shutdown.trigger();
    runtime.block_on(async { task.await.expect("the parts end with the shutdown") });
}
