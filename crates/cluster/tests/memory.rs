//! A list that comes in parts is never whole in memory. Alone in its binary: the allocator counts all of it.

use std::alloc::System;
use std::convert::Infallible;
use std::time::Duration;

use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, Source, WatchInParts};
use bailiff_cluster::{Api, Decode, Metrics, View};
use bailiff_runtime::{Clock, Seed};
use bytes::Bytes;
use cap::Cap;
use futures::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use kube::client::Body;
use serde::Deserialize;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const THINGS: usize = 10_000;
/// Bytes of each, the rest aside.
const SIZE: usize = 2_000;

#[derive(Debug, Deserialize)]
struct Thing {
    metadata: Meta,
    text: String,
}

impl Decode for Thing {}

impl View for Thing {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// One line of the answer, made when it is asked for.
fn mk_line(number: usize) -> Bytes {
    let line = if number < THINGS {
        let text = "x".repeat(SIZE);
        format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"t{number}","resourceVersion":"3"}},"text":"{text}"}}}}"#)
    } else {
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#
            .to_owned()
    };
    Bytes::from(line + "\n")
}

#[tokio::test(start_paused = true)]
async fn a_list_in_parts_is_never_whole_in_memory() {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let frames = (0..=THINGS).map(|number| Ok::<_, Infallible>(http_body::Frame::data(mk_line(number))));
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    });
    let clock = Clock::virtual_from(jiff::Timestamp::UNIX_EPOCH);
    let api = Api::new(kube::Client::new(service, "default"), clock, Metrics::default());
    let before = ALLOCATOR.allocated();
    let mut watch = WatchInParts::<Thing>::start_in_parts(&api, Source::all("/api/v1/things"), &Seed::new(1), ());
    let (mut most, mut seen) = (0, 0);
    loop {
        // The list is read as far as it can be while nobody reads it.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let event = watch.next().await;
        most = most.max(ALLOCATOR.allocated().saturating_sub(before));
        match event {
            Event::Part(part) => seen += part.objects.iter().filter(|thing| thing.text.len() == SIZE).count(),
            Event::Snapshot(end) => {
                seen += end.objects.len();
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, THINGS);
    let whole = THINGS * SIZE;
    assert!(most > 0 && most < whole / 8, "{most} bytes of {whole}");
}
