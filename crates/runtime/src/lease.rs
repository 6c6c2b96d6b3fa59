//! Leadership: who may work on a shard, decided by a `coordination.k8s.io/v1` Lease, as kube-controller-manager's leader election does.
//!
//! When to take, renew and give up the Lease is decided by [`elector::Elector`], which is pure; [`Candidates::elect`] sends what it wants and
//! keeps [`Leadership`] current. A leader that loses its Lease ends, and its process with it: a clean start is the only way back.

mod board;
mod driver;
pub mod elector;

use std::time::Duration;

use bailiff_model::{Mono, Now};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use driver::{Candidates, Error, Metrics, Options};
pub use elector::State;

/// Whether this process leads, to be read on every turn; cloning it gives the same leadership.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<State>,
    /// Between the end of an unrenewed leadership and the moment another may lead.
    slack: Duration,
    asked: CancellationToken,
    /// Keeps the channel open where no task does.
    _always: Option<std::sync::Arc<watch::Sender<State>>>,
}

/// The election is over without, or no longer with, this process as leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leadership is lost")]
pub struct Lost;

/// Name of the Lease of one shard.
pub fn lease_name(base: &str, shard: u32) -> String {
    format!("{base}-{shard}")
}

// === impl Leadership ===

impl Leadership {
    /// Leadership without an election (`--leader-elect=false`), in this epoch, for ever.
    pub fn always(epoch: u64) -> Self {
        let until = Mono::FAR_FUTURE;
        let (sender, state) = watch::channel(State::Leading { epoch, until });
        Self {
            state,
            slack: Duration::ZERO,
            asked: CancellationToken::new(),
            _always: Some(std::sync::Arc::new(sender)),
        }
    }

    fn of(state: watch::Receiver<State>, slack: Duration, asked: CancellationToken) -> Self {
        Self {
            state,
            slack,
            asked,
            _always: None,
        }
    }

    /// What is known about leadership. [`State::Leading`] may have ended since: ask [`Leadership::epoch_at`] before acting.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// May this process act at this moment? Also right if it was stopped (SIGSTOP) past the end of its Lease and has not noticed.
    pub fn is_leading_now(&self, now: Now) -> bool {
        self.epoch_at(now).is_some()
    }

    /// The epoch in which this process may act at this moment.
    pub fn epoch_at(&self, now: Now) -> Option<u64> {
        match self.state() {
            State::Leading { epoch, until } if now.mono < until => Some(epoch),
            _ => None,
        }
    }

    /// When a write that is sent at this moment must have ended; `None` if none may be sent. Half of the slack is left to the clocks
    /// and to what a server does after nobody waits for it any more.
    pub fn write_until(&self, now: Now) -> Option<Mono> {
        match self.state() {
            State::Leading { until, .. } if now.mono < until => Some(until + self.slack / 2),
            _ => None,
        }
    }

    /// Waits for news since the last call: leadership won or lost, another holder. Renewals are no news. Cancel-safe; after
    /// [`State::Lost`] it never resolves.
    pub async fn changed(&mut self) -> State {
        match self.state.changed().await {
            Ok(()) => self.state.borrow_and_update().clone(),
            // The election has ended and said so before.
            Err(_closed) => std::future::pending().await,
        }
    }

    /// Waits until this process leads, and answers the epoch. Cancel-safe.
    ///
    /// # Errors
    /// The election ended before.
    pub async fn acquired(&mut self) -> Result<u64, Lost> {
        let is_decided = |state: &State| !matches!(state, State::Standby { .. });
        match self.state.wait_for(is_decided).await.as_deref() {
            Ok(State::Leading { epoch, .. }) => Ok(*epoch),
            _ => Err(Lost),
        }
    }

    /// Waits until another replica shall have this shard: stop what acts on it, then release. Cancel-safe.
    pub async fn asked_away(&self) {
        self.asked.cancelled().await;
    }

    /// Waits until leadership is lost, or cannot be won any more. Cancel-safe.
    pub async fn lost(&mut self) {
        // An error means that the election's task is gone, and with it the hope to lead.
        let _ = self.state.wait_for(|state| matches!(state, State::Lost)).await;
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;

    use super::*;

    fn at(seconds: u64) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_secs(seconds)),
            wall: Wall::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_process_that_was_stopped_past_its_lease_does_not_act() {
        let until = at(10).mono;
        let (sender, state) = watch::channel(State::Leading { epoch: 7, until });
        let leadership = Leadership::of(state, Duration::from_secs(4), CancellationToken::new());
        assert_eq!(leadership.epoch_at(at(9)), Some(7));
        assert_eq!(leadership.write_until(at(9)), Some(at(12).mono));
        assert_eq!(leadership.write_until(at(10)), None);
        assert_eq!(
            (leadership.epoch_at(at(10)), leadership.is_leading_now(at(10))),
            (None, false)
        );
        sender.send_replace(State::Lost);
        assert_eq!(leadership.epoch_at(at(9)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_leadership_never_ends() {
        let mut leadership = Leadership::always(3);
        assert_eq!(leadership.acquired().await, Ok(3));
        let year = Duration::from_secs(365 * 24 * 3600);
        assert!(leadership.is_leading_now(at(500 * year.as_secs())));
        assert!(tokio::time::timeout(year, leadership.lost()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn news_that_came_while_nobody_waited_is_not_missed() {
        let (sender, state) = watch::channel(State::Standby { holder: None });
        let mut leadership = Leadership::of(state, Duration::ZERO, CancellationToken::new());
        sender.send_replace(State::Lost);
        drop(sender);
        assert_eq!(leadership.changed().await, State::Lost);
        assert_eq!(leadership.acquired().await, Err(Lost));
        let silence = tokio::time::timeout(Duration::from_secs(3600), leadership.changed());
        assert!(silence.await.is_err());
    }

    #[test]
    fn each_shard_has_a_lease_of_its_own() {
        assert_eq!(lease_name("taint-manager", 2), "taint-manager-2");
    }
}
