//! What an elector is told and what it wants.

use std::time::Duration;

use bailiff_model::{Mono, ResourceVersion};

use super::{Draft, Layout, Observed};

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
    /// Answer to [`Effect::Create`], [`Effect::Replace`] or [`Effect::Ask`]: the Lease as written.
    Wrote(Observed),
    /// Answer to [`Effect::GetLayout`]: what the Lease of shard 0 says, if it is there and says it.
    GotLayout(Option<Layout>),
    /// The request failed.
    Failed(Failure),
    /// How many other shards of the stage this process leads: another is preferred that leads none.
    Holds(usize),
    /// Ask the holder to give the Lease up.
    Ask,
    /// Another shall have the Lease, as soon as what acts for it has stopped: the other's wish stands until then.
    HandOver,
    /// The process stops, or another shall have the Lease: give it up so that nobody need wait.
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
    /// Read what the Lease of shard 0 says of the layout.
    GetLayout,
    /// Create the Lease.
    Create(Draft),
    /// Replace what the Lease says if it still has this version.
    Replace(Draft, ResourceVersion),
    /// Note in the Lease, if it still has this version, that this candidate would like to have it.
    Ask(ResourceVersion),
    /// Tell everybody, before doing what follows.
    Announce(State),
    /// Send a [`Input::Tick`] at this moment, or up to `jitter` and `leeway` later, instead of at any asked for before.
    Wake {
        /// The moment.
        at: Mono,
        /// By how much it is to be later at random.
        jitter: Duration,
        /// By how much it may be later than that, if the process is awake for something else then.
        leeway: Duration,
    },
    /// Nothing will happen any more.
    End,
}

// === impl Periods ===

impl Periods {
    /// How often a candidate looks. Twice as often as a holder renews, and without client-go's jitter of 1.2 periods: a renewal counts
    /// from when it was seen, so that what is seen late is taken over late.
    pub(super) fn glance(&self) -> Duration {
        self.retry / 2
    }

    /// How much later than wanted a candidate may look, so that many of them do not look at once.
    pub(super) fn jitter(&self) -> Duration {
        self.retry / 20
    }

    /// How much later than wanted a holder may renew, if its deadline is far: with the default of 2 s it is more than a turn of the process,
    /// so that there is always an end of one to renew at; and a deadline has to be longer than 1.2 times the retry period.
    pub(super) fn leeway(&self) -> Duration {
        self.retry / 5
    }

    /// By how much longer a candidate waits that leads another shard: whoever leads none looks in the meantime.
    pub(super) fn reluctance(&self) -> Duration {
        self.retry * 2 / 5
    }
}
