//! Whether anything is ready anywhere (NL-090, NL-091, NL-096).
//!
//! A zone is fully disrupted if it has votes and none of them is ready. So *all* voting zones are fully disrupted exactly if there
//! is a vote and no ready one: two counters say it, zones need not be told apart. (The zones' own states are the zone-evictor's.)

use std::collections::BTreeMap;

use bailiff_model::{NodeHealth, NodeName, ReadyStatus};

/// A node's vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vote {
    /// None: excluded (NL-091), or nothing could be said about it (NL-057).
    #[default]
    None,
    /// Ready is True.
    Ready,
    /// Ready is anything else; absent counts as not ready (NL-090).
    NotReady,
}

impl Vote {
    /// The vote of a node with this Ready.
    pub(crate) fn of(ready: ReadyStatus, excluded: bool) -> Self {
        match ready {
            _ if excluded => Self::None,
            ReadyStatus::True => Self::Ready,
            ReadyStatus::False | ReadyStatus::Unknown | ReadyStatus::Absent => Self::NotReady,
        }
    }
}

/// The count of all votes, of this shard's nodes and of the others'.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    cast: usize,
    ready: usize,
    others: BTreeMap<NodeName, Vote>,
}

impl Votes {
    /// Replaces one node's vote by another.
    pub(crate) fn change(&mut self, old: &mut Vote, new: Vote) {
        self.cast = self.cast + usize::from(new != Vote::None) - usize::from(*old != Vote::None);
        self.ready = self.ready + usize::from(new == Vote::Ready) - usize::from(*old == Vote::Ready);
        *old = new;
    }

    /// Takes the vote of another shard's node from its record; `None` if the record is gone.
    pub(crate) fn change_other(&mut self, name: NodeName, health: Option<&NodeHealth>) {
        let new = health.map_or(Vote::None, |health| {
            Vote::of(health.ready.status, health.excluded_from_disruption)
        });
        let mut old = self.others.remove(&name).unwrap_or_default();
        self.change(&mut old, new);
        if health.is_some() {
            self.others.insert(name, new);
        }
    }

    /// Forgets the votes of all other shards' nodes.
    pub(crate) fn clear_others(&mut self) {
        for mut vote in std::mem::take(&mut self.others).into_values() {
            self.change(&mut vote, Vote::None);
        }
    }

    /// True if there are votes and none is ready; `None` if nobody votes, which changes nothing (NL-096).
    pub(crate) fn everything_down(&self) -> Option<bool> {
        (self.cast > 0).then_some(self.ready == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-090, NL-096: votes that are taken back leave nothing behind.
    #[test]
    fn everything_is_down_while_there_are_votes_and_none_is_ready() {
        let mut votes = Votes::default();
        let mut cast = [Vote::None; 2];
        assert_eq!(votes.everything_down(), None);
        for (voter, new, wanted) in [
            (0, Vote::NotReady, Some(true)),
            (1, Vote::Ready, Some(false)),
            (1, Vote::NotReady, Some(true)),
            (0, Vote::None, Some(true)),
            (1, Vote::None, None),
            (1, Vote::Ready, Some(false)),
            (1, Vote::None, None),
        ] {
            votes.change(&mut cast[voter], new);
            assert_eq!(votes.everything_down(), wanted, "{new:?}");
        }
    }
}
