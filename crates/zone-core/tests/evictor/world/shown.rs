//! What the evictor was shown, by which it decides whose a node and its pods are, and what is due.

use super::*;

#[derive(Default)]
pub struct Shown {
    /// Other instances work on other zones, and say what there is to say of what moved there.
    pub others_speak: bool,
    /// Pods that are due.
    pub due: BTreeSet<PodUid>,
    nodes: BTreeMap<NodeName, NodeFacts>,
    /// Of a list that has not ended.
    listed: BTreeSet<NodeName>,
    /// Incarnations that will not be there again.
    gone: BTreeSet<NodeUid>,
    wishes: BTreeMap<NodeName, Zone>,
    /// The zones of pods' nodes, as their intents have them.
    pods: BTreeMap<PodUid, Zone>,
}

// === impl Shown ===

impl Shown {
    /// The process that all this was shown to is gone.
    pub fn forget(&mut self) {
        *self = Self {
            others_speak: self.others_speak,
            ..Self::default()
        };
    }

    pub fn note(&mut self, input: &Input) {
        match input {
            Input::SomeNodes { first, nodes } => {
                if *first {
                    self.listed.clear();
                }
                self.listed.extend(nodes.iter().map(|facts| facts.name.clone()));
                nodes.iter().for_each(|facts| self.put(facts, true));
            }
            Input::Nodes(list) => {
                let mut there = std::mem::take(&mut self.listed);
                there.extend(list.all.iter().map(|facts| facts.name.clone()));
                there.extend(list.unreadable.iter().cloned());
                self.nodes.retain(|name, _| there.contains(name));
                list.all.iter().for_each(|facts| self.put(facts, true));
            }
            Input::NodeApplied(facts) | Input::NodeAnswer { result: Ok(facts), .. } => self.put(facts, false),
            Input::NodeDeleted { name, .. } => {
                let gone = self.nodes.remove(name).map(|facts| facts.uid);
                self.gone.extend(gone);
            }
            Input::Snapshot { records, .. } => {
                self.due.clear();
                self.wishes.clear();
                self.pods.clear();
                records.iter().for_each(|record| self.note_intent(record));
            }
            Input::Changes { records, .. } => records.iter().for_each(|record| self.note_intent(record)),
            _ => {}
        }
    }

    fn put(&mut self, facts: &NodeFacts, of_list: bool) {
        let known = self.nodes.get(&facts.name);
        let is_older = |known: &NodeFacts| known.uid == facts.uid && facts.resource_version.is_older_than(&known.resource_version);
        if self.gone.contains(&facts.uid) || known.is_some_and(|known| !of_list && is_older(known)) {
            return;
        }
        let before = self.nodes.insert(facts.name.clone(), facts.clone());
        let replaced = before.filter(|before| before.uid != facts.uid);
        self.gone.extend(replaced.map(|before| before.uid));
    }

    fn note_intent(&mut self, record: &Record) {
        if record.topic != Topic::EvictionIntents || record.body == Some(Body::Unreadable) {
            return;
        }
        let intent = match &record.body {
            Some(Body::Intent(intent)) => Some(intent),
            _ => None,
        };
        if let Some(name) = record.key.strip_prefix("node/") {
            let zone = intent.and_then(|intent| match intent {
                Intent::Isolation(wish) => Some(wish.zone.clone()),
                Intent::NodeEviction(wish) => Some(wish.zone.clone()),
                Intent::Pod(_) => None,
            });
            self.wishes.remove(&NodeName::from(name));
            self.wishes.extend(zone.map(|zone| (NodeName::from(name), zone)));
        } else if let Some(uid) = record.key.strip_prefix("pod/") {
            let uid = PodUid::from(uid);
            self.due.remove(&uid);
            self.pods.remove(&uid);
            if let Some(Intent::Pod(intent)) = intent {
                self.pods.insert(uid.clone(), intent.zone.clone());
                if intent.state == IntentState::Due {
                    self.due.insert(uid);
                }
            }
        }
    }

    /// The zone that what was said is about, by now.
    pub fn home<'a>(&'a self, outcome: &'a Outcome) -> &'a Zone {
        let (name, told) = match outcome {
            Outcome::Zone(zone) => return &zone.zone,
            Outcome::Node(node) => (&node.node.name, &node.zone),
            Outcome::Pod(pod) => (&pod.node.name, self.pods.get(&pod.pod.uid).unwrap_or(&pod.zone)),
        };
        let of_facts = self.nodes.get(name).map(|facts| &facts.zone);
        of_facts.or_else(|| self.wishes.get(name)).unwrap_or(told)
    }
}

// === impl World ===

impl World {
    /// What is in a zone of another instance by now that one speaks of; what was said here does not stand any more.
    pub(super) fn leave_to_others(&mut self) {
        let (shard, shown) = (self.config.shard, &self.shown);
        let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Pod(pod) if pod.state.is_terminal());
        let is_left = |outcome: &Outcome| !is_over(outcome) && !shard.owns_zone(shown.home(outcome));
        self.outcomes.retain(|_, outcome| !is_left(outcome));
        self.bus
            .retain(|_, record| !matches!(&record.body, Some(Body::Outcome(outcome)) if is_left(outcome)));
    }
}
