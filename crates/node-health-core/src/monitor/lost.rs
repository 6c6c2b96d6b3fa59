//! Who counts as lost, and what follows from a correlated loss.

use bailiff_model::{Mono, NodeName, Now, ReadyStatus, Zone};

use super::Monitor;
use crate::effect::{Effect, Measurement};
use crate::loss::{LossLimit, Sizes, Subject};
use crate::node::Node;

impl Monitor {
    /// Brings up to date whether the node counts as lost: from when it is late, unless it was judged before or never lived, until it
    /// speaks.
    pub(super) fn count_loss(&mut self, name: &NodeName, now: Now) {
        let Some(limit) = self.config.loss else { return };
        let Some(node) = self.nodes.get(name) else { return };
        let since = self.losses.since.get(name).copied();
        match (node.late_since.is_some(), since) {
            (true, None) if node.ready.status != ReadyStatus::Unknown && has_lived(node) => {
                let at = node.count.mono.saturating_sub(node.count.spent);
                let subject = subject(name, node, at, self.sizes(&node.zone));
                self.losses.enter(&limit, subject, now);
            }
            (false, Some(at)) => {
                let subject = subject(name, node, at, self.sizes(&node.zone));
                self.losses.leave(&limit, subject);
            }
            _ => {}
        }
        // After it was counted: there is no moment at which it is in neither number.
        if self.losses.expected_in(name).is_some() && !is_unheard(node) {
            self.end_wait(&limit, name);
        }
    }

    /// At the start: nodes of which nothing was heard yet, and that are not late for that reason alone.
    pub(super) fn wait_for_signs(&mut self, now: Now) {
        let Some(limit) = self.config.loss else { return };
        for (name, node) in &self.nodes {
            if is_unheard(node) && has_lived(node) {
                self.losses.expect(name, &node.zone);
            }
        }
        let (interner, in_cluster) = (&self.interner, self.nodes.len());
        let of = |scope: &Option<Zone>| scope.as_ref().map_or(in_cluster, |zone| interner.nodes_in(zone));
        self.losses.wait(&limit, now.mono + self.config.grace, of, now);
    }

    fn end_wait(&mut self, limit: &LossLimit, name: &NodeName) {
        if let Some(zone) = self.losses.expected_in(name) {
            let sizes = self.sizes(zone);
            self.losses.end_wait(limit, name, sizes);
        }
    }

    fn sizes(&self, zone: &Zone) -> Sizes {
        Sizes {
            in_zone: self.interner.nodes_in(zone),
            in_cluster: self.nodes.len(),
            may_be_less: self.seen.unlisted_nodes.is_under_way(),
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

    /// The node is gone from its zone, and from the cluster.
    pub(super) fn leave_loss(&mut self, name: &NodeName, zone: &Zone) {
        let Some(limit) = self.config.loss else { return };
        if let Some(at) = self.losses.since.get(name).copied() {
            let sizes = self.sizes(zone);
            self.losses.leave(&limit, Subject { name, zone, at, sizes });
        }
        self.end_wait(&limit, name);
    }

    /// The node is in another zone than this by now.
    pub(super) fn change_zone_of_loss(&mut self, name: &NodeName, from: &Zone, now: Now) {
        if let Some(limit) = self.config.loss
            && let Some(at) = self.losses.since.get(name).copied()
            && let Some(node) = self.nodes.get(name)
        {
            let left = (from, self.interner.nodes_in(from));
            let subject = subject(name, node, at, self.sizes(&node.zone));
            self.losses.change_zone(&limit, left, subject, now);
        }
    }

    /// Publishes what is held, or no longer, about every node there that is not healthy, lost or not: timers that run because of it are
    /// held too. And says so. Where both a zone and the cluster changed, that is once.
    pub(super) fn tell_losses(&mut self, now: Now, out: &mut Vec<Effect>) {
        let scopes = std::mem::take(&mut self.losses.changed);
        if !scopes.is_empty() {
            let is_of = |node: &Node, scope: &Option<Zone>| scope.as_ref().is_none_or(|zone| *zone == *node.zone);
            let is_concerned = |node: &Node| scopes.iter().any(|scope| is_of(node, scope));
            for name in self.unhealthy.clone() {
                if let Some(node) = self.nodes.get_mut(&name).filter(|node| is_concerned(node)) {
                    node.changed = true;
                    self.refresh(&name, now, out);
                }
            }
        }
        let news = std::mem::take(&mut self.losses.news);
        out.extend(news.into_iter().map(|news| Effect::Measure(Measurement::Loss(news))));
    }
}

fn subject<'a>(name: &'a NodeName, node: &'a Node, at: Mono, sizes: Sizes) -> Subject<'a> {
    Subject {
        name,
        zone: &node.zone,
        at,
        sizes,
    }
}

/// Nothing was heard of it yet, and nothing was made of that.
fn is_unheard(node: &Node) -> bool {
    !node.heard && node.late_since.is_none() && node.ready.status != ReadyStatus::Unknown
}

/// True if a kubelet ever spoke for the node: it posted a status, or was heard. A machine that never boots is no lease that stopped,
/// and the lease of an earlier node of its name is not its own.
fn has_lived(node: &Node) -> bool {
    node.heard || node.ready.status != ReadyStatus::Absent
}
