//! Reads of nodes made to be sure: one at a time, at most one per second (design §3).
//!
//! What a read shows may be as old as when it was asked for, and what the watch says meanwhile is newer. An incarnation that was seen to
//! go since is not there again because a read still shows it, and a node is not gone because it was not there yet: such an answer makes
//! sure of nothing, and the node is read again, in its turn: the read itself did not fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::{Mono, NodeName, NodeUid, Now};

use super::super::{Asker, Evictor, Timer};
use crate::backoff;
use crate::effect::{Count, Effect};
use crate::fact::NodeFacts;
use crate::input::{Failure, FailureKind};

/// They are this far apart (design §3).
const CONFIRM_EVERY: Duration = Duration::from_secs(1);

/// Who is to be read, and what reads have shown.
#[derive(Clone, Debug, Default)]
pub(in crate::evictor) struct Confirm {
    /// In the order they were asked for.
    wanted: VecDeque<NodeName>,
    /// Failed, and not tried again before that moment.
    later: BTreeSet<(Mono, NodeName)>,
    /// All in `wanted` and `later`.
    asked: BTreeSet<NodeName>,
    /// Failures in a row.
    failures: BTreeMap<NodeName, u32>,
    under_way: Option<UnderWay>,
    not_before: Mono,
}

/// A read that is under way, and what the watch said of the node since.
#[derive(Clone, Debug)]
struct UnderWay {
    node: NodeName,
    since: Mono,
    /// Incarnations that went.
    left: BTreeSet<NodeUid>,
    /// Another one came.
    came: bool,
}

// === impl Confirm ===

impl Confirm {
    /// An incarnation of the node came that was not there.
    pub(super) fn came(&mut self, name: &NodeName) {
        if let Some(read) = self.under_way.as_mut().filter(|read| read.node == *name) {
            read.came = true;
        }
    }

    /// One went that was.
    pub(super) fn left(&mut self, name: &NodeName, uid: &NodeUid) {
        if let Some(read) = self.under_way.as_mut().filter(|read| read.node == *name) {
            read.left.insert(uid.clone());
        }
    }
}

impl UnderWay {
    /// True if the watch says that it is not so any more.
    fn is_overtaken(&self, shown: Option<&NodeFacts>, known: Option<&NodeFacts>) -> bool {
        let Some(shown) = shown else {
            return self.came;
        };
        // An older version of what is known: the watch was faster than this read, or the server went back and the watch will say so with
        // a list.
        let same = known.filter(|known| known.uid == shown.uid);
        self.left.contains(&shown.uid) || same.is_some_and(|known| shown.resource_version.is_older_than(&known.resource_version))
    }
}

// === impl Evictor ===

impl Evictor {
    /// Asks for a read of the node, made not before now.
    pub(in crate::evictor) fn confirm_node(&mut self, name: &NodeName) {
        if self.confirm.asked.insert(name.clone()) {
            self.confirm.wanted.push_back(name.clone());
        }
    }

    /// Who asked first is read first; one that could not be read goes to the end of the line after a pause of its own.
    pub(in crate::evictor) fn read_to_be_sure(&mut self, now: Now) {
        let (pods, confirm) = (&self.pods, &mut self.confirm);
        confirm.failures.retain(|name, _| pods.has_any_of(name));
        while let Some((_, name)) = confirm.later.first().filter(|(at, _)| *at <= now.mono).cloned() {
            confirm.later.pop_first();
            confirm.wanted.push_back(name);
        }
        if confirm.under_way.is_some() {
            return;
        }
        if !confirm.wanted.is_empty() && confirm.not_before > now.mono {
            return self.timers.set(Timer::Confirm, confirm.not_before);
        }
        while let Some(node) = confirm.wanted.pop_front() {
            confirm.asked.remove(&node);
            if !pods.wait_for_a_read_of(&node) {
                // The watch was faster than its turn.
                continue;
            }
            confirm.under_way = Some(UnderWay {
                node: node.clone(),
                since: now.mono,
                left: BTreeSet::new(),
                came: false,
            });
            confirm.not_before = now.mono + CONFIRM_EVERY;
            let ticket = self.ticket(Asker::Confirm(node.clone()));
            return self.effects.push(Effect::ReadNode { ticket, node });
        }
        if let Some((at, _)) = confirm.later.first() {
            self.timers.set(Timer::Confirm, *at);
        }
    }

    fn confirm_later(&mut self, name: &NodeName, retry_after: Option<Duration>, now: Now) {
        let failures = self.confirm.failures.entry(name.clone()).or_default();
        *failures = failures.saturating_add(1);
        let at = now.mono + backoff::pause(*failures, retry_after);
        if self.confirm.asked.insert(name.clone()) {
            self.confirm.later.insert((at, name.clone()));
        }
    }

    pub(in crate::evictor) fn node_confirmed(&mut self, name: &NodeName, result: Result<NodeFacts, Failure>, now: Now) {
        let Some(read) = self.confirm.under_way.take() else {
            return;
        };
        let shown = match result {
            Ok(facts) => Some(facts),
            Err(failure) if failure.kind == FailureKind::Gone => None,
            Err(failure) => {
                self.effects.push(Effect::Count(Count::RequestFailed { what: "node_read" }));
                self.confirm_later(name, failure.retry_after, now);
                return self.pods.look_again_at_node(name);
            }
        };
        self.confirm.failures.remove(name);
        let known = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        if read.is_overtaken(shown.as_ref(), known) {
            self.confirm_node(name);
            return self.pods.look_again_at_node(name);
        }
        match shown {
            Some(facts) => self.node_applied(facts, now),
            None => {
                self.node_deleted(name, None, now);
                self.pods.node_is_gone(name, read.since);
            }
        }
        if let Some(node) = self.nodes.get_mut(name) {
            node.confirmed_at = Some(read.since);
        }
        self.pods.look_again_at_node(name);
    }
}
