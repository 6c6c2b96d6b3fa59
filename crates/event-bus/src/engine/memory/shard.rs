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

/// The last report, as points in time.
#[derive(Clone, Debug)]
struct Reported {
    tick: Option<Mono>,
    watch: Option<Mono>,
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
            tick: report.tick_age.map(|age| now.saturating_sub(age)),
            watch: report.watch_age.map(|age| now.saturating_sub(age)),
            counts_itself_live: report.detail.is_empty(),
        });
    }

    /// A session is open or broke off within the grace, its producer decides, and its API watches are fresh.
    pub(super) fn is_live(&self, limits: &Limits, now: Mono) -> bool {
        let within_grace = |broke: Mono| now.saturating_since(broke) < limits.reconnect_grace;
        let is_connected = self.session.is_some() || self.broke_at.is_some_and(within_grace);
        let is_fresh = |at: Mono| now.saturating_since(at) < limits.stale_after;
        is_connected
            && self.reported.as_ref().is_some_and(|reported| {
                reported.counts_itself_live && reported.tick.is_some_and(is_fresh) && reported.watch.is_none_or(is_fresh)
            })
    }

    /// Age of the oldest of the producer's watches and decision ticks; of the session while it never ticked.
    pub(super) fn lag(&self, now: Mono) -> Duration {
        let reported = self.reported.as_ref();
        let tick = reported.and_then(|reported| reported.tick).unwrap_or(self.opened_at);
        let watch = reported.and_then(|reported| reported.watch).unwrap_or(tick);
        now.saturating_since(tick.min(watch))
    }
}
