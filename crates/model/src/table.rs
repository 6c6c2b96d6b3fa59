//! Hash tables of what is known by name or uid.
//!
//! They keep the order in which keys came, whatever their hashes are. These are made by `foldhash`, which takes a fraction of the time of
//! std's SipHash: what is kept of a pod is looked up dozens of times on its way out. It does not claim to withstand somebody who looks
//! for keys that collide, beyond random seeds: uids are the API server's, nodes are named by those who may create them, and
//! DaemonSets, of which there are few, by those who may put a pod on every node.

pub use foldhash::fast::RandomState as Hashes;

/// Values by key.
pub type IndexMap<K, V> = indexmap::IndexMap<K, V, Hashes>;

/// Keys, each once.
pub type IndexSet<K> = indexmap::IndexSet<K, Hashes>;
