//! An API server that answers as it is told and remembers what it was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bailiff_cluster::{Api, Metrics};
use bailiff_model::{Mono, Wall};
use bailiff_runtime::{Clock, metrics};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::Value;

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// This status and body.
    Says(u16, &'static str),
    /// The same, so many seconds later.
    Later(u64, u16, &'static str),
    /// The connection breaks.
    Breaks,
    /// Nothing, ever.
    Never,
}

/// What was asked, and when.
#[derive(Clone, Debug)]
pub struct Asked {
    pub what: String,
    pub body: Value,
    pub at: Mono,
}

#[derive(Clone, Debug)]
pub struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    pub clock: Clock,
    registry: metrics::Metrics,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("not poisoned")
}

impl Server {
    /// One that gives these answers, then 201 with an empty object.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            script: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
            clock: Clock::virtual_from(Wall::UNIX_EPOCH),
            registry: metrics::Metrics::new(),
        }
    }

    pub fn api(&self) -> Api {
        self.api_that_connects_for(Duration::ZERO)
    }

    /// An API that opens a connection for each request, which takes so long.
    pub fn api_that_connects_for(&self, time: Duration) -> Api {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                tokio::time::sleep(time).await;
                server.answer(request).await
            }
        });
        let metrics = self.registry.register("", Metrics::register);
        Api::new(kube::Client::new(service, "default"), self.clock.clone(), metrics)
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// The count of Events that ended so.
    pub fn events(&self, result: &str) -> u64 {
        let text = self.registry.encode();
        let prefix = format!("kube_client_events_total{{result=\"{result}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok());
        count.unwrap_or(0)
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        lock(&self.asked).push(Asked {
            what: format!("{} {}", head.method, head.uri),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            at: self.clock.now().mono,
        });
        let answer = lock(&self.script).pop_front().unwrap_or(Answer::Says(201, "{}"));
        let (code, text) = match answer {
            Answer::Says(code, text) => (code, text),
            Answer::Later(seconds, code, text) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                (code, text)
            }
            Answer::Breaks => return Err(std::io::Error::other("connection reset")),
            Answer::Never => {
                let never: Infallible = std::future::pending().await;
                match never {}
            }
        };
        let response = Response::builder().status(code).body(Full::new(Bytes::from(text)));
        Ok(response.expect("a response"))
    }
}
