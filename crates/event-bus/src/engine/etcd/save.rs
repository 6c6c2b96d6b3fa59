//! Writing snapshots: pieces first, then the manifest that names them, then what nobody needs any more is removed.
//!
//! Two replicas may do so at a time. So a manifest is put in the place of the one that was there when it was begun, and only if no
//! piece was removed since it was looked which of them are there; and pieces are removed only while the manifest stands that does not
//! name them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use tokio::sync::mpsc;

use super::client;
use super::driver::{AGAIN_AFTER, End, Link, Step};
use super::keys::{Key, Keys};
use super::machine::Machine;
use super::snapshot::{self, Pieces};
use super::{Input, rpc};

/// Puts or deletes in one transaction, but one; etcd's default bound is 128.
const OPERATIONS: usize = 64;

/// A snapshot that stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    /// etcd's revision of its manifest; 0: there is none.
    pub(super) revision: i64,
    /// The last entry that is in it.
    pub(super) position: u64,
}

/// What a transaction compares and does.
type Transaction = (Vec<rpc::Compare>, Vec<rpc::RequestOp>);

impl Link {
    pub(super) async fn write_snapshots(&self, mut snapshots: mpsc::Receiver<Box<Machine>>) -> Result<Infallible, End> {
        while let Some(machine) = snapshots.recv().await {
            match self.write_snapshot(machine).await {
                Ok(()) => {}
                Err(Step::Ended(end)) => return Err(end),
                Err(Step::Failed(error)) => {
                    tracing::warn!(%error, "Snapshot was not written");
                    tokio::time::sleep(AGAIN_AFTER * 50).await;
                    self.tell(Input::Snapshot(None)).await?;
                }
            }
        }
        Err(End::Closed)
    }

    async fn write_snapshot(&self, machine: Box<Machine>) -> Result<(), Step> {
        let before = self.saved();
        if machine.position <= before.position {
            // Another replica was first: what is written would say less, and the log is gone that says the rest.
            return self.tell(Input::Snapshot(None)).await.map_err(Step::Ended);
        }
        let position = i64::try_from(machine.position).unwrap_or(i64::MAX);
        let taken = tokio::task::spawn_blocking(move || snapshot::take(&machine)).await;
        let Pieces { manifest, mut chunks } = taken.map_err(|_| Step::Ended(End::Closed))?;
        let (present, listed_at) = self.client.list(&self.keys.chunks(), 0, true).await.map_err(Step::Failed)?;
        let present: Vec<String> = present.iter().filter_map(|kv| self.keys.chunk_name(&kv.key)).collect();
        for name in &present {
            chunks.remove(name);
        }
        for (name, bytes) in chunks {
            let put = client::put(self.keys.chunk(&name), bytes, 0);
            self.guarded(Vec::new(), vec![put], Vec::new()).await?;
        }
        let (compare, put) = swap(&self.keys, before, listed_at, prost::Message::encode_to_vec(&manifest));
        let swapped = self.guarded(compare, put, Vec::new()).await?;
        if !swapped.succeeded {
            // Another replica was first, or is removing pieces, or this is the second attempt of what was done.
            return self.tell(Input::Snapshot(None)).await.map_err(Step::Ended);
        }
        let revision = swapped.header.map_or(0, |header| header.revision);
        let named: BTreeSet<&String> = manifest.chunks.iter().collect();
        let unused: Vec<&String> = present.iter().filter(|name| !named.contains(name)).collect();
        for some in unused.chunks(OPERATIONS) {
            let (compare, operations) = remove(&self.keys, revision, some.iter().copied());
            if !self.guarded(compare, operations, Vec::new()).await?.succeeded {
                // There is a newer one. Whoever wrote it removes what it does not name.
                break;
            }
        }
        self.trim(position).await
    }

    /// Removes what the log said up to `position`: the snapshot says it.
    async fn trim(&self, position: i64) -> Result<(), Step> {
        let (logged, _) = self.client.list(&self.keys.logs(), 0, true).await.map_err(Step::Failed)?;
        let mut last: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for kv in logged.into_iter().filter(|kv| kv.mod_revision <= position) {
            if let Key::Log(replica) = self.keys.read(&kv.key) {
                last.insert(replica, kv.key);
            }
        }
        for (replica, mut key) in last {
            key.push(0);
            let delete = client::delete(self.keys.log_of(&replica), key);
            self.guarded(Vec::new(), vec![delete], Vec::new()).await?;
        }
        Ok(())
    }
}

/// Puts a manifest in the place of the one `before`, unless pieces were removed after `listed_at`.
fn swap(keys: &Keys, before: Saved, listed_at: i64, manifest: Vec<u8>) -> Transaction {
    let compare = vec![
        client::stands_at(keys.snapshot(), before.revision),
        client::not_after(keys.removal(), listed_at),
    ];
    (compare, vec![client::put(keys.snapshot(), manifest, 0)])
}

/// Removes pieces that the manifest at this revision does not name, as long as it stands, and leaves word.
fn remove<'a>(keys: &Keys, manifest: i64, unused: impl Iterator<Item = &'a String>) -> Transaction {
    let compare = vec![client::stands_at(keys.snapshot(), manifest)];
    let mut operations: Vec<_> = unused.map(|name| client::delete(keys.chunk(name), Vec::new())).collect();
    operations.push(client::put(keys.removal(), Vec::new(), 0));
    (compare, operations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Limits;

    /// As much of etcd as these transactions use: at which revision every key stands.
    #[derive(Default)]
    struct Store {
        revision: i64,
        keys: BTreeMap<Vec<u8>, i64>,
    }

    impl Store {
        /// Does a transaction; the revision if it did anything.
        fn run(&mut self, (compare, operations): Transaction) -> Option<i64> {
            let holds = |compare: &rpc::Compare| {
                let at = self.keys.get(&compare.key).copied().unwrap_or(0);
                match (compare.result(), &compare.target_union) {
                    (rpc::compare::CompareResult::Equal, Some(rpc::compare::TargetUnion::ModRevision(wanted))) => at == *wanted,
                    (rpc::compare::CompareResult::Less, Some(rpc::compare::TargetUnion::ModRevision(bound))) => at < *bound,
                    other => unreachable!("{other:?}"),
                }
            };
            if !compare.iter().all(holds) {
                return None;
            }
            self.revision += 1;
            for operation in operations {
                match operation.request.expect("there is one") {
                    rpc::request_op::Request::RequestPut(put) => drop(self.keys.insert(put.key, self.revision)),
                    rpc::request_op::Request::RequestDeleteRange(delete) => drop(self.keys.remove(&delete.key)),
                    other @ rpc::request_op::Request::RequestRange(_) => unreachable!("{other:?}"),
                }
            }
            Some(self.revision)
        }

        fn put_piece(&mut self, keys: &Keys, name: &str) {
            self.run((Vec::new(), vec![client::put(keys.chunk(name), Vec::new(), 0)]));
        }

        fn has(&self, keys: &Keys, name: &str) -> bool {
            self.keys.contains_key(&keys.chunk(name))
        }
    }

    const fn at(revision: i64) -> Saved {
        Saved { revision, position: 0 }
    }

    /// One replica names a piece that is there, while the other, whose manifest does not name it, removes it.
    #[test]
    fn a_manifest_never_names_what_another_replica_removes() {
        let keys = Keys::new("/", &Limits::default());
        let unused = ["old".to_owned()];
        for is_removed_first in [false, true] {
            let mut store = Store::default();
            store.put_piece(&keys, "old");
            let first = store
                .run(swap(&keys, at(0), store.revision, Vec::new()))
                .expect("there was none");
            // The other looks, and finds the old piece.
            let (before, listed_at) = (at(first), store.revision);
            assert!(store.has(&keys, "old"));
            if is_removed_first {
                assert!(store.run(remove(&keys, first, unused.iter())).is_some());
                assert_eq!(store.run(swap(&keys, before, listed_at, Vec::new())), None, "it looks again");
                let listed_at = store.revision;
                assert!(store.run(swap(&keys, before, listed_at, Vec::new())).is_some());
            } else {
                assert!(store.run(swap(&keys, before, listed_at, Vec::new())).is_some());
                assert_eq!(
                    store.run(remove(&keys, first, unused.iter())),
                    None,
                    "its manifest does not stand any more"
                );
                assert!(store.has(&keys, "old"));
            }
        }
    }

    #[test]
    fn one_manifest_takes_the_place_of_another_once() {
        let keys = Keys::new("/", &Limits::default());
        let mut store = Store::default();
        assert!(store.run(swap(&keys, at(0), 0, Vec::new())).is_some());
        assert_eq!(store.run(swap(&keys, at(0), 0, Vec::new())), None);
    }
}
