//! What became of every node and pod, at any moment, by the API's history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::taint::{self, Effect, Taint};
use bailiff_model::{HoldScope, Mono, Profile, ReadyStatus};

use crate::StageName;
use crate::chaos::timeline::{Node, Object, Pauses, Pod, Timeline, is_health};

/// Everything that was.
#[derive(Debug, Default)]
pub(super) struct Lives {
    nodes: BTreeMap<String, Vec<(Mono, Option<Node>)>>,
    pub(super) pods: BTreeMap<String, PodLife>,
    pauses: Vec<(Mono, Pauses)>,
    budget: Option<Mono>,
}

/// A pod, from its creation.
#[derive(Debug, Default)]
pub(super) struct PodLife {
    /// Never empty.
    states: Vec<(Mono, Pod)>,
    bound_at: Option<Mono>,
    /// When it was put on its way out, and by whom; empty: by the cluster itself.
    pub(super) deleted: Option<(Mono, Arc<str>)>,
    /// When its object was gone.
    pub(super) gone: Option<Mono>,
}

// === impl Lives ===

impl Lives {
    pub(super) fn of(timeline: &Timeline) -> Self {
        let mut lives = Self::default();
        for change in &timeline.changes {
            match &change.object {
                Object::Node(node) => {
                    let states = lives.nodes.entry(node.name.clone()).or_default();
                    states.push((change.at, (!change.is_gone).then(|| node.clone())));
                }
                Object::Pod(pod) => {
                    let life = lives.pods.entry(pod.uid.clone()).or_default();
                    life.changed(change.at, &change.actor, pod, change.is_gone);
                }
                Object::Pauses(pauses) => lives.pauses.push((change.at, pauses.clone())),
                Object::Budget(_) => {
                    lives.budget.get_or_insert(change.at);
                }
                _ => {}
            }
        }
        lives
    }

    /// The node of this name.
    pub(super) fn node(&self, name: &str, at: Mono) -> Option<&Node> {
        latest(self.nodes.get(name)?, at)?.as_ref()
    }

    /// The node of this name, or the last one there was.
    pub(super) fn last_node(&self, name: &str, at: Mono) -> Option<&Node> {
        let states = self.nodes.get(name)?.iter().filter(|(since, _)| *since <= at);
        states.rev().find_map(|(_, node)| node.as_ref())
    }

    /// The moment itself, or if the node of this name was gone by then, the last one that is known of it.
    fn last_moment(&self, name: &str, at: Mono) -> Mono {
        let states = self.nodes.get(name).map(Vec::as_slice).unwrap_or_default();
        let known = || states.iter().filter(|(since, _)| *since <= at);
        match known().next_back() {
            Some((_, None)) => known().rfind(|(_, node)| node.is_some()).map_or(at, |(since, _)| *since),
            _ => at,
        }
    }

    /// The nodes that there are.
    pub(super) fn nodes(&self, at: Mono) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter_map(move |states| latest(states, at)?.as_ref())
    }

    /// What the node of this name was in this time; of one that is gone, its last.
    pub(super) fn states(&self, name: &str, from: Mono, to: Mono) -> impl Iterator<Item = &Node> {
        let states = self.nodes.get(name).map(Vec::as_slice).unwrap_or_default();
        let within = states.iter().filter(move |(at, _)| *at > from && *at <= to);
        let before = self.last_node(name, from);
        before.into_iter().chain(within.filter_map(|(_, node)| node.as_ref()))
    }

    /// When the node of this name changed, came or went in this time; and the beginning of it.
    pub(super) fn moments(&self, name: &str, from: Mono, to: Mono) -> Vec<Mono> {
        let states = self.nodes.get(name).map(Vec::as_slice).unwrap_or_default();
        let within = states.iter().map(|(at, _)| *at).filter(|at| *at > from && *at <= to);
        std::iter::once(from).chain(within).collect()
    }

    /// Since when the node, or its absence, has been as it is in this respect.
    pub(super) fn since<T: PartialEq>(&self, name: &str, at: Mono, respect: impl Fn(&Node) -> T) -> Mono {
        let Some(states) = self.nodes.get(name) else {
            return Mono::ORIGIN;
        };
        let mut states = states.iter().filter(|(since, _)| *since <= at).rev();
        let Some((newest, last)) = states.next() else {
            return Mono::ORIGIN;
        };
        let mut since = *newest;
        let now = last.as_ref().map(&respect);
        for (at, node) in states {
            if node.as_ref().map(&respect) != now {
                break;
            }
            since = *at;
        }
        since
    }

    /// Every set of NoExecute taints, as `key=value`, that the node of this name had in this time; of one that is gone, its last.
    pub(super) fn taint_sets(&self, name: &str, from: Mono, to: Mono) -> Vec<BTreeSet<String>> {
        let sets = self.states(name, from, to);
        sets.map(|node| no_execute(node).map(text).collect()).collect()
    }

    /// Since when the node has had this taint, value included: at the earliest, and at the latest, by its `timeAdded`. The two health
    /// taints are one incident: a swap keeps its time.
    fn tainted_since(&self, node: &Node, taint: &Taint, at: Mono) -> (Mono, Mono) {
        let is_it = |one: &Taint| {
            let both_health = is_health(&one.key) && is_health(&taint.key);
            both_health || one.key == taint.key && one.value == taint.value
        };
        let is_same = |one: &Taint| is_it(one) && one.time_added == taint.time_added;
        let since = |is_such: &dyn Fn(&Taint) -> bool| {
            self.since(&node.name, at, |known| (known.uid.clone(), no_execute(known).any(is_such)))
        };
        (since(&is_it), since(&is_same))
    }

    /// When the pod is due by the taints that its node has: the earliest moment at which it may go, and the latest at which it must.
    /// `None`: not at all.
    pub(super) fn due(&self, life: &PodLife, at: Mono, profile: Profile) -> Option<(Mono, Mono)> {
        let pod = life.at(at)?;
        let node = self.last_node(&pod.node, at)?;
        let bound = life.bound_at?;
        let at = self.last_moment(&pod.node, at);
        // TE-063: upstream, a timer that runs goes on although the taint that armed it is replaced.
        let any = self.since(&node.name, at, |known| no_execute(known).next().is_some());
        let mut due: Option<(Mono, Mono)> = None;
        for taint in no_execute(node) {
            let limit = match taint::used(taint, &pod.tolerations) {
                None => Default::default(),
                Some(toleration) => match toleration.seconds {
                    None => continue,
                    Some(seconds) => taint::limit(seconds),
                },
            };
            let (since, anew) = self.tainted_since(node, taint, at);
            let earliest = if profile == Profile::Upstream { any.min(since) } else { since };
            let (first, last) = (earliest.max(bound) + limit, anew.max(bound) + limit);
            due = Some(due.map_or((first, last), |(known, latest)| (known.min(first), latest.min(last))));
        }
        due
    }

    /// Since when what is paused is as it is.
    pub(super) fn paused_since(&self, at: Mono) -> Mono {
        let known = self.pauses.iter().map(|(since, _)| *since).filter(|since| *since <= at);
        known.max().unwrap_or(Mono::ORIGIN)
    }

    /// True if a pause covers the node. An entry stands for as long as it was asked for, from when it was written; what cannot be read
    /// pauses everything.
    pub(super) fn is_paused(&self, node: &Node, at: Mono) -> bool {
        let Some(pauses) = latest(&self.pauses, at) else {
            return false;
        };
        pauses.iter().any(|(key, pause)| {
            let Some(pause) = pause else { return true };
            let covers = match &pause.scope {
                HoldScope::All => true,
                HoldScope::Zone(zone) => *zone == node.zone,
                HoldScope::Node(name) => name.as_str() == node.name,
            };
            let asked = pause.since.map(|since| pause.until.duration_since(since).unsigned_abs());
            let known = self.pauses.iter().rev().skip_while(|(since, _)| *since > at);
            let same = known.take_while(|(_, pauses)| pauses.get(key).is_some_and(|entry| entry.as_ref() == Some(pause)));
            let written = same.last().map_or(at, |(since, _)| *since);
            covers && at <= written + asked.unwrap_or_default()
        })
    }

    /// True if there is a budget for application pods.
    pub(super) fn has_budget(&self, at: Mono) -> bool {
        self.budget.is_some_and(|since| since <= at)
    }
}

// === impl PodLife ===

impl PodLife {
    fn changed(&mut self, at: Mono, actor: &Arc<str>, pod: &Pod, is_gone: bool) {
        if (is_gone || pod.is_terminating) && self.deleted.is_none() {
            self.deleted = Some((at, actor.clone()));
        }
        if is_gone {
            self.gone = Some(at);
        }
        if pod.is_bound {
            self.bound_at.get_or_insert(at);
        }
        if !is_gone || self.states.is_empty() {
            self.states.push((at, pod.clone()));
        }
    }

    /// As it was, or was last.
    pub(super) fn at(&self, at: Mono) -> Option<&Pod> {
        latest(&self.states, at)
    }

    /// When it was put on its way out by then, and whether the zone-evictor did it.
    pub(super) fn deleted_by(&self, at: Mono) -> Option<(Mono, bool)> {
        let (when, who) = self.deleted.as_ref().filter(|(when, _)| *when <= at)?;
        Some((*when, **who == *StageName::ZoneEvictor.as_str()))
    }

    pub(super) const fn bound_at(&self) -> Option<Mono> {
        self.bound_at
    }

    /// Since when it has been as it is, as far as evictions are concerned with it.
    pub(super) fn still_since(&self, at: Mono) -> Mono {
        let known = self.states.iter().filter(|(since, _)| *since <= at);
        let last = known.map(|(since, _)| *since).max().unwrap_or(Mono::ORIGIN);
        self.gone.filter(|gone| *gone <= at).map_or(last, |gone| gone.max(last))
    }
}

fn latest<T>(states: &[(Mono, T)], at: Mono) -> Option<&T> {
    let known = states.iter().take_while(|(since, _)| *since <= at);
    known.last().map(|(_, state)| state)
}

/// The NoExecute taints of a node.
pub(super) fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    node.taints.iter().filter(|taint| taint.effect == Effect::NoExecute)
}

/// `key=value`
pub(super) fn text(taint: &Taint) -> String {
    format!("{}={}", taint.key, taint.value)
}

/// True if the node says that it is not ready, or nobody hears it.
pub(super) fn is_down(node: &Node) -> bool {
    matches!(node.ready, ReadyStatus::False | ReadyStatus::Unknown)
}
