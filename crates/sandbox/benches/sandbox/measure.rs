//! A client in the process, and a stopwatch.

use std::time::{Duration, Instant};

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::service::{Answer, Service};
use bailiff_sandbox::{Config, Sandbox, User};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service as _;

/// A client that speaks HTTP to the sandbox, without a socket.
pub struct Client {
    pub sandbox: Sandbox,
    service: Service,
}

/// A request that can be sent again.
pub struct Prepared {
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Client {
    /// A client of an empty sandbox.
    pub fn new() -> Self {
        let sandbox = Sandbox::new(Config::default(), Clock::system(), &Seed::new(1));
        Self {
            service: sandbox.service(User::admin()),
            sandbox,
        }
    }

    /// Sends a request; its answer is a body that is not read yet.
    pub async fn open(&mut self, request: &Prepared) -> Answer {
        let sent = http::Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header("content-type", request.content_type)
            .header("accept", "application/json")
            .header("user-agent", "bench/1.0")
            .body(Full::new(request.body.clone()))
            .expect("a prepared request is one");
        let answer = self.service.call(sent).await.expect("the service cannot fail");
        assert!(
            answer.status().is_success(),
            "{} {}: {}",
            request.method,
            request.path,
            answer.status()
        );
        answer.into_body()
    }

    /// Sends a request and reads its answer. Returns how many bytes that was.
    pub async fn send(&mut self, request: &Prepared) -> usize {
        let body = self.open(request).await.collect().await.expect("the body cannot fail");
        body.to_bytes().len()
    }
}

impl Prepared {
    /// A request without a body.
    pub fn bare(method: &'static str, path: String) -> Self {
        Self {
            method,
            path,
            content_type: "application/json",
            body: Bytes::new(),
        }
    }

    /// A request with a body.
    pub fn with(method: &'static str, path: String, body: &Value) -> Self {
        let content_type = match method {
            "PATCH" => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        Self {
            method,
            path,
            content_type,
            body: body.to_string().into(),
        }
    }
}

/// How long something took, on the machine's clock: runtimes here may have one of their own.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    #[expect(clippy::disallowed_methods, reason = "what is measured is the machine")]
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// Processor time of this process so far.
pub fn processor_time() -> Option<Duration> {
    // 14 and 15 are utime and stime in ticks of 10 ms; the name before them, in parentheses, may hold spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// How long this thread was on a processor so far: what else the machine does costs it nothing. Not to be had everywhere.
pub fn thread_time() -> Option<Duration> {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(schedule.split_whitespace().next()?.parse().ok()?))
}

/// How long something kept this thread's processor busy; where that cannot be told, how long it took.
pub fn busy(work: impl FnOnce()) -> Duration {
    let before = thread_time();
    let (taken, ()) = timed(work);
    // The kernel counts in turns of the scheduler: of two readings that are closer than that, the second may be the first.
    match (before, thread_time()) {
        (Some(before), Some(after)) if after > before => after.saturating_sub(before),
        _ => taken,
    }
}

/// The middle of some durations.
pub fn median(durations: &mut [Duration]) -> Duration {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().unwrap_or_default()
}
