//! One shard of a topic: who publishes it, whether it is complete, whether it is live.

use std::time::Duration;

use bailiff_model::{Mono, Revision};

use crate::engine::{Limits, Report, SessionId};

/// A shard.
#[derive(Debug)]
pub(super) struct Shard {
    /// Revision of the last change of what follows, lag excepted.
    pub(super) revision: Revision,
    pub(super) epoch: u64,
    pub(super) complete: bool,
    pub(super) producer: String,
    pub(super) session: Option<SessionId>,
    /// Liveness as last announced.
    pub(super) announced_live: bool,
    /// When the present session was opened, or the shard made.
    opened_at: Mono,
    /// When the last session broke off.
    broke_at: Option<Mono>,
    reported: Option<Reported>,
}

/// The last report. Ages, not points in time: what is older than the bus's own clock must not look young.
#[derive(Clone, Debug)]
struct Reported {
    at: Mono,
    tick_age: Option<Duration>,
    watch_age: Option<Duration>,
    counts_itself_live: bool,
}

impl Shard {
    pub(super) fn new(revision: Revision, epoch: u64, now: Mono) -> Self {
        Self {
            revision,
            epoch,
            complete: false,
            producer: String::new(),
            session: None,
            announced_live: false,
            opened_at: now,
            broke_at: None,
            reported: None,
        }
    }

    /// A session takes the shard. What was reported stays true only of the same producer at the same epoch.
    pub(super) fn taken(&mut self, session: SessionId, epoch: u64, producer: &str, now: Mono) {
        if self.epoch != epoch || self.producer != producer {
            self.reported = None;
        }
        (self.epoch, self.session) = (epoch, Some(session));
        producer.clone_into(&mut self.producer);
        (self.opened_at, self.broke_at) = (now, None);
    }

    /// The session of the shard is gone.
    pub(super) fn broke_off(&mut self, now: Mono) {
        self.session = None;
        self.broke_at = Some(now);
    }

    pub(super) fn reported(&mut self, report: &Report, now: Mono) {
        self.reported = Some(Reported {
            at: now,
            tick_age: report.tick_age,
            watch_age: report.watch_age,
            counts_itself_live: report.detail.is_empty(),
        });
    }

    /// A session is open or broke off within the grace, its producer decides, and its API watches are fresh.
    pub(super) fn is_live(&self, limits: &Limits, now: Mono) -> bool {
        let within_grace = |broke: Mono| now.saturating_since(broke) < limits.reconnect_grace;
        let is_connected = self.session.is_some() || self.broke_at.is_some_and(within_grace);
        is_connected
            && self
                .reported
                .as_ref()
                .is_some_and(|reported| reported.is_fresh(limits.stale_after, now))
    }

    /// Age of the oldest of the producer's watches and decision ticks; of the session while it never ticked.
    pub(super) fn lag(&self, now: Mono) -> Duration {
        let oldest = self.reported.as_ref().and_then(|reported| reported.oldest(now));
        oldest.unwrap_or_else(|| now.saturating_since(self.opened_at))
    }
}

impl Reported {
    /// Age of the oldest of tick and watches; `None` if the loop never turned.
    fn oldest(&self, now: Mono) -> Option<Duration> {
        let age = self.tick_age?.max(self.watch_age.unwrap_or_default());
        Some(age.saturating_add(now.saturating_since(self.at)))
    }

    fn is_fresh(&self, stale_after: Duration, now: Mono) -> bool {
        self.counts_itself_live && self.oldest(now).is_some_and(|age| age < stale_after)
    }
}
