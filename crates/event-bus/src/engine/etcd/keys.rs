//! Where things are in etcd.
//!
//! ```text
//! <prefix><format>/a/meta                      identity of the data
//! <prefix><format>/a/log/<replica>/<number>    entries, in the order of their revisions
//! <prefix><format>/a/replica/<replica>         presence: ends with the replica's lease
//! <prefix><format>/a/snapshot                  the state after an entry
//! <prefix><format>/c/<digest>                  its pieces
//! <prefix><format>/removal                     stands at the last removal of pieces
//! ```
//! Everything below `a/` is watched. The format is `v<rules>-<schema>-<limits>`: what entries do, and digests of what is stored and of
//! the bounds.

use std::time::Duration;

use super::snapshot;
use crate::engine::Limits;

/// Keys below one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// A watched key, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Meta,
    /// An entry of this replica.
    Log(String),
    Replica(String),
    Snapshot,
    Other,
}

/// What entries do. To be raised with every change of what the machine or the memory engine decides; `tests/rules.txt` shows one.
pub(super) const RULES: u32 = 5;
/// What entries and snapshots look like: follows from `store.proto` and the contract.
const SCHEMA: &str = env!("BAILIFF_STORED_SCHEMA");

impl Keys {
    /// Keys of the bus under `prefix` whose replicas have these limits. Replicas that differ in rules, schema or limits are different
    /// buses: what an entry does must be the same to all of one bus.
    pub(super) fn new(prefix: &str, limits: &Limits) -> Self {
        Self {
            prefix: format!("{prefix}v{RULES}-{SCHEMA}-{:016x}/", digest(limits)),
        }
    }

    pub(super) fn all(&self) -> Vec<u8> {
        self.prefix.clone().into_bytes()
    }

    pub(super) fn watched(&self) -> Vec<u8> {
        self.at("a/")
    }

    pub(super) fn meta(&self) -> Vec<u8> {
        self.at("a/meta")
    }

    pub(super) fn snapshot(&self) -> Vec<u8> {
        self.at("a/snapshot")
    }

    pub(super) fn logs(&self) -> Vec<u8> {
        self.at("a/log/")
    }

    pub(super) fn log_of(&self, replica: &str) -> Vec<u8> {
        self.at(&format!("a/log/{replica}/"))
    }

    pub(super) fn log(&self, replica: &str, seq: u64) -> Vec<u8> {
        self.at(&format!("a/log/{replica}/{seq:020}"))
    }

    pub(super) fn replicas(&self) -> Vec<u8> {
        self.at("a/replica/")
    }

    pub(super) fn replica(&self, replica: &str) -> Vec<u8> {
        self.at(&format!("a/replica/{replica}"))
    }

    pub(super) fn chunks(&self) -> Vec<u8> {
        self.at("c/")
    }

    /// Put whenever pieces are removed.
    pub(super) fn removal(&self) -> Vec<u8> {
        self.at("removal")
    }

    pub(super) fn chunk(&self, name: &str) -> Vec<u8> {
        self.at(&format!("c/{name}"))
    }

    pub(super) fn read(&self, key: &[u8]) -> Key {
        let text = std::str::from_utf8(key).ok().and_then(|text| text.strip_prefix(&self.prefix));
        let Some(text) = text.and_then(|text| text.strip_prefix("a/")) else {
            return Key::Other;
        };
        match text.split('/').collect::<Vec<_>>()[..] {
            ["meta"] => Key::Meta,
            ["snapshot"] => Key::Snapshot,
            ["log", replica, _] => Key::Log(replica.to_owned()),
            ["replica", replica] => Key::Replica(replica.to_owned()),
            _ => Key::Other,
        }
    }

    /// The name of a chunk.
    pub(super) fn chunk_name(&self, key: &[u8]) -> Option<String> {
        let name = key.strip_prefix(self.chunks().as_slice())?;
        String::from_utf8(name.to_vec()).ok()
    }

    fn at(&self, rest: &str) -> Vec<u8> {
        format!("{}{rest}", self.prefix).into_bytes()
    }
}

fn digest(limits: &Limits) -> u64 {
    let Limits {
        keys,
        tombstones,
        sessions,
        shards,
        batch,
        history,
        history_bytes,
        stale_after,
        reconnect_grace,
        silent_after,
        tombstones_for,
        terminal_for,
        terminal,
    } = limits;
    let shards = usize::try_from(*shards).unwrap_or(usize::MAX);
    let counts = [
        *keys,
        *tombstones,
        *sessions,
        shards,
        *batch,
        *history,
        *history_bytes,
        *terminal,
    ];
    let counts = counts.map(|count| count as u64);
    let times = [stale_after, reconnect_grace, silent_after, tombstones_for, terminal_for].map(Duration::as_nanos);
    let counts = counts.into_iter().flat_map(u64::to_le_bytes);
    let bytes: Vec<u8> = counts.chain(times.into_iter().flat_map(u128::to_le_bytes)).collect();
    snapshot::fnv(snapshot::SLOT_BASIS, &bytes)
}

/// The first key after all that begin with `prefix`, as etcd wants a range's end.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let keys = Keys::new("/bailiff/", &Limits::default());
        assert_eq!(keys.read(&keys.meta()), Key::Meta);
        assert_eq!(keys.read(&keys.snapshot()), Key::Snapshot);
        assert_eq!(keys.read(&keys.log("7f", 3)), Key::Log("7f".to_owned()));
        assert_eq!(keys.read(&keys.replica("7f")), Key::Replica("7f".to_owned()));
        let other = Keys::new("/other/", &Limits::default());
        for stranger in [keys.chunk("ab"), keys.all(), other.meta(), vec![0xff]] {
            assert_eq!(keys.read(&stranger), Key::Other);
        }
        assert_eq!(keys.chunk_name(&keys.chunk("ab")), Some("ab".to_owned()));
        assert!(keys.log("7f", 9) < keys.log("7f", 10), "in order");
    }

    #[test]
    fn replicas_of_other_schemas_and_limits_are_other_buses() {
        let keys = |limits| String::from_utf8(Keys::new("/bailiff/", &limits).meta()).expect("it is text");
        let usual = keys(Limits::default());
        assert!(usual.starts_with(&format!("/bailiff/v{RULES}-{SCHEMA}-")), "{usual}");
        let longer = Limits {
            stale_after: Duration::from_secs(11),
            ..Limits::default()
        };
        let fewer = Limits {
            shards: 1,
            ..Limits::default()
        };
        assert_ne!(usual, keys(longer));
        assert_ne!(usual, keys(fewer));
    }

    #[test]
    fn a_range_ends_behind_its_prefix() {
        assert_eq!(end_of(b"a/"), b"a0");
        assert_eq!(end_of(&[b'a', 0xff]), b"b");
        assert_eq!(end_of(&[0xff]), [0]);
    }
}
