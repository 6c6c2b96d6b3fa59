//! The brake against a small API server that has one ConfigMap, in paused time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bailiff_cluster::Api;
use bailiff_event_bus::{Bus, Server as BusServer, ServerOptions};
use bailiff_model::Shard;
use bailiff_runtime::{Seed, Spans};
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::env::Host;

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

/// So that a watch does not count as silent.
const BOOKMARK_EVERY: Duration = Duration::from_secs(5);

/// What the server does with requests about ConfigMaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    Refuses(u16),
    Silent,
}

#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

struct State {
    mood: Mood,
    version: u64,
    /// What a list has, whatever it is.
    items: Vec<Value>,
    watchers: Vec<mpsc::Sender<String>>,
    /// Reasons of the Events that were written.
    events: Vec<String>,
}

impl Server {
    fn new(mood: Mood) -> Self {
        Self(Arc::new(Mutex::new(State {
            mood,
            version: 1,
            items: Vec::new(),
            watchers: Vec::new(),
            events: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    /// The ConfigMap is this now, and the watch says so.
    fn put(&self, contents: Value) {
        let mut state = self.state();
        state.version += 1;
        let mut object = contents;
        object["metadata"] =
            json!({"name": NAME, "namespace": NAMESPACE, "uid": "u", "resourceVersion": state.version.to_string()});
        state.items = vec![object.clone()];
        state.tell("MODIFIED", &object);
    }

    fn put_data(&self, data: Value) {
        self.put(json!({"data": data}));
    }

    fn remove(&self) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        if let Some(mut object) = state.items.pop() {
            object["metadata"]["resourceVersion"] = json!(version);
            state.tell("DELETED", &object);
        }
    }

    /// From now on it does this, and all watches end.
    fn be(&self, mood: Mood) {
        let mut state = self.state();
        state.mood = mood;
        if mood != Mood::Silent {
            state.watchers.clear();
        }
    }

    fn events(&self) -> Vec<String> {
        self.state().events.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<TestBody> {
        let (parts, body) = request.into_parts();
        if parts.method == Method::POST {
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let event: Value = serde_json::from_slice(&body).unwrap_or_default();
            self.state()
                .events
                .push(event["reason"].as_str().unwrap_or_default().to_owned());
            return whole(201, &event);
        }
        let is_ours = parts.uri.path() == COLLECTION;
        let mood = if is_ours { self.state().mood } else { Mood::Answers };
        match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Refuses(code) => whole(code, &json!({"kind": "Status", "code": code, "message": "not for you"})),
            Mood::Answers if parts.uri.query().unwrap_or_default().contains("sendInitialEvents") => whole(
                400,
                &json!({"kind": "Status", "code": 400, "message": "it has no lists as streams"}),
            ),
            Mood::Answers if parts.uri.query().unwrap_or_default().contains("watch=true") => self.watch(is_ours),
            Mood::Answers => {
                let state = self.state();
                let items = if is_ours { state.items.clone() } else { Vec::new() };
                whole(
                    200,
                    &json!({"metadata": {"resourceVersion": state.version.to_string()}, "items": items}),
                )
            }
        }
    }

    fn watch(&self, is_ours: bool) -> Response<TestBody> {
        let (sender, lines) = mpsc::channel(100);
        if is_ours {
            self.state().watchers.push(sender.clone());
        }
        // Other watches are kept open by their own sender.
        let kept = (!is_ours).then_some(sender);
        let frames = stream::unfold((self.clone(), lines, kept), |(server, mut lines, kept)| async move {
            let line = loop {
                match tokio::time::timeout(BOOKMARK_EVERY, lines.recv()).await {
                    Ok(line) => break line?,
                    Err(_) if server.state().mood == Mood::Silent => {}
                    Err(_) => {
                        break format!(
                            "{}\n",
                            json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}})
                        );
                    }
                }
            };
            let frame = http_body::Frame::data(Bytes::from(line));
            Some((Ok::<_, Infallible>(frame), (server, lines, kept)))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

impl State {
    fn tell(&mut self, kind: &str, object: &Value) {
        if self.mood == Mood::Answers {
            let line = format!("{}\n", json!({"type": kind, "object": object}));
            self.watchers.retain(|watcher| watcher.try_send(line.clone()).is_ok());
        }
    }
}

fn whole(code: u16, body: &Value) -> Response<TestBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).expect("a response")
}

struct World {
    server: Server,
    brake: Brake,
    env: Env,
    _bus: BusServer,
}

impl World {
    fn start(server: Server) -> Self {
        // 2024-01-01T00:00:00Z
        let clock = Clock::virtual_from(Wall::from_second(1_704_067_200).expect("in range"));
        let seed = Seed::new(1);
        let bus = BusServer::new(ServerOptions::default(), &clock, &seed);
        let answers = server.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = answers.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let client = kube::Client::new(service, "default");
        let api = Api::new(client, clock.clone(), bailiff_cluster::Metrics::default());
        let host = Host {
            spans: Spans::recorded().0,
            ..Host::new(&clock, &seed, "test")
        };
        let env = host.env(api, &Bus::in_process(&bus), Shard::WHOLE, 0);
        let duties = Duties {
            node_lifecycle: false,
            taint_eviction: false,
            daemonset: false,
        };
        let brake = Brake::start(&env, "stage", duties);
        Self {
            server,
            brake,
            env,
            _bus: bus,
        }
    }

    /// A brake that has read what there is.
    async fn read(contents: Value) -> (Self, Holds) {
        let server = Server::new(Mood::Answers);
        server.put(contents);
        let mut world = Self::start(server);
        assert_eq!(world.held(1).await, ["everything api_stale"], "before it is read");
        let holds = world.brake.next().await;
        (world, holds)
    }

    /// What is held after the next change within so many seconds.
    async fn held(&mut self, within: u64) -> Vec<String> {
        let next = tokio::time::timeout(Duration::from_secs(within), self.brake.next()).await;
        next.map_or_else(|_| vec!["no change".to_owned()], |holds| texts(&holds))
    }

    /// What is paused, as the metric counts it.
    fn braked(&self) -> Vec<(String, u64)> {
        let text = self.env.host.metrics.encode();
        let lines = text.lines().filter_map(|line| line.strip_prefix("stage_braked{scope=\""));
        let paused = lines.filter_map(|line| line.split_once("\",reason=\"paused\"} "));
        let mut braked: Vec<_> = paused
            .map(|(scope, count)| (scope.to_owned(), count.parse().expect("a number")))
            .filter(|(_, count)| *count > 0)
            .collect();
        braked.sort();
        braked
    }

    fn entry(&self, scope: (&str, Value), seconds: u64) -> Value {
        let now = self.env.host.clock.wall();
        let until = now.checked_add(Duration::from_secs(seconds)).expect("in range");
        let mut entry = json!({"since": now.to_string(), "until": until.to_string(), "reason": "a test"});
        entry[scope.0] = scope.1;
        json!(entry.to_string())
    }
}

fn texts(holds: &Holds) -> Vec<String> {
    let text = |(scope, hold): (&HoldScope, &Hold)| format!("{scope} {}", hold.reason);
    holds.iter().map(text).collect()
}

const NOTHING: [String; 0] = [];

#[tokio::test(start_paused = true)]
async fn everything_is_held_until_the_config_map_was_read() {
    for there in [false, true] {
        let server = Server::new(Mood::Silent);
        if there {
            server.put_data(json!({}));
        }
        let mut world = World::start(server);
        assert_eq!(world.held(0).await, ["everything api_stale"], "at once");
        assert_eq!(world.held(5).await, ["no change"]);
        assert_eq!(
            world.held(120).await,
            ["everything paused"],
            "nobody answers: it cannot be read"
        );
        world.server.be(Mood::Answers);
        assert_eq!(world.held(120).await, NOTHING, "absent, or empty, means not paused");
    }
}

/// One that may not be read may say anything; one that was read, and says what it said, is merely old.
#[tokio::test(start_paused = true)]
async fn a_config_map_that_may_not_be_read_pauses_everything_and_a_stale_one_holds_everything() {
    let mut world = World::start(Server::new(Mood::Refuses(403)));
    assert_eq!(world.held(1).await, ["everything api_stale"]);
    let holds = world.brake.next().await;
    assert_eq!(texts(&holds), ["everything paused"]);
    let detail = &holds.on_everything().expect("held").detail;
    assert!(
        detail.contains("kube-system/bailiff-pauses") && detail.contains("not for you"),
        "{detail}"
    );
    world.server.be(Mood::Answers);
    assert_eq!(world.held(120).await, NOTHING);

    for mood in [Mood::Refuses(403), Mood::Refuses(503), Mood::Silent] {
        let (mut world, holds) = World::read(json!({})).await;
        assert_eq!(texts(&holds), NOTHING);
        world.server.put_data(json!({"x": world.entry(("node", json!("n1")), 7200)}));
        assert_eq!(world.held(1).await, ["node n1 paused"]);
        world.server.be(mood);
        let holds = world.brake.next().await;
        assert_eq!(texts(&holds), ["everything api_stale", "node n1 paused"], "{mood:?}");
        let since = holds.on_everything().map(|hold| hold.since);
        assert_eq!(since, Some(world.env.host.clock.wall()), "{mood:?}");
        assert_eq!(world.held(600).await, ["no change"], "{mood:?}: nothing is forgotten");
        // Somebody resumed meanwhile.
        world.server.put_data(json!({}));
        world.server.be(Mood::Answers);
        assert_eq!(world.held(120).await, NOTHING, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_understood_pauses_everything_until_it_can() {
    let cases = [
        (json!({"binaryData": {"all": "AA=="}}), "binaryData"),
        (json!({"data": ["all"]}), "no map"),
        (json!({"data": {"all": 1}}), "entry \"all\" is no text"),
        (json!({"data": {"all": "until tomorrow"}}), "entry \"all\""),
    ];
    for (contents, wanted) in cases {
        // Found at the start, and seen to appear.
        let (mut world, holds) = World::read(contents.clone()).await;
        let hold = holds.on_everything().expect("held");
        assert_eq!(hold.reason, HoldReason::Paused);
        assert!(hold.detail.contains(wanted), "{}", hold.detail);
        world.server.put(json!({"data": null, "binaryData": {}}));
        assert_eq!(world.held(1).await, NOTHING, "{contents}");
        world.server.put(contents.clone());
        assert_eq!(world.held(1).await, ["everything paused"], "{contents}");
        world.server.remove();
        assert_eq!(world.held(1).await, NOTHING, "{contents}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_object_cannot_be_decoded_pauses_everything() {
    let cases: [(Value, &[&str]); 4] = [
        (json!({"metadata": {"name": NAME}, "data": {}}), &[]),
        (
            json!({"metadata": {"name": NAME, "uid": 5}, "data": {}}),
            &["everything paused"],
        ),
        (json!({"metadata": "none", "data": {}}), &["everything paused"]),
        (json!(["no object"]), &["everything paused"]),
    ];
    for (item, wanted) in cases {
        let server = Server::new(Mood::Answers);
        server.state().items = vec![item.clone()];
        let mut world = World::start(server);
        assert_eq!(world.held(1).await, ["everything api_stale"]);
        assert_eq!(world.held(1).await, wanted, "{item}");
    }
}

/// A server that does not heed the selector is no reason to be paused by others' ConfigMaps, nor to take theirs for ours.
#[tokio::test(start_paused = true)]
async fn config_maps_of_others_mean_nothing() {
    let server = Server::new(Mood::Answers);
    server.state().items = vec![json!({"metadata": {"name": "other", "resourceVersion": "1"}, "binaryData": {"x": "AA=="}})];
    let mut world = World::start(server);
    assert_eq!(world.held(1).await, ["everything api_stale"]);
    assert_eq!(world.held(1).await, NOTHING);
    let other = json!({"metadata": {"name": "other", "resourceVersion": "9"}, "data": {"x": "?"}});
    world.server.state().tell("MODIFIED", &other);
    world.server.state().tell("DELETED", &other);
    assert_eq!(world.held(30).await, ["no change"]);
}

/// It is said everywhere: by an Event when it ends by itself, in metrics and on `/readyz`, which stays well.
#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself_and_it_is_said() {
    let (mut world, _) = World::read(json!({})).await;
    world.server.put_data(json!({
        "a": world.entry(("zone", json!("eu:a")), 60), "b": world.entry(("node", json!("n1")), 90), "c": world.entry(("node", json!("n2")), 30),
    }));
    assert_eq!(world.held(1).await, ["zone eu:a paused", "node n1 paused", "node n2 paused"]);
    assert_eq!(world.braked(), [("node".to_owned(), 2), ("zone eu:a".to_owned(), 1)]);
    let begun = world.env.host.clock.now().mono;
    let readiness = world.env.host.readiness.readiness();
    let note = readiness.iter().find_map(|check| check.note.clone()).expect("said");
    assert!(
        world.env.host.readiness.is_ready() && note.contains("zone eu:a: paused (paused until"),
        "{note}"
    );
    // One is ended by a person.
    let mut data = world.server.state().items[0]["data"].clone();
    data["c"].take();
    data.as_object_mut().expect("a map").retain(|_, entry| !entry.is_null());
    world.server.put_data(data);
    assert_eq!(world.held(1).await, ["zone eu:a paused", "node n1 paused"]);
    assert_eq!(world.held(3600).await, ["node n1 paused"]);
    assert_eq!(world.env.host.clock.now().mono.saturating_since(begun).as_secs(), 60);
    assert_eq!(world.braked(), [("node".to_owned(), 1)]);
    let metrics = world.env.host.metrics.encode();
    assert!(
        !metrics.contains("eu:a") && !metrics.contains("n1"),
        "what is not held by name has no series: {metrics}"
    );
    assert_eq!(world.held(3600).await, NOTHING);
    assert_eq!(world.braked(), []);
    assert_eq!(world.held(3600).await, ["no change"]);
    assert_eq!(world.server.events(), ["PauseExpired", "PauseExpired"]);
}
