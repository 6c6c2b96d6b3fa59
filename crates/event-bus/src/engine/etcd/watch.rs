//! Following the log: one watch at a time, on a member that has not fallen behind.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::client::Watching;
use super::driver::{AGAIN_AFTER, End, Link, Step};
use super::keys::Key;
use super::load::{self, Loaded, to_revision};
use super::log::Entry;
use super::save::Saved;
use super::{Input, rpc, snapshot, store};

/// How often etcd is asked how far the watch is.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A watch that says nothing for so long, or does not tell what etcd has committed, is opened anew on another member.
const BEHIND_AFTER: Duration = Duration::from_secs(3);

/// What a watch came to.
enum Ended {
    /// Open it again, on another member.
    Broken,
    /// What it would have told is not kept any more.
    Compacted,
}

impl Link {
    /// Follows the log from behind `revision`.
    pub(super) async fn follow(&self, revision: i64) -> Result<Infallible, End> {
        let mut told = revision;
        loop {
            let ended = match self.open(told + 1).await {
                Ok(watching) => self.tell_all(watching, &mut told).await?,
                Err(Step::Ended(end)) => return Err(end),
                Err(Step::Failed(error)) => {
                    tracing::debug!(%error, "Watch was not opened yet");
                    Ended::Broken
                }
            };
            match ended {
                Ended::Broken => {
                    self.client.move_on();
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Ended::Compacted => told = self.reload().await?,
            }
        }
    }

    /// Opens a watch of data that are what they were: a store that was put back to an older state may count further than before, and
    /// would be believed. Whoever puts it back breaks the watch.
    async fn open(&self, revision: i64) -> Result<Watching, Step> {
        let watching = self
            .client
            .watch(&self.keys.watched(), revision)
            .await
            .map_err(Step::Failed)?;
        if self.is_known().await? {
            return Ok(watching);
        }
        Err(Step::Ended(self.begin_anew().await))
    }

    async fn tell_all(&self, mut watching: Watching, told: &mut i64) -> Result<Ended, End> {
        let mut ask = tokio::time::interval(ASK_EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut heard, mut goal) = (Instant::now(), (*told, Instant::now()));
        loop {
            let response = tokio::select! {
                biased;
                response = watching.responses.message() => match response {
                    Ok(Some(response)) => response,
                    Ok(None) | Err(_) => return Ok(Ended::Broken),
                },
                now = ask.tick() => {
                    if *told >= goal.0 {
                        goal = (self.appended.load(Ordering::Relaxed), now);
                    }
                    if now - heard >= BEHIND_AFTER || now - goal.1 >= BEHIND_AFTER {
                        tracing::warn!(told, "Watch of the log has fallen behind");
                        return Ok(Ended::Broken);
                    }
                    let progress = rpc::watch_request::RequestUnion::ProgressRequest(rpc::WatchProgressRequest {});
                    let request = rpc::WatchRequest { request_union: Some(progress) };
                    // One that waits already will do.
                    let _ = watching.requests.try_send(request);
                    continue;
                }
            };
            heard = Instant::now();
            if response.compact_revision > 0 {
                return Ok(Ended::Compacted);
            }
            if response.canceled {
                tracing::debug!(reason = response.cancel_reason, "Watch was cancelled");
                return Ok(Ended::Broken);
            }
            self.tell_response(response, told).await?;
        }
    }

    async fn tell_response(&self, response: rpc::WatchResponse, told: &mut i64) -> Result<(), End> {
        // A response without events is a sign of life and no more: before 3.4.25 and 3.5.8 the revision in it may be of events that
        // are still to come.
        for event in response.events {
            let is_put = event.r#type() == rpc::event::EventType::Put;
            let Some(kv) = event.kv else { continue };
            let revision = kv.mod_revision;
            self.tell_event(is_put, kv).await?;
            *told = revision.max(*told);
        }
        self.told.send_replace(*told);
        Ok(())
    }

    async fn tell_event(&self, is_put: bool, kv: rpc::KeyValue) -> Result<(), End> {
        match (self.keys.read(&kv.key), is_put) {
            (Key::Log(replica), true) => {
                if replica != self.replica {
                    self.ear.heard(kv.mod_revision);
                }
                let entry = Entry::from_bytes(&kv.value);
                if let Err(error) = &entry {
                    tracing::error!(%error, replica, "Entry of the log is malformed");
                }
                self.set_newest(to_revision(kv.mod_revision), Some(kv.key));
                self.tell(Input::Entry {
                    revision: to_revision(kv.mod_revision),
                    bytes: kv.value.len(),
                    entry: entry.ok(),
                })
                .await
            }
            (Key::Replica(replica), false) => self.tell(Input::Departed(replica)).await,
            (Key::Snapshot, true) => {
                let manifest: store::Snapshot = prost::Message::decode(kv.value.as_slice()).unwrap_or_default();
                self.set_saved(Saved {
                    revision: kv.mod_revision,
                    position: snapshot::position(&manifest),
                });
                self.tell(Input::Snapshot(Some(manifest.bytes))).await
            }
            (Key::Meta, _) => Err(End::Lost),
            _ => Ok(()),
        }
    }

    /// What is not kept any more is in the snapshot.
    async fn reload(&self) -> Result<i64, End> {
        tracing::warn!("Log was compacted before it was read: beginning again from the snapshot");
        loop {
            match load::load(&self.client, &self.keys, &self.config.limits, &self.next_incarnation).await {
                Ok(loaded) if loaded.meta != self.meta => return Err(End::Lost),
                Ok(loaded) if loaded.machine.position < self.newest().revision => return Err(self.begin_anew().await),
                Ok(Loaded {
                    machine,
                    revision,
                    newest,
                    snapshot,
                    snapshot_bytes,
                    ..
                }) => {
                    self.set_newest(machine.position, newest);
                    self.set_saved(snapshot);
                    self.tell(Input::Reload(Box::new(machine))).await?;
                    self.tell(Input::Snapshot(Some(snapshot_bytes))).await?;
                    self.told.send_replace(revision);
                    return Ok(revision);
                }
                Err(error @ super::Error::Malformed(_)) => return Err(End::Unreadable(error)),
                Err(error) => tracing::debug!(%error, "Log was not read yet"),
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}
