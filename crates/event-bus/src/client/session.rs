//! The task behind a publisher: opens sessions, sends what the outbox holds, keeps the session alive.

use std::sync::Arc;
use std::time::Duration;

use bailiff_proto::v1 as pb;
use bailiff_proto::v1::publish_request::Step as Request;
use bailiff_proto::v1::publish_response::Step as Answered;
use bailiff_runtime::Ticks;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::backoff::Backoff;
use super::outbox::{Step, WINDOW};
use super::publisher::Shared;
use super::{ANSWER_WITHIN, Bus, SILENT_AFTER};
use crate::wire::scalar;

/// How often the producer reports itself at least.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
/// Requests on their way to the transport: the outbox's window, an end marker, and keepalives.
const OUTBOUND: usize = WINDOW + 12;

/// What one attempt knows of the ones before.
struct Progress {
    /// Epoch to open with: what was asked for, or what the bus issued.
    epoch: u64,
    /// Incarnation of the bus that holds our state.
    replaced_in: Option<String>,
    /// That the bus cannot be reached was logged.
    is_loss_logged: bool,
}

/// How a session ended.
enum End {
    /// It broke, or could not be opened.
    Lost(Box<Status>),
    /// The bus does not hold our state: open again with a replace part.
    NeedsReplace,
    /// The bus ended it in good order, because its connection has to end: open again over another one.
    Moved,
}

/// An open session.
struct Session<'a> {
    shared: &'a Shared,
    requests: mpsc::Sender<pb::PublishRequest>,
    answers: Streaming<pb::PublishResponse>,
    incarnation: String,
}

/// Keeps a session open until it is fenced.
pub(super) async fn run(mut bus: Bus, shared: Arc<Shared>, mut backoff: Backoff) {
    let mut progress = Progress {
        epoch: shared.options.epoch,
        replaced_in: None,
        is_loss_logged: false,
    };
    loop {
        let end = attempt(&bus, &shared, &mut progress, &mut backoff).await;
        let status = match end {
            End::Lost(status) => status,
            End::NeedsReplace => continue,
            End::Moved => {
                shared.progress(|state| state.outbox.disconnected());
                continue;
            }
        };
        let (topic, shard) = (shared.options.topic, shared.options.shard);
        // Another producer holds the shard, or a person took it away.
        if status.code() == Code::Aborted {
            tracing::warn!(%topic, shard, reason = status.message(), "Publisher was fenced");
            shared.progress(|state| {
                state.is_fenced = true;
                state.outbox.fenced(status.message().to_owned());
            });
            return;
        }
        if status.code() == Code::InvalidArgument {
            tracing::error!(%topic, shard, error = %status, "Bus refused the session");
        } else if status.code() == Code::PermissionDenied && !progress.is_loss_logged {
            progress.is_loss_logged = true;
            tracing::error!(%topic, shard, error = %status, "Bus does not let this role publish");
        } else if std::mem::replace(&mut progress.is_loss_logged, true) {
            tracing::debug!(%topic, shard, error = %status, "Session was not opened");
        } else {
            tracing::warn!(%topic, shard, error = %status, "Session was lost");
        }
        shared.progress(|state| state.outbox.disconnected());
        bus.move_on();
        tokio::time::sleep(backoff.failed()).await;
    }
}

async fn attempt(bus: &Bus, shared: &Shared, progress: &mut Progress, backoff: &mut Backoff) -> End {
    let replace = progress.replaced_in.is_none();
    let (mut session, opened) = match open(bus, shared, progress.epoch, replace).await {
        Ok(opened) => opened,
        Err(status) => return End::Lost(Box::new(status)),
    };
    progress.epoch = opened.epoch;
    let holds_ours = progress.replaced_in.as_ref() == Some(&opened.incarnation) && opened.complete;
    if !replace && !holds_ours {
        progress.replaced_in = None;
        return End::NeedsReplace;
    }
    progress.is_loss_logged = false;
    shared.progress(|state| state.outbox.connected(&opened.incarnation, replace));
    session.serve(progress, backoff).await
}

async fn open<'a>(bus: &Bus, shared: &'a Shared, epoch: u64, replace: bool) -> Result<(Session<'a>, pb::SessionOpened), Status> {
    let (requests, outbound) = mpsc::channel(OUTBOUND);
    let open = Request::Open(pb::OpenSession {
        topic: shared.options.topic.to_string(),
        shard: shared.options.shard,
        shard_count: shared.options.shard_count,
        producer: shared.options.producer.clone(),
        epoch,
        replace,
    });
    send(&requests, open)?;
    let mut client = bus.client();
    let opening = async {
        let mut answers = client.publish(ReceiverStream::new(outbound)).await?.into_inner();
        match answers.message().await?.and_then(|response| response.step) {
            Some(Answered::Opened(opened)) => Ok((answers, opened)),
            Some(_) => Err(Status::internal("the bus did not answer the open request")),
            None => Err(Status::unavailable("the session ended")),
        }
    };
    let late = |_| Status::deadline_exceeded("the bus did not answer");
    let (answers, opened) = timeout(ANSWER_WITHIN, opening).await.map_err(late)??;
    let session = Session {
        shared,
        requests,
        answers,
        incarnation: opened.incarnation.clone(),
    };
    Ok((session, opened))
}

/// Never waits: waiting here would keep the answers from being read, and with them the room from being made.
fn send(requests: &mpsc::Sender<pb::PublishRequest>, step: Request) -> Result<(), Status> {
    let request = pb::PublishRequest { step: Some(step) };
    let refused = |_| Status::unavailable("the bus does not take requests");
    requests.try_send(request).map_err(refused)
}

// === impl Session ===

impl Session<'_> {
    /// Serves the session until it ends.
    async fn serve(&mut self, progress: &mut Progress, backoff: &mut Backoff) -> End {
        let mut keepalive = Ticks::new(&self.shared.clock, KEEPALIVE_EVERY);
        let mut heard = tokio::time::Instant::now();
        let mut has_spoken = false;
        loop {
            let result = tokio::select! {
                biased;
                answer = self.answers.message() => {
                    // One that does only this would be asked for ever.
                    if has_spoken && matches!(answer, Ok(None)) {
                        return End::Moved;
                    }
                    (heard, has_spoken) = (tokio::time::Instant::now(), true);
                    answer.and_then(|answer| self.take(answer, progress, backoff))
                }
                () = keepalive.tick() => self.report(),
                () = self.shared.work.notified() => self.work(&mut keepalive),
                () = tokio::time::sleep_until(heard + SILENT_AFTER) => Err(Status::unavailable("the bus is silent")),
            };
            if let Err(status) = result.and_then(|()| self.send_steps()) {
                return End::Lost(Box::new(status));
            }
        }
    }

    /// The owner did something: if it reported for the first time, the bus should know at once.
    fn work(&self, keepalive: &mut Ticks) -> Result<(), Status> {
        let state = self.shared.lock();
        if state.tick.is_some() && !state.is_report_sent {
            keepalive.hurry();
        }
        Ok(())
    }

    fn take(&self, answer: Option<pb::PublishResponse>, progress: &mut Progress, backoff: &mut Backoff) -> Result<(), Status> {
        let answer = answer.ok_or_else(|| Status::unavailable("the session ended"))?;
        backoff.succeeded();
        if let Some(Answered::Acknowledged(acknowledged)) = answer.step {
            let take = |state: &mut super::publisher::State| state.outbox.acknowledged(acknowledged.id);
            if self.shared.progress(take) {
                progress.replaced_in = Some(self.incarnation.clone());
            }
        }
        Ok(())
    }

    fn report(&self) -> Result<(), Status> {
        let now = self.shared.clock.now().mono;
        let mut state = self.shared.lock();
        state.is_report_sent = state.tick.is_some();
        let age = |at: bailiff_model::Mono| scalar::to_duration(now.saturating_since(at));
        let keepalive = pb::Keepalive {
            tick_age: state.tick.map(age),
            watch_age: state.watch.map(age),
            detail: scalar::to_sentence(&state.detail),
        };
        drop(state);
        send(&self.requests, Request::Keepalive(keepalive))
    }

    fn send_steps(&self) -> Result<(), Status> {
        loop {
            let now = self.shared.clock.now().mono;
            let Some(step) = self.shared.lock().outbox.next_step(now) else {
                return Ok(());
            };
            send(
                &self.requests,
                match step {
                    Step::Batch(batch) => Request::Batch(batch),
                    Step::EndReplace(end) => Request::EndReplace(end),
                },
            )?;
        }
    }
}
