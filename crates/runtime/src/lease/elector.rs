//! Decides when to take, renew and give up a Lease. Pure: what it answers is done by the driver, and what came of it is told back.
//!
//! ```text
//!             taken or created                 not renewed in time, or somebody else holds it
//!   Standby ─────────────────────▶ Leading ─────────────────────────────────────────────────▶ Ended
//!      │                              │ released: first say so, then write                      ▲
//!      └──────────────────────────────┴─────────────────────────────────────────────────────────┘
//! ```
//! Guarantees, given that local clocks run at nearly the same speed:
//! - (A) No two candidates lead at one time: the leader stops `renew deadline` after it *sent* its last successful renewal; another takes
//!   over no earlier than the lease duration after it *saw* that renewal.
//! - (B) No clock of another machine is believed: what counts is when a change of the record was seen here.
//! - (C) A write carries the resourceVersion it was decided on, so it fails if anybody wrote in between.

mod record;

use std::time::Duration;

use bailiff_model::{Mono, Now};

pub use record::{Observed, Record, Version};

/// How long and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods {
    /// How long a candidate waits for a renewal before it takes over; whole seconds, longer than `renew_deadline`.
    pub lease: Duration,
    /// How long a leader goes on without a renewal; longer than 1.2 × `retry`.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry: Duration,
}

/// Whether a candidate leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its turn; left for `Leading` or `Lost`.
    Standby {
        /// Who leads, as far as is known.
        holder: Option<String>,
    },
    /// It leads; left for `Lost`.
    Leading {
        /// resourceVersion of the Lease write that acquired leadership: it grows with each change of leaders, also if the Lease is
        /// deleted in between.
        epoch: u64,
        /// Leadership ends here unless it is renewed: the moment the last renewal was sent, and the renew deadline.
        until: Mono,
    },
    /// It led and does not any more, or will never lead. Final.
    Lost,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment that was asked for with [`Effect::Wake`] has come, or any other.
    Tick,
    /// Answer to [`Effect::Get`]: the Lease, or that there is none.
    Got(Option<Observed>),
    /// Answer to [`Effect::Create`] or [`Effect::Replace`]: the Lease as written.
    Wrote(Observed),
    /// The request failed.
    Failed(Failure),
    /// The process stops: give the Lease up so that another need not wait.
    Release,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody wrote, created or deleted the Lease in between (409, or 404 for a write).
    Conflict,
    /// Anything else; it is unknown whether a write was done.
    Other,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read the Lease.
    Get,
    /// Create the Lease.
    Create(Record),
    /// Replace the Lease's record if it still has this version.
    Replace(Record, Version),
    /// Tell everybody, before doing what follows.
    Announce(State),
    /// Send a [`Input::Tick`] at this moment, or up to `jitter` later, instead of at any asked for before.
    Wake {
        /// The moment.
        at: Mono,
        /// By how much it may be later.
        jitter: Duration,
    },
    /// Nothing will happen any more.
    End,
}

/// A candidate for one Lease.
#[derive(Debug)]
pub struct Elector {
    identity: String,
    periods: Periods,
    phase: Phase,
    /// The request that was not answered yet. There is never more than one.
    pending: Option<Pending>,
    /// The Lease as last seen, and since when its record is as it is.
    observed: Option<(Observed, Mono)>,
    told: Option<State>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Standby,
    Leading {
        epoch: u64,
        until: Mono,
        record: Record,
    },
    /// It gives up the Lease: waits for a request under way, then writes.
    Releasing {
        record: Option<Record>,
    },
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    sent: Mono,
    /// A write that relied on what was seen earlier: if it fails, look before trying again.
    is_optimistic: bool,
}

// === impl Periods ===

impl Periods {
    /// Another candidate's attempts are spread over 1.2 retry periods, client-go's jitter factor.
    fn jitter(&self) -> Duration {
        self.retry.saturating_mul(6) / 5
    }
}

// === impl Elector ===

impl Elector {
    /// A candidate. `identity` must be unique among candidates and over restarts.
    pub fn new(identity: String, periods: Periods) -> Self {
        Self {
            identity,
            periods,
            phase: Phase::Standby,
            pending: None,
            observed: None,
            told: None,
        }
    }

    /// Takes note of what happened and answers what to do, in this order.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Tick => self.tick(now, &mut effects),
            Input::Got(lease) => self.got(lease, now, &mut effects),
            Input::Wrote(lease) => self.wrote(lease, now, &mut effects),
            Input::Failed(failure) => self.failed(failure, now, &mut effects),
            Input::Release => self.release(now, &mut effects),
        }
        effects
    }

    fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.expire(now, effects) || self.pending.is_some() {
            return;
        }
        match self.phase {
            Phase::Standby => self.send(Effect::Get, false, now, effects),
            // What was seen last is most likely still so: one request instead of two.
            Phase::Leading { .. } => self.renew(true, now, effects),
            Phase::Releasing { .. } | Phase::Ended => {}
        }
    }

    fn got(&mut self, lease: Option<Observed>, now: Now, effects: &mut Vec<Effect>) {
        self.pending = None;
        self.observe(lease, now);
        if self.expire(now, effects) {
            return;
        }
        match &self.phase {
            Phase::Standby => self.try_take(now, effects),
            Phase::Leading { .. } if self.is_held_by_another() => self.lose(effects),
            Phase::Leading { .. } => self.renew(false, now, effects),
            Phase::Releasing { .. } => self.write_release(now, effects),
            Phase::Ended => {}
        }
    }

    fn wrote(&mut self, lease: Observed, now: Now, effects: &mut Vec<Effect>) {
        let sent = self.pending.take().map_or(now.mono, |pending| pending.sent);
        let (number, record) = (lease.version.number(), lease.record.clone());
        self.observe(Some(lease), now);
        let until = sent + self.periods.renew_deadline;
        match &mut self.phase {
            // An answer that took longer than the renewal is worth, or a version that is no number, makes no leader.
            Phase::Standby => match number {
                Some(epoch) if now.mono < until => self.lead(epoch, until, record, now, effects),
                _ => self.wait(now, effects),
            },
            Phase::Leading {
                until: end,
                record: held,
                ..
            } => {
                (*end, *held) = (until, record);
                if !self.expire(now, effects) {
                    self.announce(effects);
                    self.wait(now, effects);
                }
            }
            // A renewal, or the acquisition, was under way when the process was told to stop.
            Phase::Releasing { record: held } if record.holder == self.identity => {
                *held = Some(record);
                self.write_release(now, effects);
            }
            Phase::Releasing { .. } => self.end(effects),
            Phase::Ended => {}
        }
    }

    fn failed(&mut self, failure: Failure, now: Now, effects: &mut Vec<Effect>) {
        let was_optimistic = self.pending.take().is_some_and(|pending| pending.is_optimistic);
        if self.expire(now, effects) {
            return;
        }
        match self.phase {
            Phase::Leading { .. } if was_optimistic && failure == Failure::Conflict => self.send(Effect::Get, false, now, effects),
            Phase::Standby | Phase::Leading { .. } => self.wait(now, effects),
            // Whoever takes over waits for the lease duration: a release that failed costs time, nothing else.
            Phase::Releasing { .. } => self.end(effects),
            Phase::Ended => {}
        }
    }

    fn release(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let record = match &self.phase {
            Phase::Standby => None,
            Phase::Leading { record, .. } => Some(record.clone()),
            Phase::Releasing { .. } | Phase::Ended => return,
        };
        self.phase = Phase::Releasing { record };
        // Whoever acts must stop before another may begin.
        self.announce(effects);
        if self.pending.is_none() {
            self.write_release(now, effects);
        }
    }

    // --- phases ---

    /// Ends leadership that was not renewed in time.
    fn expire(&mut self, now: Now, effects: &mut Vec<Effect>) -> bool {
        let is_over = matches!(self.phase, Phase::Leading { until, .. } if until <= now.mono);
        if is_over {
            self.lose(effects);
        }
        is_over
    }

    fn lose(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        self.announce(effects);
        effects.push(Effect::End);
    }

    fn end(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        effects.push(Effect::End);
    }

    fn lead(&mut self, epoch: u64, until: Mono, record: Record, now: Now, effects: &mut Vec<Effect>) {
        self.phase = Phase::Leading { epoch, until, record };
        self.announce(effects);
        self.wait(now, effects);
    }

    fn try_take(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.announce(effects);
        let Some((observed, since)) = &self.observed else {
            let record = Record::new(&self.identity, self.periods.lease, 0, now.wall);
            return self.send(Effect::Create(record), false, now, effects);
        };
        let held = &observed.record;
        let duration = if held.duration.is_zero() {
            self.periods.lease
        } else {
            held.duration
        };
        let is_free = held.holder.is_empty() || held.holder == self.identity || *since + duration <= now.mono;
        if !is_free {
            return self.wait(now, effects);
        }
        let record = if held.holder == self.identity {
            // Its own earlier attempt was written, although the answer was lost.
            held.renewed(self.periods.lease, now.wall)
        } else {
            Record::new(
                &self.identity,
                self.periods.lease,
                held.transitions.saturating_add(1),
                now.wall,
            )
        };
        let replace = Effect::Replace(record, observed.version.clone());
        self.send(replace, false, now, effects);
    }

    fn renew(&mut self, is_optimistic: bool, now: Now, effects: &mut Vec<Effect>) {
        let Phase::Leading { record, .. } = &self.phase else {
            return;
        };
        let renewed = record.renewed(self.periods.lease, now.wall);
        let write = match &self.observed {
            Some((observed, _)) => Effect::Replace(renewed, observed.version.clone()),
            // Somebody deleted the Lease. Nobody else has it as long as it can be created.
            None => Effect::Create(renewed),
        };
        self.send(write, is_optimistic, now, effects);
    }

    /// Writes that nobody holds the Lease, if this candidate does.
    fn write_release(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Phase::Releasing { record } = &mut self.phase else {
            return;
        };
        match (record.take(), &self.observed) {
            (Some(record), Some((observed, _))) if observed.record.holder == self.identity => {
                let replace = Effect::Replace(record.released(now.wall), observed.version.clone());
                self.send(replace, false, now, effects);
            }
            _ => self.end(effects),
        }
    }

    // --- helpers ---

    fn observe(&mut self, lease: Option<Observed>, now: Now) {
        let unchanged_since = match (&self.observed, &lease) {
            (Some((old, since)), Some(new)) if old.record == new.record => Some(*since),
            _ => None,
        };
        self.observed = lease.map(|lease| (lease, unchanged_since.unwrap_or(now.mono)));
    }

    fn is_held_by_another(&self) -> bool {
        self.observed
            .as_ref()
            .is_some_and(|(observed, _)| observed.record.holder != self.identity)
    }

    fn send(&mut self, request: Effect, is_optimistic: bool, now: Now, effects: &mut Vec<Effect>) {
        self.pending = Some(Pending {
            sent: now.mono,
            is_optimistic,
        });
        effects.push(request);
        // While a request is under way only the end of leadership wakes; requests have a deadline of their own.
        let (at, jitter) = (self.until(), Duration::ZERO);
        effects.push(Effect::Wake { at, jitter });
    }

    fn wait(&self, now: Now, effects: &mut Vec<Effect>) {
        let retry = now.mono + self.periods.retry;
        let wake = match self.phase {
            Phase::Leading { until, .. } => (retry.min(until), Duration::ZERO),
            _ => (retry, self.periods.jitter()),
        };
        effects.push(Effect::Wake {
            at: wake.0,
            jitter: wake.1,
        });
    }

    fn until(&self) -> Mono {
        match self.phase {
            Phase::Leading { until, .. } => until,
            _ => Mono::FAR_FUTURE,
        }
    }

    fn announce(&mut self, effects: &mut Vec<Effect>) {
        let state = match &self.phase {
            Phase::Standby => State::Standby {
                holder: self
                    .observed
                    .as_ref()
                    .map(|(observed, _)| observed.record.holder.clone())
                    .filter(|holder| !holder.is_empty()),
            },
            Phase::Leading { epoch, until, .. } => State::Leading {
                epoch: *epoch,
                until: *until,
            },
            Phase::Releasing { .. } | Phase::Ended => State::Lost,
        };
        if self.told.as_ref() != Some(&state) {
            self.told = Some(state.clone());
            effects.push(Effect::Announce(state));
        }
    }
}

#[cfg(test)]
mod tests;
