//! The admin port: `/livez`, `/readyz` and `/metrics`, as Kubernetes' own components serve them.
//!
//! It is read only and tells nothing secret. With TLS the kubelet, which has no certificate to show, is told whether the process
//! lives and is ready, and everything else needs a certificate of a trusted CA. A stranger can waste a bounded number of connections,
//! each with bounded headers and time, and nothing else.

mod readiness;
mod server;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode, Uri};

use crate::tls::{Peer, Standing};
use crate::{Metrics, metrics};

pub use readiness::{Check, Heartbeat, Outcome, Readiness};
pub use server::{Bound, Error, bind};

#[derive(Clone)]
struct Admin {
    readiness: Readiness,
    metrics: Metrics,
}

type Answer = (StatusCode, [(http::HeaderName, &'static str); 2], String);

/// What is served.
pub fn router(readiness: Readiness, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(encode))
        .layer(axum::middleware::from_fn(let_in))
        .with_state(Admin { readiness, metrics })
}

/// Strangers may ask what probes ask, and nothing else.
async fn let_in(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    let is_stranger = peer.is_some_and(|peer| peer.standing == Standing::Stranger);
    if is_stranger && !matches!(request.uri().path(), "/livez" | "/readyz") {
        let needed = "a client certificate is needed for everything but /livez and /readyz".to_owned();
        return with_type(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", needed).into_response();
    }
    next.run(request).await
}

async fn livez(State(admin): State<Admin>, uri: Uri, headers: HeaderMap) -> Answer {
    answer("livez", &admin.readiness.liveness(), &uri, &headers)
}

async fn readyz(State(admin): State<Admin>, uri: Uri, headers: HeaderMap) -> Answer {
    answer("readyz", &admin.readiness.readiness(), &uri, &headers)
}

async fn encode(State(admin): State<Admin>) -> Answer {
    with_type(StatusCode::OK, metrics::CONTENT_TYPE, admin.metrics.encode())
}

fn answer(endpoint: &str, outcomes: &[Outcome], uri: &Uri, headers: &HeaderMap) -> Answer {
    let is_ok = outcomes.iter().all(|outcome| outcome.failure.is_none());
    let status = if is_ok {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    if wants_json(headers) {
        return with_type(status, "application/json", json(is_ok, outcomes));
    }
    let text = if is_ok && !is_verbose(uri) {
        "ok".to_owned()
    } else {
        lines(endpoint, is_ok, outcomes)
    };
    with_type(status, "text/plain; charset=utf-8", text)
}

fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    (status, [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")], body)
}

fn lines(endpoint: &str, is_ok: bool, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { name, failure, note } in outcomes {
        text += &match (failure, note) {
            (Some(reason), _) => format!("[-]{name} failed: {reason}\n"),
            (None, Some(note)) => format!("[+]{name} ok: {note}\n"),
            (None, None) => format!("[+]{name} ok\n"),
        };
    }
    text + endpoint + if is_ok { " check passed\n" } else { " check failed\n" }
}

fn json(is_ok: bool, outcomes: &[Outcome]) -> String {
    let checks: Vec<_> = outcomes
        .iter()
        .map(|Outcome { name, failure, note }| {
            serde_json::json!({ "name": name, "ok": failure.is_none(), "reason": failure.as_ref().or(note.as_ref()) })
        })
        .collect();
    serde_json::json!({ "status": if is_ok { "ok" } else { "failed" }, "checks": checks }).to_string()
}

fn is_verbose(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "verbose" | "verbose=" | "verbose=true" | "verbose=1"))
}

fn wants_json(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|types| {
        types
            .split(',')
            .any(|one| one.split(';').next().unwrap_or_default().trim() == "application/json")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use bailiff_model::Wall;
    use tower::ServiceExt as _;

    use super::*;
    use crate::Clock;

    async fn ask(router: &Router, path: &str, accept: Option<&str>) -> (u16, String) {
        let mut request = http::Request::get(path);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("infallible");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, String::from_utf8(body.into()).expect("text"))
    }

    fn mk_readiness() -> Readiness {
        Readiness::new(&Clock::virtual_from(Wall::UNIX_EPOCH))
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_names_every_check_and_why_it_fails() {
        let readiness = mk_readiness();
        let (nodes, bus) = (readiness.check("node watch"), readiness.check("bus"));
        let router = router(readiness, Metrics::new());
        nodes.ok();
        let failed = "[-]bus failed: not yet\n[+]node watch ok\nreadyz check failed\n";
        assert_eq!(ask(&router, "/readyz", None).await, (503, failed.to_owned()));
        bus.note("2 of 2 shards complete");
        assert_eq!(ask(&router, "/readyz", None).await, (200, "ok".to_owned()));
        let passed = "[+]bus ok: 2 of 2 shards complete\n[+]node watch ok\nreadyz check passed\n";
        assert_eq!(ask(&router, "/readyz?verbose", None).await, (200, passed.to_owned()));
        nodes.fail("stale for 12s");
        let failed = r#"{"status":"failed","checks":[{"name":"bus","ok":true,"reason":"2 of 2 shards complete"},{"name":"node watch","ok":false,"reason":"stale for 12s"}]}"#;
        let json = ask(&router, "/readyz", Some("text/html, application/json;q=0.9")).await;
        assert_eq!(json, (503, failed.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_loop_that_stands_still_is_not_alive() {
        let readiness = mk_readiness();
        let heartbeat = readiness.heartbeat("decision loop", Duration::from_secs(30));
        let router = router(readiness, Metrics::new());
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(ask(&router, "/livez", None).await.0, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let failed = "[-]decision loop failed: no turn for 31s, allowed are 30s\nlivez check failed\n";
        assert_eq!(ask(&router, "/livez", None).await, (503, failed.to_owned()));
        heartbeat.beat();
        assert_eq!(ask(&router, "/livez", None).await.0, 200);
        assert_eq!(ask(&router, "/readyz", None).await.0, 200, "liveness is not readiness");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_may_ask_what_probes_ask_and_nothing_else() {
        use crate::tls::Identity;
        let router = router(mk_readiness(), Metrics::new());
        let known = Standing::Known("spiffe://bailiff/viewer".parse::<Identity>().expect("a name"));
        let nameless = Standing::Nameless("it has no name, and a trusted CA".to_owned());
        for (standing, path, wanted) in [
            (Standing::Stranger, "/livez", 200),
            (Standing::Stranger, "/readyz?verbose", 200),
            (Standing::Stranger, "/metrics", 403),
            (Standing::Stranger, "/else", 403),
            (known, "/metrics", 200),
            (nameless, "/metrics", 200),
            (Standing::Plain, "/metrics", 200),
        ] {
            let mut request = http::Request::get(path).body(Body::empty()).expect("a request");
            request.extensions_mut().insert(Peer {
                standing: standing.clone(),
                address: None,
                ending: tokio_util::sync::CancellationToken::new(),
            });
            let response = router.clone().oneshot(request).await.expect("infallible");
            assert_eq!(response.status().as_u16(), wanted, "{standing:?} {path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_open_metrics_and_the_rest_is_not_found() {
        let router = router(mk_readiness(), Metrics::new());
        assert_eq!(ask(&router, "/metrics", None).await, (200, "# EOF\n".to_owned()));
        assert_eq!(ask(&router, "/", None).await.0, 404);
    }
}
