//! Reading what etcd holds: the snapshot, and the log after it, as of one revision.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use prost::Message as _;

use super::client::{self, Client, Error};
use super::keys::{Key, Keys};
use super::log::Entry;
use super::machine::Machine;
use super::replica::Logged;
use super::save::Saved;
use super::snapshot::{self, Pieces};
use super::{rpc, store};
use crate::engine::Limits;
use crate::wire;

/// Chunks that are asked for at the same time.
const CHUNKS_AT_ONCE: usize = 8;

/// What etcd holds.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) machine: Machine,
    /// Identity of the data: its value, and the revision at which it stands.
    pub(super) incarnation: String,
    pub(super) meta: i64,
    /// The revision read at.
    pub(super) revision: i64,
    /// Where the newest entry is, if it is not in the snapshot.
    pub(super) newest: Option<Vec<u8>>,
    pub(super) snapshot: Saved,
    pub(super) snapshot_bytes: u64,
    pub(super) since_snapshot: Logged,
}

/// Reads everything. Data that is not there, or not whole, is begun anew, as `incarnation`.
///
/// # Errors
/// etcd does not answer, or does not hold what a replica writes.
pub(super) async fn load(client: &Client, keys: &Keys, limits: &Limits, incarnation: &str) -> Result<Loaded, Error> {
    loop {
        let (found, revision) = client.list(&keys.watched(), 0, false).await?;
        let Some(meta) = found.iter().find(|kv| keys.read(&kv.key) == Key::Meta) else {
            begin(client, keys, incarnation, 0).await?;
            continue;
        };
        let (found_incarnation, meta) = (String::from_utf8_lossy(&meta.value).into_owned(), meta.mod_revision);
        let stored = found.iter().find(|kv| keys.read(&kv.key) == Key::Snapshot);
        let pieces = match stored {
            Some(kv) => read_pieces(client, keys, &kv.value, revision).await?,
            None => Some(Pieces::default()),
        };
        let Some(pieces) = pieces else {
            tracing::warn!("A piece of the snapshot in etcd is not there: the bus begins anew");
            begin(client, keys, incarnation, meta).await?;
            continue;
        };
        let mut machine = snapshot::assemble(found_incarnation.clone(), limits.clone(), &pieces).map_err(Error::Malformed)?;
        let is_log = |kv: &&rpc::KeyValue| matches!(keys.read(&kv.key), Key::Log(_));
        let mut logged: Vec<&rpc::KeyValue> = found.iter().filter(is_log).collect();
        logged.sort_by_key(|kv| kv.mod_revision);
        let newest = logged.last().map(|kv| kv.key.clone());
        let position = snapshot::position(&pieces.manifest);
        let mut since_snapshot = Logged::default();
        for kv in logged {
            if to_revision(kv.mod_revision) > position {
                since_snapshot.count(kv.value.len());
            }
            // What this format does not know changes nothing, here as when it comes by watch.
            if let Ok(entry) = Entry::from_bytes(&kv.value) {
                machine.apply(to_revision(kv.mod_revision), entry);
            }
        }
        return Ok(Loaded {
            machine,
            incarnation: found_incarnation,
            meta,
            revision,
            newest,
            snapshot: Saved {
                revision: stored.map_or(0, |kv| kv.mod_revision),
                position,
            },
            snapshot_bytes: pieces.manifest.bytes,
            since_snapshot,
        });
    }
}

/// Begins anew, unless somebody else did: whatever there was is gone. `meta` is the revision at which the identity of the old data
/// stands; 0: there is none.
///
/// # Errors
/// etcd does not answer.
pub(super) async fn begin(client: &Client, keys: &Keys, incarnation: &str, meta: i64) -> Result<(), Error> {
    // A transaction may not delete and put the same key, so what is deleted ends before it, and begins behind it.
    let behind = [keys.meta(), vec![0]].concat();
    let request = rpc::TxnRequest {
        compare: vec![client::stands_at(keys.meta(), meta)],
        success: vec![
            client::delete(keys.all(), keys.meta()),
            client::delete(behind, super::keys::end_of(&keys.all())),
            client::put(keys.meta(), incarnation.as_bytes().to_vec(), 0),
        ],
        failure: Vec::new(),
    };
    client.txn(request).await.map(drop)
}

/// The pieces of a snapshot; `None` if one is not there.
async fn read_pieces(client: &Client, keys: &Keys, manifest: &[u8], revision: i64) -> Result<Option<Pieces>, Error> {
    let malformed = |error: prost::DecodeError| {
        let error = wire::Error::new("snapshot", error.to_string(), "what a replica of this format writes");
        Error::Malformed(error)
    };
    let manifest = store::Snapshot::decode(manifest).map_err(malformed)?;
    let read = |name: String| async move {
        let found = client.get(keys.chunk(&name), revision).await?;
        Ok::<_, Error>(found.map(|found| (name, found.value)))
    };
    let chunks = futures::stream::iter(manifest.chunks.clone())
        .map(read)
        .buffer_unordered(CHUNKS_AT_ONCE)
        .try_collect::<Vec<_>>();
    let chunks: Option<BTreeMap<_, _>> = chunks.await?.into_iter().collect();
    Ok(chunks.map(|chunks| Pieces { manifest, chunks }))
}

/// etcd's revisions are signed, and never negative.
pub(super) fn to_revision(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
