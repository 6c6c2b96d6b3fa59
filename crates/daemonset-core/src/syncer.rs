//! The entry point: routes every input to the DaemonSets it concerns and syncs those.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiff_model::{Holds, Listed, Mono, Namespace, NodeName, Now, Profile, Shard, Uid, Unlisted};

use crate::effect::{Answer, Effect, Input, RequestId, Watched};
use crate::facts::{Controller, DaemonSet, Node, Revision};
use crate::scopes::Scopes;
use crate::set::{Cx, Op, Out, Set};
use crate::stale::Stale;
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
/// - Nothing is decided of a DaemonSet before all nodes, revisions, DaemonSets, and pods of its namespace were listed once (DS-005).
/// - Nothing is decided amid a list of its pods, or of nodes, that comes in parts, however long it takes: a pod that is gone and the one
///   that came in its place are both known then, and look like one too many; and how many nodes want a pod is of two times. Only what
///   holds it is told.
/// - Pods are asked for where DaemonSets are ([`Effect::WatchPods`]); what comes of others is not looked at.
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
    /// The last request that had been sent when revisions were listed last.
    sent_before_revisions: RequestId,
    unlisted_nodes: Unlisted<NodeName>,
    scopes: Scopes,
    /// Namespaces in which a DaemonSet came or went by this input.
    touched: BTreeSet<Namespace>,
    stale: Stale,
    holds: Holds,
    /// DaemonSets to be synced by this input.
    woken: BTreeSet<Key>,
    /// Those that were, and wait for the end of a list.
    waiting: BTreeSet<Key>,
    wakes: Timers<Key>,
    announced: Option<Mono>,
    out: Out,
}

#[derive(Debug, Default)]
struct Seen {
    nodes: bool,
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

    /// True while everything that is needed was listed once, and every DaemonSet looked at.
    pub fn is_ready(&self) -> bool {
        self.has_begun() && self.scopes.are_listed() && self.waiting.is_empty()
    }

    /// True once everything but pods was listed.
    fn has_begun(&self) -> bool {
        let Seen {
            nodes,
            daemonsets,
            revisions,
        } = self.listed;
        nodes && daemonsets && revisions
    }

    /// Takes one input and says what to do.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        self.route(input, now);
        self.watch_pods();
        if self.has_begun() {
            self.sync(now);
        }
        std::mem::take(&mut self.out.effects)
    }

    fn route(&mut self, input: Input, now: Now) {
        match input {
            Input::SomeNodes { first, nodes } => self.some_nodes_listed(first, nodes),
            Input::Nodes(nodes) => self.nodes_listed(nodes),
            Input::NodeApplied(node) => self.node_applied(node),
            Input::NodeDeleted(name) => self.node_deleted(&name),
            Input::SomePods { of, first, pods } => self.some_pods_listed(&of, first, pods),
            Input::Pods { of, pods } => self.pods_listed(&of, pods, now.mono),
            Input::PodApplied { of, pod } => self.pod_told(&of, pod),
            Input::PodDeleted(uid) => self.pod_deleted(&uid),
            Input::DaemonSets(daemonsets) => self.daemonsets_listed(daemonsets),
            Input::DaemonSetApplied(ds) => self.daemonset_applied(ds),
            Input::DaemonSetDeleted { namespace, name, uid } => self.daemonset_deleted(&(namespace, name), &uid),
            Input::Revisions(revisions) => self.revisions_listed(revisions),
            Input::RevisionApplied(revision) => self.revision_applied(revision, true),
            Input::RevisionDeleted { namespace, name, uid } => self.revision_deleted(&namespace, &name, &uid),
            Input::WatchStale { watch, reason } if self.needs(&watch) => {
                self.stale_otherwise(|stale| stale.note(watch, &reason, now.wall));
            }
            // Nobody asked.
            Input::WatchStale { .. } => {}
            Input::WatchFresh(watch) => self.stale_otherwise(|stale| stale.clear(&watch)),
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
        for key in std::mem::take(&mut self.woken) {
            let Some(set) = self.sets.get_mut(&key) else {
                self.wakes.set(&key, None);
                continue;
            };
            let Some(pods) = self.scopes.of(&key.0).filter(|pods| pods.is_listed()) else {
                self.waiting.insert(key);
                continue;
            };
            let mut cx = Cx {
                now,
                world: &self.world,
                profile: self.options.profile,
                held: self.stale.over(&key.0, &self.scopes),
                holds: &self.holds,
                out: &mut self.out,
            };
            if pods.is_being_listed() || self.unlisted_nodes.is_under_way() {
                set.bide(&mut cx);
                self.waiting.insert(key);
            } else {
                set.sync(&mut cx);
                self.wakes.set(&key, set.next_wake());
            }
        }
        let next = self.wakes.next();
        if next != self.announced {
            self.announced = next;
            self.out.effects.push(Effect::WakeAt(next));
        }
    }

    // === holds ===

    /// Changes what is known of watches, and wakes the DaemonSets that are held otherwise by it.
    fn stale_otherwise(&mut self, change: impl FnOnce(&mut Stale)) {
        let (before, scopes) = (self.stale.clone(), &self.scopes);
        change(&mut self.stale);
        let is_held_otherwise = |key: &&Key| before.over(&key.0, scopes) != self.stale.over(&key.0, scopes);
        self.woken.extend(self.sets.keys().filter(is_held_otherwise).cloned());
        self.woken.append(&mut self.waiting);
    }

    /// False of watches of pods that nobody asked for.
    fn needs(&self, watch: &Watched) -> bool {
        match watch {
            Watched::Pods(scope) => self.scopes.watched().contains(scope),
            Watched::DaemonSets | Watched::Revisions | Watched::Nodes => true,
        }
    }

    /// Takes deletes of running pods back that a hold covers by now, as far as they were not sent: they wait for their turn, minutes if
    /// there are many.
    fn call_off_held(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let (world, holds) = (&self.world, &self.holds);
        let is_held = |op: &Op| {
            op.deletes()
                .is_some_and(|(uid, node)| world.is_held(node, holds) && world.is_running(uid))
        };
        let held = self.out.asked.iter().filter(|(_, (_, op))| is_held(op));
        let held: Vec<Effect> = held.map(|(id, _)| Effect::CallOff(*id)).collect();
        self.out.effects.extend(held);
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
        self.woken.append(&mut self.waiting);
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

    // === DaemonSets ===

    fn of_namespace(&self, namespace: &Namespace) -> Vec<Key> {
        self.keys_in(namespace).cloned().collect()
    }

    fn keys_in(&self, namespace: &Namespace) -> impl Iterator<Item = &Key> {
        let first = (namespace.clone(), Arc::from(""));
        let keys = self.sets.range(first..).map(|(key, _)| key);
        keys.take_while(move |(of, _)| of == namespace)
    }

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
                set.update(ds, &self.world, &mut self.out);
                self.woken.insert(key);
                return;
            }
            // DS-021: another one of that name.
            self.remove_set(&key);
        }
        let uid = ds.uid.clone();
        let mut set = Set::new(ds, &self.world);
        for key in self.world.owned(&key.0, &uid).chain(self.world.orphans(&key.0)) {
            let (old, key) = (None, Some(key));
            set.pod_changed(&Shown { old, key }, &self.world);
        }
        self.sets.insert(key.clone(), set);
        self.touched.insert(key.0.clone());
        self.woken.insert(key);
    }

    fn daemonset_deleted(&mut self, key: &Key, uid: &str) {
        self.world.bury(&Uid::from(uid));
        if self.sets.get(key).is_some_and(|set| *set.ds.uid == *uid) {
            self.remove_set(key);
        }
    }

    fn remove_set(&mut self, key: &Key) {
        if let Some(mut set) = self.sets.remove(key) {
            set.call_off_all(&mut self.out);
            self.out.effects.push(Effect::Withdraw(set.owner));
            self.wakes.set(key, None);
            self.waiting.remove(key);
            self.touched.insert(key.0.clone());
        }
    }

    // === revisions ===

    fn revisions_listed(&mut self, revisions: Listed<Revision, Arc<str>>) {
        self.listed.revisions = true;
        self.sent_before_revisions = self.out.last();
        let read = revisions.all.iter().map(|revision| &revision.uid);
        let uids: BTreeSet<&Arc<str>> = read.chain(&revisions.unreadable).collect();
        let gone: Vec<Revision> = self
            .world
            .all_revisions()
            .filter(|known| !uids.contains(&known.uid))
            .cloned()
            .collect();
        for revision in gone {
            let known = self.world.unlist_revision(&revision.namespace, &revision.name, &revision.uid);
            self.revision_changed(known.as_ref(), true);
        }
        for revision in revisions.all {
            self.revision_applied(revision, true);
        }
    }

    fn revision_applied(&mut self, revision: Revision, by_watch: bool) {
        let (known, is_kept) = self.world.apply_revision(revision.clone(), by_watch);
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
            let is_ours = revision.is_controlled_by(&set.ds.uid) || set.borrows(&revision.uid);
            if is_ours || (is_orphan && set.ds.selector.matches(&revision.labels)) {
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
            Answer::Revision(revision) if self.may_be_there(revision, id) => self.revision_applied((**revision).clone(), false),
            Answer::DaemonSet(live) => {
                let known = self.set_of(&owner).map(|set| &set.ds).filter(|known| known.uid == live.uid);
                if let Some(ds) = known.map(|known| known.with_status_of(live)) {
                    self.daemonset_applied(ds);
                }
            }
            _ => {}
        }
        if let Some((name, uid)) = op.deleted_revision(answer) {
            self.revision_deleted(&owner.namespace, &name, &uid);
        }
        let key = (owner.namespace.clone(), owner.name.clone());
        // One that came anew since, even if it is of the same uid, did not ask for it.
        let Some(set) = self.sets.get_mut(&key).filter(|set| Arc::ptr_eq(&set.owner, &owner)) else {
            return;
        };
        let mut cx = Cx {
            now,
            world: &self.world,
            profile: self.options.profile,
            held: self.stale.over(&key.0, &self.scopes),
            holds: &self.holds,
            out: &mut self.out,
        };
        set.answered(&op, answer, &mut cx);
        self.woken.insert(key);
    }

    /// False of one that is not known although revisions were listed since it was asked about: perhaps it was gone by then, and no watch
    /// would say so. If not, the watch tells of it, or the next answer.
    fn may_be_there(&self, revision: &Revision, asked: RequestId) -> bool {
        self.world.has_revision(revision) || asked > self.sent_before_revisions
    }

    fn set_of(&self, owner: &crate::effect::Owner) -> Option<&Set> {
        self.sets.get(&(owner.namespace.clone(), owner.name.clone()))
    }
}
