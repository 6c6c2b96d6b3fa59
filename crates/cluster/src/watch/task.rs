//! The task of a watch: lists, watches, and finds its way back after whatever goes wrong.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bailiff_model::{Mono, heeded_retry_after};
use bailiff_runtime::Seed;
use futures::FutureExt;
use prometheus_client::metrics::counter::Counter;

use super::collected::Way;
use super::list::{Lister, decode};
use super::teller::{Teller, Unwanted};
use super::wire::{Part, Stream, Told};
use super::{Event, Source, View, WATCH_FOR, Witness};
use crate::api::Api;
use crate::decode::Encoded;
use crate::error::{Error, Kind};
use crate::views::CompactString;

/// First and longest pause between attempts, as client-go's reflector.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// A stream that ends sooner than this ended at once: a server that does so is not asked again at once.
const LASTED: Duration = Duration::from_secs(1);

/// After a watch that held for so long what went wrong before it counts no more.
const SETTLED: Duration = Duration::from_secs(10);

/// Watches that failed in a row before the position itself is doubted and everything is listed again.
const STRIKES: u32 = 3;

pub(super) struct Task<T, P> {
    api: Api,
    source: Source,
    seed: Seed,
    lister: Lister<T, P>,
    teller: Teller<T, P>,
    changes: Counter,
    /// A watch that the last list has begun.
    begun: Option<Stream>,
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

impl<T: View, P> Task<T, P> {
    pub(super) fn new(
        api: Api,
        source: Source,
        seed: Seed,
        teller: Teller<T, P>,
        witness: Box<dyn Witness>,
        way: Option<Way<T, P>>,
    ) -> Self {
        let changes = api.metrics().watch(source.resource());
        let lister = Lister::new(api.clone(), source.clone(), seed.clone(), witness, way);
        Self {
            api,
            source,
            seed,
            lister,
            teller,
            changes,
            begun: None,
            pause: BACKOFF.0,
            strikes: 0,
        }
    }

    /// Runs while somebody reads, over panics too.
    pub(super) async fn supervise(mut self) {
        // A panic leaves nothing half done that the new list does not set right.
        while AssertUnwindSafe(self.run()).catch_unwind().await.is_err() {
            self.begun = None;
            tracing::error!(
                path = %self.source.path,
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
        // Its parts do not pass the teller.
        self.teller.flush().await?;
        loop {
            // Takes several times what the watch has, and is seldom.
            let listing = Box::pin(self.lister.list());
            match self.teller.mind("a list is not at its end", listing).await? {
                Ok(listed) => {
                    self.strikes = 0;
                    self.begun = listed.stream;
                    self.teller.show_all(Event::Snapshot(listed.snapshot)).await?;
                    return Ok(listed.position);
                }
                Err(error) => {
                    // Lists that break off one after the other are signs of life, and show nothing.
                    if self.teller.is_behind() {
                        self.teller.went_stale(error.to_string()).await?;
                    }
                    self.failed(&error).await?;
                }
            }
        }
    }

    /// Watches from `position` until something ends it; returns where to go on, `None` for a new list.
    async fn watch(&mut self, mut position: String) -> Result<Option<String>, Unwanted> {
        self.api.metrics().watch_restart(self.source.resource());
        let opened = match self.begun.take() {
            Some(stream) => Ok(stream),
            None => {
                let opening = Box::pin(open(&self.api, &self.source, T::ACCEPT, &self.seed, &position));
                self.teller.mind("a watch is not answered", opening).await?
            }
        };
        if self.teller.is_stale() {
            return Ok(None);
        }
        let began = self.now();
        let ended = match opened {
            Ok(stream) => {
                self.teller.alive();
                let ended = self.read(stream, &mut position).await?;
                self.teller.flush().await?;
                ended
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

    async fn read(&mut self, mut stream: Stream, position: &mut String) -> Result<Ended, Unwanted> {
        loop {
            if let Some(ended) = self.gulp(&mut stream, position).await? {
                return Ok(ended);
            }
            self.teller.flush().await?;
            let filled = tokio::select! {
                biased;
                filled = stream.fill() => filled,
                () = self.teller.silence() => {
                    let error = Error::new(Kind::Timeout, "the watch fell silent");
                    self.teller.went_stale(error.to_string()).await?;
                    return Ok(Ended::Lost(error));
                }
            };
            match filled {
                Ok(true) => {}
                Ok(false) => return Ok(Ended::Done),
                Err(error) => return Ok(Ended::Broken(error)),
            }
        }
    }

    /// Takes what has come. Its connection is read by a task of its own: once others had a turn, what is not here comes another time.
    async fn gulp(&mut self, stream: &mut Stream, position: &mut String) -> Result<Option<Ended>, Unwanted> {
        loop {
            if let Some(ended) = self.take_all(stream, position).await? {
                return Ok(Some(ended));
            }
            let filled = tokio::select! {
                biased;
                filled = stream.fill() => filled,
                () = tokio::task::yield_now() => return Ok(None),
            };
            match filled {
                Ok(true) => {}
                Ok(false) => return Ok(Some(Ended::Done)),
                Err(error) => return Ok(Some(Ended::Broken(error))),
            }
        }
    }

    /// Takes every event that is here.
    async fn take_all(&mut self, stream: &mut Stream, position: &mut String) -> Result<Option<Ended>, Unwanted> {
        let mut ended = None;
        let mut is_alive = false;
        while let Some(part) = stream.cut() {
            ended = self.take(&part, position).await?;
            if ended.is_some() {
                break;
            }
            is_alive = true;
        }
        if is_alive {
            self.teller.alive();
        }
        let too_long = || Ended::Lost(Error::new(Kind::Unavailable, "an event of the watch is too long"));
        Ok(ended.or_else(|| stream.is_too_long().then(too_long)))
    }

    async fn take(&mut self, part: &Part, position: &mut String) -> Result<Option<Ended>, Unwanted> {
        let unreadable = || Some(Ended::Lost(Error::new(Kind::Unavailable, "unreadable event in a watch")));
        let Ok(Told { kind, object }) = Told::read(part) else {
            return Ok(unreadable());
        };
        if kind == "ERROR" {
            return Ok(Some(refused(&object)));
        }
        let mut version = CompactString::default();
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
                    version.clone_from(&meta.resource_version);
                    Some(Event::Deleted(meta))
                }
                // Something is gone and nobody can say what.
                None => return Ok(unreadable()),
            },
            _ => None,
        };
        if version.is_empty() {
            version = object.version();
        }
        if !version.is_empty() {
            position.clear();
            position.push_str(&version);
        }
        if matches!(&*kind, "ADDED" | "MODIFIED" | "DELETED") {
            self.changes.inc();
        }
        if let Some(event) = event {
            self.teller.take(event).await?;
        }
        Ok(None)
    }

    /// Pauses before the next attempt, ever longer.
    async fn failed(&mut self, error: &Error) -> Result<(), Unwanted> {
        tracing::warn!(path = %self.source.path, %error, "Watch was interrupted");
        let reason = error.to_string();
        if !self.teller.has_shown() {
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

async fn open(api: &Api, source: &Source, accept: &'static str, seed: &Seed, position: &str) -> Result<Stream, Error> {
    let timeout = seed.jitter(WATCH_FOR.mul_f64(0.8), 0.25).as_secs().max(1).to_string();
    let path = source.query(&[
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", position),
        ("timeoutSeconds", timeout.as_str()),
    ]);
    api.stream(&path, accept, source.attention).await.map(Stream::new)
}

/// What an ERROR event means.
fn refused(object: &Encoded<'_>) -> Ended {
    let error = Error::from_status(object);
    match error.kind {
        Kind::TooManyRequests => Ended::Broken(error),
        _ => Ended::Lost(error),
    }
}
