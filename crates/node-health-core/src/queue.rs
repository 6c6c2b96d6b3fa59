//! How much is asked of the API server at once.
//!
//! Nodes whose grace ended wait here to be read, and nodes confirmed silent wait to be written. What waits is bounded by the number
//! of nodes; what is under way by the configuration. Who came first goes first, so that no name waits longer than others while the server
//! is slower than nodes fall silent. When many wait, one LIST reads them all; one that leaves many unread is not made again before some
//! were read one by one, as it may never get to those.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bailiff_model::{Load, NodeName, NodeRef, Window};

use crate::config::Config;
use crate::effect::ReadBy;

/// From this many on a LIST can be cheaper: it is two waves of as many single reads as there are at first.
const LIST_FROM: usize = 16;
/// A LIST costs every node there is, so it has to serve a good part of them.
const LIST_SHARE: usize = 8;
/// The most that are read one by one between two LISTs, in some 13 s by the client's default rate.
const MOST_BETWEEN: usize = 8 * LIST_FROM;

/// Nodes waiting for a request, and requests under way.
#[derive(Debug)]
pub(crate) struct Queue {
    get_window: Window,
    write_window: Window,
    to_read: Line,
    to_write: Line,
    gets: usize,
    lists: usize,
    /// How many are read one by one before a LIST, after one that left many unread; twice as many after the next.
    between: usize,
    /// As many of these as are still to come.
    before_list: usize,
    /// Writes under way, and whether each was taken back.
    writes: BTreeMap<NodeRef, bool>,
}

/// Nodes in the order in which they came, each once.
#[derive(Debug, Default)]
struct Line {
    came: u64,
    by_turn: BTreeMap<u64, NodeName>,
    turns: BTreeMap<NodeName, u64>,
}

impl Queue {
    /// An empty one, of whose nodes so many are read one by one, and written, at a time.
    pub(crate) fn new(config: &Config) -> Self {
        let fewest = Config::default();
        Self {
            get_window: Window::new(fewest.node_reads, config.node_reads),
            write_window: Window::new(fewest.status_writes, config.status_writes),
            to_read: Line::default(),
            to_write: Line::default(),
            gets: 0,
            lists: 0,
            between: 0,
            before_list: 0,
            writes: BTreeMap::new(),
        }
    }

    /// Waits to be read.
    pub(crate) fn read(&mut self, name: &NodeName) {
        self.to_read.push(name);
    }

    /// Waits to be written.
    pub(crate) fn write(&mut self, name: &NodeName) {
        self.to_write.push(name);
    }

    /// Waits for nothing any more. What is under way stays so.
    pub(crate) fn remove(&mut self, name: &NodeName) {
        self.to_read.remove(name);
        self.to_write.remove(name);
    }

    /// Nothing waits any more.
    pub(crate) fn clear(&mut self) {
        self.to_read = Line::default();
        self.to_write = Line::default();
    }

    /// The next read to be made, if one may be; it counts as under way. `listed` is the number of nodes that a LIST reads.
    pub(crate) fn next_read(&mut self, listed: usize) -> Option<(ReadBy, Vec<NodeName>)> {
        let waiting = self.to_read.len();
        if waiting >= LIST_FROM && waiting * LIST_SHARE >= listed && self.before_list == 0 {
            if self.lists == 0 {
                self.lists += 1;
                return Some((
                    ReadBy::List,
                    std::mem::take(&mut self.to_read).by_turn.into_values().collect(),
                ));
            }
            if self.between == 0 {
                return None;
            }
        }
        if self.gets >= self.get_window.size() {
            return None;
        }
        let name = self.to_read.pop()?;
        self.gets += 1;
        self.before_list = self.before_list.saturating_sub(1);
        Some((ReadBy::Get, vec![name]))
    }

    /// The next node to be written, if one may be. The caller counts it with [`Self::writing`].
    pub(crate) fn next_write(&mut self) -> Option<NodeName> {
        if self.writes.len() >= self.write_window.size() {
            return None;
        }
        self.to_write.pop()
    }

    /// A write is under way.
    pub(crate) fn writing(&mut self, node: NodeRef) {
        self.writes.insert(node, false);
    }

    /// The writes under way that were not taken back.
    pub(crate) fn wanted_writes(&self) -> impl Iterator<Item = &NodeRef> {
        self.writes.iter().filter(|(_, recalled)| !**recalled).map(|(node, _)| node)
    }

    /// A write is taken back, if it was not sent. It is under way until it is answered.
    pub(crate) fn recalled(&mut self, node: &NodeRef) {
        if let Some(recalled) = self.writes.get_mut(node) {
            *recalled = true;
        }
    }

    /// A read was answered, or failed; of so many nodes it says nothing.
    pub(crate) fn was_read(&mut self, by: ReadBy, load: Load, unread: usize) {
        match by {
            ReadBy::Get => {
                self.gets = self.gets.saturating_sub(1);
                self.get_window.ended(load);
            }
            ReadBy::List => {
                self.lists = self.lists.saturating_sub(1);
                self.between = if unread < LIST_FROM {
                    0
                } else {
                    (2 * self.between).clamp(LIST_FROM, MOST_BETWEEN)
                };
                self.before_list = self.between;
            }
        }
    }

    /// A write was answered, or failed.
    pub(crate) fn was_written(&mut self, node: &NodeRef, load: Load) {
        self.writes.remove(node);
        self.write_window.ended(load);
    }

    /// Nodes waiting, and requests under way.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (
            self.to_read.len() + self.to_write.len(),
            self.gets + self.lists + self.writes.len(),
        )
    }
}

impl Line {
    /// Comes last, unless it waits already.
    fn push(&mut self, name: &NodeName) {
        if let Entry::Vacant(place) = self.turns.entry(name.clone()) {
            self.came += 1;
            self.by_turn.insert(self.came, name.clone());
            place.insert(self.came);
        }
    }

    fn remove(&mut self, name: &NodeName) {
        if let Some(turn) = self.turns.remove(name) {
            self.by_turn.remove(&turn);
        }
    }

    /// Who waits longest.
    fn pop(&mut self) -> Option<NodeName> {
        let (_, name) = self.by_turn.pop_first()?;
        self.turns.remove(&name);
        Some(name)
    }

    fn len(&self) -> usize {
        self.turns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<NodeName> {
        (0..count).map(|i| NodeName::from(format!("n{i:03}").as_str())).collect()
    }

    fn waiting(count: usize) -> Queue {
        let mut queue = Queue::new(&Config::default());
        names(count).iter().for_each(|name| queue.read(name));
        queue
    }

    /// NL-005: eight at a time, who came first goes first; each answer makes room for one.
    #[test]
    fn single_reads_are_bounded() {
        let mut queue = waiting(10);
        let asked: Vec<_> = std::iter::from_fn(|| queue.next_read(1_000)).collect();
        let wanted: Vec<_> = names(8).into_iter().map(|name| (ReadBy::Get, vec![name])).collect();
        assert_eq!((asked, queue.sizes()), (wanted, (2, 8)));
        queue.was_read(ReadBy::Get, Load::Answered, 0);
        assert!(queue.next_read(1_000).is_some());
        assert!(queue.next_read(1_000).is_none());
    }

    /// Whoever waits already keeps its place, and who comes again after it was asked comes last.
    #[test]
    fn who_came_first_goes_first_whatever_its_name() {
        let mut queue = waiting(0);
        let [a, b, c] = [0, 1, 2].map(|nth| names(3)[nth].clone());
        for name in [&c, &a, &c, &b] {
            queue.read(name);
            queue.write(name);
        }
        let order = |queue: &mut Queue| [(); 2].map(|()| (queue.next_read(1_000).map(|(_, names)| names), queue.next_write()));
        let both = |name: &NodeName| (Some(vec![name.clone()]), Some(name.clone()));
        assert_eq!(order(&mut queue), [both(&c), both(&a)]);
        queue.read(&a);
        queue.write(&a);
        assert_eq!(order(&mut queue), [both(&b), both(&a)]);
        assert_eq!(queue.sizes(), (0, 4), "reads; whoever writes says so itself");
    }

    /// A list is worth it from sixteen waiting nodes on that are an eighth of all; one at a time.
    #[test]
    fn many_are_read_by_one_list() {
        let by = |waiting_count, known| waiting(waiting_count).next_read(known).map(|(by, nodes)| (by, nodes.len()));
        assert_eq!(by(15, 15), Some((ReadBy::Get, 1)), "too few");
        assert_eq!(by(16, 129), Some((ReadBy::Get, 1)), "too small a share");
        assert_eq!(by(16, 128), Some((ReadBy::List, 16)));
        let mut queue = waiting(16);
        assert!(queue.next_read(16).is_some());
        names(16).iter().for_each(|name| queue.read(name));
        assert_eq!((queue.next_read(16), queue.sizes()), (None, (16, 1)), "a second list");
        queue.was_read(ReadBy::List, Load::Answered, 0);
        assert_eq!(queue.sizes(), (16, 0));
        assert!(queue.next_read(16).is_some());
    }

    /// A list that leaves many unread may do so again: in between ever more are read one by one, and beside it too.
    #[test]
    fn a_list_that_leaves_many_unread_is_not_waited_for() {
        let mut queue = waiting(0);
        let mut singly_until_list = |unread| {
            names(300).iter().for_each(|name| queue.read(name));
            let mut gets = 0;
            while let Some((ReadBy::Get, _)) = queue.next_read(300) {
                queue.was_read(ReadBy::Get, Load::Answered, 0);
                gets += 1;
            }
            names(16).iter().for_each(|name| queue.read(name));
            let beside = queue.next_read(16).map(|(by, _)| by);
            queue.was_read(ReadBy::Get, Load::Answered, 0);
            queue.was_read(ReadBy::List, Load::Overloaded, unread);
            (gets, beside)
        };
        let (alone, get) = (None, Some(ReadBy::Get));
        let asked = [16; 6].map(&mut singly_until_list);
        assert_eq!(asked, [(0, alone), (16, get), (32, get), (64, get), (128, get), (128, get)]);
        assert_eq!([15, 0].map(singly_until_list), [(128, get), (0, alone)], "all but a few");
    }

    #[test]
    fn writes_are_bounded_and_counted_beside_reads() {
        let mut queue = waiting(1);
        names(20).iter().for_each(|name| queue.write(name));
        assert_eq!(queue.sizes(), (21, 0));
        assert!(queue.next_read(1_000).is_some());
        let mut written = Vec::new();
        while let Some(name) = queue.next_write() {
            let node = NodeRef {
                name,
                ..NodeRef::default()
            };
            queue.writing(node.clone());
            written.push(node);
        }
        assert_eq!((written.len(), queue.sizes()), (16, (4, 17)));
        queue.recalled(&written[0]);
        assert_eq!(
            (queue.wanted_writes().count(), queue.sizes()),
            (15, (4, 17)),
            "under way until it is answered"
        );
        queue.was_written(&written[0], Load::Answered);
        assert_eq!(queue.next_write(), names(17).pop());
    }

    #[test]
    fn more_are_under_way_while_they_are_answered() {
        let config = Config {
            node_reads: 9,
            status_writes: 17,
            ..Config::default()
        };
        let mut queue = Queue::new(&config);
        names(60).iter().for_each(|name| queue.read(name));
        names(60).iter().for_each(|name| queue.write(name));
        let mut under_way = |load| {
            while queue.next_read(1_000).is_some() {}
            while let Some(name) = queue.next_write() {
                let node = NodeRef {
                    name,
                    ..NodeRef::default()
                };
                queue.writing(node);
            }
            let counts = (queue.gets, queue.writes.len());
            queue.was_read(ReadBy::Get, load, 0);
            let node = queue.writes.keys().next().cloned().unwrap_or_default();
            queue.was_written(&node, load);
            counts
        };
        assert_eq!(under_way(Load::Answered), (8, 16));
        assert_eq!(under_way(Load::Answered), (9, 17));
        assert_eq!(under_way(Load::Overloaded), (9, 17));
        assert_eq!(under_way(Load::Overloaded), (8, 16));
    }

    #[test]
    fn what_is_removed_waits_for_nothing() {
        let mut queue = waiting(3);
        names(3).iter().for_each(|name| queue.write(name));
        queue.remove(&names(1)[0]);
        assert_eq!(queue.sizes(), (4, 0));
        assert_eq!(queue.next_write(), names(2).pop());
        queue.clear();
        assert_eq!((queue.next_read(3), queue.next_write(), queue.sizes()), (None, None, (0, 0)));
    }
}
