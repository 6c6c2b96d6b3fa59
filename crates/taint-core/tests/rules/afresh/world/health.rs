//! Topic `node-health` as the manager is told it, and holds from outside.

use bailiff_model::{Hold, HoldReason, HoldScope, Holds, ReadyStatus, TraceContext, Verdict, Wall, Zone};
use bailiff_taint_core::{HealthRecord, Input};

use super::{World, at};
use crate::harness::{Harness, mk_health, mk_origin, mk_tombstone};

/// News of the topic on their way.
pub(super) enum News {
    Record(Box<HealthRecord>),
    Unreadable(String),
    /// Every shard is complete from here on.
    Complete,
}

impl World {
    pub(super) fn news_of_health(&mut self) -> Option<Input> {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        match self.shown_health.pop_front()? {
            News::Record(record) => records.push(*record),
            News::Unreadable(name) => unreadable.push(name.as_str().into()),
            News::Complete => self.complete = true,
        }
        let complete = self.complete;
        Some(Input::Health {
            snapshot: false,
            complete,
            records,
            unreadable,
        })
    }

    /// Another view of the topic begins; some of it comes at once.
    pub(super) fn reconnect(&mut self, h: &mut Harness) {
        self.shown_health.clear();
        self.complete = self.dice.one_in(2);
        let topic = self.topic.clone();
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for (name, record) in topic {
            let now = self.complete || self.dice.one_in(2);
            match record {
                Some(record) if now => records.push(record),
                Some(record) => self.shown_health.push_back(News::Record(Box::new(record))),
                None if now => unreadable.push(name.as_str().into()),
                None => self.shown_health.push_back(News::Unreadable(name)),
            }
        }
        self.shown_health.push_back(News::Complete);
        let complete = self.complete;
        self.apply(
            h,
            Input::Health {
                snapshot: true,
                complete,
                records,
                unreadable,
            },
        );
    }

    /// A monitor judges a node anew, or drops what it said of one that is gone.
    pub(super) fn judge_node(&mut self, millis: u64) {
        let name = format!("n{}", self.dice.below(3));
        let revision = self.version().parse().expect("a number");
        let Some(facts) = self.nodes.get(&name).cloned() else {
            if self.topic.remove(&name).is_some() {
                self.shown_health
                    .push_back(News::Record(Box::new(mk_tombstone(&name, revision))));
            }
            return;
        };
        if self.dice.one_in(16) {
            self.topic.insert(name.clone(), None);
            return self.shown_health.push_back(News::Unreadable(name));
        }
        let verdicts = [
            Verdict::Healthy,
            Verdict::Late,
            Verdict::NotReady,
            Verdict::Unreachable,
            Verdict::Unreachable,
            Verdict::NoStatus,
        ];
        let verdict = self.dice.of(&verdicts);
        let decided = (millis / 1000) as i64;
        let mut record = mk_health(&name, revision, verdict, decided - self.dice.below(80) as i64, decided);
        record.origin = mk_origin(revision);
        let incident = self.dice.below(3).to_string();
        record.trace = Some(TraceContext::derived(&["incident", &name, &incident]));
        if let Some(health) = &mut record.health {
            health.node = facts.node;
            health.zone = facts.zone;
            if verdict == Verdict::Late && self.dice.one_in(2) {
                health.ready.status = ReadyStatus::False;
            }
            health.held = self.dice.one_in(6).then(|| hold(at(millis)));
        }
        self.topic.insert(name, Some(record.clone()));
        self.shown_health.push_back(News::Record(Box::new(record)));
    }

    pub(super) fn brake(&mut self, h: &mut Harness) {
        let scopes = [
            HoldScope::All,
            HoldScope::Zone(Zone::new("r", "a")),
            HoldScope::Node("n1".into()),
        ];
        let scope = self.dice.one_in(2).then(|| self.dice.of(&scopes));
        self.holds = scope.map(|scope| (scope, hold(h.now().wall))).into_iter().collect();
        let holds = self.holds.clone();
        self.apply(h, Input::Braked(holds));
    }

    /// The monitor holds nothing any more.
    pub fn release(&mut self, h: &mut Harness) {
        self.holds = Holds::NONE;
        self.apply(h, Input::Braked(Holds::NONE));
        for record in self.topic.values_mut().flatten() {
            if record.health.as_mut().is_some_and(|health| health.held.take().is_some()) {
                self.versions += 1;
                record.origin = mk_origin(self.versions);
                self.shown_health.push_back(News::Record(Box::new(record.clone())));
            }
        }
    }

    /// True if nothing is held, for all that can be known.
    pub fn is_free(&self) -> bool {
        let mut known = self.topic.values().flatten().filter_map(|record| record.health.as_ref());
        self.is_readable() && self.holds.is_empty() && known.all(|health| health.held.is_none())
    }

    /// True if what the monitor holds can be known.
    pub fn is_readable(&self) -> bool {
        self.topic.values().all(Option::is_some)
    }

    /// All of the topic, as who comes now is told it.
    pub fn health(&self, snapshot: bool) -> Input {
        let records = self.topic.values().flatten().cloned().collect();
        let unreadable = self.topic.iter().filter(|(_, record)| record.is_none());
        let unreadable = unreadable.map(|(name, _)| name.as_str().into()).collect();
        Input::Health {
            snapshot,
            complete: true,
            records,
            unreadable,
        }
    }
}

fn hold(since: Wall) -> Hold {
    Hold {
        reason: HoldReason::CorrelatedLoss,
        detail: "as the test wanted".to_owned(),
        since,
        until: None,
    }
}
