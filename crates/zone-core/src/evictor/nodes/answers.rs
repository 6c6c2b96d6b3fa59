//! What became of taint writes.
//!
//! A token is spent per node that is granted. A write that surely was not applied gives it back, and the node waits in its old place
//! with a backoff, so that a node whose taints cannot be written does not stop its zone. A write that may have been applied is looked
//! up first; if that fails too the token stays spent.

use bailiff_model::{Load, NodeName, Now, Zone};

use super::super::zones::GrantEnd;
use super::super::{Asker, Evictor, Timer};
use super::Work;
use crate::backoff;
use crate::effect::{Count, Effect, Purpose, Ticket};
use crate::fact::NodeFacts;
use crate::input::{Failure, FailureKind};

/// Conflicts in a row that are answered with a fresh read and another try at once, as upstream (NL-077); then it is a failure.
const CONFLICTS: u32 = 5;

impl Evictor {
    pub(in crate::evictor) fn node_answered(
        &mut self,
        name: &NodeName,
        ticket: Ticket,
        result: Result<NodeFacts, Failure>,
        now: Now,
    ) {
        let work = self.nodes.get(name).map(|node| node.work());
        self.touched.insert(name.clone());
        match work {
            Some(Work::Writing {
                ticket: of,
                purpose,
                conflicts,
            }) if of == ticket => {
                self.write_answered(name, purpose, conflicts, result, now);
            }
            Some(Work::Reading {
                ticket: of,
                purpose,
                conflicts,
                unknown,
            }) if of == ticket => {
                self.read_answered(name, purpose, conflicts, unknown, result, now);
            }
            // The node was replaced or deleted meanwhile: the answer concerns nobody.
            _ => {}
        }
    }

    fn write_answered(&mut self, name: &NodeName, purpose: Purpose, conflicts: u32, result: Result<NodeFacts, Failure>, now: Now) {
        let failure = match result {
            Ok(facts) => return self.written(name, purpose, facts, now),
            Err(failure) if failure.kind == FailureKind::CalledOff => return self.taints_called_off(name, now),
            Err(failure) => failure,
        };
        self.effects.push(Effect::Count(Count::RequestFailed { what: "taints" }));
        match failure.kind {
            FailureKind::Conflict if conflicts < CONFLICTS => self.find_out(name, purpose, conflicts + 1, false),
            FailureKind::Unknown => self.find_out(name, purpose, conflicts, true),
            _ => self.give_up(name, purpose, &failure, GrantEnd::Void, now),
        }
    }

    fn read_answered(
        &mut self,
        name: &NodeName,
        purpose: Purpose,
        conflicts: u32,
        unknown: bool,
        result: Result<NodeFacts, Failure>,
        now: Now,
    ) {
        let end = if unknown { GrantEnd::Kept } else { GrantEnd::Void };
        let failure = match result {
            Ok(facts) if purpose == Purpose::Isolate => {
                let applied = facts.health_taints().next().is_some();
                return if applied && unknown {
                    self.written(name, purpose, facts, now)
                } else {
                    self.isolate_afresh(name, conflicts, facts, end, now)
                };
            }
            Ok(facts) => {
                self.node_applied(facts, now);
                return self.try_again(name, purpose, conflicts, now);
            }
            Err(failure) => failure,
        };
        self.effects.push(Effect::Count(Count::RequestFailed { what: "node_read" }));
        match failure.kind {
            FailureKind::Gone => self.give_up(name, purpose, &failure, GrantEnd::Void, now),
            _ => self.give_up(name, purpose, &failure, end, now),
        }
    }

    fn written(&mut self, name: &NodeName, purpose: Purpose, facts: NodeFacts, now: Now) {
        let zone = facts.zone.clone();
        self.set_work(name, Work::Idle);
        if let Some(node) = self.nodes.get_mut(name) {
            node.failures = 0;
            if purpose == Purpose::Clear {
                node.cleared();
            }
        }
        self.end_request_well(name, purpose, now);
        self.node_applied(facts, now);
        if purpose == Purpose::Isolate {
            self.effects.push(Effect::Count(Count::NodeEvicted(zone)));
            self.end_node_grant(name, GrantEnd::Spent, now);
        }
    }

    /// The fresh read shows that the taint does not stand: another try under the same grant, if nothing speaks against it now.
    fn isolate_afresh(&mut self, name: &NodeName, conflicts: u32, facts: NodeFacts, end: GrantEnd, now: Now) {
        self.set_work(name, Work::Idle);
        self.node_applied(facts, now);
        let Some(zone) = self.granted_zone(name).filter(|_| end == GrantEnd::Void) else {
            if end == GrantEnd::Void {
                self.end_request_in_vain(name, now);
            } else {
                self.end_request_badly(name, &mk_failure(FailureKind::Unknown, "it was not applied"), None, now);
            }
            return self.end_node_grant(name, end, now);
        };
        let wanted = self.nodes.get(name).and_then(|node| node.taint_wanted());
        let still = wanted.is_some_and(|taint| {
            let unwanted = self
                .nodes
                .get(name)
                .and_then(|node| node.facts.as_ref())
                .is_none_or(|facts| facts.health_taints().next().is_some());
            !unwanted && self.isolation_hold(name, taint, now).is_none()
        });
        let open = self.zones.get(&zone).is_some_and(|entry| entry.held.is_none());
        if still && open && self.may_isolate(&zone, name) {
            self.isolate_again(&zone, name, conflicts, now);
        } else {
            self.end_request_in_vain(name, now);
            self.end_node_grant(name, GrantEnd::Void, now);
        }
    }

    /// The next plan writes again; at once, unless conflicts have become the rule.
    fn try_again(&mut self, name: &NodeName, purpose: Purpose, conflicts: u32, now: Now) {
        let failures = self.nodes.get(name).map_or(0, |node| node.failures);
        let kind = if conflicts == 0 {
            FailureKind::Unknown
        } else {
            FailureKind::Conflict
        };
        let failure = mk_failure(kind, "");
        if conflicts == 0 || failures >= CONFLICTS {
            return self.give_up(name, purpose, &failure, GrantEnd::Void, now);
        }
        self.end_request_badly(name, &failure, None, now);
        self.set_work(name, Work::Idle);
        if let Some(node) = self.nodes.get_mut(name) {
            node.failures = failures + 1;
        }
    }

    fn find_out(&mut self, name: &NodeName, purpose: Purpose, conflicts: u32, unknown: bool) {
        let ticket = self.ticket(Asker::Node(name.clone()));
        self.set_work(
            name,
            Work::Reading {
                ticket,
                purpose,
                conflicts,
                unknown,
            },
        );
        self.effects.push(Effect::ReadNode {
            ticket,
            node: name.clone(),
        });
    }

    fn give_up(&mut self, name: &NodeName, purpose: Purpose, failure: &Failure, end: GrantEnd, now: Now) {
        self.end_node_grant(name, end, now);
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        node.failures = node.failures.saturating_add(1);
        let pause = backoff::pause(node.failures, failure.retry_after);
        let until = now.mono + pause;
        node.set_work(Work::Backoff { until, purpose });
        self.timers.set(Timer::Node(name.clone()), until);
        self.end_request_badly(name, failure, Some(pause), now);
    }

    pub(super) fn set_work(&mut self, name: &NodeName, work: Work) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.set_work(work);
        }
    }

    fn granted_zone(&self, name: &NodeName) -> Option<Zone> {
        let granted = |entry: &super::super::zones::Entry| entry.granted.as_ref().is_some_and(|grant| grant.node == *name);
        // A grant is looked up in the node's zone first. A node that moved since, or has none, costs a walk over the zones.
        let home = self
            .nodes
            .get(name)
            .and_then(|node| node.zone())
            .filter(|zone| self.zones.get(*zone).is_some_and(granted));
        home.cloned().or_else(|| {
            self.zones
                .iter()
                .find(|(_, entry)| granted(entry))
                .map(|(zone, _)| zone.clone())
        })
    }

    pub(super) fn end_node_grant(&mut self, name: &NodeName, end: GrantEnd, now: Now) {
        if let Some(zone) = self.granted_zone(name) {
            self.end_grant(&zone, name, end, now);
        }
    }

    /// The incarnation that was granted is gone. Its write may still be under way, so the token stays spent.
    pub(in crate::evictor) fn void_grant(&mut self, name: &NodeName, now: Now) {
        self.end_node_grant(name, GrantEnd::Kept, now);
    }
}

fn mk_failure(kind: FailureKind, detail: &str) -> Failure {
    Failure {
        kind,
        retry_after: None,
        load: Load::None,
        detail: detail.to_owned(),
    }
}
