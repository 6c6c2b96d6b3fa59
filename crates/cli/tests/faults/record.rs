//! What was done to the processes, for the judge.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// The holder of a Lease was killed, stopped or cut off from the API.
#[derive(Clone, Debug)]
pub struct Stop {
    pub lease: String,
    pub at: Timestamp,
    /// Starts of those who stood by for it.
    pub standbys: BTreeSet<u64>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub stops: Vec<Stop>,
    /// When a start ended, was stopped or cut off, for the first time.
    pub ends: BTreeMap<u64, Timestamp>,
    /// How often somebody was stopped who evicted, or might have had a write under way.
    pub evictors_stopped: usize,
}
