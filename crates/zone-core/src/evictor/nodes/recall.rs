//! Taking back taints that are about to be added, as long as they are not sent.

use bailiff_model::{NodeName, Now};

use super::super::holds::Reason;
use super::super::zones::GrantEnd;
use super::super::{Asker, Evictor};
use super::{Node, Work};
use crate::effect::{Effect, Purpose, Ticket};
use crate::span::{SpanEnd, Why};

impl Node {
    /// True if this request adds a NoExecute taint to it, and is not answered.
    fn is_tainted_by(&self, ticket: Ticket) -> bool {
        matches!(self.work(), Work::Writing { ticket: of, purpose: Purpose::Isolate | Purpose::Swap, .. } if of == ticket)
    }
}

impl Evictor {
    /// A gate changed: what waits for its turn under the client's rate limit is not sent if it would not be begun now. Withdrawing
    /// taints is never held.
    pub(in crate::evictor) fn call_off_taints(&mut self) {
        let is_held = |ticket: Ticket, name: &NodeName| {
            let node = self.nodes.get(name).filter(|node| node.is_tainted_by(ticket));
            node.is_some() && self.hold_of_taints(name).is_some()
        };
        let held = self.askers.iter().filter_map(|(ticket, asker)| match asker {
            Asker::Node(name) if is_held(*ticket, name) => Some(Effect::CallOff { ticket: *ticket }),
            _ => None,
        });
        let held: Vec<Effect> = held.collect();
        self.effects.extend(held);
    }

    /// Why no taint may be added to the node, rates apart.
    pub(super) fn hold_of_taints(&self, name: &NodeName) -> Option<Reason> {
        let zone = self.nodes.get(name).and_then(|node| node.zone())?;
        let hold = self.external_for_node(name).or_else(|| self.health_hold(zone));
        hold.or_else(|| self.all_down_hold())
    }

    /// The taints were not written: no failure. The token is given back, except in upstream's profile, and the node is planned anew.
    pub(super) fn taints_called_off(&mut self, name: &NodeName, now: Now) {
        self.set_work(name, Work::Idle);
        let hold = self.hold_of_taints(name).map(Why::from);
        self.end_request(name, SpanEnd::CalledOff, hold.unwrap_or_default(), now);
        self.end_node_grant(name, GrantEnd::Void, now);
    }
}
