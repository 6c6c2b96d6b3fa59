//! Faults between a stage and the API server: what real networks and servers do to requests and watches.
//!
//! Each stage has a client of its own, and what happens to its requests is decided here: nothing, by chance ([`Storm`]), or once at
//! one place ([`Boundary`]).

mod stale;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bailiff_runtime::Seed;
use bailiff_sandbox::service::{Answer, Service};
use bailiff_sandbox::{Sandbox, User};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::boundary::{Boundary, Counts};
use crate::StageName;

/// How late a late event is: longer than what stages wait for on their way, shorter than what makes a watch stale.
const LATE: Duration = Duration::from_secs(4);
/// Ends of the paths of what stages list.
const LISTED: [&str; 5] = ["/nodes", "/pods", "/leases", "/daemonsets", "/controllerrevisions"];
/// Deaths that are not yet attended to; one fault kills once, so this is never reached.
const DEATHS: usize = 64;

/// How often requests and watches fare badly, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storm {
    /// Requests refused: 409, 429, 500 or 503.
    pub refused: u64,
    /// Requests carried out without an answer.
    pub unanswered: u64,
    /// Requests never heard.
    pub unheard: u64,
    /// Answers that take up to two seconds.
    pub slow: u64,
    /// Events of watches that come up to four seconds late, with everything behind them.
    pub late: u64,
    /// Watches that end at an event: cleanly, or expired with the event unseen.
    pub cut: u64,
    /// Events of watches that come twice.
    pub twice: u64,
}

/// What one stage alone can be cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Reads are not heard, and watches that are open are silent.
    Reads,
    /// Writes are not heard.
    Writes,
    /// Watches are silent; everything else is as ever.
    Events,
    /// The bus.
    Bus,
}

/// Decides what happens to requests; cloning it gives the same one.
#[derive(Clone, Debug)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    storm: Storm,
    seed: Seed,
    boundary: Option<Boundary>,
    cuts: BTreeSet<(StageName, Cut)>,
    counts: Counts,
    /// Requests about a pod that the zone-evictor got no good answer to, by the pod's name.
    failed: BTreeMap<String, u32>,
    deaths: mpsc::Sender<StageName>,
    /// Which stage waited for an answer to a watch or a list that never comes, from when until when; `None`: it does.
    waits: Vec<(StageName, Instant, Option<Instant>)>,
}

/// A request that is never answered: over when whoever made it gives it up.
struct Unanswered {
    faults: Faults,
    nth: usize,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Refused(u16),
    Unheard,
    Unanswered,
    Slow(Duration),
    Overtaken,
    Stale,
    DeathBefore,
    DeathAfter,
}

/// What happens to an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventFate {
    Pass,
    Late(Duration),
    Twice,
    Cut,
    Expired,
    /// And nothing behind it comes either.
    Silent,
}

/// The API server as a stage reaches it.
#[derive(Clone, Debug)]
pub struct Faulty {
    stage: StageName,
    faults: Faults,
    sandbox: Sandbox,
    inner: Service,
}

// === impl Cut ===

impl Cut {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Reads, Self::Writes, Self::Events, Self::Bus];

    /// For stories.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "what it reads",
            Self::Writes => "what it writes",
            Self::Events => "the events of its watches",
            Self::Bus => "the bus",
        }
    }
}

// === impl Faults ===

impl Faults {
    /// None yet; who dies is told to the receiver.
    pub fn new(seed: &Seed) -> (Self, mpsc::Receiver<StageName>) {
        let (deaths, dead) = mpsc::channel(DEATHS);
        let state = State {
            storm: Storm::default(),
            seed: seed.fork("faults"),
            boundary: None,
            cuts: BTreeSet::new(),
            counts: Counts::default(),
            failed: BTreeMap::new(),
            deaths,
            waits: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        (Self { state }, dead)
    }

    /// The API server for `stage`.
    pub fn between(&self, stage: StageName, sandbox: &Sandbox) -> Faulty {
        let user = User::new(stage.as_str(), &["system:masters", "system:authenticated"]);
        Faulty {
            stage,
            faults: self.clone(),
            sandbox: sandbox.clone(),
            inner: sandbox.service(user),
        }
    }

    /// From now on.
    pub fn storm(&self, storm: Storm) {
        self.state().storm = storm;
    }

    /// A stage is cut off from something, or not any more.
    pub fn cut(&self, stage: StageName, cut: Cut, is_cut: bool) {
        let mut state = self.state();
        if is_cut {
            state.cuts.insert((stage, cut));
        } else {
            state.cuts.remove(&(stage, cut));
        }
    }

    /// One fault, at this place.
    pub fn put(&self, boundary: Boundary) {
        self.state().boundary = Some(boundary);
    }

    /// How often something happened so far.
    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// How many requests of the zone-evictor about this pod fared badly so far.
    pub fn failed(&self, pod: &str) -> u32 {
        self.state().failed.get(pod).copied().unwrap_or_default()
    }

    /// True if `stage` dies of its n-th record.
    pub fn kills(&self, stage: StageName, nth: u32) -> bool {
        self.state().boundary == Some(Boundary::AfterRecord(stage, nth))
    }

    /// Which stages waited for answers that never came, as far as that keeps them from hearing what happens.
    pub fn waits(&self) -> Vec<(StageName, Instant, Option<Instant>)> {
        self.state().waits.clone()
    }

    /// Never answers; `is_heard` of a watch or a list.
    async fn never<T>(&self, stage: StageName, is_heard: bool) -> T {
        let _waits = is_heard.then(|| {
            let mut state = self.state();
            state.waits.push((stage, Instant::now(), None));
            Unanswered {
                faults: self.clone(),
                nth: state.waits.len() - 1,
            }
        });
        pending().await
    }

    fn request(&self, stage: StageName, is_write: bool, is_watch: bool, is_event: bool) -> Fate {
        let mut state = self.state();
        let cut = if is_write { Cut::Writes } else { Cut::Reads };
        if state.cuts.contains(&(stage, cut)) {
            return Fate::Unheard;
        }
        if !is_write && !is_watch && !is_event {
            let nth = state.counts.reads.entry(stage).or_default();
            *nth += 1;
            let nth = *nth;
            if state.boundary == Some(Boundary::StaleRead(stage, nth)) {
                return Fate::Stale;
            }
        }
        if is_write && !is_event {
            let nth = state.counts.writes.entry(stage).or_default();
            *nth += 1;
            let nth = *nth;
            match state.boundary {
                Some(Boundary::BeforeWrite(who, at)) if (who, at) == (stage, nth) => return Fate::DeathBefore,
                Some(Boundary::AfterWrite(who, at)) if (who, at) == (stage, nth) => return Fate::DeathAfter,
                Some(Boundary::LostAnswer(who, at)) if (who, at) == (stage, nth) => return Fate::Unanswered,
                Some(Boundary::StaleWrite(who, at)) if (who, at) == (stage, nth) => return Fate::Overtaken,
                _ => {}
            }
        }
        state.by_chance(is_write)
    }

    fn event(&self, stage: StageName, is_counted: bool) -> EventFate {
        let mut state = self.state();
        if state.is_silent(stage) {
            return EventFate::Silent;
        }
        if is_counted {
            let nth = state.counts.events.entry(stage).or_default();
            *nth += 1;
            let nth = *nth;
            match state.boundary {
                Some(Boundary::LateEvent(who, at)) if (who, at) == (stage, nth) => return EventFate::Late(LATE),
                Some(Boundary::HiddenEvent(who, at)) if (who, at) == (stage, nth) => return EventFate::Expired,
                _ => {}
            }
        }
        let storm = state.storm;
        match state.pick(&[storm.late, storm.twice, storm.cut]) {
            Some(0) => EventFate::Late(state.up_to(LATE)),
            Some(1) => EventFate::Twice,
            Some(_) if state.seed.below(2) == 0 => EventFate::Cut,
            Some(_) => EventFate::Expired,
            None => EventFate::Pass,
        }
    }

    fn failed_of(&self, path: &str) {
        let Some((_, rest)) = path.split_once("/pods/") else { return };
        let pod = rest.split('/').next().unwrap_or_default().to_owned();
        *self.state().failed.entry(pod).or_default() += 1;
    }

    fn die(&self, stage: StageName) {
        // Full only if a stage dies again and again without anybody attending to it; then it is dead already.
        let _ = self.state().deaths.try_send(stage);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn is_silent(&self, stage: StageName) -> bool {
        [Cut::Reads, Cut::Events].iter().any(|cut| self.cuts.contains(&(stage, *cut)))
    }

    fn by_chance(&mut self, is_write: bool) -> Fate {
        const REFUSALS: [u16; 4] = [409, 429, 500, 503];
        let storm = self.storm;
        match self.pick(&[storm.refused, storm.unanswered, storm.unheard, storm.slow]) {
            // A read cannot conflict.
            Some(0) => Fate::Refused(REFUSALS[self.seed.below(4) as usize].max(if is_write { 0 } else { 429 })),
            Some(1) => Fate::Unanswered,
            Some(2) => Fate::Unheard,
            Some(_) => Fate::Slow(self.up_to(Duration::from_secs(2))),
            None => Fate::Pass,
        }
    }

    /// Which of these thousandths it is, if any. Draws nothing while all are zero, so a calm run is the same with and without storms.
    fn pick(&self, chances: &[u64]) -> Option<usize> {
        if chances.iter().all(|chance| *chance == 0) {
            return None;
        }
        let mut drawn = self.seed.below(1000);
        for (index, chance) in chances.iter().enumerate() {
            if drawn < *chance {
                return Some(index);
            }
            drawn -= chance;
        }
        None
    }

    fn up_to(&self, most: Duration) -> Duration {
        Duration::from_millis(self.seed.below(most.as_millis() as u64))
    }
}

// === impl Unanswered ===

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some((.., until)) = self.faults.state().waits.get_mut(self.nth) {
            *until = Some(Instant::now());
        }
    }
}

// === impl Faulty ===

type Answered = Pin<Box<dyn Future<Output = Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible>> + Send>>;

impl tower::Service<Request<Body>> for Faulty {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answered {
        let this = self.clone();
        Box::pin(async move { this.exchange(request).await })
    }
}

impl Faulty {
    async fn exchange(mut self, mut request: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
        let path = request.uri().path().to_owned();
        let is_write = request.method() != Method::GET;
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let fate = self.faults.request(self.stage, is_write, is_watch, path.contains("/events"));
        if self.stage == StageName::ZoneEvictor && matches!(fate, Fate::Refused(_) | Fate::Unheard | Fate::Unanswered) {
            self.faults.failed_of(&path);
        }
        let is_heard = is_watch || !is_write && LISTED.iter().any(|resource| path.ends_with(resource));
        match fate {
            Fate::Refused(code) => return Ok(refusal(code)),
            Fate::Unheard => return self.faults.never(self.stage, is_heard).await,
            Fate::DeathBefore => {
                self.faults.die(self.stage);
                return pending().await;
            }
            Fate::Overtaken => stale::overtake(&self.sandbox, &path),
            Fate::Stale => {
                if let Some(answer) = stale::read(&self.sandbox, &mut request) {
                    return Ok(answer);
                }
            }
            Fate::Slow(delay) => tokio::time::sleep(delay).await,
            Fate::Pass | Fate::Unanswered | Fate::DeathAfter => {}
        }
        let answer = tower::Service::call(&mut self.inner, request).await?;
        match fate {
            Fate::Unanswered => self.faults.never(self.stage, is_heard).await,
            Fate::DeathAfter => {
                self.faults.die(self.stage);
                pending().await
            }
            _ if is_watch && answer.status().is_success() => {
                let is_counted = !path.contains("/leases");
                Ok(answer.map(|body| {
                    let frames = watched(body, self.faults, self.stage, is_counted);
                    StreamBody::new(frames.map(|line| Ok(Frame::data(line)))).boxed_unsync()
                }))
            }
            _ => Ok(answer.map(BodyExt::boxed_unsync)),
        }
    }
}

fn refusal(code: u16) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused for the sake of it", "reason": reason, "code": code,
    });
    let mut response = Response::new(Full::new(Bytes::from(status.to_string())).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}

/// The events of a watch as the stage gets them.
fn watched(body: Answer, faults: Faults, stage: StageName, is_counted: bool) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(Some(body), move |body| {
        let faults = faults.clone();
        async move {
            let mut body = body?;
            let frame = body.frame().await?;
            let line = frame.ok()?.into_data().ok()?;
            if line.starts_with(br#"{"type":"BOOKMARK""#) && !faults.state().is_silent(stage) {
                return Some((line, Some(body)));
            }
            match faults.event(stage, is_counted) {
                EventFate::Pass => Some((line, Some(body))),
                EventFate::Late(delay) => {
                    tokio::time::sleep(delay).await;
                    Some((line, Some(body)))
                }
                EventFate::Twice => Some(([&*line, &*line].concat().into(), Some(body))),
                EventFate::Cut => None,
                EventFate::Expired => Some((expired(), None)),
                EventFate::Silent => pending().await,
            }
        }
    })
}

fn expired() -> Bytes {
    let event = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    }});
    Bytes::from(format!("{event}\n"))
}
