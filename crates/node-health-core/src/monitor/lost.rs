//! Who counts as lost, and what follows from a correlated loss.

use bailiff_model::{Mono, NodeName, Now, ReadyStatus, Zone};

use super::Monitor;
use crate::effect::{Effect, Measurement};
use crate::loss::Subject;
use crate::node::Node;
use crate::zones::Interner;

impl Monitor {
    /// Brings up to date whether the node counts as lost: from when it is late, unless it was judged before, until it speaks.
    pub(super) fn count_loss(&mut self, name: &NodeName, now: Now) {
        let Some(limit) = self.config.loss else { return };
        let Some(node) = self.nodes.get(name) else { return };
        let since = self.losses.since.get(name).copied();
        match (node.late_since.is_some(), since) {
            (true, None) if node.ready.status != ReadyStatus::Unknown => {
                let at = node.count.mono.saturating_sub(node.count.spent);
                let subject = subject(name, node, at, &self.interner, self.nodes.len());
                self.losses.enter(&limit, subject, now);
            }
            (false, Some(at)) => {
                let subject = subject(name, node, at, &self.interner, self.nodes.len());
                self.losses.leave(&limit, subject);
            }
            _ => {}
        }
    }

    /// Who is not healthy says in its record whether its zone is held.
    pub(super) fn list_unhealthy(&mut self, name: &NodeName, is_unhealthy: bool) {
        if self.config.loss.is_none() {
            return;
        }
        if is_unhealthy {
            self.unhealthy.insert(name.clone());
        } else {
            self.unhealthy.remove(name);
        }
    }

    /// The node is gone, or leaves its zone, which it still counts for.
    pub(super) fn leave_loss(&mut self, name: &NodeName, node: &Node) {
        if let (Some(limit), Some(at)) = (self.config.loss, self.losses.since.get(name).copied()) {
            let subject = subject(name, node, at, &self.interner, self.nodes.len());
            self.losses.leave(&limit, subject);
        }
    }

    pub(super) fn leave_loss_of_another_zone(&mut self, name: &NodeName, zone: &Zone) {
        if self.losses.since.contains_key(name)
            && let Some(node) = self.nodes.get(name)
            && node.zone != *zone
            && let Some(limit) = self.config.loss
            && let Some(at) = self.losses.since.get(name).copied()
        {
            let subject = subject(name, node, at, &self.interner, self.nodes.len());
            self.losses.leave(&limit, subject);
        }
    }

    /// Publishes what is held, or no longer, about every node there that is not healthy, lost or not: timers that run because of it are
    /// held too. And says so.
    pub(super) fn tell_losses(&mut self, now: Now, out: &mut Vec<Effect>) {
        for scope in std::mem::take(&mut self.losses.changed) {
            for name in self.unhealthy.clone() {
                let node = self.nodes.get_mut(&name);
                let node = node.filter(|node| scope.as_ref().is_none_or(|zone| node.zone == *zone));
                if let Some(node) = node {
                    node.changed = true;
                    self.refresh(&name, now, out);
                }
            }
        }
        let news = std::mem::take(&mut self.losses.news);
        out.extend(news.into_iter().map(|news| Effect::Measure(Measurement::Loss(news))));
    }
}

fn subject<'a>(name: &'a NodeName, node: &'a Node, at: Mono, interner: &Interner, in_cluster: usize) -> Subject<'a> {
    Subject {
        name,
        zone: &node.zone,
        at,
        in_zone: interner.nodes_in(&node.zone),
        in_cluster,
    }
}
