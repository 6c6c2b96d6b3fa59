//! One shard of a topic: who publishes it, whether it is complete, whether it is live.

use std::time::Duration;

use bailiff_model::{Mono, Revision};

use crate::engine::{Limits, Report, SessionId};

/// A shard.
#[derive(Clone, Debug)]
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
    pub(super) opened_at: Mono,
    /// When the last session broke off.
    pub(super) broke_at: Option<Mono>,
    pub(super) reported: Option<Reported>,
}

/// The last report. Ages, not points in time: what is older than the bus's own clock must not look young.
#[derive(Clone, Debug)]
pub(super) struct Reported {
    pub(super) at: Mono,
    pub(super) tick_age: Option<Duration>,
    pub(super) watch_age: Option<Duration>,
    /// Why the producer does not count itself live, or empty.
    pub(super) detail: String,
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

    /// Whatever was reported, and when the last session broke off, means nothing any more.
    pub(super) fn forget_report(&mut self, is_open: bool) {
        self.session = self.session.filter(|_| is_open);
        (self.reported, self.broke_at) = (None, None);
    }

    pub(super) fn reported(&mut self, report: &Report, now: Mono) {
        self.reported = Some(Reported {
            at: now,
            tick_age: report.tick_age,
            watch_age: report.watch_age,
            detail: report.detail.clone(),
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

    /// One sentence why it is not live: the producer's own if it gave one; empty if it is live. Ages are told by the lag.
    pub(super) fn why_not_live(&self, limits: &Limits, now: Mono) -> String {
        if self.is_live(limits, now) {
            return String::new();
        }
        let is_over = |age: Option<Duration>| age.is_some_and(|age| age >= limits.stale_after);
        let reported = self.reported.as_ref();
        let why = match reported {
            Some(reported) if !reported.detail.is_empty() => &reported.detail,
            _ if self.producer.is_empty() => "nobody has published it",
            _ if self.session.is_none() => "its producer left",
            Some(reported) if is_over(reported.aged(reported.watch_age, now)) => "a watch of its producer is overdue",
            Some(reported) if reported.tick_age.is_some() && reported.watch_age.is_none() => {
                "a watch of its producer never gave a sign of life"
            }
            Some(reported) if reported.tick_age.is_some() => "the decision loop of its producer does not turn",
            _ => "its producer has not begun to decide",
        };
        why.to_owned()
    }

    /// Age of the oldest of the producer's watches and decision ticks; of the session while there is none of either.
    pub(super) fn lag(&self, now: Mono) -> Duration {
        let oldest = self.reported.as_ref().and_then(|reported| reported.oldest(now));
        oldest.unwrap_or_else(|| now.saturating_since(self.opened_at))
    }
}

impl Reported {
    /// An age that was reported, by now.
    fn aged(&self, age: Option<Duration>, now: Mono) -> Option<Duration> {
        age.map(|age| age.saturating_add(now.saturating_since(self.at)))
    }

    /// Age of the oldest of tick and watches; `None` if the loop never turned, or a watch never gave a sign of life.
    fn oldest(&self, now: Mono) -> Option<Duration> {
        let age = self.tick_age?.max(self.watch_age?);
        self.aged(Some(age), now)
    }

    fn is_fresh(&self, stale_after: Duration, now: Mono) -> bool {
        self.detail.is_empty() && self.oldest(now).is_some_and(|age| age < stale_after)
    }
}
