//! A replica's presence: a key that lives as long as its lease, and the moment from which it takes part.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Input;
use super::client;
use super::driver::{AGAIN_AFTER, End, Link, Step};

/// How long one that starts listens for the others, if etcd has their presence. Every replica gives a sign of life every 2 s.
const LISTEN_FOR: Duration = Duration::from_secs(3);

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
    link.guarded(Vec::new(), vec![put], Vec::new()).await?;
    let present = link.present().await.map_err(Step::Failed)?;
    let alone = !hears(link, &present).await;
    tracing::info!(replica = link.replica, alone, "Replica of the bus joins");
    link.tell(Input::Join { alone, present }).await.map_err(Step::Ended)
}

/// True if another replica gives a sign of life. If none does, nobody knows how long the bus was away.
async fn hears(link: &Link, present: &[String]) -> bool {
    if present.iter().all(|replica| *replica == link.replica) {
        return false;
    }
    let heard = async {
        while !link.has_heard.load(Ordering::Relaxed) {
            link.heard.notified().await;
        }
    };
    tokio::time::timeout(LISTEN_FOR, heard).await.is_ok()
}
