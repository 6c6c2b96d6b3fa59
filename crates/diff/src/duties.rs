//! What an observing Bailiff would have done, in the terms of what kube-controller-manager does.
//!
//! An observer publishes what it sees and decides and writes nothing. Verdicts follow what stands in the API, so that a silent node is
//! `Ready=Unknown` to it when its grace is over, whether anybody wrote that or not: that moment is known from the record that says that
//! the node is late.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_event_bus::{Body, Record};
use bailiff_model::health::{NodeHealth, Verdict};
use bailiff_model::intent::Intent;
use bailiff_model::outcome::Outcome;
use bailiff_model::{Mono, ReadyStatus, Topic};
use jiff::SignedDuration;

use crate::answer::{Answer, Question};
use crate::records;
use crate::source::{News, Reader};
use crate::stands::Stands;

/// The questions that are answered of a cluster, by either side.
const QUESTIONS: [Question; 4] = [Question::Health, Question::Isolation, Question::Eviction, Question::Rollout];

/// Reads all topics.
#[derive(Debug, Default)]
pub struct Duties {
    nodes: BTreeMap<String, Node>,
    /// When the grace of a late node is over.
    due: BTreeSet<(Mono, String)>,
    /// Pods and DaemonSets.
    others: Stands,
}

/// What is said of a node.
#[derive(Debug, Default)]
struct Node {
    /// What is to be said of a late one at a moment, unless something is heard of it before.
    lost: Option<(Mono, Answer)>,
    /// The taint that is wanted.
    intent: Option<Answer>,
    /// What became of that.
    outcome: Option<Answer>,
}

impl Reader for Duties {
    fn topics(&self) -> &[Topic] {
        &Topic::ALL
    }

    fn all(&mut self, records: &[Record], now: Mono) -> Vec<News> {
        *self = Self::default();
        let mut answers = BTreeMap::new();
        for record in records {
            for news in self.read(record, now) {
                if let News::Says(key, Some(answer)) = news {
                    answers.insert(key, answer);
                }
            }
        }
        vec![News::All(QUESTIONS.to_vec(), answers.into_iter().collect())]
    }

    fn read(&mut self, record: &Record, now: Mono) -> Vec<News> {
        match (record.topic, record.key.strip_prefix("node/")) {
            (Topic::NodeHealth, _) => self.health(&record.key, record, now),
            (Topic::EvictionIntents, Some(name)) => {
                let wanted = match &record.body {
                    Some(body @ Body::Intent(Intent::Isolation(_))) => records::answer(body).1,
                    _ => None,
                };
                if wanted.is_some() || self.nodes.contains_key(name) {
                    self.node(name).intent = wanted;
                }
                self.isolation(name)
            }
            (Topic::EvictionOutcomes, Some(name)) => {
                let became = match &record.body {
                    Some(body @ Body::Outcome(Outcome::Node(_))) => records::answer(body).1,
                    _ => None,
                };
                if became.is_some() || self.nodes.contains_key(name) {
                    self.node(name).outcome = became;
                }
                self.isolation(name)
            }
            (Topic::EvictionOutcomes, None) if record.key.starts_with("pod/") => self.others.read(record),
            (Topic::DaemonRollouts, _) => self.others.read(record),
            // A zone is not told by kube-controller-manager, and a pod is done for only with its outcome.
            (Topic::EvictionIntents | Topic::EvictionOutcomes, _) => Vec::new(),
        }
    }

    fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|(due, _)| *due)
    }

    fn wake(&mut self, now: Mono) -> Vec<News> {
        let mut news = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, name)) = self.due.pop_first() else { break };
            let Some((_, answer)) = self.node(&name).lost.take() else {
                continue;
            };
            news.push(News::Says(records::node(Question::Health, &name), Some(answer)));
        }
        news
    }
}

impl Duties {
    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.entry(name.to_owned()).or_default()
    }

    fn health(&mut self, name: &str, record: &Record, now: Mono) -> Vec<News> {
        if let Some((due, _)) = self.node(name).lost.take() {
            self.due.remove(&(due, name.to_owned()));
        }
        let key = records::node(Question::Health, name);
        let Some(body @ Body::NodeHealth(health)) = &record.body else {
            self.nodes.remove(name);
            return vec![News::Says(key, None)];
        };
        let why = records::answer(body).1.map(|answer| answer.why).unwrap_or_default();
        let answer = match health.verdict {
            Verdict::Unreachable => Answer::new(ready(ReadyStatus::Unknown), why.clone()),
            _ => Answer::new(ready(health.ready.status), why.clone()),
        };
        // As long as its zone is held nothing comes of it: a record tells when that ends.
        if health.verdict == Verdict::Late && health.held.is_none() {
            let due = grace_ends(health, record, now);
            let lost = Answer::new(ready(ReadyStatus::Unknown), why);
            self.due.insert((due, name.to_owned()));
            self.node(name).lost = Some((due, lost));
        }
        vec![News::Says(key, Some(answer))]
    }

    /// The taint that is wanted, unless something keeps it from being set.
    fn isolation(&mut self, name: &str) -> Vec<News> {
        let key = records::node(Question::Isolation, name);
        let Some(node) = self.nodes.get(name) else {
            return vec![News::Says(key, None)];
        };
        let answer = match (&node.intent, &node.outcome) {
            (None, _) => None,
            (Some(wanted), None) => Some(wanted.clone().in_turn()),
            (Some(wanted), Some(became)) if became.says == records::DONE => Some(Answer {
                why: became.why.clone(),
                in_turn: became.in_turn,
                ..wanted.clone()
            }),
            (Some(_), Some(became)) => Some(became.clone()),
        };
        vec![News::Says(key, answer)]
    }
}

/// How the API says how a node is.
pub(crate) fn ready(status: ReadyStatus) -> String {
    match status {
        ReadyStatus::Absent => "no condition Ready".to_owned(),
        status => format!("Ready={}", status.as_str()),
    }
}

/// When the grace of a late node is over. What lies between two wall times of a record counts, and the record's age: no clock is
/// compared with another.
fn grace_ends(health: &NodeHealth, record: &Record, now: Mono) -> Mono {
    let grace = SignedDuration::try_from(health.grace).unwrap_or(SignedDuration::MAX);
    let counted = record.produced_at.duration_since(health.counted_from);
    let age = record.age_at(now).unwrap_or_default();
    let left = grace.saturating_sub(counted);
    let left = std::time::Duration::try_from(left).unwrap_or_default();
    now + left.saturating_sub(age)
}

#[cfg(test)]
mod tests;
