//! The entry point: routes every input to the DaemonSets it concerns and syncs those.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::{Hold, HoldReason, Holds, Listed, Mono, Namespace, NodeName, Now, PodUid, Profile, Shard, Uid, Unlisted};

use crate::effect::{Answer, Effect, Input, RequestId, Watched};
use crate::facts::{Controller, DaemonSet, Node, Pod, Revision};
use crate::set::{Cx, Op, Out, Set};
use crate::timers::Timers;
use crate::world::{Shown, World};

/// Settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Profile.
    pub profile: Profile,
    /// Which DaemonSets are ours, by uid (design §8).
    pub shard: Shard,
}

/// Namespace and name of a DaemonSet (DS-006).
type Key = (Namespace, Arc<str>);

/// The decisions of the daemonset-syncer.
///
/// # Guarantees
/// - Nothing is decided before all nodes, pods, revisions and DaemonSets were listed once (DS-005).
/// - Nothing is decided amid a list of pods or nodes that comes in parts: a pod that is gone and the one that came in its place are both
///   known then, and look like one too many; and how many nodes want a pod is of two times.
/// - The same inputs give the same effects.
/// - Applying [`Input::Tick`] with nothing changed and no time passed gives no effect.
///
/// # Assumptions
/// - Every [`Effect::Send`] is answered exactly once.
#[derive(Debug, Default)]
pub struct Syncer {
    options: Options,
    world: World,
    sets: BTreeMap<Key, Set>,
    listed: Seen,
    unlisted_nodes: Unlisted<NodeName>,
    unlisted_pods: Unlisted<PodUid>,
    /// Why each watch that is not fresh is not.
    stale: BTreeMap<Watched, Hold>,
    holds: Holds,
    /// DaemonSets to be synced by this input.
    woken: BTreeSet<Key>,
    wakes: Timers<Key>,
    announced: Option<Mono>,
    out: Out,
}

#[derive(Debug, Default)]
struct Seen {
    nodes: bool,
    pods: bool,
    daemonsets: bool,
    revisions: bool,
}

impl Syncer {
    /// A core that knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// True once everything was listed.
    pub fn is_ready(&self) -> bool {
        let Seen {
            nodes,
            pods,
            daemonsets,
            revisions,
        } = self.listed;
        nodes && pods && daemonsets && revisions
    }

    /// Takes one input and says what to do.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        self.route(input, now);
        if self.is_ready() && self.may_decide() {
            self.sync(now);
        }
        std::mem::take(&mut self.out.effects)
    }

    /// What is known of pods, and of nodes, is of one time, or nothing is written anyway.
    fn may_decide(&self) -> bool {
        let is_listing = self.unlisted_pods.is_under_way() || self.unlisted_nodes.is_under_way();
        !is_listing || !self.stale.is_empty()
    }

    fn route(&mut self, input: Input, now: Now) {
        match input {
            Input::SomeNodes { first, nodes } => self.some_nodes_listed(first, nodes),
            Input::Nodes(nodes) => self.nodes_listed(nodes),
            Input::NodeApplied(node) => self.node_applied(node),
            Input::NodeDeleted(name) => self.node_deleted(&name),
            Input::SomePods { first, pods } => self.some_pods_listed(first, pods),
            Input::Pods(pods) => self.pods_listed(pods, now.mono),
            Input::PodApplied(pod) => self.pod_applied(pod),
            Input::PodDeleted(uid) => self.pod_deleted(&uid),
            Input::DaemonSets(daemonsets) => self.daemonsets_listed(daemonsets),
            Input::DaemonSetApplied(ds) => self.daemonset_applied(ds),
            Input::DaemonSetDeleted { namespace, name, uid } => self.daemonset_deleted(&(namespace, name), &uid),
            Input::Revisions(revisions) => self.revisions_listed(revisions),
            Input::RevisionApplied(revision) => self.revision_applied(revision),
            Input::RevisionDeleted { namespace, name, uid } => self.revision_deleted(&namespace, &name, &uid),
            Input::WatchStale { watch, reason } => self.watch_stale(watch, &reason, now),
            Input::WatchFresh(watch) => self.watch_fresh(watch),
            Input::Braked(holds) => {
                self.holds = holds;
                self.call_off_held();
                for (key, set) in &mut self.sets {
                    set.holds_changed();
                    self.woken.insert(key.clone());
                }
            }
            Input::Answered(id, answer) => self.answered(id, &answer, now),
            Input::Tick => {}
        }
    }

    fn sync(&mut self, now: Now) {
        while let Some(key) = self.wakes.pop(now.mono) {
            self.woken.insert(key);
        }
        let hold = self.hold();
        for key in std::mem::take(&mut self.woken) {
            let Some(set) = self.sets.get_mut(&key) else {
                self.wakes.set(&key, None);
                continue;
            };
            let mut cx = Cx {
                now,
                world: &self.world,
                profile: self.options.profile,
                held: hold.as_ref(),
                holds: &self.holds,
                out: &mut self.out,
            };
            set.sync(&mut cx);
            self.wakes.set(&key, set.next_wake());
        }
        let next = self.wakes.next();
        if next != self.announced {
            self.announced = next;
            self.out.effects.push(Effect::WakeAt(next));
        }
    }

    // === holds ===

    fn watch_stale(&mut self, watch: Watched, reason: &str, now: Now) {
        let before = self.hold();
        let hold = Hold {
            reason: HoldReason::ApiStale,
            detail: format!("the watch of {} is stale: {reason}", watch.as_str()),
            since: self.stale.get(&watch).map_or(now.wall, |hold| hold.since),
            until: None,
        };
        self.stale.insert(watch, hold);
        self.wake_if_held_otherwise(before);
    }

    fn watch_fresh(&mut self, watch: Watched) {
        let before = self.hold();
        self.stale.remove(&watch);
        self.wake_if_held_otherwise(before);
    }

    /// Why nothing may be written: a decision needs all four watches, and the one that is stale longest is the one to look at.
    fn hold(&self) -> Option<Hold> {
        self.stale.values().min_by_key(|hold| hold.since).cloned()
    }

    /// Takes deletes of running pods back that a hold covers by now, as far as they were not sent: they wait for their turn, minutes if
    /// there are many.
    fn call_off_held(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let (world, holds) = (&self.world, &self.holds);
        let is_held = |op: &Op| {
            op.deletes().is_some_and(|(uid, node)| {
                let is_running = world.pod(uid).is_some_and(|pod| !pod.is_terminal());
                is_running && world.is_held(node, holds)
            })
        };
        let held = self.out.asked.iter().filter(|(_, (_, op))| is_held(op));
        let held: Vec<Effect> = held.map(|(id, _)| Effect::CallOff(*id)).collect();
        self.out.effects.extend(held);
    }

    fn wake_if_held_otherwise(&mut self, before: Option<Hold>) {
        if self.hold() != before {
            self.woken.extend(self.sets.keys().cloned());
        }
    }

    // === nodes ===

    /// Some of a list. Each node is taken by itself; who is gone shows only in the end.
    fn some_nodes_listed(&mut self, begins: bool, nodes: Vec<Node>) {
        if begins {
            self.unlisted_nodes.begin(self.world.nodes.keys().cloned());
        }
        for node in nodes {
            self.unlisted_nodes.saw(&node.name);
            self.node_applied(node);
        }
    }

    fn nodes_listed(&mut self, nodes: Listed<Node, NodeName>) {
        self.listed.nodes = true;
        let named = nodes.all.iter().map(|node| &node.name).chain(&nodes.unreadable);
        for name in self.unlisted_nodes.end(|| self.world.nodes.keys().cloned(), named) {
            self.node_deleted(&name);
        }
        for node in nodes.all {
            self.node_applied(node);
        }
    }

    fn node_applied(&mut self, node: Node) {
        let known = self.world.nodes.get(&node.name);
        if known == Some(&node) {
            return;
        }
        let placement_changed = known.is_none_or(|known| known.labels != node.labels || known.taints != node.taints);
        let name = node.name.clone();
        self.world.apply_node(node);
        self.node_changed(&name, placement_changed);
    }

    fn node_deleted(&mut self, name: &NodeName) {
        if self.world.nodes.swap_remove(name).is_some() {
            self.node_changed(name, true);
        }
    }

    fn node_changed(&mut self, name: &NodeName, placement_changed: bool) {
        for (key, set) in &mut self.sets {
            if set.node_changed(name, placement_changed, self.options.profile, &self.world) {
                self.woken.insert(key.clone());
            }
        }
    }

    // === pods ===

    fn some_pods_listed(&mut self, begins: bool, pods: Vec<Pod>) {
        if begins {
            self.unlisted_pods.begin(self.world.pod_uids());
        }
        for pod in pods {
            self.unlisted_pods.saw(&pod.uid);
            self.pod_applied(pod);
        }
    }

    fn pods_listed(&mut self, pods: Listed<Pod, PodUid>, now: Mono) {
        self.listed.pods = true;
        let named = pods.all.iter().map(|pod| &pod.uid).chain(&pods.unreadable);
        let unlisted = self.unlisted_pods.end(|| self.world.pod_uids(), named);
        let gone: Vec<PodUid> = self.world.pod_uids().filter(|uid| unlisted.contains(uid)).collect();
        for uid in gone {
            self.pod_deleted(&uid);
        }
        for pod in pods.all {
            self.pod_applied(pod);
        }
        for (key, set) in &mut self.sets {
            set.pods_listed(now);
            self.woken.insert(key.clone());
        }
    }

    fn pod_applied(&mut self, mut pod: Pod) {
        if !self.may_be_ours(&pod) {
            // As good as somebody else's.
            pod.controller = Controller::Other;
        }
        let shown = self.world.apply_pod(pod);
        self.pod_changed(&shown);
    }

    /// False of the pods of DaemonSets that are another shard's: nothing here needs them.
    fn may_be_ours(&self, pod: &Pod) -> bool {
        match &pod.controller {
            Controller::DaemonSet(of) => self.options.shard.owns_daemonset(&of.uid),
            Controller::None | Controller::Other => true,
        }
    }

    fn pod_deleted(&mut self, uid: &PodUid) {
        self.world.bury(uid.as_uid());
        let Some((key, pod)) = self.world.remove_pod(uid) else {
            return;
        };
        let keys = self.concerned(&pod);
        let (old, key) = (Some((key, pod)), None);
        self.pod_changed(&Shown { old, key });
        for key in keys {
            if let Some(set) = self.sets.get_mut(&key) {
                set.forget(uid);
            }
        }
    }

    /// Shows the DaemonSets that a pod concerns or concerned how it is now.
    fn pod_changed(&mut self, shown: &Shown) {
        let old = shown.old.as_ref().map(|(_, pod)| pod);
        let new = shown.key.and_then(|key| self.world.pod_at(key));
        let keys: BTreeSet<Key> = old.into_iter().chain(new).flat_map(|pod| self.concerned(pod)).collect();
        for key in keys {
            let set = self.sets.get_mut(&key);
            if set.is_some_and(|set| set.pod_changed(shown, &self.world)) {
                self.woken.insert(key);
            }
        }
    }

    /// DaemonSets that a pod may concern: its owner (DS-022), or all of its namespace if it is an orphan (DS-024).
    fn concerned(&self, pod: &Pod) -> Vec<Key> {
        match &pod.controller {
            Controller::DaemonSet(of) => vec![(pod.namespace.clone(), of.name.clone())],
            Controller::None => self.of_namespace(&pod.namespace),
            Controller::Other => Vec::new(),
        }
    }

    fn of_namespace(&self, namespace: &Namespace) -> Vec<Key> {
        let first = (namespace.clone(), Arc::from(""));
        let keys = self.sets.range(first..).map(|(key, _)| key);
        keys.take_while(|(of, _)| of == namespace).cloned().collect()
    }

    // === DaemonSets ===

    fn daemonsets_listed(&mut self, daemonsets: Listed<DaemonSet, Key>) {
        self.listed.daemonsets = true;
        let read = daemonsets.all.iter().map(|ds| (ds.namespace.clone(), ds.name.clone()));
        let keys: BTreeSet<Key> = read.chain(daemonsets.unreadable).collect();
        let gone: Vec<Key> = self.sets.keys().filter(|key| !keys.contains(key)).cloned().collect();
        for key in gone {
            self.remove_set(&key);
        }
        for ds in daemonsets.all {
            self.daemonset_applied(ds);
        }
    }

    fn daemonset_applied(&mut self, ds: DaemonSet) {
        if self.world.is_gone(&Uid::from(&*ds.uid)) {
            return;
        }
        let key = (ds.namespace.clone(), ds.name.clone());
        if !self.options.shard.owns_daemonset(&ds.uid) {
            // Another shard's, perhaps in the place of one of ours (DS-021).
            return self.remove_set(&key);
        }
        if let Some(set) = self.sets.get_mut(&key) {
            if set.ds.uid == ds.uid && ds.version.is_older_than(&set.ds.version) {
                return;
            }
            if set.ds.uid == ds.uid && set.ds.selector == ds.selector {
                set.update(ds, &self.world);
                self.woken.insert(key);
                return;
            }
            // DS-021: another one of that name.
            self.remove_set(&key);
        }
        let uid = ds.uid.clone();
        let mut set = Set::new(ds, &self.world);
        for key in self.world.owned(&uid).chain(self.world.orphans(&key.0)) {
            let (old, key) = (None, Some(key));
            set.pod_changed(&Shown { old, key }, &self.world);
        }
        self.sets.insert(key.clone(), set);
        self.woken.insert(key);
    }

    fn daemonset_deleted(&mut self, key: &Key, uid: &str) {
        self.world.bury(&Uid::from(uid));
        if self.sets.get(key).is_some_and(|set| *set.ds.uid == *uid) {
            self.remove_set(key);
        }
    }

    fn remove_set(&mut self, key: &Key) {
        if let Some(set) = self.sets.remove(key) {
            self.out.effects.push(Effect::Withdraw(set.owner));
            self.wakes.set(key, None);
        }
    }

    // === revisions ===

    fn revisions_listed(&mut self, revisions: Listed<Revision, Arc<str>>) {
        self.listed.revisions = true;
        let read = revisions.all.iter().map(|revision| &revision.uid);
        let uids: BTreeSet<&Arc<str>> = read.chain(&revisions.unreadable).collect();
        let gone: Vec<Revision> = self
            .world
            .all_revisions()
            .filter(|known| !uids.contains(&known.uid))
            .cloned()
            .collect();
        for revision in gone {
            self.revision_deleted(&revision.namespace, &revision.name, &revision.uid);
        }
        for revision in revisions.all {
            self.revision_applied(revision);
        }
    }

    fn revision_applied(&mut self, revision: Revision) {
        let (known, is_kept) = self.world.apply_revision(revision.clone());
        if is_kept && known.as_ref() != Some(&revision) {
            // One that appears with an owner wakes nobody (DS-032): it is looked at with the next change of its DaemonSet, unless that
            // waits for one.
            let wakes = known.is_some() || revision.deleting || revision.controller == Controller::None;
            self.revision_changed(known.as_ref(), true);
            self.revision_changed(Some(&revision), wakes);
        }
    }

    fn revision_deleted(&mut self, namespace: &Namespace, name: &str, uid: &str) {
        let known = self.world.remove_revision(namespace, name, uid);
        self.revision_changed(known.as_ref(), true);
    }

    /// DS-032
    fn revision_changed(&mut self, revision: Option<&Revision>, wakes: bool) {
        let Some(revision) = revision else { return };
        for key in self.of_namespace(&revision.namespace) {
            let Some(set) = self.sets.get_mut(&key) else { continue };
            let is_orphan = revision.controller == Controller::None;
            if revision.is_controlled_by(&set.ds.uid) || (is_orphan && set.ds.selector.matches(&revision.labels)) {
                set.revisions_changed();
                // Unless it is the one that is waited for.
                if wakes || !set.is_settled() {
                    self.woken.insert(key);
                }
            }
        }
    }

    // === answers ===

    fn answered(&mut self, id: RequestId, answer: &Answer, now: Now) {
        let Some((owner, op)) = self.out.asked.remove(&id) else {
            return;
        };
        match answer {
            // An answer may come after the pod is gone again.
            Answer::Pod(pod) if self.world.pod(&pod.uid).is_some() => self.pod_applied((**pod).clone()),
            Answer::Revision(revision) => self.revision_applied((**revision).clone()),
            Answer::DaemonSet(ds) if self.set_of(&owner).is_some_and(|set| set.ds.uid == ds.uid) => {
                self.daemonset_applied((**ds).clone());
            }
            _ => {}
        }
        if let Some((name, uid)) = op.deleted_revision(answer) {
            self.revision_deleted(&owner.namespace, &name, &uid);
        }
        let key = (owner.namespace.clone(), owner.name.clone());
        let hold = self.hold();
        let Some(set) = self.sets.get_mut(&key).filter(|set| set.ds.uid == owner.uid) else {
            return;
        };
        let mut cx = Cx {
            now,
            world: &self.world,
            profile: self.options.profile,
            held: hold.as_ref(),
            holds: &self.holds,
            out: &mut self.out,
        };
        set.answered(&op, answer, &mut cx);
        self.woken.insert(key);
    }

    fn set_of(&self, owner: &crate::effect::Owner) -> Option<&Set> {
        self.sets.get(&(owner.namespace.clone(), owner.name.clone()))
    }
}
