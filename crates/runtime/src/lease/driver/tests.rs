//! The driver against an API server in memory that keeps one Lease.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bailiff_model::Wall;
use http::{Method, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::args::LeaderElectionArgs;

/// One Lease, its resourceVersion, and whether the server answers.
#[derive(Clone, Default)]
struct Server {
    state: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
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
        match (method, &stored.lease, sent) {
            (&Method::GET, Some(lease), _) => (StatusCode::OK, lease.clone()),
            (&Method::GET, None, _) => refuse(StatusCode::NOT_FOUND),
            (&Method::POST, None, Some(sent)) => stored.write(sent),
            (&Method::PUT, Some(lease), Some(sent)) if version(lease) == version(&sent) => stored.write(sent),
            _ => refuse(StatusCode::CONFLICT),
        }
    }

    fn lease(&self) -> Value {
        self.state.lock().expect("not poisoned").lease.clone().expect("a lease")
    }

    fn set_down(&self, down: bool) {
        self.state.lock().expect("not poisoned").down = down;
    }
}

impl Stored {
    fn write(&mut self, mut lease: Value) -> (StatusCode, Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
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
    let options = Options::new(&LeaderElectionArgs::default(), "taint-manager", 0, identity.to_owned());
    let (release, metrics) = (CancellationToken::new(), crate::Metrics::new());
    let status = Metrics::register(&metrics);
    let (leadership, election) = elect(server.client(), options, &status, clock, &Seed::new(1), release.clone());
    Candidate {
        leadership,
        release,
        task: tokio::spawn(election),
        metrics,
    }
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
