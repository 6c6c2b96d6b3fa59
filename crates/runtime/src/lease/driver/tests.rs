//! The driver against an API server in memory that keeps one Lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bailiff_model::Wall;
use http::{Method, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::kubernetes::{SHARDS, SHARDS_BY, WANTED_BY};
use super::*;
use crate::args::LeaderElectionArgs;

/// Leases by name, their resourceVersions, and whether the server answers.
#[derive(Clone, Default)]
struct Server {
    state: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    leases: BTreeMap<String, Value>,
    version: u64,
    down: bool,
    requests: Vec<String>,
}

// === impl Server ===

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        crate::client::from_service(service_fn(move |request: http::Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("in memory");
                if server.state.lock().expect("not poisoned").down {
                    pending::<()>().await;
                }
                let (status, answer) = server.handle(&parts.method, parts.uri.path(), &body);
                let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            }
        }))
    }

    fn handle(&self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
        let mut stored = self.state.lock().expect("not poisoned");
        stored.requests.push(format!("{method} {path}"));
        let refuse = |status: StatusCode| {
            let answer = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.as_u16(), "message": "", "reason": "Some"});
            (status, answer)
        };
        let sent: Option<Value> = serde_json::from_slice(body).ok();
        let version = |lease: &Value| lease.pointer("/metadata/resourceVersion").cloned();
        let named = |lease: &Value| lease["metadata"]["name"].as_str().map(str::to_owned);
        let name = match (method, &sent) {
            (&Method::POST, Some(sent)) => named(sent),
            _ => path.rsplit('/').next().map(str::to_owned),
        };
        let lease = stored.leases.get(&name.unwrap_or_default());
        match (method, lease, sent) {
            (&Method::GET, Some(lease), _) => (StatusCode::OK, lease.clone()),
            (&Method::GET, None, _) => refuse(StatusCode::NOT_FOUND),
            (&Method::POST, None, Some(sent)) => stored.write(sent),
            (&Method::PUT, Some(lease), Some(sent)) if version(lease) == version(&sent) => stored.write(sent),
            _ => refuse(StatusCode::CONFLICT),
        }
    }

    /// The Lease of the only shard, or the first of several.
    fn lease(&self) -> Value {
        self.lease_of(0)
    }

    fn lease_of(&self, shard: u32) -> Value {
        self.state.lock().expect("not poisoned").leases[&format!("taint-manager-{shard}")].clone()
    }

    fn set_down(&self, down: bool) {
        self.state.lock().expect("not poisoned").down = down;
    }
}

impl Stored {
    fn write(&mut self, mut lease: Value) -> (StatusCode, Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let name = lease["metadata"]["name"].as_str().expect("a name").to_owned();
        self.leases.insert(name, lease.clone());
        (StatusCode::OK, lease)
    }
}

struct Candidate {
    leadership: Leadership,
    release: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), Error>>,
    metrics: crate::Metrics,
}

fn mk_clock() -> Clock {
    Clock::virtual_from("2026-01-02T03:04:05.5Z".parse::<Wall>().expect("a time"))
}

fn mk_candidate(server: &Server, identity: &str, clock: &Clock) -> Candidate {
    let [candidate] = mk_process(server, identity, clock);
    candidate
}

/// A process that stands for each of so many shards.
fn mk_process<const COUNT: usize>(server: &Server, identity: &str, clock: &Clock) -> [Candidate; COUNT] {
    let metrics = crate::Metrics::new();
    let count = u32::try_from(COUNT).expect("few");
    let candidates = Candidates::new(server.client(), count, &Metrics::register(&metrics), clock, &Seed::new(1));
    std::array::from_fn(|index| {
        let shard = Shard {
            index: u32::try_from(index).expect("few"),
            count,
        };
        let options = Options::new(&LeaderElectionArgs::default(), "taint-manager", shard, identity.to_owned());
        let release = CancellationToken::new();
        let (leadership, election) = candidates.elect(options, release.clone());
        Candidate {
            leadership,
            release,
            task: tokio::spawn(election),
            metrics: metrics.clone(),
        }
    })
}

/// The epoch, if it leads within the hour: virtual time would go on for ever.
async fn acquired(candidate: &mut Candidate) -> Result<u64, Lost> {
    let hour = 3600 * SECOND;
    tokio::time::timeout(hour, candidate.leadership.acquired())
        .await
        .expect("leads within the hour")
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_lease_is_written_as_client_go_writes_it() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    assert!(one.leadership.is_leading_now(clock.now()));
    let created = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "taint-manager-0", "resourceVersion": "1" },
        "spec": {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.500000Z",
            "renewTime": "2026-01-02T03:04:05.500000Z",
            "leaseTransitions": 0,
        },
    });
    assert_eq!(server.lease(), created);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let requests = server.state.lock().expect("not poisoned").requests.clone();
    assert_eq!(requests, [format!("GET {path}/taint-manager-0"), format!("POST {path}")]);
    let gauge = r#"leader_election_master_status{name="taint-manager-0"} 1"#;
    assert!(one.metrics.encode().contains(gauge), "{}", one.metrics.encode());
}

/// A process that is awake at the ends of its turns renews then.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_the_end_of_a_turn() {
    let (server, clock) = (Server::default(), mk_clock());
    tokio::time::advance(Duration::from_millis(77)).await;
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    let version = |server: &Server| server.lease()["metadata"]["resourceVersion"].clone();
    let millis = Duration::from_millis(2);
    let mut renewed = Vec::new();
    for turn in 1..=40 {
        let before = version(&server);
        let end = clock.end_of_turn(LOOK);
        tokio::time::sleep_until(end - millis).await;
        assert_eq!(before, version(&server), "nothing within a turn");
        tokio::time::sleep_until(end + millis).await;
        if before != version(&server) {
            renewed.push(turn);
        }
    }
    assert_eq!(renewed, [9, 17, 25, 33], "every 2 s, and what is left of a turn");
}

#[tokio::test(start_paused = true)]
async fn what_others_keep_in_the_lease_stays() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    let mut labelled = server.lease();
    labelled["metadata"]["labels"] = json!({ "app": "a" });
    let _ = server.state.lock().expect("not poisoned").write(labelled);
    tokio::time::sleep(5 * SECOND).await;
    let lease = server.lease();
    assert_eq!(lease["metadata"]["labels"], json!({ "app": "a" }));
    assert_ne!(lease["spec"]["renewTime"], lease["spec"]["acquireTime"], "renewed");
    assert_eq!(one.leadership.epoch_at(clock.now()), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_release_lets_the_next_lead_at_once() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    let mut two = mk_candidate(&server, "two", &clock);
    tokio::time::sleep(60 * SECOND).await;
    let holder = Some("one".to_owned());
    assert_eq!(two.leadership.state(), State::Standby { holder });
    one.release.cancel();
    assert!(one.task.await.expect("no panic").is_ok());
    assert_eq!(one.leadership.state(), State::Lost);
    assert!(one.metrics.encode().contains(r#"name="taint-manager-0"} 0"#));
    let before = clock.now().mono;
    let epoch = acquired(&mut two).await.expect("the lease is free");
    assert!(clock.now().mono.saturating_since(before) < 5 * SECOND);
    assert!(epoch > 1);
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
}

/// Design §8: within the lease duration and 2 s.
#[tokio::test(start_paused = true)]
async fn a_holder_that_dies_is_followed_soon_after_its_lease_ran_out() {
    for dies_after in [60_000, 60_700, 61_300, 61_900] {
        let (server, clock) = (Server::default(), mk_clock());
        let mut one = mk_candidate(&server, "one", &clock);
        assert_eq!(acquired(&mut one).await, Ok(1));
        let mut two = mk_candidate(&server, "two", &clock);
        tokio::time::sleep(Duration::from_millis(dies_after)).await;
        one.task.abort();
        let before = clock.now().mono;
        acquired(&mut two).await.expect("the lease ran out");
        let waited = clock.now().mono.saturating_since(before);
        assert!(waited > 12 * SECOND && waited < 17 * SECOND, "{waited:?}");
    }
}

/// A replica that leads nothing asks for a shard of one that leads two; it gets it when that one has stopped.
#[tokio::test(start_paused = true)]
async fn shards_are_shared_out_among_replicas() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_process::<2>(&server, "one", &clock);
    assert!(acquired(&mut one[0]).await.is_ok());
    assert!(acquired(&mut one[1]).await.is_ok());
    assert_eq!(
        server.lease()["metadata"]["annotations"],
        json!({ SHARDS: "2", SHARDS_BY: "one" })
    );
    let mut two = mk_process::<2>(&server, "two", &clock);
    let asked = tokio::time::timeout(60 * SECOND, one[1].leadership.asked_away()).await;
    assert!(asked.is_ok(), "asked for the last of two");
    assert_eq!(server.lease_of(1)["metadata"]["annotations"], json!({ WANTED_BY: "two" }));
    tokio::time::sleep(60 * SECOND).await;
    assert!(one[1].leadership.is_leading_now(clock.now()), "nobody is pushed out");
    assert!(!two[1].leadership.is_leading_now(clock.now()));
    one[1].release.cancel();
    assert!(acquired(&mut two[1]).await.is_ok());
    let [ours, theirs] = [&one[0], &two[0]].map(|candidate| candidate.leadership.is_leading_now(clock.now()));
    assert!(ours && !theirs, "the other one stays");
    assert_eq!(
        server.lease_of(1)["metadata"].get("annotations"),
        None,
        "the wish is fulfilled"
    );
    let asked = tokio::time::timeout(60 * SECOND, one[0].leadership.asked_away()).await;
    assert!(asked.is_err(), "one each is even");
}

/// Another number of shards in a rolling update: whoever leads by the old one stops by itself.
#[tokio::test(start_paused = true)]
async fn another_layout_begins_when_the_old_one_has_ended() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut old = mk_process::<2>(&server, "old", &clock);
    for shard in &mut old {
        assert!(acquired(shard).await.is_ok());
    }
    let mut new = mk_process::<3>(&server, "new", &clock);
    tokio::time::sleep(60 * SECOND).await;
    assert!(new.iter().all(|shard| !shard.leadership.is_leading_now(clock.now())));
    old[0].release.cancel();
    let ended = tokio::time::timeout(60 * SECOND, old[1].leadership.lost()).await;
    assert!(ended.is_ok(), "it sees that the layout changed");
    assert!(new.iter().all(|shard| !shard.leadership.is_leading_now(clock.now())));
    assert_eq!(server.lease()["metadata"]["annotations"][SHARDS], "3 settling");
    for shard in &mut new {
        assert!(acquired(shard).await.is_ok());
    }
    assert_eq!(server.lease()["metadata"]["annotations"][SHARDS], "3");
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_api_server_ends_at_its_deadline() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    server.set_down(true);
    let before = clock.now().mono;
    one.leadership.lost().await;
    assert_eq!(clock.now().mono.saturating_since(before), 10 * SECOND);
    let error = one.task.await.expect("no panic").expect_err("lost");
    assert_eq!(error.to_string(), "lost the lease kube-system/taint-manager-0");

    server.set_down(false);
    let mut two = mk_candidate(&server, "two", &clock);
    assert!(acquired(&mut two).await.is_ok());
    let waited = clock.now().mono.saturating_since(before);
    assert!(
        waited > 24 * SECOND,
        "seen unrenewed for 15 s after the first look at 10 s: {waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_task_is_gone_leads_no_more() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    one.task.abort();
    one.leadership.lost().await;
    assert!(!one.leadership.is_leading_now(clock.now()));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_no_news() {
    let (server, clock) = (Server::default(), mk_clock());
    let mut one = mk_candidate(&server, "one", &clock);
    assert_eq!(acquired(&mut one).await, Ok(1));
    let mut watched = one.leadership.clone();
    let leading = watched.changed();
    assert!(matches!(
        tokio::time::timeout(SECOND, leading).await,
        Ok(State::Leading { epoch: 1, .. }) | Err(_)
    ));
    assert!(tokio::time::timeout(60 * SECOND, watched.changed()).await.is_err());
    assert!(watched.is_leading_now(clock.now()), "renewed all the while");
}

/// The first time it draws as it always did, so that what was played can be played again.
#[tokio::test]
async fn a_candidate_that_stands_again_draws_other_numbers() {
    let metrics = Metrics::register(&crate::Metrics::new());
    let candidates = Candidates::new(Server::default().client(), 1, &metrics, &mk_clock(), &Seed::new(1));
    let shard = Shard { index: 0, count: 1 };
    let draw = |identity: &str| {
        let options = Options::new(&LeaderElectionArgs::default(), "taint-manager", shard, identity.to_owned());
        candidates.clone().seed_of(&options).uuid()
    };
    let first = draw("a");
    assert_eq!(first, Seed::new(1).fork("lease taint-manager-0 a").uuid());
    assert_ne!(draw("a"), first);
    assert_eq!(draw("b"), Seed::new(1).fork("lease taint-manager-0 b").uuid());
}
