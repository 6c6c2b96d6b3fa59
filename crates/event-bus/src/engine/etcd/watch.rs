//! Following the log: one watch at a time, on a member that has not fallen behind.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::client::Watching;
use super::driver::{AGAIN_AFTER, End, Link, Step};
use super::keys::Key;
use super::load::{self, Loaded, to_revision};
use super::log::Entry;
use super::replica::Logged;
use super::save::Saved;
use super::{Input, rpc, snapshot, store};

/// How often etcd is asked how far the watch is.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A watch that says nothing while it is asked so often, or does not tell what etcd has committed, is opened anew on another member.
const ASKS: u32 = 3;

/// What a watch came to.
enum Ended {
    /// Open it again, on another member.
    Broken,
    /// What it would have told is not kept any more.
    Compacted,
}

/// How a watch keeps up, counted in how often it was asked.
#[derive(Debug, Default)]
struct Pace {
    /// It has said nothing since.
    quiet: u32,
    /// It has not told this entry since.
    goal: i64,
    waited: u32,
}

// === impl Pace ===

impl Pace {
    fn from(told: i64) -> Self {
        Self {
            goal: told,
            ..Self::default()
        }
    }

    /// It is asked once more, and has told so much of what etcd has. True if it has fallen behind.
    const fn asks(&mut self, told: i64, appended: i64) -> bool {
        let is_behind = self.quiet >= ASKS;
        self.quiet += 1;
        if told >= self.goal {
            (self.goal, self.waited) = (appended, 0);
            return is_behind;
        }
        self.waited += 1;
        is_behind || self.waited >= ASKS
    }
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
            self.ear.tells(None);
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
        let mut pace = Pace::from(*told);
        self.ear.tells(Some(*told));
        loop {
            let response = tokio::select! {
                biased;
                response = watching.responses.message() => match response {
                    Ok(Some(response)) => response,
                    Ok(None) | Err(_) => return Ok(Ended::Broken),
                },
                _ = ask.tick() => {
                    if pace.asks(*told, self.appended.load(Ordering::Relaxed)) {
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
            pace.quiet = 0;
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
        self.ear.tells(Some(*told));
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
                self.tell(Input::Snapshot(Some((manifest.bytes, Logged::default())))).await
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
                    since_snapshot,
                    ..
                }) => {
                    self.set_newest(machine.position, newest);
                    self.set_saved(snapshot);
                    self.tell(Input::Reload(Box::new(machine))).await?;
                    self.tell(Input::Snapshot(Some((snapshot_bytes, since_snapshot)))).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a watch is asked until it has fallen behind; 0: it never does.
    fn asks_until_behind(mut step: impl FnMut(u32, &mut Pace) -> (i64, i64)) -> u32 {
        let mut pace = Pace::from(7);
        let is_behind = |asked: &u32| {
            let (told, appended) = step(*asked, &mut pace);
            pace.asks(told, appended)
        };
        (0..20).find(is_behind).unwrap_or(0)
    }

    #[test]
    fn a_watch_is_behind_if_it_is_silent_or_does_not_tell_what_there_is() {
        assert_eq!(asks_until_behind(|_, _| (7, 7)), 3, "silent for three seconds");
        let speaks = |told: i64, appended: i64| {
            asks_until_behind(move |_, pace| {
                pace.quiet = 0;
                (told, appended)
            })
        };
        assert_eq!(speaks(7, 7), 0, "there is nothing to tell");
        assert_eq!(speaks(7, 8), 3, "it speaks, and does not tell");
        let late = asks_until_behind(|asked, pace| {
            pace.quiet = 0;
            (i64::from(asked) + 5, i64::from(asked) + 7)
        });
        assert_eq!(late, 0, "a little late is not behind");
    }
}
