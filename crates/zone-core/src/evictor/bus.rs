//! Taking records in: health, wishes, pod intents, and what an earlier instance said.

use std::collections::BTreeSet;

use bailiff_model::intent::Intent;
use bailiff_model::{ClockReading, NodeName, Now, Origin, PodUid, Topic};

use super::Evictor;
use super::nodes::{Health, Wish};
use crate::input::{Body, Record, ShardStatus};

const TOPICS_WITH_MEANING: [Topic; 2] = [Topic::NodeHealth, Topic::EvictionIntents];

impl Evictor {
    /// A new view: what it does not show is doubted until its topic is complete.
    pub(super) fn snapshot(&mut self, records: Vec<Record>, shards: Vec<ShardStatus>, now: Now) {
        self.topics.begin();
        for topic in TOPICS_WITH_MEANING {
            let held = self.held_keys(topic);
            self.topics.doubt(topic, held);
        }
        // What is due in a snapshot became due while nobody watched: it is paced (design §8).
        self.take_records(records, true, now);
        self.close_inheritance(now);
        self.topics.note(shards);
    }

    pub(super) fn changes(&mut self, records: Vec<Record>, shards: Vec<ShardStatus>, now: Now) {
        // So did what makes the topic whole: at a cold start the evictor is there before the taint-manager's first words are.
        let overdue = !self.is_complete(Topic::EvictionIntents);
        self.take_records(records, overdue, now);
        self.topics.note(shards);
    }

    /// Keys that a complete topic no longer shows are tombstones.
    pub(super) fn forget_what_is_gone(&mut self, now: Now) {
        for topic in TOPICS_WITH_MEANING {
            for key in self.topics.take_gone(topic) {
                self.take_tombstone(topic, &key, now);
            }
        }
    }

    fn held_keys(&self, topic: Topic) -> BTreeSet<String> {
        match topic {
            Topic::NodeHealth => self
                .nodes
                .iter()
                .filter(|(_, node)| node.health.is_some())
                .map(|(name, _)| name.to_string())
                .collect(),
            Topic::EvictionIntents => {
                let wishes = self.nodes.iter().filter(|(_, node)| node.wish.is_some());
                let wishes = wishes.map(|(name, _)| format!("node/{name}"));
                wishes.chain(self.pods.uids().map(|uid| format!("pod/{uid}"))).collect()
            }
            Topic::EvictionOutcomes | Topic::DaemonRollouts => BTreeSet::new(),
        }
    }

    fn take_records(&mut self, records: Vec<Record>, overdue: bool, now: Now) {
        for record in records {
            self.topics.confirm(record.topic, &record.key);
            match record.body {
                None => self.take_tombstone(record.topic, &record.key, now),
                Some(Body::Health(health)) => {
                    let health = Health::new(
                        self.common.origin(record.origin),
                        record.trace,
                        *health,
                        self.config.profile,
                        now,
                    );
                    self.take_health(NodeName::from(record.key), Some(health));
                }
                Some(Body::Intent(Intent::Pod(intent))) => {
                    self.take_pod_intent(record.origin, record.trace, *intent, overdue, now);
                }
                Some(Body::Intent(intent)) => {
                    let wish = Wish::new(self.common.origin(record.origin), record.derived_from, record.trace, intent);
                    if let (Some(name), Some(wish)) = (record.key.strip_prefix("node/"), wish) {
                        self.take_wish(NodeName::from(name), Some(wish));
                    }
                }
                // It tells us nothing; and by what it took to come back, which nobody knows, a grant would seem to be of later than it is.
                // Only the first view may hold what passes for ours and is not, and there everything is memory.
                Some(Body::Outcome(_)) if record.is_echo && self.has_inherited() => {}
                Some(Body::Outcome(outcome)) => {
                    let reading = record.age.map(|age| ClockReading::new(record.produced_at, age, now));
                    self.inherit(outcome, record.trace, reading, now);
                }
                Some(Body::Unreadable) => self.take_unreadable(record.topic, record.key),
            }
        }
    }

    /// No conclusion is drawn: what is known of the key stays, and what depends on it is held.
    fn take_unreadable(&mut self, topic: Topic, key: String) {
        let node = match topic {
            Topic::NodeHealth => Some(key.as_str()),
            Topic::EvictionIntents => key.strip_prefix("node/"),
            Topic::EvictionOutcomes | Topic::DaemonRollouts => return,
        };
        if let Some(name) = node {
            self.touched.insert(NodeName::from(name));
        } else if let Some(uid) = key.strip_prefix("pod/") {
            self.pods.wake(PodUid::from(uid));
        }
        self.topics.cannot_read(topic, key);
    }

    fn take_tombstone(&mut self, topic: Topic, key: &str, now: Now) {
        match topic {
            Topic::NodeHealth => self.take_health(NodeName::from(key), None),
            Topic::EvictionIntents => {
                if let Some(name) = key.strip_prefix("node/") {
                    self.take_wish(NodeName::from(name), None);
                } else if let Some(uid) = key.strip_prefix("pod/") {
                    self.withdraw_pod(&PodUid::from(uid), now);
                }
            }
            Topic::EvictionOutcomes | Topic::DaemonRollouts => {}
        }
    }

    fn take_health(&mut self, name: NodeName, health: Option<Health>) {
        if health.is_none() && !self.nodes.contains_key(&name) {
            return;
        }
        let node = self.nodes.entry(name.clone()).or_default();
        node.unhealthy_since = match &health {
            // What was said of another one of the name before is none of its own.
            Some(health) => {
                let is_own = node.health.as_ref().is_none_or(|before| before.is_of_the_same(health));
                health.unhealthy_since(node.unhealthy_since.filter(|_| is_own))
            }
            // That the monitor forgets a node takes nobody's place away: one that is deleted keeps it (NL-205).
            None => node.unhealthy_since.filter(|_| node.place.is_some()),
        };
        let before = node.health.take().and_then(|health| health.held).map(|held| held.0);
        let after = health.as_ref().and_then(|health| health.held.as_deref().cloned());
        node.health = health;
        self.monitor_holds(&name, before, after);
        self.touched.insert(name);
    }

    fn take_wish(&mut self, name: NodeName, wish: Option<Wish>) {
        if wish.is_none() && !self.nodes.contains_key(&name) {
            return;
        }
        let node = self.nodes.entry(name.clone()).or_default();
        node.wish = wish.map(Box::new);
        self.touched.insert(name);
    }

    /// The record that a node's outcome follows from.
    pub(super) fn origin_behind(&self, name: &NodeName) -> Origin {
        let node = self.nodes.get(name);
        let wish = node.and_then(|node| node.wish.as_ref().map(|wish| wish.origin.clone()));
        let health = node.and_then(|node| node.health.as_ref().map(|health| health.origin.clone()));
        wish.or(health).unwrap_or_default()
    }
}
