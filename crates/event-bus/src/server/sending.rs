//! The set that a subscriber is in the middle of.
//!
//! It keeps the versions of its records alive that were the latest when it was read, whatever became of their keys since. A subscriber that
//! takes nothing of it for [`TAKE_WITHIN`] does not read: it loses its set, and its stream ends when it asks for more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_model::{Mono, Revision};
use bailiff_proto::v1 as pb;
use tonic::Status;

use super::metrics::UNREAD;
use super::status;
use crate::engine::Kept;
use crate::record::ShardStatus;
use crate::wire::envelope;

/// Most records in one message; the bytes are the other bound.
const CHUNK_RECORDS: usize = 1_000;
/// How long a subscriber may take for one message of a set: far more than a stage needs that starts on a machine with much to do.
const TAKE_WITHIN: Duration = Duration::from_secs(60);

/// What is left of a set.
pub(super) struct Pending {
    pub(super) records: std::vec::IntoIter<Arc<Kept>>,
    pub(super) shards: Vec<ShardStatus>,
    pub(super) upto: Revision,
}

/// Shared by the stream, which takes, and the hub, which gives up.
#[derive(Default)]
pub(super) struct Sending(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Set {
        pending: Pending,
        taken_at: Mono,
    },
    GivenUp,
}

/// A part of a set, and where the reader is after it if it is the last.
pub(super) struct Chunk {
    pub(super) changes: pb::Changes,
    pub(super) upto: Option<Revision>,
}

// === impl Sending ===

impl Sending {
    /// From now on this is to be taken. Nothing is any more once all was [let go](Sending::let_go).
    pub(super) fn begin(&self, pending: Pending, now: Mono) {
        let mut state = self.lock();
        if !matches!(*state, State::GivenUp) {
            *state = State::Set { pending, taken_at: now };
        }
    }

    /// The next part, of about `bytes`; `None` if there is no set. Ages are told by `time`, which is the engine's.
    pub(super) fn take(&self, bytes: usize, time: Mono, now: Mono) -> Result<Option<Chunk>, Status> {
        let mut state = self.lock();
        let (pending, taken_at) = match &mut *state {
            State::Nothing => return Ok(None),
            State::GivenUp => {
                let message = format!("nothing of a set was taken for {TAKE_WITHIN:?}; go on from the last cursor");
                return Err(status::with_kind(Status::unavailable(message), UNREAD));
            }
            State::Set { pending, taken_at } => (pending, taken_at),
        };
        *taken_at = now;
        let (mut changes, mut size) = (pb::Changes::default(), 0);
        while changes.records.len() < CHUNK_RECORDS && size < bytes {
            let Some(record) = pending.records.next() else { break };
            let record = record.encoded(time);
            size += record.len();
            changes.records.push(record);
        }
        changes.more = pending.records.len() > 0;
        let mut upto = None;
        if !changes.more {
            changes.shards = pending.shards.iter().map(envelope::to_shard_status).collect();
            upto = Some(pending.upto);
            *state = State::Nothing;
        }
        Ok(Some(Chunk { changes, upto }))
    }

    /// Lets go of a set of which nothing was taken for too long, and gives what is left of it.
    pub(super) fn give_up(&self, now: Mono) -> Option<Pending> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::GivenUp) {
            State::Set { pending, taken_at } if now.saturating_since(taken_at) >= TAKE_WITHIN => Some(pending),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Lets go of whatever there is, for good, and gives what is left of it.
    pub(super) fn let_go(&self) -> Option<Pending> {
        match std::mem::replace(&mut *self.lock(), State::GivenUp) {
            State::Set { pending, .. } => Some(pending),
            State::Nothing | State::GivenUp => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
