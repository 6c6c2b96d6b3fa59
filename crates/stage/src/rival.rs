//! A rival: a kube-controller-manager that still does one of our duties. When it holds us, and when it lets go. Pure: time is an
//! argument.
//!
//! What counts is a *new* write that is seen to happen ([`traces`]). Its leader Lease is no sign by itself, since it goes on leading for
//! its other controllers; it tells how long a sign counts. What stood there at the start counts if the process that leads by then did it:
//! it was done after that process acquired the Lease, which is seen to be renewed. A process keeps its controllers until it ends. So one
//! that was restarted without our controllers, as it is when we take over, is none: whatever it did is older than its Lease.
//!
//! # Guarantees
//! - A kube-controller-manager without our controllers never holds us, whatever else it writes and however long it leads.
//! - A hold ends by itself: [`QUIET_WHILE_LEADING`] after the last sign while the leader of then goes on, [`QUIET`] if none was known,
//!   [`QUIET_ONCE_GONE`] once the leader of then is gone: replaced, or silent for [`GONE_AFTER`].
//! - No wall clock of ours is asked. Only what changed counts, and when that was seen; for what stood there at the start, times that the
//!   rival wrote are compared with each other.

mod scout;
pub mod traces;

use std::time::Duration;

use bailiff_model::{Hold, HoldReason, Mono, Now, Wall};

pub use scout::{Scout, Spy};
pub use traces::{MANAGER, Past, Traces, What};

/// Controllers are chosen by a flag, so a process that did a duty goes on doing it until it is restarted, which changes the holder of
/// its Lease. An hour bounds what a mistake in this may cost.
pub const QUIET_WHILE_LEADING: Duration = Duration::from_secs(3600);

/// Twice the five minutes that most pods tolerate a bad node: a rival would have acted again.
pub const QUIET: Duration = Duration::from_secs(600);

/// What the one that is gone may still have had under way; and time for its successor to say `RegisteredNode`.
pub const QUIET_ONCE_GONE: Duration = Duration::from_secs(60);

/// Four times the default duration of a leader Lease (15 s), so that a slow API server makes nobody gone.
pub const GONE_AFTER: Duration = Duration::from_secs(60);

/// Who holds the Lease.
#[derive(Clone, Debug)]
struct Leader {
    holder: String,
    acquired: Option<Wall>,
    /// Its renewTime as it is written: only compared with the next.
    renewal: Option<Wall>,
    /// When it was seen to renew; `None` if it was only found there.
    renewed: Option<Mono>,
}

/// A duty that somebody else did.
#[derive(Clone, Debug)]
struct Seen {
    first: Wall,
    last: Mono,
    what: String,
    /// Who led then.
    holder: Option<String>,
}

/// What is known of the rival.
#[derive(Clone, Debug, Default)]
pub struct Rival {
    leader: Option<Leader>,
    seen: Option<Seen>,
    /// The youngest that was found, until it is known who leads.
    past: Option<Past>,
}

impl Rival {
    /// It was seen to do `what`.
    pub fn sign(&mut self, what: &str, now: Now) {
        let holder = self.leader.as_ref().filter(|leader| leader.leads(now.mono));
        let holder = holder.map(|leader| leader.holder.clone());
        match &mut self.seen {
            Some(seen) if seen.holder == holder => seen.last = now.mono,
            seen => {
                let first = seen.as_ref().map_or(now.wall, |seen| seen.first);
                *seen = Some(Seen {
                    first,
                    last: now.mono,
                    what: what.to_owned(),
                    holder,
                });
            }
        }
    }

    /// It did this before we looked. True if that is a sign.
    pub fn found(&mut self, past: Past, now: Now) -> bool {
        if self.past.as_ref().is_none_or(|known| known.at < past.at) {
            self.past = Some(past);
        }
        self.judge_past(now)
    }

    /// What was found is a sign if who leads now did it. If not, nobody who leads later did.
    fn judge_past(&mut self, now: Now) -> bool {
        let leader = self.leader.as_ref().filter(|leader| leader.leads(now.mono));
        let Some(acquired) = leader.and_then(|leader| leader.acquired) else {
            return false;
        };
        let past = self.past.take().filter(|past| past.at > acquired);
        if let Some(Past { what, .. }) = &past {
            self.sign(what, now);
        }
        past.is_some()
    }

    /// The Lease says this; no holder is nobody. True if by that what was found is a sign.
    pub fn lease(&mut self, holder: &str, acquired: Option<Wall>, renewal: Option<Wall>, now: Now) -> bool {
        let before = self.leader.take();
        if holder.is_empty() {
            return false;
        }
        let renewed = match &before {
            Some(before) if before.holder == holder && before.renewal == renewal => before.renewed,
            Some(_) => Some(now.mono),
            None => None,
        };
        self.leader = Some(Leader {
            holder: holder.to_owned(),
            acquired,
            renewal,
            renewed,
        });
        self.judge_past(now)
    }

    /// There is no Lease.
    pub fn no_lease(&mut self) {
        self.leader = None;
    }

    /// Forgets what ended.
    pub fn expire(&mut self, now: Now) {
        if self.ends_at().is_some_and(|end| end <= now.mono) {
            self.seen = None;
        }
    }

    /// When the hold ends if nothing more is seen; `None` if there is none.
    pub fn ends_at(&self) -> Option<Mono> {
        let seen = self.seen.as_ref()?;
        let Some(holder) = &seen.holder else {
            return Some(seen.last + QUIET);
        };
        let same = self.leader.as_ref().filter(|leader| leader.holder == *holder);
        Some(match same.and_then(|leader| leader.renewed) {
            Some(renewed) => (seen.last + QUIET_WHILE_LEADING).min((renewed + GONE_AFTER).max(seen.last + QUIET_ONCE_GONE)),
            None => seen.last + QUIET_ONCE_GONE,
        })
    }

    /// Why nothing disruptive may happen.
    pub fn hold(&self) -> Option<Hold> {
        let seen = self.seen.as_ref()?;
        let who = seen.holder.as_ref().map_or_else(String::new, |holder| format!(" ({holder})"));
        Some(Hold {
            reason: HoldReason::Rival,
            detail: format!("{MANAGER}{who} {}", seen.what),
            since: seen.first,
            until: None,
        })
    }
}

impl Leader {
    fn leads(&self, now: Mono) -> bool {
        self.renewed.is_some_and(|renewed| now.saturating_since(renewed) < GONE_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_secs(second)),
            // The wall clock says nothing.
            wall: Wall::UNIX_EPOCH,
        }
    }

    fn time(second: i64) -> Option<Wall> {
        Wall::from_second(second).ok()
    }

    /// Plays `renew` every two seconds until the hold ends; answers when that is.
    fn ends(rival: &mut Rival, from: u64, mut holder: impl FnMut(u64) -> Option<&'static str>) -> Option<u64> {
        for second in from..from + 4000 {
            if second % 2 == 0
                && let Some(holder) = holder(second)
            {
                rival.lease(holder, None, time(second as i64), at(second));
            }
            rival.expire(at(second));
            if rival.hold().is_none() {
                return Some(second);
            }
        }
        None
    }

    #[test]
    fn leading_alone_holds_nobody() {
        let mut rival = Rival::default();
        for second in 0..100 {
            rival.lease("a", None, time(second as i64), at(second));
            rival.expire(at(second));
            assert_eq!((rival.hold(), rival.ends_at()), (None, None));
        }
    }

    /// Who leads, and when a sign at second 10 stops counting.
    #[test]
    fn a_hold_ends_when_the_rival_is_quiet_or_gone() {
        type Leads = fn(u64) -> Option<&'static str>;
        let cases: [(&str, Leads, u64); 6] = [
            ("nobody is known", |_| None, 10 + 600),
            ("it goes on leading", |_| Some("a"), 10 + 3600),
            ("it stops at once", |second| (second <= 10).then_some("a"), 10 + 60),
            ("it stops later", |second| (second <= 100).then_some("a"), 100 + 60),
            (
                "it is replaced at once",
                |second| Some(if second < 12 { "a" } else { "b" }),
                10 + 60,
            ),
            (
                "it is replaced later",
                |second| Some(if second < 300 { "a" } else { "b" }),
                300,
            ),
        ];
        for (case, leads, end) in cases {
            let mut rival = Rival::default();
            for second in (0..10).step_by(2) {
                if let Some(holder) = leads(second) {
                    rival.lease(holder, None, time(second as i64), at(second));
                }
            }
            rival.sign("did it", at(10));
            assert!(rival.hold().is_some());
            assert_eq!(ends(&mut rival, 10, leads), Some(end), "{case}");
        }
    }

    #[test]
    fn a_lease_that_is_only_found_is_not_held() {
        let mut rival = Rival::default();
        // Left behind by one that is long gone; read again and again.
        for second in 0..5 {
            rival.lease("old", None, time(1), at(second));
        }
        rival.sign("did it", at(10));
        assert_eq!(rival.ends_at(), Some(at(10 + 600).mono));
        let hold = rival.hold().map(|hold| hold.detail);
        assert_eq!(hold.as_deref(), Some("kube-controller-manager did it"));
    }

    #[test]
    fn every_sign_counts_anew_and_the_hold_stays_the_same() {
        let mut rival = Rival::default();
        rival.sign("wrote taints", at(10));
        let hold = rival.hold();
        rival.sign("wrote conditions", at(500));
        assert_eq!(rival.hold(), hold, "no news");
        assert_eq!(rival.ends_at(), Some(at(1100).mono));
        rival.expire(at(1100));
        assert_eq!(rival.hold(), None);
        rival.sign("wrote conditions", at(1200));
        assert_ne!(rival.hold(), hold);
    }

    /// What was done before we looked is a sign if who leads had acquired the Lease by then, and renews it.
    #[test]
    fn what_was_done_before_is_a_sign_of_who_leads_since() {
        let past = |second: i64| Past {
            at: time(second).expect("in range"),
            what: "did it".to_owned(),
        };
        // Acquired, what was done when, is it renewed; is it a sign.
        let cases = [
            ("it did it", time(100), 101, true, true),
            ("restarted since", time(100), 99, true, false),
            ("restarted in the same second", time(100), 100, true, false),
            ("left behind", time(100), 101, false, false),
            ("no telling", None, 101, true, false),
        ];
        for (case, acquired, done, renews, is_sign) in cases {
            for lease_first in [true, false] {
                let mut rival = Rival::default();
                let mut found = false;
                for step in [lease_first, !lease_first] {
                    if step {
                        found |= rival.lease("a", acquired, time(200), at(1));
                        found |= renews && rival.lease("a", acquired, time(202), at(3));
                    } else {
                        found |= rival.found(past(done - 50), at(2));
                        found |= rival.found(past(done), at(2));
                    }
                }
                assert_eq!((found, rival.hold().is_some()), (is_sign, is_sign), "{case}");
            }
        }
        // The next one that leads did not do it.
        let mut rival = Rival::default();
        rival.found(past(101), at(1));
        rival.lease("a", time(150), time(151), at(1));
        rival.lease("a", time(150), time(153), at(3));
        rival.lease("b", time(90), time(200), at(60));
        assert_eq!(rival.hold(), None);
    }

    /// Whoever writes on after the leader of before is gone is somebody else, or leads without a Lease.
    #[test]
    fn a_sign_without_a_leader_counts_as_one() {
        let mut rival = Rival::default();
        rival.lease("a", None, time(1), at(1));
        rival.lease("a", None, time(2), at(2));
        rival.sign("did it", at(10));
        rival.no_lease();
        assert_eq!(rival.ends_at(), Some(at(10 + 60).mono));
        rival.sign("did it", at(20));
        assert_eq!(rival.ends_at(), Some(at(20 + 600).mono));
    }
}
