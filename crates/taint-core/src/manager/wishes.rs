//! Wishes for nodes: isolation, or in node mode eviction, from the verdicts of topic `node-health`.

use std::time::Duration;

use bailiff_model::intent::{HealthTaint, Intent, NodeEviction, NodeIsolation};
use bailiff_model::{
    EvictionMode, Mono, NodeHealth, NodeName, NodeRef, Origin, ReadyStatus, Taint, TraceContext, Verdict, Wall, Zone,
};

use super::Manager;
use crate::deadlines::Timer;
use crate::effect::Effect;
use crate::input::HealthRecord;

/// A node that should be isolated, or evicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    pub(super) node: NodeRef,
    pub(super) zone: Zone,
    taint: HealthTaint,
    /// Node mode: when its pods are due.
    pub(super) due: Option<Mono>,
    /// Node mode: what `due` was counted from; while it stands, so does `due`.
    anchor: Option<Anchor>,
    cause: String,
    pub(super) derived_from: Origin,
    pub(super) trace: Option<TraceContext>,
    /// Node mode: the Node is gone and was due; the wish stands while it has pods.
    orphaned: bool,
}

/// What an eviction timeout counts from (NL-202).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// The change to Ready=False, as the API dates it.
    Transition(Option<Wall>),
    /// The last sign of life, or what replaced it (NL-099).
    Probe(Wall),
}

/// What a verdict says about the wish.
enum Stand {
    Wanted(HealthTaint),
    Unwanted,
    /// LATE and NO_STATUS change nothing by themselves (NL-073).
    AsBefore,
}

impl Wish {
    /// True if `taint` on `node` is what this wish leads to.
    pub(super) fn causes(&self, node: &NodeRef, taint: &Taint) -> bool {
        self.node.uid == node.uid && HealthTaint::of(taint).is_some()
    }

    fn intent(&self, now: bailiff_model::Now) -> Intent {
        let (node, zone, cause) = (self.node.clone(), self.zone.clone(), self.cause.clone());
        match self.due {
            None => Intent::Isolation(Box::new(NodeIsolation {
                node,
                zone,
                taint: self.taint,
                cause,
                decided_at: now.wall,
            })),
            Some(due) => Intent::NodeEviction(Box::new(NodeEviction {
                node,
                zone,
                not_before: now.wall_of(due),
                due: due <= now.mono,
                cause,
                decided_at: now.wall,
            })),
        }
    }
}

impl Manager {
    /// No conclusion is drawn from a record that is not understood: the wish stands as it is, and is derived from an older record, so
    /// that the zone-evictor holds it.
    pub(super) fn health_unreadable(&mut self, snapshot: bool, names: Vec<NodeName>) {
        if snapshot {
            self.health.unreadable.clear();
        }
        self.health.unreadable.extend(names);
    }

    pub(super) fn health_changed(&mut self, snapshot: bool, complete: bool, records: Vec<HealthRecord>) {
        if snapshot {
            self.health.known.clear();
            self.health.undecided.clear();
        }
        self.note_holds(snapshot, complete, &records);
        self.health.known.extend(self.health.unreadable.iter().cloned());
        let shard = self.config.shard;
        for record in records.into_iter().filter(|record| shard.owns(&record.name)) {
            // The name as it is kept, if it is.
            let name = self
                .nodes
                .get_key_value(&record.name)
                .map_or(&record.name, |(name, _)| name)
                .clone();
            self.health.unreadable.remove(&name);
            self.health.undecided.remove(&name);
            match &record.health {
                Some(health) => {
                    self.health.known.insert(name.clone());
                    self.judge_health(&name, &record, health);
                }
                None => {
                    self.health.known.remove(&name);
                    if complete {
                        self.node_unknown(&name);
                    }
                }
            }
        }
        let was_complete = std::mem::replace(&mut self.health.complete, complete);
        self.health.was_complete |= complete;
        // Nothing is derived from a missing key before the topic is complete.
        if complete && (snapshot || !was_complete) {
            self.drop_unknown_nodes();
        }
    }

    fn drop_unknown_nodes(&mut self) {
        let known = &self.health.known;
        let unknown = self.wishes.keys().filter(|name| !known.contains(*name));
        let unknown: Vec<NodeName> = unknown.cloned().collect();
        for name in unknown {
            self.node_unknown(&name);
        }
    }

    fn judge_health(&mut self, name: &NodeName, record: &HealthRecord, health: &NodeHealth) {
        if !self.config.duties.node_lifecycle {
            return;
        }
        let same_node = |wish: &&Wish| wish.node.uid == health.node.uid;
        let before = self.wishes.get(name).filter(same_node).cloned();
        let taint = match (stand(health), &before) {
            (Stand::Wanted(taint), _) => taint,
            (Stand::AsBefore, Some(wish)) => wish.taint,
            (Stand::AsBefore, None) if !self.knows_past() => {
                self.health.undecided.insert(name.clone(), record.clone());
                return self.unwish(name);
            }
            (Stand::AsBefore, None) | (Stand::Unwanted, _) => return self.unwish(name),
        };
        let as_before = matches!(stand(health), Stand::AsBefore);
        let kept = before.clone().filter(|_| as_before);
        let wish = Wish {
            node: health.node.clone(),
            zone: health.zone.clone(),
            taint,
            due: match self.config.mode {
                EvictionMode::Taint => None,
                EvictionMode::Node => Some(self.due_of(before.as_ref(), health)),
            },
            anchor: kept.as_ref().map_or_else(|| anchor(health), |wish| wish.anchor),
            cause: kept.map_or_else(|| cause(health), |wish| wish.cause),
            derived_from: record.origin.clone(),
            trace: record.trace,
            orphaned: false,
        };
        self.wish(wish);
    }

    /// When the pods of a node are due (NL-202): the timeout, less how long the silence had lasted when it was judged.
    ///
    /// Only differences of the monitor's own times are used, never its clock against ours; the silence that is believed is at most
    /// the grace, so that a step of its clock makes nothing due early. What this process did not see happen starts anew: a restart
    /// forgets timeouts (NL-207). What is due already stays due until the node recovers (`spec/observations.md` 9).
    fn due_of(&self, before: Option<&Wish>, health: &NodeHealth) -> Mono {
        if let Some((wish, due)) = before.and_then(|wish| Some((wish, wish.due?))) {
            let standing = matches!(stand(health), Stand::AsBefore) || wish.anchor == anchor(health);
            if standing || due <= self.now.mono {
                return due;
            }
        }
        let silence = match health.verdict {
            Verdict::Unreachable if self.health.was_complete => {
                let silence = health.decided_at.duration_since(health.counted_from);
                Duration::try_from(silence).unwrap_or_default().min(health.grace)
            }
            _ => Duration::ZERO,
        };
        self.now.mono + self.config.pod_eviction_timeout.saturating_sub(silence)
    }

    /// Sets a wish and publishes it if it is news. Every new record is answered, so that the wish is never older than it.
    pub(super) fn wish(&mut self, wish: Wish) {
        let name = wish.node.name.clone();
        if self.wishes.get(&name) == Some(&wish) {
            return;
        }
        self.say_wish(&wish);
        let due = wish.due;
        self.wishes.insert(name.clone(), wish);
        self.note_trace_of_marks(&name);
        if let Some(due) = due {
            self.arm_node(&name, due);
        }
    }

    fn say_wish(&mut self, wish: &Wish) {
        self.effects.push(Effect::Publish {
            intent: wish.intent(self.now),
            derived_from: wish.derived_from.clone(),
            trace: wish.trace,
        });
    }

    /// Node mode: the timeout of a node is over (NL-202). Said in so many words: whose clock is right is nobody's question.
    pub(super) fn node_is_due(&mut self, name: &NodeName) {
        if let Some(wish) = self.wishes.get(name).cloned() {
            self.say_wish(&wish);
        }
        self.evaluate_node(name);
    }

    fn arm_node(&mut self, name: &NodeName, due: Mono) {
        if due > self.now.mono {
            self.deadlines.set(Timer::Node(name.clone()), due);
        }
        self.evaluate_node(name);
    }

    /// Withdraws a wish. Never held.
    fn unwish(&mut self, name: &NodeName) {
        if self.remove_wish(name) && self.config.mode == EvictionMode::Node {
            self.evaluate_node(name);
        }
    }

    fn remove_wish(&mut self, name: &NodeName) -> bool {
        if self.wishes.swap_remove(name).is_none() {
            return false;
        }
        self.deadlines.cancel(&Timer::Node(name.clone()));
        let key = format!("node/{name}");
        self.effects.push(Effect::Remove { key });
        true
    }

    /// Nothing is known of the node's health any more: the Node is gone.
    ///
    /// In node mode one that was due is evicted all the same, one that was not is left alone (recording `lg-node-deleted`).
    fn node_unknown(&mut self, name: &NodeName) {
        let Some(wish) = self.wishes.get_mut(name) else { return };
        if wish.due.is_none_or(|due| due > self.now.mono) {
            self.remove_wish(name);
            if self.config.mode == EvictionMode::Node {
                self.drop_intents(name);
            }
            return;
        }
        wish.orphaned = true;
        if !self.nodes.contains_key(name) {
            self.remove_wish(name);
        }
    }

    /// The last pod of a node name that has no Node is gone.
    pub(super) fn orphan_without_pods(&mut self, name: &NodeName) {
        if self.wishes.get(name).is_some_and(|wish| wish.orphaned) {
            self.remove_wish(name);
        }
    }

    /// Takes over a wish from before this process, until a verdict says otherwise.
    pub(super) fn inherit_wish(&mut self, intent: Intent, derived_from: Origin, trace: Option<TraceContext>) {
        let (node, zone, cause, taint, due) = match (intent, self.config.mode) {
            (Intent::Isolation(wish), EvictionMode::Taint) => (wish.node, wish.zone, wish.cause, wish.taint, None),
            // NL-207: the timeout starts again.
            (Intent::NodeEviction(wish), EvictionMode::Node) => {
                let due = self.now.mono + self.config.pod_eviction_timeout;
                (wish.node, wish.zone, wish.cause, HealthTaint::Unreachable, Some(due))
            }
            _ => return,
        };
        let readable = !self.health.unreadable.contains(&node.name);
        let undecided = self.health.undecided.remove(&node.name).filter(|_| readable);
        let known = readable && (self.health.complete || self.health.known.contains(&node.name));
        if (known && undecided.is_none()) || !self.config.duties.node_lifecycle || !self.config.shard.owns(&node.name) {
            return;
        }
        self.wish(Wish {
            node,
            zone,
            taint,
            due,
            anchor: None,
            cause,
            derived_from,
            trace,
            orphaned: false,
        });
        if let Some((record, health)) = undecided.as_ref().and_then(|record| Some((record, record.health.as_ref()?))) {
            self.judge_health(&record.name, record, health);
        }
    }
}

fn stand(health: &NodeHealth) -> Stand {
    match (health.verdict, health.ready.status) {
        (Verdict::NotReady, _) => Stand::Wanted(HealthTaint::NotReady),
        (Verdict::Unreachable, _) => Stand::Wanted(HealthTaint::Unreachable),
        // LATE on a node whose Ready is True: it was healthy before, even if that record was never seen.
        (Verdict::Healthy, _) | (Verdict::Late, ReadyStatus::True) => Stand::Unwanted,
        (Verdict::Late | Verdict::NoStatus, _) => Stand::AsBefore,
    }
}

fn anchor(health: &NodeHealth) -> Option<Anchor> {
    match health.verdict {
        Verdict::NotReady => Some(Anchor::Transition(health.ready.since)),
        Verdict::Unreachable => Some(Anchor::Probe(health.counted_from)),
        Verdict::Healthy | Verdict::Late | Verdict::NoStatus => None,
    }
}

/// One sentence for people.
fn cause(health: &NodeHealth) -> String {
    let reason = match health.ready.reason.as_str() {
        "" => "no reason given",
        reason => reason,
    };
    match (health.verdict, health.last_sign_of_life) {
        (Verdict::Unreachable, Some(sign)) => format!("No sign of life since {:.0}", sign.time),
        (Verdict::Unreachable, None) => format!("Ready is Unknown ({reason})"),
        _ => format!("The kubelet reports Ready=False ({reason})"),
    }
}
