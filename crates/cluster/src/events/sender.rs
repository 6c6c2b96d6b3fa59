//! Sends Events: a few at a time, each again if nobody answered, none in the way of another, nor of what the server is busy with.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_runtime::Seed;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use super::correlator::{Action, Correlator, Saying};
use super::wire::{Reporter, collection, event, name_of, repetition};
use super::{QUEUE, Told};
use crate::api::{Api, Patch};
use crate::error::{Error, Kind};

/// Requests under way at a time: Events must not take the client's rate limit from what matters, and an answer that never comes must not
/// hold up the rest.
const UNDER_WAY: usize = 8;

/// Who takes so long to answer (with the rate limit's turn) is busy with what matters: a server that is well takes a few milliseconds,
/// and a stage that is busy looks at answers after 125 ms at the latest. Then it is one request at a time, as client-go's recorder always
/// has, until an answer is quick. What comes faster than it goes out waits in the queue, or is dropped and counted (NL-132).
const SLOW: Duration = Duration::from_millis(250);

/// Attempts to send one Event if there was no HTTP answer, and the pause between them (NL-132).
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// Something to be sent.
#[derive(Debug)]
struct Job {
    saying: Saying,
    /// 1: a new Event; else its series.
    count: u32,
    attempt: u32,
}

/// A request about a job, since when, and its answer.
type Ended = (Job, Mono, Result<(), Error>);

/// Sends what the correlator decides.
pub(super) struct Sender {
    api: Api,
    reporter: Reporter,
    seed: Seed,
    correlator: Correlator,
    ready: VecDeque<Job>,
    /// To be tried again, in the order they came.
    deferred: VecDeque<(Mono, Job)>,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// How many may be.
    room: usize,
    /// Names of Events that are ready, deferred or under way: one request per Event at a time. With what is to be written next.
    busy: BTreeMap<String, Option<Saying>>,
}

impl Sender {
    pub(super) fn new(api: Api, controller: &'static str, instance: String, seed: Seed) -> Self {
        Self {
            api,
            reporter: Reporter { controller, instance },
            seed,
            correlator: Correlator::default(),
            ready: VecDeque::new(),
            deferred: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            room: UNDER_WAY,
            busy: BTreeMap::new(),
        }
    }

    /// Sends until the last handle is gone, then what is left, once.
    pub(super) async fn run(mut self, mut told: mpsc::Receiver<Told>) {
        loop {
            self.begin();
            let wake = self.wake_at();
            tokio::select! {
                biased;
                Some(ended) = self.under_way.next() => self.ended(ended),
                () = tokio::time::sleep_until(self.api.clock().instant_of(wake)), if wake < Mono::FAR_FUTURE => self.wake(),
                // While as much is ready as may be under way, what comes waits in the queue, where it costs next to nothing.
                told = told.recv(), if self.ready.len() < UNDER_WAY => match told {
                    Some(told) => self.take(told),
                    None => break,
                },
            }
        }
        self.ready.extend(self.deferred.drain(..).map(|(_, job)| job));
        for saying in self.correlator.unwritten(Mono::FAR_FUTURE) {
            self.repeat(saying);
        }
        self.begin();
        while let Some((job, since, result)) = self.under_way.next().await {
            self.gauge(since, &result);
            self.count(&job, &result);
            self.follow(&job.saying.name);
            self.begin();
        }
    }

    fn take(&mut self, Told { draft, at }: Told) {
        let name = name_of(&draft.regarding.name, self.seed.next_u64());
        match self.correlator.apply(draft, name, at) {
            Action::Create(saying) => self.push(Job {
                saying,
                count: 1,
                attempt: 1,
            }),
            Action::Repeat(saying) => self.repeat(saying),
            Action::Count => {}
            Action::Drop => self.api.metrics().event("dropped_rate_limited"),
        }
    }

    fn repeat(&mut self, saying: Saying) {
        if let Some(next) = self.busy.get_mut(&saying.name) {
            *next = Some(saying);
            return;
        }
        let count = saying.count;
        self.push(Job {
            saying,
            count,
            attempt: 1,
        });
    }

    fn push(&mut self, job: Job) {
        if self.ready.len() + self.deferred.len() >= QUEUE {
            return self.api.metrics().event("dropped_queue_full");
        }
        self.busy.entry(job.saying.name.clone()).or_default();
        self.ready.push_back(job);
    }

    /// A request about the Event of this name is over; what has come up meanwhile is next.
    fn follow(&mut self, name: &str) {
        if let Some(saying) = self.busy.remove(name).flatten() {
            self.repeat(saying);
        }
    }

    /// Begins what is ready while there is room.
    fn begin(&mut self) {
        while self.under_way.len() < self.room {
            let Some(job) = self.ready.pop_front() else { return };
            let (api, since) = (self.api.clone(), self.now());
            self.under_way.push(match job.count {
                1 => {
                    let path = collection(&job.saying.draft);
                    let body = event(&job.saying, &self.reporter);
                    Box::pin(async move { (job, since, api.create::<IgnoredAny>(&path, &body).await.map(drop)) })
                }
                count => {
                    let (path, body) = repetition(&job.saying, count);
                    let patch = Patch::Merge(body);
                    Box::pin(async move { (job, since, api.patch::<IgnoredAny>(&path, &patch).await.map(drop)) })
                }
            });
        }
    }

    fn ended(&mut self, (job, since, result): Ended) {
        self.gauge(since, &result);
        match &result {
            Err(error) if error.kind == Kind::NotFound && job.count > 1 => {
                // The first one expired on the server: begin again under its name, with what is said by now.
                let next = self.busy.remove(&job.saying.name).flatten();
                let saying = next.unwrap_or(job.saying);
                self.correlator.restart(&saying.draft, self.now());
                self.push(Job {
                    saying,
                    count: 1,
                    attempt: 1,
                });
            }
            Err(error) if is_worth_another_try(error) && job.attempt < ATTEMPTS => {
                let due = self.now() + self.seed.jitter(PAUSE, 0.2);
                let attempt = job.attempt + 1;
                self.deferred.push_back((due, Job { attempt, ..job }));
            }
            _ => {
                self.count(&job, &result);
                self.follow(&job.saying.name);
            }
        }
    }

    /// How many may be under way after an answer to what began then. No answer says nothing.
    fn gauge(&mut self, since: Mono, result: &Result<(), Error>) {
        let is_answer = result.as_ref().err().is_none_or(|error| error.answered.is_some());
        if is_answer {
            let is_slow = self.now().saturating_since(since) > SLOW;
            self.room = if is_slow { 1 } else { UNDER_WAY };
        }
    }

    fn count(&self, job: &Job, result: &Result<(), Error>) {
        let what = match result {
            // An earlier attempt was done, although its answer was lost.
            Err(error) if job.count == 1 && job.attempt > 1 && error.kind == Kind::AlreadyExists => "created",
            Err(error) => {
                tracing::debug!(reason = job.saying.draft.reason, %error, "Event was not accepted");
                "failed"
            }
            Ok(()) if job.count == 1 => "created",
            Ok(()) => "repeated",
        };
        self.api.metrics().event(what);
    }

    /// When [`Sender::wake`] has something to do.
    fn wake_at(&self) -> Mono {
        let deferred = self.deferred.iter().map(|(due, _)| *due).min();
        deferred
            .into_iter()
            .chain(self.correlator.wake_at())
            .min()
            .unwrap_or(Mono::FAR_FUTURE)
    }

    fn wake(&mut self) {
        let now = self.now();
        let (due, later): (Vec<_>, Vec<_>) = self.deferred.drain(..).partition(|(due, _)| *due <= now);
        self.deferred.extend(later);
        self.ready.extend(due.into_iter().map(|(_, job)| job));
        for saying in self.correlator.unwritten(now) {
            self.repeat(saying);
        }
    }

    fn now(&self) -> Mono {
        self.api.clock().now().mono
    }
}

/// Only what nobody answered: what the server refused it would refuse again (NL-132).
fn is_worth_another_try(error: &Error) -> bool {
    error.answered.is_none() && error.is_transient()
}
