//! What happens in the cluster: nodes and pods come, change and go.

use std::collections::BTreeMap;

use bailiff_model::{ReadyStatus, Zone};
use bailiff_taint_core::{Input, NodeFacts, PodFacts};

use super::{World, at};
use crate::harness::{mk_node, mk_pod, mk_ready, mk_taint, mk_toleration};

const TAINTS: [&str; 5] = [
    "a",
    "b=v",
    "b=w",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/not-ready",
];

impl World {
    pub(super) fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut NodeFacts)) {
        let version = self.version();
        if let Some(facts) = self.nodes.get_mut(name) {
            edit(facts);
            facts.node.resource_version = version.as_str().into();
            self.shown_nodes.push_back(Input::Node(facts.clone()));
        }
    }

    pub(super) fn edit_pod(&mut self, uid: &str, edit: impl FnOnce(&mut PodFacts)) {
        let version = self.version();
        if let Some(facts) = self.pods.get_mut(uid) {
            edit(facts);
            facts.pod.resource_version = version.as_str().into();
            self.shown_pods.push_back(Input::Pod(facts.clone()));
        }
    }

    pub(super) fn change(&mut self, millis: u64) {
        if self.dice.one_in(2) {
            let name = format!("n{}", self.dice.below(3));
            if self.nodes.contains_key(&name) {
                self.change_node(&name, millis);
            } else {
                self.make_node(&name, millis);
            }
        } else {
            let uids: Vec<String> = self.pods.keys().cloned().collect();
            if uids.len() < 6 && self.dice.one_in(3) || uids.is_empty() {
                self.make_pod(millis);
            } else {
                let uid = self.dice.of(&uids);
                self.change_pod(&uid, millis);
            }
        }
    }

    fn make_node(&mut self, name: &str, millis: u64) {
        let version = self.version();
        let mut facts = mk_node(name, &[]);
        facts.node.uid = format!("{name}-{version}").into();
        facts.created = Some(at(millis));
        facts.zone = self.zone();
        facts.ready = mk_ready(self.dice.of(&[ReadyStatus::True, ReadyStatus::Absent, ReadyStatus::False]));
        facts.ready.since = Some(at(millis).into());
        self.nodes.insert(name.to_owned(), facts);
        self.edit_node(name, |_| ());
    }

    pub(super) fn zone(&mut self) -> Zone {
        Zone::new("r", self.dice.of(&["a", "b"]))
    }

    fn change_node(&mut self, name: &str, millis: u64) {
        let stamp = at(millis);
        match self.dice.below(16) {
            0..=5 => {
                let status = self
                    .dice
                    .of(&[ReadyStatus::True, ReadyStatus::True, ReadyStatus::Unknown, ReadyStatus::False]);
                let before = self.nodes[name].ready.status;
                if before == status {
                    return;
                }
                if status == ReadyStatus::Unknown {
                    self.fall_silent(name, before);
                }
                self.edit_node(name, |facts| {
                    facts.ready = mk_ready(status);
                    facts.ready.since = Some(stamp.into());
                });
            }
            6..=10 => {
                let count = self.dice.below(3);
                let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
                for _ in 0..count {
                    let text = self.dice.of(&TAINTS);
                    texts.insert(text.split('=').next().unwrap_or(text), text);
                }
                let mut texts: Vec<&str> = texts.into_values().collect();
                if self.dice.one_in(2) {
                    texts.reverse();
                }
                let restamps = self.dice.one_in(4);
                let dated = !self.dice.one_in(4);
                self.edit_node(name, |facts| {
                    let before = std::mem::take(&mut facts.taints);
                    let others = before.iter().filter(|taint| taint.effect != bailiff_model::Effect::NoExecute);
                    facts.taints = others.cloned().collect();
                    for text in texts {
                        let mut taint = mk_taint(text);
                        let known = before
                            .iter()
                            .find(|known| (&known.key, &known.value, known.effect) == (&taint.key, &taint.value, taint.effect));
                        taint.time_added = match known {
                            Some(known) if !restamps => known.time_added,
                            _ => dated.then_some(stamp),
                        };
                        facts.taints.push(taint);
                    }
                });
            }
            11 => {
                let on = self.dice.one_in(2);
                self.edit_node(name, |facts| facts.unschedulable = on);
            }
            12 => {
                let on = self.dice.one_in(2);
                self.edit_node(name, |facts| facts.pressure.memory = on);
            }
            13 => {
                let os = self.dice.of(&["linux", "plan9"]);
                self.edit_node(name, |facts| facts.labels.os = Some(os.into()));
            }
            14 => {
                let zone = self.zone();
                self.edit_node(name, |facts| facts.zone = zone);
            }
            _ => {
                if let Some(facts) = self.nodes.remove(name) {
                    let (name, uid) = (facts.node.name, facts.node.uid);
                    self.shown_nodes.push_back(Input::NodeGone { name, uid });
                }
            }
        }
    }

    fn tolerations(&mut self) -> Vec<bailiff_model::Toleration> {
        let count = self.dice.below(4);
        (0..count)
            .map(|_| {
                let text = self.dice.of(&[
                    "a",
                    "b",
                    "b=v",
                    "",
                    "node.kubernetes.io/unreachable",
                    "node.kubernetes.io/not-ready",
                ]);
                let seconds = match self.dice.below(6) {
                    0 => None,
                    1 => Some(i64::MAX),
                    2 => Some(300),
                    _ => Some(self.dice.below(40) as i64 - 1),
                };
                mk_toleration(text, seconds)
            })
            .collect()
    }

    fn make_pod(&mut self, millis: u64) {
        let uid = format!("p{}", self.version());
        let node = format!("n{}", self.dice.below(3));
        let mut facts = mk_pod(&uid, &node, &[]);
        facts.tolerations = self.tolerations();
        if self.is_silent(&node) || self.dice.one_in(3) {
            facts.ready = self.dice.of(&[ReadyStatus::False, ReadyStatus::Absent]);
        }
        facts.ready_since = Some(at(millis));
        facts.bound = Some(at(millis));
        self.pods.insert(uid.clone(), facts);
        if self.dice.one_in(5) {
            self.edit_pod(&uid, |facts| facts.node = "".into());
        }
        self.edit_pod(&uid, |facts| facts.node = node.as_str().into());
    }

    fn change_pod(&mut self, uid: &str, millis: u64) {
        match self.dice.below(12) {
            0..=3 => {
                let tolerations = self.tolerations();
                self.edit_pod(uid, |facts| facts.tolerations = tolerations);
            }
            4..=7 => {
                // Only its kubelet says so, and while that is silent nobody.
                let node = self.pods[uid].node.to_string();
                let status = self.dice.of(&[ReadyStatus::True, ReadyStatus::True, ReadyStatus::False]);
                if !self.is_silent(&node) && self.pods[uid].ready != status {
                    self.edit_pod(uid, |facts| {
                        facts.ready = status;
                        facts.ready_since = Some(at(millis));
                    });
                }
            }
            8 => self.edit_pod(uid, |facts| facts.terminating = true),
            9 => self.edit_pod(uid, |facts| facts.pod.generation += 1),
            _ => {
                self.pods.remove(uid);
                self.shown_pods.push_back(Input::PodGone(uid.into()));
            }
        }
    }

    fn is_silent(&self, node: &str) -> bool {
        let node = self.nodes.get(node);
        node.is_none_or(|node| node.ready.status == ReadyStatus::Unknown)
    }
}
