//! How much is asked of the API server at once.
//!
//! Nodes whose grace ended wait here to be read, and nodes confirmed silent wait to be written. What waits is bounded by the number
//! of nodes; what is under way by the constants below. When many wait, one LIST reads them all.

use std::collections::BTreeSet;

use bailiff_model::NodeName;

use crate::effect::ReadBy;

/// Single reads under way at once: upstream works on this many nodes at a time (NL-005).
const MOST_GETS: usize = 8;
/// Writes under way at once: twice as many, because a read is two requests and a write one.
const MOST_WRITES: usize = 16;
/// From this many on a LIST can be cheaper: it is two waves of single reads.
const LIST_FROM: usize = 16;
/// A LIST costs every node there is, so it has to serve a good part of them.
const LIST_SHARE: usize = 8;

/// Nodes waiting for a request, and requests under way.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    to_read: BTreeSet<NodeName>,
    to_write: BTreeSet<NodeName>,
    gets: usize,
    lists: usize,
    writes: usize,
}

impl Queue {
    /// Waits to be read.
    pub(crate) fn read(&mut self, name: &NodeName) {
        self.to_read.insert(name.clone());
    }

    /// Waits to be written.
    pub(crate) fn write(&mut self, name: &NodeName) {
        self.to_write.insert(name.clone());
    }

    /// Waits for nothing any more. What is under way stays so.
    pub(crate) fn remove(&mut self, name: &NodeName) {
        self.to_read.remove(name);
        self.to_write.remove(name);
    }

    /// Nothing waits any more.
    pub(crate) fn clear(&mut self) {
        self.to_read.clear();
        self.to_write.clear();
    }

    /// The next read to be made, if one may be; it counts as under way. `known` is the number of nodes.
    pub(crate) fn next_read(&mut self, known: usize) -> Option<(ReadBy, Vec<NodeName>)> {
        let waiting = self.to_read.len();
        if waiting >= LIST_FROM && waiting * LIST_SHARE >= known {
            if self.lists > 0 {
                return None;
            }
            self.lists += 1;
            return Some((ReadBy::List, std::mem::take(&mut self.to_read).into_iter().collect()));
        }
        if self.gets >= MOST_GETS {
            return None;
        }
        let name = self.to_read.pop_first()?;
        self.gets += 1;
        Some((ReadBy::Get, vec![name]))
    }

    /// The next node to be written, if one may be. The caller counts it with [`Self::writing`].
    pub(crate) fn next_write(&mut self) -> Option<NodeName> {
        if self.writes >= MOST_WRITES {
            return None;
        }
        self.to_write.pop_first()
    }

    /// A write is under way.
    pub(crate) fn writing(&mut self) {
        self.writes += 1;
    }

    /// A read was answered.
    pub(crate) fn was_read(&mut self, by: ReadBy) {
        match by {
            ReadBy::Get => self.gets = self.gets.saturating_sub(1),
            ReadBy::List => self.lists = self.lists.saturating_sub(1),
        }
    }

    /// A write was answered.
    pub(crate) fn was_written(&mut self) {
        self.writes = self.writes.saturating_sub(1);
    }

    /// Nodes waiting, and requests under way.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.to_read.len() + self.to_write.len(), self.gets + self.lists + self.writes)
    }
}
