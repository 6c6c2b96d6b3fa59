//! Producers' sessions: each request is checked, given to the engine, and answered in order.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::publish_request::Step as Request;
use bailiff_proto::v1::publish_response::Step as Answered;
use futures::stream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::gate::Caller;
use super::hub::{Hub, Lease, unexpected};
use super::metrics::SILENT;
use super::status;
use crate::access::Action;
use crate::engine::{Answer, Command, Open, Refusal, Report, SessionId};
use crate::wire::{self, envelope, scalar};

/// How long a caller may take to say what it opens. Afterwards the engine ends sessions that are silent.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

/// The stream of a session.
pub(super) type Stream = super::Boxed<pb::PublishResponse>;

struct Session {
    hub: Arc<Hub>,
    broken: CancellationToken,
    inbound: Streaming<pb::PublishRequest>,
    caller: Caller,
    opened: Option<Opened>,
}

struct Opened {
    lease: Lease,
    topic: Topic,
}

/// What came next.
enum Event {
    Down,
    Ended(Refusal),
    Silent,
    Message(Result<Option<pb::PublishRequest>, Status>),
}

/// Opens the stream; the session itself is opened by the first request.
pub(super) fn open(hub: Arc<Hub>, inbound: Streaming<pb::PublishRequest>, caller: Caller) -> Stream {
    let session = Session {
        broken: hub.stream_token(),
        hub,
        inbound,
        caller,
        opened: None,
    };
    Box::pin(stream::unfold(Some(session), |session| async move {
        let mut session = session?;
        match session.next().await {
            Ok(Some(step)) => Some((Ok(pb::PublishResponse { step: Some(step) }), Some(session))),
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    }))
}

// === impl Session ===

impl Session {
    /// The next answer; `None` when the caller is done.
    async fn next(&mut self) -> Result<Option<Answered>, Status> {
        match self.event().await {
            Event::Down => Err(status::down()),
            Event::Ended(refusal) => {
                let (identity, address) = (self.caller.identity(), self.caller.address());
                tracing::info!(reason = %refusal, identity, address, "Session of a producer was ended");
                Err(self.hub.refuse(&refusal))
            }
            Event::Silent => {
                let message = format!("no open request within {} s", OPEN_WITHIN.as_secs());
                let refused = self.hub.refuse_as(SILENT, Status::deadline_exceeded(message));
                self.hub.say(&self.caller, &refused);
                Err(refused)
            }
            Event::Message(Ok(None)) => Ok(None),
            Event::Message(Ok(Some(request))) => {
                let broken = self.broken.clone();
                let answered = tokio::select! {
                    biased;
                    answered = self.answer(request) => answered,
                    () = broken.cancelled() => Err(status::down()),
                };
                answered.map(Some).inspect_err(|refused| self.hub.say(&self.caller, refused))
            }
            // The caller broke off, and nobody hears this; or what it says finds no room.
            Event::Message(Err(status)) => {
                self.hub.say(&self.caller, &status);
                Err(status)
            }
        }
    }

    async fn event(&mut self) -> Event {
        let Some(opened) = &mut self.opened else {
            return tokio::select! {
                biased;
                () = self.broken.cancelled() => Event::Down,
                message = self.inbound.message() => Event::Message(message),
                () = tokio::time::sleep(OPEN_WITHIN) => Event::Silent,
            };
        };
        tokio::select! {
            biased;
            () = self.broken.cancelled() => Event::Down,
            ended = &mut opened.lease.ended => Event::Ended(ended.unwrap_or(Refusal::Ended)),
            message = self.inbound.message() => Event::Message(message),
        }
    }

    async fn answer(&mut self, request: pb::PublishRequest) -> Result<Answered, Status> {
        let step = request.step.ok_or_else(|| wire::Error::absent("step"));
        let step = step.map_err(|error| self.hub.refuse_invalid(&error))?;
        let Some(Opened { lease, topic }) = &self.opened else {
            let Request::Open(open) = step else {
                let error = wire::Error::new("step", "not open", "open first");
                return Err(self.hub.refuse_invalid(&error));
            };
            return self.open(open).await;
        };
        let (session, topic) = (lease.session, *topic);
        match step {
            Request::Open(_) => {
                let error = wire::Error::new("step", "open", "open only once");
                Err(self.hub.refuse_invalid(&error))
            }
            Request::Batch(batch) => self.publish(session, topic, batch).await,
            Request::EndReplace(end) => match self.hub.call(Command::EndReplace { session }).await? {
                Answer::Replaced { revision } => Ok(acknowledged(end.id, vec![revision.0])),
                answer => Err(unexpected(&answer)),
            },
            Request::Keepalive(keepalive) => {
                let report = report(keepalive).map_err(|error| self.hub.refuse_invalid(&error))?;
                match self.hub.call(Command::Keepalive { session, report }).await? {
                    Answer::Kept { live } => Ok(Answered::Keepalive(pb::KeepaliveAnswer { live })),
                    answer => Err(unexpected(&answer)),
                }
            }
        }
    }

    async fn open(&mut self, open: pb::OpenSession) -> Result<Answered, Status> {
        let open = self::opening(open).map_err(|error| self.hub.refuse_invalid(&error.under("open")))?;
        let (topic, shard, producer) = (open.topic, open.shard, open.producer.clone());
        self.caller.check(&self.hub.metrics, Action::Publish, topic)?;
        let (lease, epoch, complete) = self.hub.open_session(open).await?;
        tracing::info!(%topic, shard, producer, epoch, complete, "Session of a producer was opened");
        self.opened = Some(Opened { lease, topic });
        Ok(Answered::Opened(pb::SessionOpened {
            incarnation: self.hub.read(|engine| engine.incarnation().to_owned())?,
            epoch,
            complete,
        }))
    }

    async fn publish(&mut self, session: SessionId, topic: Topic, batch: pb::Batch) -> Result<Answered, Status> {
        let count = batch.records.len();
        // The engine refuses it too, but only when all of it was decoded, and went through a log.
        let limits = &self.hub.options.limits;
        limits.check_batch(count).map_err(|refusal| self.hub.refuse(&refusal))?;
        let mut records = Vec::with_capacity(count);
        for (index, record) in batch.records.iter().enumerate() {
            let incoming = envelope::decoded(record).and_then(|record| envelope::incoming(topic, record));
            let incoming = incoming.map_err(|error| error.under(&format!("batch.records[{index}]")));
            records.push(incoming.map_err(|error| self.hub.refuse_invalid(&error))?);
        }
        match self.hub.call(Command::Publish { session, records }).await? {
            Answer::Published { revisions } => {
                self.hub.metrics.published(topic, count);
                let revisions = revisions.into_iter().map(|revision| revision.0).collect();
                Ok(acknowledged(batch.id, revisions))
            }
            answer => Err(unexpected(&answer)),
        }
    }
}

fn acknowledged(id: u64, revisions: Vec<u64>) -> Answered {
    Answered::Acknowledged(pb::Acknowledged { id, revisions })
}

fn opening(open: pb::OpenSession) -> Result<Open, wire::Error> {
    Ok(Open {
        topic: envelope::topic("topic", &open.topic)?,
        shard: open.shard,
        shard_count: open.shard_count,
        producer: scalar::identity("producer", open.producer)?,
        epoch: open.epoch,
        replace: open.replace,
    })
}

fn report(keepalive: pb::Keepalive) -> Result<Report, wire::Error> {
    Ok(Report {
        tick_age: scalar::duration_if_any("keepalive.tick_age", keepalive.tick_age)?,
        watch_age: scalar::duration_if_any("keepalive.watch_age", keepalive.watch_age)?,
        detail: scalar::sentence("keepalive.detail", keepalive.detail)?,
    })
}
