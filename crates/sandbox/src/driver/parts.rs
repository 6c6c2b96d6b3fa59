//! The parts that are simulated, side by side: who is told what, and what came of what they wanted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bailiff_model::{Mono, Now};

use super::feed::{Occurrence, What};
use super::{Command, Options};
use crate::budgets::Budgets;
use crate::effect::Effect;
use crate::facts::{Malformed, NodeFacts, PodFacts, PodKey};
use crate::gc::{Item, LostPods, Namespaces, Owners, Resource};
use crate::kubelet::KubeletSettings;
use crate::replicasets::{ReplicaSets, SetFacts};
use crate::store::Object;
use crate::{Sandbox, User, binder, kubelet};

/// All parts, and the effects that are not carried out yet.
pub struct Parts {
    pub(super) sandbox: Sandbox,
    pub(super) kubelets: Option<kubelet::Core>,
    pub(super) binder: Option<binder::Core>,
    pub(super) collector: Option<Collector>,
    pub(super) replica_sets: Option<ReplicaSets>,
    pub(super) budgets: Option<Budgets>,
    pub(super) effects: VecDeque<(Part, Effect)>,
    /// What exists, per resource: needed to find out what is gone when a watch starts again with a list.
    items: BTreeMap<Arc<str>, Uids>,
    is_synced: bool,
}

/// Uids by namespace and name.
type Uids = BTreeMap<(Box<str>, Box<str>), Box<str>>;

/// Who wants something done: objects say so in their managed fields, as in a real cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Kubelet,
    Scheduler,
    Collector,
    ReplicaSets,
    Budgets,
}

/// The garbage collector.
pub struct Collector {
    pub owners: Owners,
    pub namespaces: Namespaces,
    pub lost_pods: LostPods,
}

// === impl Part ===

impl Part {
    /// The user that it makes requests as. Simulated parts may do everything.
    pub fn user(self) -> User {
        let name = match self {
            Self::Kubelet => "kubelet",
            Self::Scheduler => "kube-scheduler",
            Self::Collector => "generic-garbage-collector",
            Self::ReplicaSets => "replicaset-controller",
            Self::Budgets => "disruption-controller",
        };
        User::new(name, &["system:masters", "system:authenticated"])
    }
}

/// What a part wants done.
pub fn by(part: Part, effects: Vec<Effect>) -> impl Iterator<Item = (Part, Effect)> {
    effects.into_iter().map(move |effect| (part, effect))
}

// === impl Parts ===

impl Parts {
    /// The parts that `options` ask for.
    pub fn new(sandbox: &Sandbox, options: &Options) -> Self {
        let stored = Resource::stored(&sandbox.kinds());
        let salt = sandbox.seed().fork("kubelets").next_u64();
        let settings = options.kubelets.clone();
        let delay = settings
            .as_ref()
            .map_or(KubeletSettings::cluster().bind_delay, |settings| settings.bind_delay);
        Self {
            sandbox: sandbox.clone(),
            kubelets: settings.map(|settings| kubelet::Core::new(settings, salt)),
            binder: options.binder.map(|mode| binder::Core::new(mode, delay)),
            collector: options.collect_garbage.then(|| Collector {
                owners: Owners::new(&stored),
                namespaces: Namespaces::default(),
                lost_pods: LostPods::default(),
            }),
            replica_sets: options.replica_sets.then(ReplicaSets::default),
            budgets: options.budgets.then(Budgets::default),
            effects: VecDeque::new(),
            items: BTreeMap::new(),
            is_synced: false,
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Option<Mono> {
        let collector = self.collector.iter().flat_map(|collector| {
            let Collector {
                owners,
                namespaces,
                lost_pods,
            } = collector;
            [owners.next_deadline(), namespaces.next_deadline(), lost_pods.next_deadline()]
        });
        let others = [
            self.kubelets.as_ref().and_then(kubelet::Core::next_deadline),
            self.binder.as_ref().and_then(binder::Core::next_deadline),
            self.replica_sets.as_ref().and_then(ReplicaSets::next_deadline),
            self.budgets.as_ref().and_then(Budgets::next_deadline),
        ];
        collector.chain(others).flatten().min()
    }

    /// Takes a change.
    pub fn take(&mut self, occurrence: Occurrence, now: Now) {
        let Occurrence { resource, what } = occurrence;
        match what {
            What::Exists(object) => self.exists(&resource, &object, now),
            What::Gone(object) => self.gone(&resource, object.namespace(), object.name(), object.uid(), now),
            What::All(objects) => self.all(&resource, &objects, now),
        }
    }

    /// Time passed, and everything that happened was taken.
    pub fn wake(&mut self, now: Now) {
        if !std::mem::replace(&mut self.is_synced, true) {
            self.synced(now);
        }
        if let Some(kubelets) = &mut self.kubelets {
            self.effects
                .extend(by(Part::Kubelet, kubelets.apply(kubelet::Input::Wake, now)));
        }
        if let Some(binder) = &mut self.binder {
            self.effects
                .extend(by(Part::Scheduler, binder.apply(binder::Input::Wake, now)));
        }
        if let Some(sets) = &mut self.replica_sets {
            self.effects.extend(by(Part::ReplicaSets, sets.wake(now)));
        }
        if let Some(budgets) = &mut self.budgets {
            self.effects.extend(by(Part::Budgets, budgets.wake(now)));
        }
        if let Some(collector) = &mut self.collector {
            self.effects.extend(by(Part::Collector, collector.owners.wake(now)));
            self.effects.extend(by(Part::Collector, collector.namespaces.wake(now)));
            self.effects.extend(by(Part::Collector, collector.lost_pods.wake(now)));
        }
    }

    /// Does what the program asks for.
    pub fn command(&mut self, command: Command, now: Now) {
        match command {
            Command::Change(target, change, done) => {
                if let Some(kubelets) = &mut self.kubelets {
                    self.effects.extend(by(
                        Part::Kubelet,
                        kubelets.apply(kubelet::Input::Change { target, change }, now),
                    ));
                }
                // Who asked may have gone.
                let _ = done.send(());
            }
            Command::Settings(node, answer) => {
                if let Some(kubelets) = &self.kubelets {
                    let _ = answer.send(kubelets.settings(&node).clone());
                }
            }
        }
    }

    fn synced(&mut self, now: Now) {
        if let Some(collector) = &mut self.collector {
            self.effects.extend(by(Part::Collector, collector.owners.synced()));
            self.effects.extend(by(Part::Collector, collector.namespaces.synced()));
            collector.lost_pods.synced(now);
        }
    }

    /// A watch started again: what is not in the list is gone.
    fn all(&mut self, resource: &Arc<Resource>, objects: &[Arc<Object>], now: Now) {
        let listed: BTreeSet<&str> = objects.iter().map(|object| object.uid()).collect();
        let known = self.items.get(&resource.storage).into_iter().flatten();
        let gone: Vec<_> = known
            .filter(|(_, uid)| !listed.contains(&***uid))
            .map(|(key, uid)| (key.clone(), uid.clone()))
            .collect();
        for ((namespace, name), uid) in gone {
            self.gone(resource, &namespace, &name, &uid, now);
        }
        for object in objects {
            self.exists(resource, object, now);
        }
        if let Some(collector) = &mut self.collector {
            self.effects.extend(by(Part::Collector, collector.owners.serve(resource)));
        }
    }
}

// === impl Parts: objects ===

impl Parts {
    fn exists(&mut self, resource: &Arc<Resource>, object: &Arc<Object>, now: Now) {
        let key = (object.namespace().into(), object.name().into());
        self.items
            .entry(Arc::clone(&resource.storage))
            .or_default()
            .insert(key, object.uid().into());
        let told = match &*resource.storage {
            "nodes" => NodeFacts::read(object).map(|facts| self.node_seen(facts, now)),
            "pods" => PodFacts::read(object).map(|facts| {
                if let Some(budgets) = &mut self.budgets {
                    budgets.pod_seen(object, &facts);
                }
                self.pod_seen(facts, now);
            }),
            "replicasets.apps" => SetFacts::read(object).map(|facts| self.set_seen(facts)),
            "poddisruptionbudgets.policy" => {
                if let Some(budgets) = &mut self.budgets {
                    budgets.budget_seen(object, now);
                }
                Ok(())
            }
            _ => Ok(()),
        };
        report(told);
        if let Some(collector) = &mut self.collector {
            match Item::read(resource, object) {
                Ok(item) => {
                    self.effects.extend(by(Part::Collector, collector.namespaces.seen(&item)));
                    self.effects.extend(by(Part::Collector, collector.owners.seen(item)));
                }
                Err(error) => report(Err(error)),
            }
        }
    }

    fn gone(&mut self, resource: &Arc<Resource>, namespace: &str, name: &str, uid: &str, now: Now) {
        if let Some(items) = self.items.get_mut(&resource.storage) {
            items.remove(&(Box::from(namespace), Box::from(name)));
        }
        match &*resource.storage {
            "nodes" => self.node_gone(name, now),
            "pods" => self.pod_gone(&PodKey::new(namespace, name), now),
            "replicasets.apps" => {
                if let Some(sets) = &mut self.replica_sets {
                    sets.set_gone(uid);
                }
                if let Some(budgets) = &mut self.budgets {
                    budgets.size_seen(namespace, uid, None);
                }
            }
            "poddisruptionbudgets.policy" => {
                if let Some(budgets) = &mut self.budgets {
                    budgets.budget_gone(namespace, name);
                }
            }
            _ => {}
        }
        if let Some(collector) = &mut self.collector {
            self.effects
                .extend(by(Part::Collector, collector.namespaces.gone(resource, namespace, name, uid)));
            self.effects.extend(by(Part::Collector, collector.owners.gone(uid)));
        }
    }

    fn node_seen(&mut self, facts: NodeFacts, now: Now) {
        if let Some(collector) = &mut self.collector {
            collector.lost_pods.node_seen(&facts.name);
        }
        if let Some(binder) = &mut self.binder {
            let input = binder::Input::Node(Box::new(facts.clone()));
            self.effects.extend(by(Part::Scheduler, binder.apply(input, now)));
        }
        if let Some(kubelets) = &mut self.kubelets {
            self.effects.extend(by(Part::Kubelet, kubelets.apply(facts.into(), now)));
        }
    }

    fn node_gone(&mut self, name: &str, now: Now) {
        if let Some(collector) = &mut self.collector {
            collector.lost_pods.node_gone(&name.into(), now);
        }
        if let Some(binder) = &mut self.binder {
            self.effects
                .extend(by(Part::Scheduler, binder.apply(binder::Input::NodeGone(name.into()), now)));
        }
        if let Some(kubelets) = &mut self.kubelets {
            self.effects
                .extend(by(Part::Kubelet, kubelets.apply(kubelet::Input::NodeGone(name.into()), now)));
        }
    }

    fn pod_seen(&mut self, facts: PodFacts, now: Now) {
        if let Some(collector) = &mut self.collector {
            collector.lost_pods.pod_seen(&facts, now);
        }
        if let Some(sets) = &mut self.replica_sets {
            self.effects.extend(by(Part::ReplicaSets, sets.pod_seen(&facts, now)));
        }
        if let Some(binder) = &mut self.binder {
            let input = binder::Input::Pod(Box::new(facts.clone()));
            self.effects.extend(by(Part::Scheduler, binder.apply(input, now)));
        }
        if let Some(kubelets) = &mut self.kubelets {
            self.effects.extend(by(Part::Kubelet, kubelets.apply(facts.into(), now)));
        }
    }

    fn pod_gone(&mut self, key: &PodKey, now: Now) {
        if let Some(budgets) = &mut self.budgets {
            budgets.pod_gone(key.namespace.as_str(), key.name.as_str());
        }
        if let Some(collector) = &mut self.collector {
            collector.lost_pods.pod_gone(key);
        }
        if let Some(sets) = &mut self.replica_sets {
            self.effects.extend(by(Part::ReplicaSets, sets.pod_gone(key)));
        }
        if let Some(binder) = &mut self.binder {
            self.effects
                .extend(by(Part::Scheduler, binder.apply(binder::Input::PodGone(key.clone()), now)));
        }
        if let Some(kubelets) = &mut self.kubelets {
            self.effects
                .extend(by(Part::Kubelet, kubelets.apply(kubelet::Input::PodGone(key.clone()), now)));
        }
    }

    fn set_seen(&mut self, facts: SetFacts) {
        if let Some(budgets) = &mut self.budgets {
            budgets.size_seen(facts.namespace(), facts.uid(), Some(facts.replicas()));
        }
        if let Some(sets) = &mut self.replica_sets {
            self.effects.extend(by(Part::ReplicaSets, sets.set_seen(facts)));
        }
    }
}

/// A malformed object is skipped: nothing happens to it until it changes.
fn report(told: Result<(), Malformed>) {
    if let Err(error) = told {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        tracing::warn!(%error, source, "skipped a malformed object");
    }
}
