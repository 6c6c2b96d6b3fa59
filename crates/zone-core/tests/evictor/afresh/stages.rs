//! The stages before the evictor, as they follow the API, each when it gets to it.

use std::collections::BTreeSet;

use bailiff_model::intent::{EvictionCause, HealthTaint, Intent};
use bailiff_model::taint::used;
use bailiff_model::{Effect as TaintEffect, Hold, HoldReason, NodeName, PodUid, ReadyStatus, Taint, Topic, Verdict};
use bailiff_zone_core::{Body, EvictionMode};

use super::story::Story;
use crate::world::secs;

impl Story {
    /// The monitor looks at a node.
    pub fn monitor(&mut self, name: &str) {
        let key = (Topic::NodeHealth, name.to_owned());
        let Some(facts) = self.world.nodes.get(&NodeName::from(name)).cloned() else {
            if self.world.bus.contains_key(&key) {
                let gone = self.world.mk_record(Topic::NodeHealth, name.to_owned(), None);
                self.world.publish(vec![gone]);
            }
            return;
        };
        let verdict = match facts.ready {
            ReadyStatus::True => Verdict::Healthy,
            ReadyStatus::False => Verdict::NotReady,
            _ => Verdict::Unreachable,
        };
        let held = self.monitored.contains(&*facts.zone.zone);
        if let Some(Body::Health(said)) = self.world.bus.get(&key).and_then(|record| record.body.as_ref())
            && (said.verdict, &said.node.uid, &said.zone, said.held.is_some()) == (verdict, &facts.uid, &facts.zone, held)
            && said.excluded_from_disruption == facts.excluded_from_disruption
        {
            return;
        }
        let mut record = self.world.mk_health(name, verdict);
        if let Some(Body::Health(health)) = record.body.as_mut().filter(|_| held) {
            health.held = Some(self.mk_hold(HoldReason::CorrelatedLoss));
        }
        self.world.publish(vec![record]);
    }

    pub(super) fn mk_hold(&self, reason: HoldReason) -> Hold {
        Hold {
            reason,
            detail: "as the story wanted".to_owned(),
            since: self.world.now.wall,
            until: None,
        }
    }

    /// The taint-manager looks at a node and its pods.
    pub fn manage(&mut self, name: &str) {
        let node = self.world.nodes.get(&NodeName::from(name)).cloned();
        let wanted = node.as_ref().and_then(|facts| match facts.ready {
            ReadyStatus::False => Some(HealthTaint::NotReady),
            ReadyStatus::Unknown => Some(HealthTaint::Unreachable),
            _ => None,
        });
        if let Some(facts) = &node {
            let stands = |taint| facts.has_no_schedule(taint);
            let both = [HealthTaint::NotReady, HealthTaint::Unreachable];
            if both.into_iter().any(|taint| stands(taint) != (wanted == Some(taint))) {
                self.world.change_node(name, |facts| {
                    facts.taints.retain(|taint| taint.effect != TaintEffect::NoSchedule);
                    let one = wanted.map(|taint| Taint::new(taint.key(), TaintEffect::NoSchedule));
                    facts.taints.extend(one);
                });
            }
        }
        self.wish(name, wanted);
        let pods: Vec<PodUid> = self.known_pods(name);
        for uid in pods {
            self.judge(&uid, name);
        }
    }

    fn wish(&mut self, name: &str, wanted: Option<HealthTaint>) {
        let key = (Topic::EvictionIntents, format!("node/{name}"));
        let standing = self.world.bus.get(&key).cloned();
        let Some(taint) = wanted else {
            // A node object that is gone leaves its intents standing in node mode (NL-205), for as long as it has pods.
            let stays = self.world.config.mode == EvictionMode::Node && !self.has(name) && !self.known_pods(name).is_empty();
            if standing.is_some_and(|record| !stays || record.body == Some(Body::Unreadable)) {
                self.world.unwish(name);
            }
            return;
        };
        let facts = self.world.node(name);
        let health = self.world.bus.get(&(Topic::NodeHealth, name.to_owned()));
        let same = standing.is_some_and(|record| {
            let newer = health.is_some_and(|health| health.origin.revision > record.derived_from.revision);
            !newer
                && match record.body {
                    Some(Body::Intent(Intent::Isolation(wish))) => (wish.taint, &wish.node.uid) == (taint, &facts.uid),
                    Some(Body::Intent(Intent::NodeEviction(wish))) => wish.node.uid == facts.uid,
                    _ => false,
                }
        });
        match self.world.config.mode {
            _ if same => {}
            EvictionMode::Taint => self.world.wish(name, taint),
            EvictionMode::Node => self.world.wish_evicted(name),
        }
    }

    /// Those on the node, and those that are said to be due there.
    fn known_pods(&self, name: &str) -> Vec<PodUid> {
        let there = self.world.pods.values().filter(|pod| pod.node.as_str() == name);
        let said = self.world.bus.values().filter_map(|record| match &record.body {
            Some(Body::Intent(Intent::Pod(intent))) if intent.node.name.as_str() == name => Some(intent.pod.uid.clone()),
            _ => None,
        });
        let uids: BTreeSet<PodUid> = there.map(|pod| pod.uid.clone()).chain(said).collect();
        uids.into_iter().collect()
    }

    pub(super) fn judge(&mut self, uid: &PodUid, name: &str) {
        let key = (Topic::EvictionIntents, format!("pod/{uid}"));
        let standing = match self.world.bus.get(&key).and_then(|record| record.body.clone()) {
            Some(Body::Intent(Intent::Pod(intent))) => Some(intent),
            _ => None,
        };
        let by_node = self.world.config.mode == EvictionMode::Node;
        let pod = self.world.pods.get(uid);
        let node = self.world.nodes.get(&NodeName::from(name));
        let now = self.world.now.wall;
        let is_due = match (pod, node) {
            (None, _) => false,
            // A node object that is gone leaves its intents standing (TE-034).
            (Some(_), None) => standing.is_some(),
            (Some(_), Some(facts)) if by_node => facts.ready != ReadyStatus::True,
            (Some(pod), Some(facts)) => facts.no_execute().iter().any(|taint| {
                let used = used(taint, &pod.tolerations);
                let over = |seconds: i64| taint.time_added.is_none_or(|since| since + secs(seconds as u64) <= now);
                used.is_none_or(|toleration| toleration.seconds.is_some_and(over))
            }),
        };
        match (is_due, standing) {
            (false, Some(_)) => self.world.withdraw(uid),
            (true, standing) => {
                let same = standing.is_some_and(|intent| match node {
                    None => true,
                    Some(facts) => {
                        let by_taints = |cause: &EvictionCause| match cause {
                            EvictionCause::Taints { taints, .. } => *taints == facts.no_execute(),
                            EvictionCause::Node => by_node,
                        };
                        intent.node.uid == facts.uid && by_taints(&intent.cause)
                    }
                });
                match by_node {
                    _ if same => {}
                    true => self.world.due_with_node(uid),
                    false => self.world.due(uid),
                }
            }
            (false, None) => {}
        }
    }
}
