//! Tables of what is kept, by whom it is of.
//!
//! They keep the order in which keys came, whatever their hashes are. These are made by `foldhash`, which takes a fraction of the time of
//! std's SipHash: what is kept of a pod is looked up dozens of times on its way out. Its seeds differ from process to process, as std's.

pub use foldhash::fast::RandomState as Hashes;

/// What is kept by key.
pub type IndexMap<K, V> = indexmap::IndexMap<K, V, Hashes>;

/// Keys.
pub type IndexSet<K> = indexmap::IndexSet<K, Hashes>;
