//! From a write until all watchers have read it, and what watchers cost that it does not concern.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bailiff_sandbox::service::Answer;
use http_body::Body as _;
use serde_json::json;

use super::measure::{Client, Prepared, median, timed};
use super::report::Report;
use super::{fill, runtime};

/// Measures with each number of watchers.
pub fn measure(watchers: &[usize], rounds: usize, report: &mut Report) {
    for &count in watchers {
        let at = format!("{count} watchers");
        let taken = fan_out(count, rounds.max(10), "");
        report.add("watch: write to all have it", at.clone(), taken.as_secs_f64() * 1e6, "us");
        let each = taken.as_secs_f64() * 1e9 / count as f64;
        report.add("watch: write to all have it", at, each, "ns/watcher");
    }
    for &count in watchers {
        let taken = fan_out(count, rounds.max(10), "&fieldSelector=spec.nodeName%3Delsewhere");
        let at = format!("{count} watchers");
        report.add("watch: write concerns none", at, taken.as_secs_f64() * 1e6, "us");
    }
}

/// The middle of how long it takes from sending a write until every watcher has read what concerns it.
fn fan_out(watchers: usize, rounds: usize, selector: &str) -> Duration {
    let runtime = runtime(false);
    let mut client = Client::new();
    let mut streams = Vec::new();
    runtime.block_on(async {
        fill::namespaces(&mut client).await;
        fill::pods(&mut client, 0..1).await;
        let after = client.sandbox.list("pods").0;
        for _ in 0..watchers {
            let path = format!("/api/v1/pods?watch=true&resourceVersion={after}&timeoutSeconds=86400{selector}");
            streams.push(client.open(&Prepared::bare("GET", path)).await);
        }
    });
    let _inside = runtime.enter();
    streams.iter_mut().for_each(|stream| assert_eq!(read(stream), 0));
    let wanted = usize::from(selector.is_empty());
    let mut taken: Vec<Duration> = (0..rounds)
        .map(|turn| {
            let body = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
            let request = Prepared::with("PATCH", fill::pod_path(0), &body);
            let (taken, ()) = timed(|| {
                runtime.block_on(client.send(&request));
                streams.iter_mut().for_each(|stream| assert_eq!(read(stream), wanted));
            });
            taken
        })
        .collect();
    median(&mut taken)
}

/// Reads what a stream has; returns how many lines that were.
fn read(stream: &mut Answer) -> usize {
    let mut context = Context::from_waker(Waker::noop());
    let mut lines = 0;
    while let Poll::Ready(frame) = Pin::new(&mut *stream).poll_frame(&mut context) {
        assert!(frame.is_some(), "the watch is open");
        lines += 1;
    }
    lines
}
