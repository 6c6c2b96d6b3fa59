//! A replica's presence: a key that lives as long as its lease, and the moment from which it takes part.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use super::Input;
use super::client;
use super::driver::{AGAIN_AFTER, End, Link, Step};

/// How long one that starts listens for the others, if etcd has their presence. Every replica gives a sign of life every
/// 2 s, or up to a second later.
const LISTEN_FOR: Duration = Duration::from_secs(3);

/// Signs of life of the other replicas, and whether they could be heard.
#[derive(Debug)]
pub(super) struct Ear {
    /// etcd's revision of the last.
    last: watch::Sender<i64>,
    /// How far the watch that is open has told; `None`: none is open.
    told: watch::Sender<Option<i64>>,
}

/// Keeps the presence up, and joins whenever the others do not count this replica.
pub(super) async fn keep(link: &Link) -> Result<Infallible, End> {
    let renew_every = link.config.presence_for / 3;
    loop {
        match announce(link).await {
            Ok(()) => {}
            Err(Step::Ended(end)) => return Err(end),
            Err(Step::Failed(error)) => {
                tracing::debug!(%error, "Presence was not announced yet");
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
        }
        loop {
            tokio::select! {
                biased;
                () = link.left.notified() => break,
                () = tokio::time::sleep(renew_every) => {}
            }
            // A member that does not answer proves nothing about the lease.
            if let Ok(false) = link.client.renew(link.lease.load(Ordering::Relaxed)).await {
                break;
            }
        }
    }
}

/// Puts the key, under a new lease if the one before has ended, and joins.
async fn announce(link: &Link) -> Result<(), Step> {
    let mut lease = link.lease.load(Ordering::Relaxed);
    if !link.client.renew(lease).await.map_err(Step::Failed)? {
        lease = link.client.grant(link.config.presence_for).await.map_err(Step::Failed)?;
        link.lease.store(lease, Ordering::Relaxed);
    }
    let put = client::put(link.keys.replica(&link.replica), Vec::new(), lease);
    let put = link.guarded(Vec::new(), vec![put], Vec::new()).await?;
    let put_at = put.header.map_or(0, |header| header.revision);
    let (present, looked_at) = link.present().await.map_err(Step::Failed)?;
    let are_others = present.iter().any(|replica| *replica != link.replica);
    let alone = !are_others || link.ear.is_alone(put_at, looked_at).await;
    tracing::info!(replica = link.replica, alone, "Replica of the bus joins");
    link.tell(Input::Join { alone, present }).await.map_err(Step::Ended)
}

// === impl Ear ===

impl Ear {
    pub(super) fn new() -> Self {
        Self {
            last: watch::Sender::new(0),
            told: watch::Sender::new(None),
        }
    }

    /// Another replica has written what stands at this revision.
    pub(super) fn heard(&self, revision: i64) {
        self.last.send_if_modified(|last| {
            let is_newer = revision > *last;
            *last = revision.max(*last);
            is_newer
        });
    }

    /// The watch that is open has told so much; `None`: none is open.
    pub(super) fn tells(&self, told: Option<i64>) {
        self.told.send_replace(told);
    }

    /// True if no other replica gives a sign of life after `looked_at` while a watch that has told what was put at `put_at` is open. Where
    /// none is, nothing can be heard, and nothing follows from that: those that are gone are told from the others when their leases end.
    async fn is_alone(&self, put_at: i64, looked_at: i64) -> bool {
        let mut told = self.told.subscribe();
        let is_reading = |told: &Option<i64>| told.is_some_and(|told| told >= put_at);
        let reading = tokio::time::timeout(LISTEN_FOR, told.wait_for(is_reading));
        if !matches!(reading.await, Ok(Ok(_))) {
            return false;
        }
        tokio::select! {
            biased;
            is_heard = self.hears_after(looked_at) => !is_heard,
            _ = told.wait_for(Option::is_none) => false,
        }
    }

    /// True if another replica gives a sign of life after this revision. What it wrote before says nothing: it may be read late, and
    /// its writer be gone. If there is none, nobody knows how long the bus was away.
    async fn hears_after(&self, revision: i64) -> bool {
        let mut last = self.last.subscribe();
        let heard = tokio::time::timeout(LISTEN_FOR, last.wait_for(|last| *last > revision));
        matches!(heard.await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_heard_before_is_no_sign_of_life() {
        let ear = Ear::new();
        ear.heard(7);
        assert!(!ear.hears_after(7).await, "nothing since");
        let late = async {
            tokio::time::sleep(LISTEN_FOR / 2).await;
            ear.heard(6);
            ear.heard(8);
        };
        assert!(tokio::join!(ear.hears_after(7), late).0);
        assert!(!ear.hears_after(8).await, "whoever joins again listens again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_can_hear_nothing_does_not_count_itself_alone() {
        let ear = Ear::new();
        assert!(!ear.is_alone(5, 7).await, "no watch is open");
        ear.tells(Some(4));
        assert!(!ear.is_alone(5, 7).await, "it is behind");
        let opens_late = async {
            tokio::time::sleep(LISTEN_FOR / 2).await;
            ear.tells(Some(5));
            tokio::time::sleep(LISTEN_FOR * 3 / 4).await;
            ear.heard(8);
        };
        assert!(
            !tokio::join!(ear.is_alone(5, 7), opens_late).0,
            "another one is heard in time"
        );
        assert!(ear.is_alone(5, 8).await);
        let breaks = async {
            tokio::time::sleep(LISTEN_FOR / 2).await;
            ear.tells(None);
        };
        assert!(!tokio::join!(ear.is_alone(5, 8), breaks).0);
    }
}
