//! Spans, as collectors get them.

use bailiff_runtime::trace::{Finished, SpanKind, Status};

use super::*;

/// An attribute, as text.
fn attribute(span: &Finished, key: &str) -> Option<String> {
    let found = span.span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string())
}

/// Name, kind, and whom it concerns, how it ended and why.
fn rendered(span: &Finished) -> (String, SpanKind, Vec<String>) {
    let keys = [
        "k8s.node.name",
        "k8s.node.uid",
        "k8s.namespace.name",
        "k8s.pod.name",
        "k8s.pod.uid",
        "bailiff.outcome",
        "bailiff.reason",
    ];
    let attributes = keys
        .into_iter()
        .map(|key| attribute(span, key).unwrap_or_else(|| "-".to_owned()));
    (span.span.name.to_string(), span.span.kind.clone(), attributes.collect())
}

fn found<'a>(spans: &'a [Finished], name: &str, node: &str) -> &'a Finished {
    let is_it = |span: &&Finished| span.span.name == name && attribute(span, "k8s.node.name").as_deref() == Some(node);
    spans.iter().find(is_it).unwrap()
}

/// Design §9: whom a span concerns, how it ended and why are its attributes; what is a request to the API is of kind CLIENT. All are
/// below the incident's root.
#[tokio::test(start_paused = true)]
async fn spans_say_whom_they_concern_and_why() {
    let world = World::start(&["n1", "n2", "n3", "n4", "n5"], &[]).await;
    world.fall_silent("n1").await;
    world.fall_silent("n2").await;
    world.pass(15).await;
    let pod = world.put_pod("p", "n2");
    world.due(pod, "n2");
    world.pass(1).await;
    world.come_back("n1");
    world.pass(1).await;
    let spans = world.spans.take();
    let root = trace();
    let below = |span: &Finished| (span.context.trace_id(), span.parent) == (root.trace_id(), Some(root.span_id()));
    assert!(spans.iter().all(below), "{spans:?}");
    let of = |whom: [&str; 5], rest: [&str; 2]| whom.into_iter().chain(rest).map(str::to_owned).collect::<Vec<_>>();
    let (n1, n2) = (["n1", "uid-n1", "-", "-", "-"], ["n2", "uid-n2", "-", "-", "-"]);
    let pod = ["n2", "uid-n2", "default", "p", "uid-p"];
    let wanted = [
        ("zone queue wait", SpanKind::Internal, of(n1, ["granted", "-"])),
        ("isolation", SpanKind::Client, of(n1, ["isolated", "-"])),
        ("zone queue wait", SpanKind::Internal, of(n2, ["granted", "RATE_LIMITED"])),
        ("isolation", SpanKind::Client, of(n2, ["isolated", "-"])),
        ("pod delete", SpanKind::Client, of(pod, ["deleted", "-"])),
        ("pod eviction", SpanKind::Internal, of(pod, ["deleted", "-"])),
        ("release", SpanKind::Client, of(n1, ["released", "-"])),
    ];
    let told: Vec<_> = spans.iter().map(rendered).collect();
    assert_eq!(
        told,
        wanted.map(|(name, kind, attributes)| (name.to_owned(), kind, attributes))
    );
    let wait = found(&spans, "zone queue wait", "n2");
    assert!(attribute(wait, "bailiff.detail").unwrap().contains("0.1 nodes per second"));
}

/// Design §9: a zone's hold is in the span of the wait, with its time; a request that failed is a span that failed.
#[tokio::test(start_paused = true)]
async fn spans_of_holds_and_failures_tell_them() {
    let world = World::start(&["n1", "n2", "n3"], &[]).await;
    // No report of the monitor's loop for longer than its shard counts as live.
    for _ in 0..30 {
        let now = world.clock.now().mono;
        world.intents.report(now, Some(now));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world.fall_silent("n1").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.pass(5).await;
    let spans = world.spans.take();
    let wait = found(&spans, "zone queue wait", "n1");
    assert_eq!(rendered(wait).2[5..], ["granted", "STALE"]);
    let held = &wait.span.events[0];
    assert_eq!(
        (&*held.name, held.attributes[0].value.to_string()),
        ("zone held", "STALE".to_owned())
    );
    assert_eq!(wait.span.status, Status::Unset);

    world.api.deny_deletions();
    let pod = world.put_pod("p", "n1");
    world.due(pod, "n1");
    world.pass(1).await;
    let spans = world.spans.take();
    let failed = found(&spans, "pod delete", "n1");
    assert!(matches!(failed.span.status, Status::Error { .. }), "{failed:?}");
    assert_eq!(rendered(failed).2[5..], ["failed", "DENIED"]);
}
