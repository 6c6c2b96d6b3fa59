//! A big cluster that only lives: how much of one core its kubelets, or clients in their place, keep busy.

use std::time::Duration;

use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::cluster::{self, ClusterSpec};
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::{Config, Sandbox};

use super::http::Server;
use super::measure::{Client, processor_time};
use super::report::Report;
use super::{fill, runtime};

/// `nodeLeaseDurationSeconds` / 4, the time between renewals.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long the simulated cluster is watched.
const WATCHED: Duration = Duration::from_secs(60);

/// Measures with so many nodes and pods. `renewals` is how often each client renews, in time if it `is_paced`.
pub fn measure(nodes: usize, pods: usize, renewals: usize, is_paced: bool, report: &mut Report) {
    clients(nodes, pods, renewals, is_paced, report);
    simulated(nodes, pods, report);
}

/// Every node's kubelet is a client over a socket that updates its lease; somebody watches all leases.
fn clients(nodes: usize, pods: usize, renewals: usize, is_paced: bool, report: &mut Report) {
    let runtime = runtime(false);
    let mut client = Client::new();
    runtime.block_on(async {
        fill::namespaces(&mut client).await;
        fill::pods(&mut client, 0..pods).await;
        fill::leases(&mut client, nodes).await;
    });
    let server = Server::start(client.sandbox.clone());
    let every = if is_paced { RENEW_EVERY } else { Duration::ZERO };
    let before = server.processor_time();
    server.renew(nodes, renewals, every);
    let after = server.processor_time();
    server.stop();
    if let (Some(before), Some(after)) = (before, after) {
        let each = after.saturating_sub(before).as_secs_f64() / (nodes * renewals).max(1) as f64;
        let at = format!("{nodes} nodes, {pods} pods");
        report.add(
            "cluster: lease renewed by a client",
            at.clone(),
            each * 1e6,
            "us of the server",
        );
        let share = each * nodes as f64 / RENEW_EVERY.as_secs_f64();
        report.add("cluster: leases by clients", at, share * 100.0, "% of one core");
    }
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
