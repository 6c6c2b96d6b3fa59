//! What happens in a history.

use std::sync::Arc;

use bailiff_model::{Hold, HoldReason, HoldScope, NodeRef, ReadyStatus, Zone};
use bailiff_node_health_core::{Inherited, Input, NodeFacts, Profile, TopicNews};

use super::{History, NAMES};
use crate::support::{Pending, name};

// === impl History ===

impl History {
    fn any_node(&mut self) -> Option<String> {
        let nth = self.dice.below(self.world.nodes.len());
        self.world.nodes.keys().nth(nth).map(|name| name.as_str().to_owned())
    }

    pub(super) fn speak(&mut self, node: &str) {
        self.spoke.insert(name(node), self.time);
    }

    /// What it said is gone from the API: who did not see it yet never will.
    fn forget(&mut self, node: &str) {
        self.spoke.insert(name(node), f64::MIN);
    }

    pub(super) fn renew(&mut self, node: &str) {
        self.speak(node);
        self.world.renew(node);
    }

    pub(super) fn post(&mut self, node: &str, ready: ReadyStatus) {
        self.speak(node);
        self.world.post(node, ready);
    }

    pub(super) fn act(&mut self) {
        match self.dice.roll(60) {
            0..=11 => self.act_of_time(),
            12..=29 => self.act_of_nodes(),
            30..=35 => self.act_of_process(),
            _ => self.deliver_one(),
        }
        self.check();
    }

    fn act_of_time(&mut self) {
        let most = [20, 100, 400, 600][self.dice.below(4)];
        let seconds = (1 + self.dice.roll(most)) as f64 / 10.0;
        if seconds > 10.0 {
            // No request takes longer than its deadline.
            self.end_requests();
        }
        if self.dice.one_in(12) {
            self.world.stand_still(seconds);
            self.time += seconds;
        } else if self.dice.one_in(20) && self.config.profile == Profile::Bailiff {
            self.clocks_disagree = true;
            let by = jiff::SignedDuration::from_secs(self.dice.roll(20_000) as i64 - 10_000);
            self.world.now.wall += by;
        } else {
            self.pass(seconds);
        }
    }

    fn act_of_nodes(&mut self) {
        let new = NAMES[self.dice.below(NAMES.len())];
        let Some(node) = self.any_node() else {
            return self.create(new);
        };
        let node = node.as_str();
        match self.dice.roll(30) {
            0..=8 => self.renew(node),
            9..=10 => {
                for node in self.world.nodes.keys().cloned().collect::<Vec<_>>() {
                    self.renew(node.as_str());
                }
            }
            // Upstream takes a lease that goes backwards for silence (NL-048).
            11 if self.config.profile == Profile::Bailiff => {
                self.speak(node);
                self.clocks_disagree = true;
                let by = jiff::SignedDuration::from_secs(self.dice.roll(20_000) as i64 - 10_000);
                self.world.renew_at(node, Some(self.world.now.wall + by));
            }
            12..=15 => self.post(node, ReadyStatus::True),
            16 | 17 => self.post(node, ReadyStatus::False),
            18 => self.world.change(node, |facts| facts.excluded = !facts.excluded),
            19 => self.world.change(node, |facts| {
                facts.zone = Zone::new("r", if *facts.zone.zone == *"z" { "y" } else { "z" });
            }),
            20 => self.world.change(node, |facts| facts.ready.reason = Arc::from("edited")),
            // By another hand.
            21 => {
                let wall = self.world.now.wall;
                self.world.change(node, |facts| {
                    facts.ready.status = ReadyStatus::Unknown;
                    facts.ready.since = Some(wall);
                });
            }
            22 => {
                self.forget(node);
                self.world.change(node, |facts| {
                    facts.ready.status = ReadyStatus::Absent;
                    facts.ready.heartbeat = None;
                    facts.ready.since = None;
                });
            }
            23 | 24 => self.create(new),
            25 | 26 => self.delete(node),
            27 => self.delete_lease(new),
            // One that is being read.
            28 => {
                let read = self.answers.iter().rev().find_map(|(answer, _)| match answer {
                    Input::Confirmed { answers, .. } => answers.first(),
                    _ => None,
                });
                let read = read.map_or(new, |(read, _)| {
                    NAMES.into_iter().find(|name| *name == read.as_str()).unwrap_or(new)
                });
                self.delete_lease(read);
            }
            _ => self.tell_other(new),
        }
    }

    fn create(&mut self, node: &str) {
        self.delete(node);
        self.uids += 1;
        let uid = format!("u{}", self.uids);
        let ready = [ReadyStatus::True, ReadyStatus::False, ReadyStatus::Absent][self.dice.below(3)];
        self.world.create(node, &uid, ready);
        self.speak(node);
    }

    fn delete(&mut self, node: &str) {
        self.note();
        self.world.delete(node);
        if self.others.remove(&name(node)).is_some() {
            let records = vec![(name(node), None)];
            self.world.give(Input::Topic(TopicNews::Changes { records, complete: true }));
        }
        if self.dice.one_in(2) {
            self.delete_lease(node);
        }
    }

    pub(super) fn delete_lease(&mut self, node: &str) {
        if self.world.leases.remove(&name(node)).is_some() {
            self.world.give_watched(Input::LeaseDeleted(name(node)));
            self.forget(node);
        }
    }

    /// Another shard's monitor publishes, if the node is one of its nodes.
    fn tell_other(&mut self, node: &str) {
        let Some(facts) = self
            .world
            .nodes
            .get(&name(node))
            .filter(|facts| !self.config.shard.owns(&facts.name))
        else {
            return;
        };
        let Some(known) = self.world.topic.values().next() else {
            return;
        };
        let mut health = known.health.clone();
        health.node = NodeRef {
            name: facts.name.clone(),
            uid: facts.uid.clone(),
            resource_version: facts.resource_version.clone(),
        };
        health.ready.status = if self.dice.one_in(2) {
            ReadyStatus::True
        } else {
            ReadyStatus::Unknown
        };
        let record = Inherited { health, trace: None };
        self.others.insert(name(node), record.clone());
        if !self.topic_due {
            let records = vec![(name(node), Some(record))];
            let complete = !self.dice.one_in(4);
            self.world.give(Input::Topic(TopicNews::Changes { records, complete }));
        }
    }

    fn act_of_process(&mut self) {
        match self.dice.roll(8) {
            0 => self.list_nodes(),
            1 => self.list_leases(),
            2 | 3 => self.failing = !self.failing,
            4 => self.restart(),
            5 if self.leading => {
                self.world.give(Input::Leading(false));
                self.leading = false;
            }
            5 => self.lead(),
            6 => self.hold(),
            _ => {
                if !self.leading {
                    self.lead();
                }
            }
        }
    }

    pub(super) fn lead(&mut self) {
        self.leads_since = self.world.now.mono;
        self.world.lead();
        self.leading = true;
        self.topic_due = true;
    }

    fn restart(&mut self) {
        for request in std::mem::take(&mut self.world.pending) {
            if let Pending::Write(write) = request {
                self.strays.push(write);
            }
        }
        self.answers.clear();
        if self.dice.one_in(4) {
            self.world.topic.clear();
        }
        self.base = self.time - 1.0;
        self.world.replace(self.config);
        self.world.give(Input::Braked(self.world.holds.clone()));
        self.lead();
        self.list_nodes();
        self.list_leases();
    }

    fn hold(&mut self) {
        let hold = Hold {
            reason: HoldReason::Paused,
            detail: "as the test wanted".to_owned(),
            since: self.world.now.wall,
            until: None,
        };
        let scope = match self.dice.roll(6) {
            0 | 1 => Some(HoldScope::All),
            2 => Some(HoldScope::Zone(Zone::new("r", "z"))),
            3 => self.any_node().map(|node| HoldScope::Node(name(&node))),
            _ => None,
        };
        self.world.hold(scope.map(|scope| (scope, hold)).into_iter().collect());
    }

    /// A list of nodes begins: what the watch had yet to deliver, and the rest of the list before, do not come any more.
    pub(super) fn list_nodes(&mut self) {
        let mut rest: Vec<NodeFacts> = self.world.nodes.values().cloned().collect();
        let mut parts = Vec::new();
        while parts.is_empty() || self.dice.one_in(2) {
            let nodes: Vec<_> = rest.drain(..self.dice.below(rest.len() + 1)).collect();
            let first = parts.is_empty();
            parts.push(Input::SomeNodes { first, nodes });
        }
        parts.push(Input::Nodes(rest.into()));
        self.watches()[0] = parts.into();
    }

    pub(super) fn list_leases(&mut self) {
        let mut rest: Vec<_> = self.world.leases.values().cloned().collect();
        let mut parts = Vec::new();
        while parts.is_empty() || self.dice.one_in(2) {
            let leases: Vec<_> = rest.drain(..self.dice.below(rest.len() + 1)).collect();
            let first = parts.is_empty();
            parts.push(Input::SomeLeases { first, leases });
        }
        parts.push(Input::Leases(rest.into()));
        self.watches()[1] = parts.into();
    }
}
