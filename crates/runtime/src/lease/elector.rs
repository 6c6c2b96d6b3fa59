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
//!   A Lease that somebody deleted, or took its holder out of, is free at once, as upstream: its holder notices with its next renewal.
//! - (B) No clock of another machine is believed: what counts is when a change of the record was seen here.
//! - (C) A write carries the resourceVersion it was decided on, so it fails if anybody wrote in between.

mod layout;
mod record;
mod signals;

use std::time::Duration;

use bailiff_model::{Mono, Now, Shard};

pub use layout::Layout;
pub use record::{Draft, Observed, Record};
pub use signals::{Effect, Failure, Input, Periods, State};

/// A candidate for one Lease.
#[derive(Debug)]
pub struct Elector {
    identity: String,
    shard: Shard,
    periods: Periods,
    /// How many other shards this process leads.
    holds: usize,
    /// Another shall have the Lease.
    hands_over: bool,
    phase: Phase,
    /// The request that was not answered yet. There is never more than one.
    pending: Option<Pending>,
    /// The Lease is looked at, and may not be taken: the layout is not settled.
    looks_only: bool,
    /// When the requests under way began with the first of them: what that one saw is true of then.
    round: Mono,
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
        /// It has the Lease, and waits until those of another layout have surely stopped.
        settles: Option<Mono>,
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

// === impl Elector ===

impl Elector {
    /// A candidate for `shard`. `identity` must be unique among candidates and over restarts.
    pub fn new(identity: String, shard: Shard, periods: Periods) -> Self {
        Self {
            identity,
            shard,
            periods,
            holds: 0,
            hands_over: false,
            looks_only: false,
            round: Mono::ORIGIN,
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
            Input::GotLayout(layout) => self.got_layout(layout, now, &mut effects),
            Input::Failed(failure) => self.failed(failure, now, &mut effects),
            Input::Holds(others) => self.holds = others,
            Input::Ask => self.ask(now, &mut effects),
            Input::HandOver => self.hands_over = true,
            Input::Release => self.release(now, &mut effects),
        }
        effects
    }

    fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.expire(now, effects) || self.pending.is_some() {
            return;
        }
        self.round = now.mono;
        match self.phase {
            Phase::Standby | Phase::Leading { .. } if self.shard.index > 0 => self.send(Effect::GetLayout, false, now, effects),
            Phase::Standby => self.send(Effect::Get, false, now, effects),
            // What was seen last is most likely still so: one request instead of two.
            Phase::Leading { .. } => self.renew(true, now, effects),
            Phase::Releasing { .. } | Phase::Ended => {}
        }
    }

    fn got_layout(&mut self, layout: Option<Layout>, now: Now, effects: &mut Vec<Effect>) {
        self.pending = None;
        if self.expire(now, effects) {
            return;
        }
        let is_ours = layout.is_some_and(|layout| layout.shards == self.shard.count);
        match self.phase {
            Phase::Leading { .. } if is_ours => self.renew(true, now, effects),
            // The work is divided otherwise now.
            Phase::Leading { .. } if layout.is_some() => self.lose(effects),
            Phase::Leading { .. } => self.wait(now, effects),
            // While it settles it is looked whether the Lease is renewed: who has seen that it is not need not wait for that, too.
            Phase::Standby if is_ours => {
                self.looks_only = layout.is_some_and(|layout| !layout.is_settled);
                self.send(Effect::Get, false, now, effects);
            }
            Phase::Standby => {
                self.announce(effects);
                self.wait(now, effects);
            }
            Phase::Releasing { .. } => self.write_release(now, effects),
            Phase::Ended => {}
        }
    }

    fn got(&mut self, lease: Option<Observed>, now: Now, effects: &mut Vec<Effect>) {
        self.pending = None;
        self.observe(lease, now);
        if self.expire(now, effects) {
            return;
        }
        match &self.phase {
            Phase::Standby if self.looks_only => {
                self.announce(effects);
                self.wait(now, effects);
            }
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
        let is_settled = lease.layout.is_none_or(|layout| layout.is_settled);
        self.observe(Some(lease), now);
        let until = sent + self.periods.renew_deadline;
        match &mut self.phase {
            // An answer that took longer than the renewal is worth, or a version that is no number, makes no leader.
            Phase::Standby => match number {
                Some(epoch) if now.mono < until && record.holder == self.identity => self.lead(epoch, until, record, now, effects),
                _ => self.wait(now, effects),
            },
            Phase::Leading {
                until: end,
                record: held,
                settles,
                ..
            } => {
                (*end, *held) = (until, record);
                *settles = settles.filter(|_| !is_settled);
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
        let unsettled = self.observed.as_ref().and_then(|(observed, _)| observed.layout);
        // Those who led shards of another layout stop when they see that it changed, and no later than a renew deadline after they
        // last saw that it had not, which may have been just before it was written: at some moment before the answer. What they
        // sent ends within the lease duration.
        let settles = unsettled
            .filter(|layout| !layout.is_settled)
            .map(|_| now.mono + self.periods.lease);
        self.phase = Phase::Leading {
            epoch,
            until,
            record,
            settles,
        };
        self.announce(effects);
        self.wait(now, effects);
    }

    fn try_take(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.announce(effects);
        let Some((observed, _)) = &self.observed else {
            let record = Record::new(&self.identity, self.periods.lease, 0, now.wall);
            let draft = Draft {
                record,
                layout: self.layout_after(None),
                drops_wish: true,
            };
            return self.send(Effect::Create(draft), false, now, effects);
        };
        if self.free_at().is_some_and(|free| now.mono < free) {
            return self.wait(now, effects);
        }
        let held = &observed.record;
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
        let before = observed.layout.unwrap_or(Layout::WHOLE);
        let draft = Draft {
            record,
            layout: self.layout_after(Some(before)),
            drops_wish: true,
        };
        let replace = Effect::Replace(draft, observed.version.clone());
        self.send(replace, false, now, effects);
    }

    /// When the Lease that was seen may be taken; `None` if there is none, or it is ours.
    fn free_at(&self) -> Option<Mono> {
        let (observed, since) = self.observed.as_ref()?;
        let held = &observed.record;
        let reluctance = if self.holds > 0 {
            self.periods.reluctance()
        } else {
            Duration::ZERO
        };
        let term = match held {
            held if held.holder == self.identity => return None,
            held if held.holder.is_empty() => Duration::ZERO,
            held if held.duration.is_zero() => self.periods.lease,
            held => held.duration,
        };
        Some(*since + term + reluctance)
    }

    /// What the Lease of shard 0 says of the layout once it is taken; nothing is said in the others. A layout that was not divided, or
    /// divided the same way, leaves nobody to wait for.
    fn layout_after(&self, before: Option<Layout>) -> Option<Layout> {
        let shards = self.shard.count;
        let is_settled = match before {
            Some(before) => before.is_settled && [1, shards].contains(&before.shards),
            // Whoever deletes a Lease that says how many shards there are, and changes their number, waits for the holders himself.
            None => shards == 1,
        };
        (self.shard.index == 0).then_some(Layout { shards, is_settled })
    }

    /// What a renewal says of the layout: that it is settled, once nobody of another one can act any more.
    fn layout_at(&self, now: Now) -> Option<Layout> {
        let is_over = |settles: Option<Mono>| settles.is_none_or(|at| at <= now.mono);
        let is_settled = matches!(self.phase, Phase::Leading { settles, .. } if is_over(settles));
        let shards = self.shard.count;
        (self.shard.index == 0).then_some(Layout { shards, is_settled })
    }

    fn ask(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some((observed, _)) = &self.observed else { return };
        let is_idle = self.phase == Phase::Standby && self.pending.is_none();
        if is_idle && self.is_held_by_another() && !observed.record.holder.is_empty() {
            let ask = Effect::Ask(observed.version.clone());
            self.send(ask, false, now, effects);
        }
    }

    fn renew(&mut self, is_optimistic: bool, now: Now, effects: &mut Vec<Effect>) {
        let Phase::Leading { record, .. } = &self.phase else {
            return;
        };
        let draft = Draft {
            record: record.renewed(self.periods.lease, now.wall),
            layout: self.layout_at(now),
            // It was seen, and who goes on does not fulfil it: it may be asked for again.
            drops_wish: !self.hands_over,
        };
        let write = match &self.observed {
            Some((observed, _)) => Effect::Replace(draft, observed.version.clone()),
            // Somebody deleted the Lease. Nobody else has it as long as it can be created.
            None => Effect::Create(draft),
        };
        self.send(write, is_optimistic, now, effects);
    }

    fn write_release(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Phase::Releasing { record } = &mut self.phase else {
            return;
        };
        match (record.take(), &self.observed) {
            (Some(record), Some((observed, _))) if observed.record.holder == self.identity => {
                let draft = Draft {
                    record: record.released(now.wall),
                    layout: None,
                    drops_wish: false,
                };
                let replace = Effect::Replace(draft, observed.version.clone());
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
        // Of the other shards the layout was read first, and what is written is as good as that.
        let sent = if self.shard.index > 0 { self.round } else { now.mono };
        self.pending = Some(Pending { sent, is_optimistic });
        effects.push(request);
        // While a request is under way only the end of leadership wakes; requests have a deadline of their own.
        effects.push(Effect::Wake {
            at: self.until(),
            jitter: Duration::ZERO,
            leeway: Duration::ZERO,
        });
    }

    fn wait(&self, now: Now, effects: &mut Vec<Effect>) {
        let glance = now.mono + self.periods.glance();
        let (at, jitter, leeway) = match self.phase {
            Phase::Leading { until, settles, .. } => {
                let retry = now.mono + self.periods.retry;
                let settles = settles.filter(|at| now.mono < *at).unwrap_or(retry);
                let at = retry.min(until).min(settles);
                // Whoever has little time left has most of it for the answer.
                let left = until.saturating_since(at);
                (at, Duration::ZERO, self.periods.leeway().min(left / 4))
            }
            // At the very moment at which it may be taken, if that is sooner.
            _ => {
                let free = self.free_at().filter(|free| now.mono < *free).unwrap_or(glance);
                (glance.min(free), self.periods.jitter(), Duration::ZERO)
            }
        };
        effects.push(Effect::Wake { at, jitter, leeway });
    }

    fn until(&self) -> Mono {
        match self.phase {
            Phase::Leading { until, .. } => until,
            _ => Mono::FAR_FUTURE,
        }
    }

    fn announce(&mut self, effects: &mut Vec<Effect>) {
        let state = match &self.phase {
            Phase::Standby | Phase::Leading { settles: Some(_), .. } => State::Standby {
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
