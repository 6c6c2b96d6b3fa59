//! What disturbs the evictor: news and answers that are late, a bus that breaks, processes that end. And how all of it comes to rest.

use bailiff_model::Topic;
use bailiff_zone_core::{Body, EvictionMode, FailureKind, Input, NodeFacts};

use super::{NAMES, story::Story};
use crate::world::secs;

impl Story {
    pub(super) fn be_late(&mut self) {
        match self.random.below(6) {
            0 => self.world.late.is_watch_late = true,
            1 => self.world.late.is_bus_late = true,
            2 | 3 => {
                self.world.late.is_watch_late = self.listing.is_some();
                self.world.catch_up();
            }
            _ => {
                self.world.late.is_bus_late = false;
                self.world.catch_up();
            }
        }
    }

    pub(super) fn be_slow(&mut self) {
        match self.random.below(7) {
            0 => self.world.is_slow = true,
            1 => self.world.is_unsent = !self.world.unanswered.is_empty(),
            2 => self.world.answer_all(),
            3 => {
                let last = self.world.unanswered.len();
                if last > 0 {
                    self.world.unanswered.rotate_left(self.random.below(last));
                    self.world.answer_first();
                }
            }
            4 => self.world.late.are_answers_late = true,
            5 => {
                self.world.late.are_answers_late = false;
                while !self.world.late.answers.is_empty() {
                    let which = self.random.below(self.world.late.answers.len());
                    let answer = self.world.late.answers.swap_remove(which);
                    self.world.tell(answer);
                }
            }
            _ => self.world.late.answers_lost = 1 + self.random.below(2) as u32,
        }
    }

    pub(super) fn fail(&mut self) {
        use FailureKind::{Conflict, Denied, Invalid, NotSent, Throttled, Unknown};
        let kinds = [Conflict, Denied, Unknown, Throttled, NotSent, Invalid];
        let kind = kinds[self.random.below(kinds.len())];
        self.world.retry_after = self.one_in(2).then(|| secs(3));
        for _ in 0..=self.random.below(6) {
            self.world.failures.push_back(kind);
        }
    }

    fn snapshot(&mut self) {
        self.world.late.bus.clear();
        let records = self.world.bus.values().map(|record| self.world.aged(record)).collect();
        let shards = self.world.shards();
        self.world.tell(Input::Snapshot { records, shards });
    }

    pub(super) fn disturb_the_bus(&mut self, name: &'static str) {
        let topic = [Topic::NodeHealth, Topic::EvictionIntents][self.random.below(2)];
        match self.random.below(8) {
            0 => self.world.set_shard(topic, true, false),
            1 => self.world.set_shard(topic, false, true),
            2 | 3 => self.world.set_shard(topic, true, true),
            4 => self.world.tell(Input::BusLost {
                since: self.world.now.mono,
            }),
            5 => self.world.tell(Input::ApiFresh(self.random.below(2) == 0)),
            6 => {
                let key = match topic {
                    Topic::NodeHealth => name.to_owned(),
                    _ => format!("node/{name}"),
                };
                if self.world.bus.contains_key(&(topic, key.clone())) {
                    let record = self.world.mk_record(topic, key, Some(Body::Unreadable));
                    self.world.publish(vec![record]);
                }
            }
            _ => self.snapshot(),
        }
    }

    /// A list of nodes, which may take long: what changes meanwhile is told after it.
    pub(super) fn list(&mut self) {
        match self.listing.take() {
            None => {
                self.world.late.watch.clear();
                self.world.late.is_watch_late = true;
                let mut nodes: Vec<NodeFacts> = self.world.nodes.values().cloned().collect();
                let rest = nodes.split_off(self.random.below(nodes.len() + 1));
                self.world.tell(Input::SomeNodes { first: true, nodes });
                self.listing = Some(rest);
            }
            Some(rest) => {
                self.world.tell(Input::Nodes(rest.into()));
                self.world.late.is_watch_late = false;
                self.world.catch_up();
            }
        }
    }

    /// Things may go on before somebody takes over; the bus may have forgotten.
    pub(super) fn restart(&mut self, name: &'static str) {
        self.listing = None;
        self.world.late.is_watch_late = false;
        self.world.stop();
        for _ in 0..self.random.below(3) {
            match self.random.below(4) {
                0 => self.change_ready(name),
                1 => NAMES.into_iter().for_each(|name| {
                    self.monitor(name);
                    self.manage(name);
                }),
                2 => self.come_or_go(name),
                _ => self.world.pass(secs(self.random.below(60) as u64)),
            }
        }
        if self.one_in(4) {
            self.world.forget_outcomes();
        }
        self.world.tell(Input::Braked(self.holds.clone()));
        if self.one_in(2) {
            self.world.show_everything();
        } else {
            let (records, shards) = (
                self.world.bus.values().map(|record| self.world.aged(record)).collect(),
                self.world.shards(),
            );
            self.world.tell(Input::Snapshot { records, shards });
            self.world.list_nodes();
            if self.world.config.mode == EvictionMode::Node {
                self.world
                    .tell(Input::DaemonSets(self.world.daemon_sets.iter().cloned().collect()));
            }
        }
    }

    /// Everything is delivered, nobody disturbs any more, and all stages come to rest.
    pub fn come_to_rest(&mut self) {
        if self.listing.is_some() {
            self.list();
        }
        self.world.failures.clear();
        self.world.retry_after = None;
        self.world.budgets.clear();
        self.world.deliver_all();
        self.world.tell(Input::ApiFresh(true));
        for topic in [Topic::NodeHealth, Topic::EvictionIntents] {
            self.world.set_shard(topic, true, true);
        }
        // Whatever failed is tried again within five minutes.
        self.world.pass(secs(300));
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..40 {
            let before = (self.world.bus.len(), self.world.requests, self.world.history.len());
            let revision = self.world.mk_record(Topic::NodeHealth, String::new(), None).origin.revision;
            for name in NAMES {
                self.monitor(name);
                self.manage(name);
            }
            self.world.pass(secs(60));
            let next = self.world.mk_record(Topic::NodeHealth, String::new(), None).origin.revision;
            if before == (self.world.bus.len(), self.world.requests, self.world.history.len()) && next.0 == revision.0 + 1 {
                return;
            }
        }
        unreachable!("it does not come to rest: {:?}", self.world.bus.values().collect::<Vec<_>>());
    }
}
