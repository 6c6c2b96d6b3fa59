//! What arrives in a history, and when: events, answers, records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bailiff_model::{Load, ReadyStatus};
use bailiff_node_health_core::{Input, Read, StatusWrite, TopicNews, WriteOutcome};

use super::History;
use crate::support::Pending;

// === impl History ===

impl History {
    pub(super) fn watches(&mut self) -> &mut [VecDeque<Input>; 2] {
        self.world.lagging.as_mut().expect("they lag")
    }

    pub(super) fn deliver_one(&mut self) {
        match self.dice.roll(8) {
            watch @ (0..=3) => {
                for _ in 0..1 + self.dice.roll(4) {
                    if let Some(input) = self.watches()[watch as usize / 2].pop_front() {
                        self.world.give(input);
                    }
                }
            }
            4 | 5 if !self.world.pending.is_empty() => {
                let nth = self.dice.below(self.world.pending.len());
                self.perform(nth);
            }
            6 if !self.answers.is_empty() => {
                let nth = self.dice.below(self.answers.len());
                self.answer(nth);
            }
            7 if self.topic_due => self.tell_topic(),
            7 => self.land_stray(),
            _ => {}
        }
    }

    pub(super) fn tell_topic(&mut self) {
        if std::mem::take(&mut self.topic_due) {
            let records = self.world.topic.values().chain(self.others.values()).cloned().collect();
            self.world.give(Input::Topic(TopicNews::Snapshot { records, complete: true }));
        }
    }

    pub(super) fn land_stray(&mut self) {
        if let Some(write) = self.strays.pop() {
            self.store(&write);
        }
    }

    fn store(&mut self, write: &StatusWrite) -> WriteOutcome {
        self.note();
        let outcome = self.world.store(write);
        if matches!(outcome, WriteOutcome::Stored(_)) {
            self.world.tell_node(write.node.name.as_str());
        }
        self.note();
        outcome
    }

    /// The API server gets a request; what it answers takes its time.
    fn perform(&mut self, nth: usize) {
        match self.world.pending.remove(nth) {
            Pending::Read(asked, by, nodes) => {
                let Input::Confirmed { asked, by, mut answers } = self.world.read_now(asked, by, nodes) else {
                    return;
                };
                for (_, answer) in &mut answers {
                    if self.failing && self.dice.one_in(2) {
                        *answer = Read::Failed {
                            retry_after: None,
                            load: Load::Overloaded,
                            detail: Arc::from("no answer"),
                        };
                    }
                }
                self.answers
                    .push((Input::Confirmed { asked, by, answers }, self.spoke.clone()));
            }
            Pending::Write(write) => {
                let failed = WriteOutcome::Failed {
                    retry_after: None,
                    load: Load::Overloaded,
                    detail: Arc::from("no answer"),
                };
                let fails = self.failing && self.dice.one_in(2);
                let outcome = if fails && self.dice.one_in(2) {
                    failed.clone()
                } else {
                    self.store(&write)
                };
                let outcome = if fails { failed } else { outcome };
                let node = write.node;
                self.answers.push((Input::Written { node, outcome }, BTreeMap::new()));
            }
        }
    }

    fn answer(&mut self, nth: usize) {
        let (answer, spoke) = self.answers.remove(nth);
        // Nothing follows from what was asked for under an earlier leadership.
        if let Input::Confirmed { asked, answers, .. } = &answer
            && *asked >= self.leads_since
        {
            for (name, read) in answers {
                let is_new = matches!(read, Read::Found { node, .. } if node.ready.status == ReadyStatus::Absent);
                let spoke = spoke.get(name).copied().unwrap_or(f64::MAX);
                self.read.insert(name.clone(), (spoke, is_new));
            }
        }
        self.world.give(answer);
        self.check();
    }

    pub(super) fn end_requests(&mut self) {
        while !self.world.pending.is_empty() || !self.answers.is_empty() {
            while !self.world.pending.is_empty() {
                self.perform(0);
            }
            while !self.answers.is_empty() {
                let nth = self.dice.below(self.answers.len());
                self.answer(nth);
            }
        }
        self.check();
    }

    /// Everything arrives.
    pub(super) fn settle(&mut self) {
        self.failing = false;
        while !self.strays.is_empty() {
            self.land_stray();
        }
        loop {
            self.end_requests();
            let next = self.watches().iter_mut().find_map(std::collections::VecDeque::pop_front);
            let Some(next) = next else { break };
            self.world.give(next);
        }
        self.tell_topic();
        let records = Vec::new();
        self.world.give(Input::Topic(TopicNews::Changes { records, complete: true }));
        self.end_requests();
        self.check();
    }
}
