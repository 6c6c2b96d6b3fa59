//! One incarnation of a bus at work: its engine behind a lock that no await holds, and whom to wake.
//!
//! Every subscriber is woken by a [`Notify`] of its own, in the order in which they came. A tokio `watch` channel would do, but it
//! spreads its waiters at random, and worlds must replay.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_model::{Now, Topic};
use bailiff_runtime::{Clock, Ticks};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::ServerOptions;
use super::gate::Caller;
use super::metrics::{INVALID, Metrics, SUBSCRIBERS, UNREAD};
use super::places::Places;
use super::said::Said;
use super::sending::Sending;
use super::status::{self, DENIED};
use crate::engine::{Answer, Command, Effect, Engine, Open, Refusal, SessionId, Ticket};

#[cfg(test)]
mod tests;

/// One incarnation of a bus.
pub(super) struct Hub {
    pub(super) options: ServerOptions,
    pub(super) metrics: Metrics,
    clock: Clock,
    down: CancellationToken,
    state: Mutex<State>,
}

struct State {
    /// Cancelled when the streams that are open now have to end.
    streams: CancellationToken,
    /// What others write does not come here.
    is_cut_off: bool,
    /// `None` once the hub is shut down.
    engine: Option<Box<dyn Engine>>,
    last_ticket: Ticket,
    waiting: BTreeMap<Ticket, oneshot::Sender<Result<Answer, Refusal>>>,
    /// Whom to tell when a session is ended by the engine, and the receivers that nobody took yet.
    endings: BTreeMap<SessionId, oneshot::Sender<Refusal>>,
    unclaimed: BTreeMap<SessionId, oneshot::Receiver<Refusal>>,
    subscribers: BTreeMap<u64, Subscriber>,
    last_subscriber: u64,
    places: Places,
    said: Said,
}

struct Subscriber {
    name: String,
    party: String,
    topics: Vec<Topic>,
    wake: Arc<Notify>,
    sending: Arc<Sending>,
}

/// A subscriber's place; leaving it is dropping it.
pub(super) struct Seat {
    hub: Arc<Hub>,
    number: u64,
    pub(super) wake: Arc<Notify>,
    pub(super) sending: Arc<Sending>,
}

/// An answer that is waited for; dropping it closes a session that was opened for it and is nobody's yet.
struct Waiting<'a> {
    hub: &'a Hub,
    ticket: Ticket,
    answer: oneshot::Receiver<Result<Answer, Refusal>>,
}

/// An open session; dropping it closes the session.
pub(super) struct Lease {
    hub: Arc<Hub>,
    pub(super) session: SessionId,
    pub(super) ended: oneshot::Receiver<Refusal>,
}

// === impl Hub ===

impl Hub {
    pub(super) fn new(engine: Box<dyn Engine>, options: ServerOptions, clock: Clock, metrics: Metrics) -> Self {
        let down = CancellationToken::new();
        let places = Places::new(options.subscribers);
        Self {
            options,
            metrics,
            clock,
            state: Mutex::new(State {
                streams: down.child_token(),
                is_cut_off: false,
                engine: Some(engine),
                last_ticket: 0,
                waiting: BTreeMap::new(),
                endings: BTreeMap::new(),
                unclaimed: BTreeMap::new(),
                subscribers: BTreeMap::new(),
                last_subscriber: 0,
                places,
                said: Said::default(),
            }),
            down,
        }
    }

    /// Ticks every so often.
    pub(super) fn ticks(&self, every: Duration) -> Ticks {
        Ticks::new(&self.clock, every)
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The present by the engine's time, which records are of.
    pub(super) fn time(&self) -> Result<Now, Status> {
        let now = self.now();
        self.read(|engine| engine.time(now))
    }

    /// Does what came of earlier commands, and of what others did.
    pub(super) fn poll(&self) {
        let now = self.now();
        let mut state = self.lock();
        let effects = state.engine.as_mut().map(|engine| engine.poll(now));
        for effect in effects.unwrap_or_default() {
            state.perform(effect, now);
        }
    }

    /// Ends all streams. What was kept is freed here: a stream that nobody reads does not end, and has the hub for as long as it lasts.
    pub(super) fn shut_down(&self) {
        self.down.cancel();
        let mut state = self.lock();
        let engine = state.engine.take();
        let sets: Vec<_> = state.subscribers.values().filter_map(|one| one.sending.let_go()).collect();
        drop(state);
        // It takes a moment, in which it holds nobody up.
        drop((engine, sets));
    }

    /// Waits until the hub is shut down.
    pub(super) async fn is_down(&self) {
        self.down.cancelled().await;
    }

    /// Ends the streams that are open now. The memory is kept, and new streams are welcome.
    pub(super) fn disconnect(&self) {
        let next = self.down.child_token();
        std::mem::replace(&mut self.lock().streams, next).cancel();
    }

    /// Cancelled when a stream that is opened now has to end.
    pub(super) fn stream_token(&self) -> CancellationToken {
        self.lock().streams.clone()
    }

    /// Reads from the engine. Of a bus that has ended nothing is told: that it is empty would be taken for the truth.
    pub(super) fn read<T>(&self, read: impl FnOnce(&dyn Engine) -> T) -> Result<T, Status> {
        self.lock().engine.as_deref().map(read).ok_or_else(status::down)
    }

    /// Gives the engine a command and waits for the answer, no longer than the streams last that are open now. Where nothing comes from
    /// the store, no answer would, and nobody would end those that are opened from then on.
    pub(super) async fn call(&self, command: Command) -> Result<Answer, Status> {
        let (mut waiting, streams) = self.ask(command)?;
        let result = tokio::select! {
            biased;
            () = streams.cancelled() => return Err(status::down()),
            result = &mut waiting.answer => result.map_err(|_| status::down())?,
        };
        result.map_err(|refusal| self.refuse(&refusal))
    }

    /// Gives the engine a command whose answer is waited for. Whether it is cut off, and what ends when it is, are seen at one moment.
    fn ask(&self, command: Command) -> Result<(Waiting<'_>, CancellationToken), Status> {
        let now = self.now();
        let mut state = self.lock();
        if state.is_cut_off {
            return Err(self.refuse(&Refusal::Store));
        }
        let ticket = state.next_ticket();
        let (tx, answer) = oneshot::channel();
        state.waiting.insert(ticket, tx);
        state.apply(ticket, command, now);
        let hub = self;
        Ok((Waiting { hub, ticket, answer }, state.streams.clone()))
    }

    /// The status of a refusal, counted.
    pub(super) fn refuse(&self, refusal: &Refusal) -> Status {
        self.metrics.refused(refusal.kind());
        status::of_refusal(refusal)
    }

    /// The same of a refusal that is not the engine's.
    pub(super) fn refuse_as(&self, kind: &'static str, refused: Status) -> Status {
        self.metrics.refused(kind);
        status::with_kind(refused, kind)
    }

    /// Says in the log who was refused what, now and then; for want of a place also who holds most. Whom a role kept out was said before.
    pub(super) fn say(&self, caller: &Caller, refused: &Status) {
        let Some(kind) = status::kind(refused).filter(|kind| *kind != DENIED) else {
            return;
        };
        let now = self.now().mono;
        let mut state = self.lock();
        let Some(unsaid) = state.said.due(kind, &caller.party(), now) else {
            return;
        };
        let greatest = state.places.greatest().filter(|_| kind == SUBSCRIBERS);
        let greatest = greatest.map(|(party, held)| format!("{party} holds {held}"));
        drop(state);
        tracing::warn!(
            kind,
            identity = caller.identity(),
            address = caller.address(),
            reason = refused.message(),
            greatest,
            unsaid,
            "Call was refused"
        );
    }

    /// The status of a value that the contract does not allow, counted.
    pub(super) fn refuse_invalid(&self, error: &crate::wire::Error) -> Status {
        self.metrics.refused(INVALID);
        status::of_wire(error)
    }

    /// Tells the engine that time passes. Streams end when nothing comes here any more: elsewhere there may be more, and whoever stayed
    /// would see a bus on which nobody is live, for as long as it lasts.
    pub(super) fn tick(&self) {
        self.tell(Command::Tick);
        let now = self.now();
        self.give_up_unread(now);
        let Ok(is_cut_off) = self.read(|engine| engine.is_cut_off(now)) else {
            return;
        };
        let was_cut_off = std::mem::replace(&mut self.lock().is_cut_off, is_cut_off);
        if is_cut_off && !was_cut_off {
            tracing::warn!("Nothing comes from the store any more: streams end, and their owners look elsewhere");
            self.disconnect();
        }
    }

    /// Lets go of what subscribers do not read.
    fn give_up_unread(&self, now: Now) {
        let mut given_up = Vec::new();
        for subscriber in self.lock().subscribers.values() {
            if let Some(set) = subscriber.sending.give_up(now.mono) {
                self.metrics.refused(UNREAD);
                tracing::warn!(
                    subscriber = subscriber.name,
                    "Nothing is taken of the set that is being sent: it is let go"
                );
                given_up.push(set);
            }
        }
        // Freed here, where it holds nobody up.
        drop(given_up);
    }

    /// Refuses what should be asked for elsewhere; answers what is cancelled when a stream that is admitted has to end. Both are seen at
    /// one moment, as in [`Hub::ask`].
    pub(super) fn admit_reader(&self) -> Result<CancellationToken, Status> {
        let state = self.lock();
        if state.is_cut_off {
            return Err(self.refuse(&Refusal::Store));
        }
        Ok(state.streams.clone())
    }

    /// Opens a session.
    pub(super) async fn open_session(self: &Arc<Self>, open: Open) -> Result<(Lease, u64, bool), Status> {
        match self.call(Command::Open(open)).await? {
            Answer::Opened {
                session,
                epoch,
                complete,
            } => {
                let claimed = self.lock().unclaimed.remove(&session);
                let ended = claimed.ok_or_else(status::down)?;
                let hub = Arc::clone(self);
                Ok((Lease { hub, session, ended }, epoch, complete))
            }
            answer => Err(unexpected(&answer)),
        }
    }

    /// Gives a subscriber a place among those of `party`.
    pub(super) fn seat(self: &Arc<Self>, party: String, name: String, topics: Vec<Topic>) -> Result<Seat, Status> {
        let mut state = self.lock();
        state.places.take(&party).map_err(|full| {
            self.metrics.refused(SUBSCRIBERS);
            status::of_full("subscribers", &full, SUBSCRIBERS)
        })?;
        state.last_subscriber += 1;
        let number = state.last_subscriber;
        let (wake, sending) = (Arc::new(Notify::new()), Arc::new(Sending::default()));
        let subscriber = Subscriber {
            name,
            party,
            topics,
            wake: Arc::clone(&wake),
            sending: Arc::clone(&sending),
        };
        state.subscribers.insert(number, subscriber);
        let hub = Arc::clone(self);
        Ok(Seat {
            hub,
            number,
            wake,
            sending,
        })
    }

    pub(super) fn subscriber_count(&self) -> usize {
        self.lock().subscribers.len()
    }

    pub(super) fn subscribers_of(&self, topic: Topic) -> usize {
        let state = self.lock();
        let subscribers = state.subscribers.values();
        subscribers.filter(|subscriber| subscriber.topics.contains(&topic)).count()
    }

    /// Gives the engine a command whose answer nobody waits for.
    fn tell(&self, command: Command) {
        let now = self.now();
        let mut state = self.lock();
        let ticket = state.next_ticket();
        state.apply(ticket, command, now);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it was a bug; the data is still that of the last finished step of the engine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

pub(super) fn unexpected(answer: &Answer) -> Status {
    tracing::error!(?answer, "Engine gave the answer to another command");
    Status::internal("the engine gave the answer to another command")
}

// === impl State ===

impl State {
    fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }

    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) {
        let closed = match &command {
            Command::Close { session } => Some(*session),
            _ => None,
        };
        let effects = self.engine.as_mut().map(|engine| engine.apply(ticket, command, now));
        for effect in effects.unwrap_or_default() {
            self.perform(effect, now);
        }
        if let Some(session) = closed {
            self.endings.remove(&session);
            self.unclaimed.remove(&session);
        }
    }

    fn perform(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Answer { ticket, result } => {
                let opened = match &result {
                    Ok(Answer::Opened { session, .. }) => Some(*session),
                    _ => None,
                };
                if let Ok(Answer::Opened { session, .. }) = &result {
                    let (tx, rx) = oneshot::channel();
                    self.endings.insert(*session, tx);
                    self.unclaimed.insert(*session, rx);
                }
                // A caller that left does not want the answer; nor the session that was opened for it.
                let is_wanted = self
                    .waiting
                    .remove(&ticket)
                    .is_some_and(|waiting| waiting.send(result).is_ok());
                if let Some(session) = opened.filter(|_| !is_wanted) {
                    let ticket = self.next_ticket();
                    self.apply(ticket, Command::Close { session }, now);
                }
            }
            Effect::Ended { session, refusal } => {
                if let Some(ending) = self.endings.remove(&session) {
                    // A stream that has ended by itself does not want to know.
                    let _ = ending.send(refusal);
                }
            }
            Effect::Advanced { .. } => {
                for subscriber in self.subscribers.values() {
                    subscriber.wake.notify_one();
                }
            }
        }
    }
}

// === impl Seat ===

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        if let Some(subscriber) = state.subscribers.remove(&self.number) {
            state.places.leave(&subscriber.party);
        }
    }
}

// === impl Waiting ===

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A session that is opened for nobody is closed where the answer comes.
        self.hub.lock().waiting.remove(&self.ticket);
        self.answer.close();
        if let Ok(Ok(Answer::Opened { session, .. })) = self.answer.try_recv() {
            self.hub.tell(Command::Close { session });
        }
    }
}

// === impl Lease ===

impl Drop for Lease {
    fn drop(&mut self) {
        self.hub.tell(Command::Close { session: self.session });
    }
}
