//! The task of a watch: lists, watches, and finds its way back after whatever goes wrong.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bailiff_model::{Mono, heeded_retry_after};
use bailiff_runtime::Seed;
use futures::FutureExt;
use http_body_util::BodyExt;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;

use super::list::{Lister, decode};
use super::teller::{Teller, Unwanted};
use super::wire::{Cutter, Part, Told};
use super::{Event, Source, View, WATCH_FOR, Witness};
use crate::api::Api;
use crate::decode::Encoded;
use crate::error::{Error, Kind};

/// How long the head of a watch may take; it comes at once from a server that is well.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Longest event of a watch stream: the server refuses objects above 1.5 MiB (etcd), JSON may double it.
const MAX_EVENT: usize = 8 << 20;

/// First and longest pause between attempts, as client-go's reflector.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A stream that ends sooner than this ended at once: a server that does so is not asked again at once.
const LASTED: Duration = Duration::from_secs(1);

/// After a watch that held for so long what went wrong before it counts no more.
const SETTLED: Duration = Duration::from_secs(10);

/// Watches that failed in a row before the position itself is doubted and everything is listed again.
const STRIKES: u32 = 3;

pub(super) struct Task<T> {
    api: Api,
    source: Source,
    seed: Seed,
    lister: Lister<T>,
    teller: Teller<T>,
    changes: Counter,
    pause: Duration,
    strikes: u32,
}

/// How a stream ended.
enum Ended {
    /// The server ended it in good order: go on from where it was.
    Done,
    /// It broke: go on from where it was, after a pause.
    Broken(Error),
    /// Its position is worth nothing any more, or what it says cannot be read: list again, after a pause.
    Lost(Error),
}

impl<T: View> Task<T> {
    pub(super) fn new(api: Api, source: Source, seed: Seed, teller: Teller<T>, witness: Box<dyn Witness>) -> Self {
        let changes = api.metrics().watch(source.resource());
        let lister = Lister::new(api.clone(), source.clone(), seed.clone(), teller.heard().clone(), witness);
        Self {
            api,
            source,
            seed,
            lister,
            teller,
            changes,
            pause: BACKOFF.0,
            strikes: 0,
        }
    }

    /// Runs while somebody reads, over panics too.
    pub(super) async fn supervise(mut self) {
        // A panic leaves nothing half done that the new list does not set right.
        while AssertUnwindSafe(self.run()).catch_unwind().await.is_err() {
            tracing::error!(
                resource = self.source.resource(),
                "Watch panicked; it begins again with a list"
            );
            let error = Error::new(Kind::Unavailable, "the watch panicked");
            self.pause = BACKOFF.1;
            if self.teller.went_stale(error.to_string()).await.is_err() || self.failed(&error).await.is_err() {
                return;
            }
        }
    }

    /// Ends when nobody reads any more.
    async fn run(&mut self) {
        let mut position: Option<String> = None;
        loop {
            let step = match position.take() {
                None => self.list().await.map(Some),
                Some(from) => self.watch(from).await,
            };
            match step {
                Ok(next) => position = next,
                Err(Unwanted) => return,
            }
        }
    }

    /// Lists until it succeeds; returns the position to watch from.
    async fn list(&mut self) -> Result<String, Unwanted> {
        loop {
            match self.teller.mind("a list is not answered", self.lister.list()).await? {
                Ok((snapshot, position)) => {
                    self.strikes = 0;
                    self.teller.show_all(Event::Snapshot(snapshot)).await?;
                    return Ok(position);
                }
                Err(error) => self.failed(&error).await?,
            }
        }
    }

    /// Watches from `position` until something ends it; returns where to go on, `None` for a new list.
    async fn watch(&mut self, mut position: String) -> Result<Option<String>, Unwanted> {
        self.api.metrics().watch_restart(self.source.resource());
        let opening = open(&self.api, &self.source, T::ACCEPT, &self.seed, &position);
        let opened = self.teller.mind("a watch is not answered", opening).await?;
        if self.teller.is_stale() {
            return Ok(None);
        }
        let began = self.now();
        let ended = match opened {
            Ok(body) => {
                self.teller.alive();
                self.read(body, &mut position).await?
            }
            Err(error) if error.kind == Kind::Expired => Ended::Lost(error),
            Err(error) => Ended::Broken(error),
        };
        let goes_on = self.judge(ended, self.now().saturating_since(began)).await?;
        Ok(goes_on.then_some(position))
    }

    /// Pauses as the end of a watch that `lasted` demands; false if everything is to be listed again.
    async fn judge(&mut self, ended: Ended, lasted: Duration) -> Result<bool, Unwanted> {
        if lasted >= SETTLED {
            (self.pause, self.strikes) = (BACKOFF.0, 0);
        }
        let error = match ended {
            Ended::Done if lasted >= LASTED => {
                self.teller.alive();
                self.strikes = 0;
                return Ok(true);
            }
            Ended::Done => Error::new(Kind::Unavailable, "the watch ended at once"),
            Ended::Broken(error) => error,
            Ended::Lost(error) => {
                self.failed(&error).await?;
                return Ok(false);
            }
        };
        // A server that is asked too much is not to be asked for even more.
        if error.kind != Kind::TooManyRequests {
            self.strikes += 1;
        }
        self.failed(&error).await?;
        Ok(self.strikes < STRIKES && !self.teller.is_stale())
    }

    async fn read(&mut self, mut body: Body, position: &mut String) -> Result<Ended, Unwanted> {
        let mut cutter = Cutter::default();
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = self.teller.silence() => {
                    let error = Error::new(Kind::Timeout, "the watch fell silent");
                    self.teller.went_stale(error.to_string()).await?;
                    return Ok(Ended::Lost(error));
                }
            };
            let data = match frame {
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => return Ok(Ended::Broken(Error::new(Kind::Unavailable, error.to_string()))),
                None => return Ok(Ended::Done),
            };
            cutter.push(data.as_deref().unwrap_or_default());
            while let Some(part) = cutter.next() {
                if let Some(ended) = self.take(&part, position).await? {
                    return Ok(ended);
                }
            }
            if cutter.unfinished() > MAX_EVENT {
                return Ok(Ended::Lost(Error::new(
                    Kind::Unavailable,
                    "an event of the watch is too long",
                )));
            }
        }
    }

    async fn take(&mut self, part: &Part, position: &mut String) -> Result<Option<Ended>, Unwanted> {
        let unreadable = || Some(Ended::Lost(Error::new(Kind::Unavailable, "unreadable event in a watch")));
        let Ok(Told { kind, object }) = Told::read(part) else {
            return Ok(unreadable());
        };
        if kind == "ERROR" {
            return Ok(Some(refused(&object)));
        }
        self.teller.alive();
        let mut version = String::new();
        let event = match &*kind {
            "ADDED" | "MODIFIED" => {
                self.lister.witness.saw(&object);
                decode::<T>(&self.api, &self.source, &object).ok().map(|object| {
                    version.clone_from(&object.meta().resource_version);
                    Event::Applied(object)
                })
            }
            "DELETED" => match object.identity().filter(|meta| !meta.name.is_empty()) {
                Some(meta) => {
                    self.lister.witness.gone(&meta);
                    Some(Event::Deleted(meta))
                }
                // Something is gone and nobody can say what.
                None => return Ok(unreadable()),
            },
            _ => None,
        };
        if version.is_empty() {
            version = object.identity().map(|meta| meta.resource_version).unwrap_or_default();
        }
        if !version.is_empty() {
            *position = version;
        }
        if matches!(&*kind, "ADDED" | "MODIFIED" | "DELETED") {
            self.changes.inc();
        }
        if let Some(event) = event {
            self.teller.show(event).await?;
        }
        Ok(None)
    }

    /// Pauses before the next attempt, ever longer.
    async fn failed(&mut self, error: &Error) -> Result<(), Unwanted> {
        tracing::warn!(resource = self.source.resource(), %error, "Watch was interrupted");
        let reason = error.to_string();
        if self.teller.heard().last().is_none() {
            self.teller.went_stale(reason.clone()).await?;
        }
        let pause = self.pause.max(heeded_retry_after(error.retry_after));
        self.pause = (self.pause * 2).min(BACKOFF.1);
        let pause = tokio::time::sleep(self.seed.jitter(pause, 0.5));
        self.teller.mind(&reason, pause).await
    }

    fn now(&self) -> Mono {
        self.api.clock().now().mono
    }
}

async fn open(api: &Api, source: &Source, accept: &'static str, seed: &Seed, position: &str) -> Result<Body, Error> {
    let timeout = seed.jitter(WATCH_FOR.mul_f64(0.8), 0.25).as_secs().max(1).to_string();
    let path = source.query(&[
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", position),
        ("timeoutSeconds", timeout.as_str()),
    ]);
    match tokio::time::timeout(OPEN_WITHIN, api.stream(&path, accept)).await {
        Ok(body) => body,
        Err(_) => Err(Error::new(Kind::Timeout, format!("no answer to a watch of {}", source.path))),
    }
}

/// What an ERROR event means.
fn refused(object: &Encoded<'_>) -> Ended {
    let error = Error::from_status(object);
    match error.kind {
        Kind::TooManyRequests => Ended::Broken(error),
        _ => Ended::Lost(error),
    }
}
