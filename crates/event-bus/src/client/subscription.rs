//! Following topics: one stream at a time, resumed by cursor, surfacing whole sets only.
//!
//! There is no task behind it: the stream is read when the owner asks, so a slow owner holds the transport back and nothing piles up.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bailiff_model::{Incarnation, Mono, Topic};
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::subscribe_response::Step;
use bailiff_runtime::{Clock, Seed, Timer};
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use super::backoff::Backoff;
use super::publisher::PublishOptions;
use super::{ANSWER_WITHIN, Bus, SILENT_AFTER, STALE_AFTER};
use crate::record::{Record, ShardStatus};
use crate::wire::{Wire, envelope};

/// What to follow.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Topics wanted; at least one, each once.
    pub topics: Vec<Topic>,
    /// Only records whose route passes; topics without a filter pass whole.
    pub filters: Vec<RouteFilter>,
    /// Who subscribes: 1 to 128 printable characters.
    pub subscriber: String,
}

/// Narrows one topic to some routes; records without a route always pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFilter {
    /// Topic it applies to.
    pub topic: Topic,
    /// Routes that pass.
    pub routes: Vec<String>,
}

/// News of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Forget everything held of these topics: this is all there is.
    Snapshot {
        /// The latest record of every key, in rising order of revision; no tombstones.
        records: Vec<Record>,
        /// Keys whose latest record this reader does not understand: they are there, and nothing is known of them.
        skipped: Vec<Skipped>,
        /// Every shard of the topics.
        shards: Vec<ShardStatus>,
    },
    /// One atomic set of changes.
    Changes {
        /// In rising order of revision, each key once.
        records: Vec<Record>,
        /// Keys that changed to something that this reader does not understand: what it held of them is outdated.
        skipped: Vec<Skipped>,
        /// Shards whose state changed.
        shards: Vec<ShardStatus>,
    },
    /// Nothing changed but liveness and lag; at least every 2 s while connected.
    Status {
        /// Every shard of the topics.
        shards: Vec<ShardStatus>,
    },
    /// The connection is lost; said once when lost and once more when that counts as stale, 10 s after `since`.
    Lost {
        /// Last sign of life of the bus, or when the subscription began.
        since: Mono,
    },
}

/// A record that was skipped, because it is of a newer contract or breaks this one.
///
/// No conclusion may be drawn from the key: it is not gone, and what was known of it before is not what is true now. It ends with
/// the key's next record or tombstone, and with the next snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Topic.
    pub topic: Topic,
    /// Key.
    pub key: String,
}

/// A subscription; reconnects by itself and resumes where it was.
pub struct Subscription {
    bus: Bus,
    options: SubscribeOptions,
    /// Whose records are left out.
    except: Option<pb::Speaker>,
    clock: Clock,
    backoff: Backoff,
    cursor: String,
    /// Of the bus that the cursor is of: a cursor is resumed in its own incarnation only.
    incarnation: Incarnation,
    state: State,
    partial: Partial,
    /// The stream has said something whole since it was opened.
    has_spoken: bool,
    /// Last sign of life of the bus.
    heard: Mono,
    /// Of the end of what the connection waits for.
    timer: Timer,
    lost: Option<Lost>,
    malformed: u64,
}

type Opening = Pin<Box<dyn Future<Output = Result<Streaming<pb::SubscribeResponse>, Status>> + Send>>;

/// Where the connection stands.
enum State {
    /// Until the next attempt.
    Waiting(Instant),
    /// An attempt is under way, and has until then.
    Opening(Opening, Instant),
    /// Connected.
    Streaming(Box<Streaming<pb::SubscribeResponse>>),
}

/// A loss that was announced.
struct Lost {
    since: Mono,
    is_stale_said: bool,
}

/// A set that is not whole yet.
#[derive(Default)]
struct Partial {
    is_snapshot: bool,
    records: Vec<Record>,
    skipped: Vec<Skipped>,
    shards: Vec<ShardStatus>,
}

enum Event {
    Retry,
    Opened(Result<Streaming<pb::SubscribeResponse>, Status>),
    Message(Result<Option<pb::SubscribeResponse>, Status>),
    Stale,
}

/// Follows the topics of `options` on `bus`.
pub fn subscribe(bus: &Bus, options: SubscribeOptions, clock: &Clock, seed: &Seed) -> Subscription {
    let seed = seed.fork(&format!("subscription {}", options.subscriber));
    Subscription {
        bus: bus.seeded(&seed),
        options,
        except: None,
        clock: clock.clone(),
        backoff: Backoff::new(seed),
        cursor: String::new(),
        incarnation: Incarnation::default(),
        state: State::Waiting(Instant::now()),
        partial: Partial::default(),
        has_spoken: false,
        heard: clock.now().mono,
        timer: Timer::default(),
        lost: None,
        malformed: 0,
    }
}

// === impl Subscription ===

impl Subscription {
    /// The same, before it heard anything, without what `session` says. One whose epoch the bus issues has an echo all the same: what an
    /// earlier process said by its name is not told from it.
    #[must_use]
    pub fn without_echo(mut self, session: &PublishOptions) -> Self {
        self.except = (session.epoch > 0).then(|| pb::Speaker {
            producer: session.producer.clone(),
            epoch: session.epoch,
        });
        self
    }

    /// The next news. Never ends.
    ///
    /// # Cancellation
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Update {
        loop {
            // Nothing is awaited between an event and the update it makes.
            let update = match self.event().await {
                Event::Retry => self.open(),
                Event::Opened(Ok(stream)) => self.opened(stream),
                Event::Opened(Err(status)) | Event::Message(Err(status)) => self.fail(&status),
                // In good order: the connection is to end, and the bus is there. One that does only this would be asked for ever.
                Event::Message(Ok(None)) if self.has_spoken => self.open(),
                Event::Message(Ok(None)) => self.fail(&Status::unavailable("the stream ended")),
                Event::Message(Ok(Some(response))) => self.take(response),
                Event::Stale => self.lost.as_mut().map(|lost| {
                    lost.is_stale_said = true;
                    Update::Lost { since: lost.since }
                }),
            };
            if let Some(update) = update {
                return update;
            }
        }
    }

    /// Records that broke the contract and were skipped.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    async fn event(&mut self) -> Event {
        let stale = self.lost.as_ref().filter(|lost| !lost.is_stale_said);
        let stale = stale.map(|lost| self.clock.instant_of(lost.since + STALE_AFTER));
        let stale = async {
            match stale {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        match &mut self.state {
            State::Waiting(until) => tokio::select! {
                biased;
                () = stale => Event::Stale,
                () = self.timer.until(*until) => Event::Retry,
            },
            State::Opening(opening, until) => tokio::select! {
                biased;
                opened = opening => Event::Opened(opened),
                () = self.timer.until(*until) => Event::Opened(Err(Status::deadline_exceeded("the bus did not answer"))),
                () = stale => Event::Stale,
            },
            State::Streaming(stream) => {
                let silent_at = self.clock.instant_of(self.heard + SILENT_AFTER);
                tokio::select! {
                    biased;
                    message = stream.message() => Event::Message(message),
                    () = self.timer.until(silent_at) => Event::Message(Err(Status::unavailable("the bus is silent"))),
                    () = stale => Event::Stale,
                }
            }
        }
    }

    fn open(&mut self) -> Option<Update> {
        (self.partial, self.has_spoken) = (Partial::default(), false);
        let filters = self.options.filters.iter().map(|filter| pb::RouteFilter {
            topic: filter.topic.to_string(),
            routes: filter.routes.clone(),
        });
        let request = pb::SubscribeRequest {
            topics: self.options.topics.iter().map(Topic::to_string).collect(),
            cursor: self.cursor.clone(),
            filters: filters.collect(),
            subscriber: self.options.subscriber.clone(),
            except: self.except.clone(),
        };
        let mut client = self.bus.client();
        let opening = async move { client.subscribe(request).await.map(tonic::Response::into_inner) };
        self.state = State::Opening(Box::pin(opening), Instant::now() + ANSWER_WITHIN);
        None
    }

    fn opened(&mut self, stream: Streaming<pb::SubscribeResponse>) -> Option<Update> {
        self.state = State::Streaming(Box::new(stream));
        // Silence is counted from here; the loss stays announced until the bus has said something whole.
        self.heard = self.clock.now().mono;
        None
    }

    fn fail(&mut self, status: &Status) -> Option<Update> {
        self.partial = Partial::default();
        if status.code() == Code::InvalidArgument {
            // If it was the cursor, a snapshot heals it; if not, there is nothing to lose.
            self.cursor.clear();
            tracing::error!(subscriber = self.options.subscriber, error = %status, "Bus refused the subscription");
        }
        self.bus.move_on();
        self.state = State::Waiting(Instant::now() + self.backoff.failed());
        if self.lost.is_some() {
            tracing::debug!(subscriber = self.options.subscriber, error = %status, "Bus was not reached");
            return None;
        }
        if status.code() == Code::PermissionDenied {
            tracing::error!(subscriber = self.options.subscriber, error = %status, "Bus does not let this role subscribe");
        } else {
            tracing::warn!(subscriber = self.options.subscriber, error = %status, "Bus was lost");
        }
        let since = self.heard;
        self.lost = Some(Lost {
            since,
            is_stale_said: false,
        });
        Some(Update::Lost { since })
    }

    fn take(&mut self, response: pb::SubscribeResponse) -> Option<Update> {
        self.heard = self.clock.now().mono;
        match response.step? {
            Step::SnapshotStart(start) => {
                tracing::debug!(
                    subscriber = self.options.subscriber,
                    incarnation = %start.incarnation,
                    "Snapshot began"
                );
                self.incarnation = Incarnation::from(start.incarnation);
                self.partial = Partial {
                    is_snapshot: true,
                    ..Partial::default()
                };
                None
            }
            Step::Changes(changes) => self.take_changes(changes),
            Step::Boundary(boundary) => {
                self.cursor = boundary.cursor;
                self.has_spoken = true;
                self.backoff.succeeded();
                self.lost = None;
                None
            }
            Step::Bookmark(bookmark) => {
                self.cursor = bookmark.cursor;
                self.has_spoken = true;
                let shards = self.shards(bookmark.shards);
                Some(Update::Status { shards })
            }
        }
    }

    fn take_changes(&mut self, changes: pb::Changes) -> Option<Update> {
        self.partial.records.reserve(changes.records.len());
        for record in &changes.records {
            let envelope = match envelope::decoded(record) {
                Ok(envelope) => envelope,
                // Of which key it is cannot be said either.
                Err(error) => return self.fail(&Status::internal(error.to_string())),
            };
            let (topic, key) = (Topic::parse(&envelope.topic), envelope.key.clone());
            match Record::try_from(Wire(envelope)) {
                Ok(record) => self.partial.records.push(Record {
                    incarnation: self.incarnation.clone(),
                    received_at: self.heard,
                    ..record
                }),
                Err(error) => {
                    self.skip(&key, &error);
                    // A topic that has no name here was not asked for.
                    self.partial.skipped.extend(topic.map(|topic| Skipped { topic, key }));
                }
            }
        }
        let shards = self.shards(changes.shards);
        self.partial.shards.extend(shards);
        if changes.more {
            return None;
        }
        self.cursor = changes.cursor;
        // The owner has the bus again; the next loss is another one.
        self.lost = None;
        let Partial {
            is_snapshot,
            records,
            skipped,
            shards,
        } = std::mem::take(&mut self.partial);
        Some(if is_snapshot {
            Update::Snapshot {
                records,
                skipped,
                shards,
            }
        } else {
            Update::Changes {
                records,
                skipped,
                shards,
            }
        })
    }

    fn shards(&mut self, statuses: Vec<pb::ShardStatus>) -> Vec<ShardStatus> {
        let mut shards = Vec::with_capacity(statuses.len());
        // A topic that nobody ever published to may be said to have no shards; that is what saying nothing means here.
        for status in statuses.into_iter().filter(|status| status.shard_count > 0) {
            let topic = status.topic.clone();
            match ShardStatus::try_from(Wire(status)) {
                Ok(status) => shards.push(status),
                Err(error) => self.skip(&topic, &error),
            }
        }
        shards
    }

    fn skip(&mut self, key: &str, error: &crate::wire::Error) {
        self.malformed += 1;
        tracing::warn!(subscriber = self.options.subscriber, key, %error, "Record was skipped");
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("options", &self.options)
            .field("cursor", &self.cursor)
            .field("is_lost", &self.lost.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
