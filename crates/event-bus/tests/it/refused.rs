//! Callers that are refused: for want of a place, and what the log says of whoever is.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use bailiff_event_bus::ServerOptions;
use bailiff_event_bus::server::REFUSAL_METADATA;
use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::event_bus_server::EventBus as _;
use bailiff_runtime::tls::{Identity, Peer, Standing};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Response, Status};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata};

use crate::engines::Kind;
use crate::support::{World, pass, soon};

const HEALTH: Topic = Topic::NodeHealth;

/// Warnings of this thread, as long as they are asked for.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Warnings {
    /// Those that were logged since this was last asked.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

type Stream = <bailiff_event_bus::Server as pb::event_bus_server::EventBus>::SubscribeStream;

/// A subscription of somebody with this role.
async fn subscribe(world: &World, role: &str) -> Result<Response<Stream>, Status> {
    let mut request = tonic::Request::new(pb::SubscribeRequest {
        subscriber: "foreign".to_owned(),
        topics: vec![HEALTH.to_string()],
        ..pb::SubscribeRequest::default()
    });
    request.extensions_mut().insert(Peer {
        standing: Standing::Known(Identity {
            trust_domain: "bailiff".to_owned(),
            role: role.to_owned(),
        }),
        address: Some("10.0.0.1:7".parse().unwrap()),
        ending: CancellationToken::new(),
    });
    world.server.subscribe(request).await
}

fn refusal(subscribed: Result<Response<Stream>, Status>) -> Status {
    subscribed.err().expect("there is no place")
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_never_opened_is_ended_and_told() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let world = World::new(Kind::Memory);
    let mut client = pb::event_bus_client::EventBusClient::new(world.server.service());
    let answers = client
        .publish(futures::stream::pending())
        .await
        .expect("it may be opened yet");
    let ended = soon("its end", answers.into_inner().message())
        .await
        .expect_err("it was not opened");
    assert_eq!(ended.code(), Code::DeadlineExceeded, "{ended:?}");
    assert_eq!(ended.metadata().get(REFUSAL_METADATA).unwrap(), "silent");
    let counted = world.metrics();
    assert!(counted.contains("event_bus_refusals_total{kind=\"silent\"} 1"), "{counted}");
    let [line] = &warnings.take()[..] else {
        panic!("it is said once")
    };
    assert!(line.contains("no open request within 10 s"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_every_place_it_gets_leaves_some_for_others() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let options = ServerOptions {
        subscribers: 8,
        ..ServerOptions::default()
    };
    let world = World::with(Kind::Memory, options);
    let mut open = Vec::new();
    let refused = loop {
        match subscribe(&world, "greedy").await {
            Ok(subscription) => open.push(subscription),
            Err(status) => break status,
        }
    };
    assert_eq!(open.len(), 6);
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(refused.metadata().get(REFUSAL_METADATA).unwrap(), "subscribers");
    let wanted = "places of subscribers: the last 2 of 8 are for those who hold fewer than 2, and spiffe://bailiff/greedy holds 6";
    assert!(refused.message().starts_with(wanted), "{refused:?}");

    let first = subscribe(&world, "zone-evictor").await;
    let _second = subscribe(&world, "taint-manager").await.expect("a place is kept for it");
    let refused = refusal(subscribe(&world, "viewer").await);
    let wanted = "places of subscribers: all 8 are taken, 0 of them by spiffe://bailiff/viewer: wait";
    assert!(refused.message().starts_with(wanted), "{refused:?}");
    assert!(
        !refused.message().contains("greedy"),
        "who else is there is not the caller's: {refused:?}"
    );
    let found = warnings.take();
    let greatest = "greatest=\"spiffe://bailiff/greedy holds 6\"";
    assert!(
        matches!(&found[..], [_, line] if line.contains("viewer") && line.contains(greatest)),
        "{found:#?}"
    );
    drop(first);
    refusal(subscribe(&world, "greedy").await);
    subscribe(&world, "viewer").await.expect("the place that came back");
    assert!(
        world.metrics().contains("event_bus_refusals_total{kind=\"subscribers\"} 3\n"),
        "{}",
        world.metrics()
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_names_now_and_then_who_is_refused_and_why() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let options = ServerOptions {
        subscribers: 0,
        ..ServerOptions::default()
    };
    let world = World::with(Kind::Memory, options);
    for _ in 0..3 {
        refusal(subscribe(&world, "viewer").await);
    }
    let open = pb::OpenSession {
        topic: HEALTH.to_string(),
        shard: 1,
        shard_count: 1,
        producer: "foreign".to_owned(),
        ..pb::OpenSession::default()
    };
    world.answer_to(open).await.expect_err("there is no such shard");
    let reset = world.bus.reset_epoch(HEALTH, 3).await;
    reset.expect_err("nor this one");
    let found = warnings.take();
    let [place, shard] = &found[..] else {
        panic!("one of each kind and caller: {found:#?}");
    };
    for part in [
        "kind=\"subscribers\"",
        "identity=\"spiffe://bailiff/viewer\"",
        "address=\"10.0.0.1:7\"",
        "places of subscribers: all 0 are taken",
        "unsaid=0",
    ] {
        assert!(place.contains(part), "{place} lacks {part}");
    }
    for part in ["kind=\"shard\"", "identity=\"this process\"", "1 of 1 is not allowed"] {
        assert!(shard.contains(part), "{shard} lacks {part}");
    }

    // Nobody is hidden by whoever was refused before.
    for (seconds, role, unsaid) in [(0, "operator", "unsaid=0"), (10, "viewer", "unsaid=2")] {
        pass(seconds).await;
        refusal(subscribe(&world, role).await);
        let found = warnings.take();
        assert!(
            matches!(&found[..], [line] if line.contains(&format!("spiffe://bailiff/{role}")) && line.contains(unsaid)),
            "{found:#?}"
        );
    }
}
