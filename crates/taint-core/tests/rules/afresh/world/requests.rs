//! What becomes of what the manager asks for: it fails, conflicts, is answered late, or is done without an answer.

use std::time::Duration;

use bailiff_model::{Load, ReadyStatus};
use bailiff_taint_core::{Answer, Effect, Input, NodePatch, PodMark, Reading};

use super::{World, at};
use crate::harness::Harness;

impl World {
    /// Some answer arrives.
    pub(super) fn answer(&mut self, h: &mut Harness) {
        if !self.answers.is_empty() {
            let answer = self.answers.remove(self.dice.below(self.answers.len()));
            self.apply(h, answer);
        }
    }

    /// Some request is served: `well`, if nothing fails and no answer gets lost.
    pub(super) fn serve(&mut self, h: &mut Harness, well: bool) {
        if self.asked.is_empty() {
            return;
        }
        let asked = self.asked.remove(self.dice.below(self.asked.len()));
        let retry_after = self.dice.one_in(3).then_some(Duration::from_secs(40));
        let load = self.dice.of(&[Load::Overloaded, Load::Answered, Load::None]);
        let fails = !well && self.dice.one_in(3);
        let failed = Answer::Failed { retry_after, load };
        let answer = match asked {
            Effect::PatchNode(patch) => {
                let name = patch.node.name.clone();
                let answer = if fails { failed.clone() } else { self.patch(&patch) };
                let lost = !well && self.dice.one_in(5);
                Input::NodePatched {
                    name,
                    answer: if lost { failed } else { answer },
                }
            }
            Effect::MarkPod(mark) => {
                let uid = mark.pod.uid.clone();
                let answer = if fails { failed.clone() } else { self.mark(&mark, h.millis) };
                let lost = !well && self.dice.one_in(5);
                Input::PodMarked {
                    uid,
                    answer: if lost { failed } else { answer },
                }
            }
            Effect::ReadNode(name) => {
                let reading = match self.nodes.get(name.as_str()) {
                    _ if fails => Reading::Failed { retry_after, load },
                    Some(facts) => Reading::Found(facts.clone()),
                    None => Reading::Gone,
                };
                Input::NodeRead { name, reading }
            }
            Effect::ReadPod(pod) => {
                let reading = match self.pods.get(&pod.uid.to_string()) {
                    _ if fails => Reading::Failed { retry_after, load },
                    Some(facts) => Reading::Found(facts.clone()),
                    None => Reading::Gone,
                };
                Input::PodRead { uid: pod.uid, reading }
            }
            other => unreachable!("{other:?} is no request"),
        };
        // An answer about a pod that outlives the silence it was asked in would end the marking of the next: here none is that late.
        if matches!(answer, Input::PodRead { .. } | Input::PodMarked { .. }) {
            self.apply(h, answer);
        } else {
            self.answers.push(answer);
        }
    }

    fn patch(&mut self, patch: &NodePatch) -> Answer {
        let conflict = Answer::Failed {
            retry_after: None,
            load: Load::Answered,
        };
        let name = patch.node.name.to_string();
        let Some(facts) = self.nodes.get(&name).filter(|facts| facts.node.uid == patch.node.uid) else {
            return Answer::Gone;
        };
        if patch.taints.is_some() && facts.node.resource_version != patch.node.resource_version {
            return conflict;
        }
        self.edit_node(&name, |facts| {
            if let Some(taints) = &patch.taints {
                facts.taints.clone_from(taints);
            }
            for (key, value) in &patch.labels {
                let label = if key.ends_with("os") {
                    &mut facts.labels.os_beta
                } else {
                    &mut facts.labels.arch_beta
                };
                *label = Some(value.clone());
            }
        });
        Answer::Done(self.nodes[&name].node.resource_version.clone())
    }

    fn mark(&mut self, mark: &PodMark, millis: u64) -> Answer {
        let uid = mark.pod.uid.to_string();
        let Some(facts) = self.pods.get(&uid) else {
            return Answer::Gone;
        };
        if facts.pod.resource_version != mark.pod.resource_version {
            return Answer::Failed {
                retry_after: None,
                load: Load::Answered,
            };
        }
        self.edit_pod(&uid, |facts| {
            facts.ready = ReadyStatus::False;
            facts.ready_since = Some(at(millis));
        });
        Answer::Done(self.pods[&uid].pod.resource_version.clone())
    }
}
