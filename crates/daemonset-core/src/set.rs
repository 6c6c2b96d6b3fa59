//! One DaemonSet: its pairs, what is under way, and one sync of it (DS-040).
//!
//! Events mark pairs as touched; [`Set::sync`] judges the touched ones again and acts on counters and candidate sets. A sync costs
//! the touched pairs and the requests it makes, never the number of nodes.

mod answers;
mod claims;
mod creates;
mod deletes;
mod judging;
mod partition;
mod report;
mod revisions;
mod status;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{About, Hold, Holds, IndexMap, Mono, NodeName, Now, PodName, PodUid, Profile, Stamp, Wall};
use smallvec::SmallVec;

use crate::effect::{Effect, Owner, Request, RequestId, Severity, Urgency};
use crate::facts::{DaemonSet, Node};
use crate::history::{Current, History};
use crate::pair::{Class, Judgement, Rolled, Standing};
use crate::placement::Verdict;
use crate::policy::{Complaint, Policy};
use crate::retry::PodBackoff;
use crate::template::Blueprint;
use crate::timers::Timers;
use crate::world::{PodKey, World};

pub(crate) use answers::Op;

/// Creates, and separately deletes, that may be under way and not seen yet (DS-003, DS-110).
const BURST: usize = 250;

/// How long something that was answered may stay unseen before it is no longer waited for (DS-050).
const UNSEEN: Duration = Duration::from_secs(5 * 60);

/// How long a request whose answer was lost is taken as done: mostly long enough for the watch to show what became of it. It is decided
/// anew on what is there then; where the watch is later still, a repeated create names the same pod, and a delete the same uid.
const AMBIGUOUS: Duration = Duration::from_secs(10);

/// The surroundings of one call.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) world: &'a World,
    pub(crate) profile: Profile,
    /// Why nothing may be written, if so.
    pub(crate) held: Option<&'a Hold>,
    /// Running pods of nodes that these cover are not deleted.
    pub(crate) holds: &'a Holds,
    pub(crate) out: &'a mut Out,
}

impl<'a> Cx<'a> {
    /// True if pods that run on the node may not be deleted at the moment.
    pub(crate) fn is_held(&self, node: &NodeName) -> bool {
        self.world.is_held(node, self.holds)
    }

    /// True of a pod that runs on such a node. One that has ended already is no loss to anybody.
    pub(crate) fn keeps(&self, node: &NodeName, uid: &PodUid) -> bool {
        self.is_held(node) && self.world.is_running(uid)
    }

    /// What holds all of the DaemonSet, if anything does.
    pub(crate) fn held_as_a_whole(&self) -> Option<&'a Hold> {
        self.held.or(self.holds.on_everything())
    }
}

/// Effects, and what their answers will mean.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) effects: Vec<Effect>,
    pub(crate) asked: BTreeMap<RequestId, (Arc<Owner>, Op)>,
    requests: u64,
}

impl Out {
    /// The last request that was sent.
    pub(crate) const fn last(&self) -> RequestId {
        RequestId(self.requests)
    }

    fn send(&mut self, owner: &Arc<Owner>, urgency: Urgency, request: Request, op: Op) -> RequestId {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.asked.insert(id, (owner.clone(), op));
        let owner = owner.clone();
        self.effects.push(Effect::Send {
            id,
            owner,
            urgency,
            request,
        });
        id
    }

    fn event(&mut self, owner: &Arc<Owner>, severity: Severity, reason: &'static str, message: String, about: About) {
        let owner = owner.clone();
        self.effects.push(Effect::Event {
            owner,
            severity,
            reason,
            message,
            about,
        });
    }
}

/// A DaemonSet with everything that is known and under way about it.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) ds: DaemonSet,
    pub(crate) owner: Arc<Owner>,
    /// It was created or changed since the last sync.
    changed: bool,
    /// A lookup costs the same at any number of nodes.
    pairs: IndexMap<NodeName, Box<Pair>>,
    /// Pairs to be judged again.
    touched: BTreeSet<NodeName>,
    /// All pairs are to be judged again, by new rules.
    rules_changed: bool,
    policy: Policy,
    /// What is wrong with its annotations.
    complaints: Vec<Complaint>,
    /// That was not said yet.
    is_complaining: bool,
    tally: tally::Tally,
    timers: Timers<Timer>,
    claims: claims::Claims,
    /// Pods with a known target, by value of their hash label.
    pods_by_hash: BTreeMap<Arc<str>, u32>,
    history: History,
    history_dirty: bool,
    /// Old revisions may have become superfluous.
    surplus_dirty: bool,
    /// The current revision is known and as it should be.
    settled: bool,
    current: Option<Current>,
    /// Since when the current revision is current.
    since: Wall,
    partition: partition::Partition,
    blueprint: Option<Arc<Blueprint>>,
    generation_label: Option<String>,
    creates: creates::Creates,
    deletes: deletes::Deletes,
    /// The rollout was at rest when pairs were judged last.
    rests: bool,
    backoffs: BTreeMap<NodeName, PodBackoff>,
    status: status::Writer,
    report: report::Report,
}

/// One node of a DaemonSet: one that should run a pod, or holds one.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// The node; `None` if there is none of that name.
    node: Option<Standing>,
    verdict: Verdict,
    /// With a rollout that surges there are two.
    pods: SmallVec<[PodKey; 2]>,
    /// Orphans there that are about to be adopted.
    adopting: u32,
    creating: Option<Box<creates::Creating>>,
    /// Name of a pod that was perhaps created there: if it is still wanted, it is asked for under that name again.
    doubtful: Option<Box<PodName>>,
    judgement: Judgement,
    rolled: Rolled,
    /// Since when the present reason is known.
    since: Option<Stamp>,
}

impl Pair {
    fn is_empty(&self) -> bool {
        !self.verdict.run && self.pods.is_empty() && self.adopting == 0 && self.creating.is_none()
    }
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// The pair has to be judged again.
    Pair(NodeName),
    /// A pod being created there was not seen in time.
    Creating(NodeName),
    /// A pod's work may be tried again, or is no longer waited for.
    Pod(PodUid),
    /// The failed-pod backoff of a node is forgotten.
    Forget(NodeName),
    /// A pause ends, or a status or report is due.
    Sync,
}

impl Set {
    pub(crate) fn new(ds: DaemonSet, world: &World) -> Self {
        let owner = Arc::new(Owner {
            namespace: ds.namespace.clone(),
            name: ds.name.clone(),
            uid: ds.uid.clone(),
        });
        let mut set = Self {
            generation_label: ds.template_generation.map(|generation| generation.to_string()),
            ds,
            owner,
            changed: true,
            pairs: IndexMap::default(),
            touched: BTreeSet::new(),
            rules_changed: true,
            policy: Policy::default(),
            complaints: Vec::new(),
            is_complaining: false,
            tally: tally::Tally::default(),
            timers: Timers::default(),
            claims: claims::Claims::default(),
            pods_by_hash: BTreeMap::new(),
            history: History::default(),
            history_dirty: true,
            surplus_dirty: true,
            settled: false,
            current: None,
            since: Wall::UNIX_EPOCH,
            partition: partition::Partition::default(),
            blueprint: None,
            creates: creates::Creates::default(),
            deletes: deletes::Deletes::default(),
            rests: false,
            backoffs: BTreeMap::new(),
            status: status::Writer::default(),
            report: report::Report::default(),
        };
        set.read_policy();
        set.place_all(world);
        set
    }

    /// Takes a newer state of the same DaemonSet. A change of status alone costs no pair.
    pub(crate) fn update(&mut self, ds: DaemonSet, world: &World, out: &mut Out) {
        let old = std::mem::replace(&mut self.ds, ds);
        let ds = &self.ds;
        let template_changed = old.template != ds.template;
        let moved = old.template.placement() != ds.template.placement();
        if old.generation != ds.generation || old.template_generation != ds.template_generation || template_changed {
            self.rules_changed = true;
            // New pods carry the generation, too.
            self.history_dirty = true;
            self.generation_label = ds.template_generation.map(|generation| generation.to_string());
            // A person repaired it, perhaps: try again at once.
            self.creates.forgive();
        }
        if template_changed {
            self.settled = false;
            self.history.template_changed();
            // Those of the template before: what nodes lack is decided anew once the new revision is known.
            self.creates.call_off_all(out);
        }
        if old.status.observed_generation != ds.status.observed_generation {
            // DS-105: a new key.
            self.touched.extend(std::mem::take(&mut self.backoffs).into_keys());
        }
        self.surplus_dirty |= template_changed || old.history_limit != ds.history_limit;
        self.changed = true;
        if old.annotations != ds.annotations {
            self.read_policy();
        }
        if moved {
            self.place_all(world);
        }
    }

    /// When it wants to be synced again.
    pub(crate) fn next_wake(&mut self) -> Option<Mono> {
        self.timers.next()
    }

    // === nodes ===

    fn place_all(&mut self, world: &World) {
        let names: BTreeSet<NodeName> = world.nodes.keys().chain(self.pairs.keys()).cloned().collect();
        for name in names {
            self.place(&name, world);
        }
    }

    /// Judges placement on a node again, whether it exists or not, and touches the pair.
    fn place(&mut self, name: &NodeName, world: &World) -> Verdict {
        let node = world.nodes.get(name);
        let verdict = node.map(|node| self.ds.template.placement().judge(node)).unwrap_or_default();
        if !verdict.run && !self.pairs.contains_key(name) {
            return verdict;
        }
        let pair = self.pair(name, world);
        pair.verdict = verdict;
        pair.node = node.map(Node::standing);
        self.touched.insert(name.clone());
        verdict
    }

    /// A node was created, changed or deleted. Returns true if the DaemonSet has to be synced for it.
    ///
    /// Upstream misses some of what matters here (DS-031, DS-225, DS-226): under its profile the pair then waits for the next sync.
    pub(crate) fn node_changed(&mut self, name: &NodeName, placement_changed: bool, profile: Profile, world: &World) -> bool {
        let verdict = if placement_changed {
            self.place(name, world)
        } else {
            let pair = self.pairs.get_mut(name);
            pair.map_or_else(Verdict::default, |pair| {
                pair.node = world.nodes.get(name).map(Node::standing);
                self.touched.insert(name.clone());
                pair.verdict
            })
        };
        if profile == Profile::Bailiff {
            return self.touched.contains(name);
        }
        if !placement_changed || !world.nodes.contains_key(name) {
            return false;
        }
        // DS-139: a pass that failed because this node was missing is made again until it is there.
        if self.pairs.get(name).is_some_and(|pair| pair.judgement.class == Class::Lost) {
            return true;
        }
        let pods = self.pairs.get(name).map(|pair| pair.pods.as_slice()).unwrap_or_default();
        let is_bound = |key: &PodKey| world.pod_at(*key).is_some_and(|pod| pod.bound);
        if pods.iter().any(is_bound) {
            !verdict.keep || self.ds.status.counts.misscheduled > 0
        } else {
            verdict.run
        }
    }

    /// The pair of a node, made if need be.
    fn pair(&mut self, name: &NodeName, world: &World) -> &mut Pair {
        let placement = self.ds.template.placement();
        self.pairs.entry(name.clone()).or_insert_with(|| {
            let node = world.nodes.get(name);
            Box::new(Pair {
                node: node.map(Node::standing),
                verdict: node.map(|node| placement.judge(node)).unwrap_or_default(),
                ..Pair::default()
            })
        })
    }

    // === sync ===

    /// Does what there is to do (DS-040).
    pub(crate) fn sync(&mut self, cx: &mut Cx<'_>) {
        self.fire_timers(cx);
        let changed = std::mem::take(&mut self.changed);
        if self.ds.selector.is_everything() && changed && !self.ds.deleting {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.".to_owned();
            cx.out
                .event(&self.owner, Severity::Warning, "SelectingAll", message, About::default());
        }
        self.complain(cx);
        if self.ds.deleting || self.ds.selector.is_idle() {
            return self.rest(cx);
        }
        let may_write = cx.held.is_none();
        if may_write {
            self.claim(cx);
            self.advance_history(cx);
        } else {
            self.hold_back(cx.out);
        }
        if self.settled {
            self.judge_touched(cx);
            self.note_rest(cx);
        }
        self.note_holds(cx);
        // Upstream a claim that fails ends the pass (DS-066), every time until it succeeds (DS-239).
        let waits = cx.profile == Profile::Upstream && self.is_claiming(cx.world);
        if self.settled && may_write && !waits {
            self.delete_unwanted(cx);
            self.roll(cx);
            self.create_wanted(cx);
            self.clean_history(cx);
            self.write_status(cx);
        }
        self.report(cx);
        self.arm(cx.now.mono);
    }

    /// Amid a list nothing is decided, and nothing is told but what holds it: what is known is of two times.
    pub(crate) fn bide(&mut self, cx: &mut Cx<'_>) {
        if self.ds.deleting {
            return self.rest(cx);
        }
        self.hold_back(cx.out);
        self.report_hold(cx.held_as_a_whole(), cx);
    }

    /// Nobody works on it any more, so nothing holds it either: nobody would say when that ends.
    fn rest(&mut self, cx: &mut Cx<'_>) {
        self.call_off_all(cx.out);
        self.report_hold(None, cx);
    }

    fn fire_timers(&mut self, cx: &Cx<'_>) {
        while let Some(timer) = self.timers.pop(cx.now.mono) {
            match timer {
                Timer::Pair(node) => drop(self.touched.insert(node)),
                Timer::Creating(node) => self.stop_waiting_for_create(&node),
                Timer::Pod(uid) => self.stop_waiting_for_pod(&uid, cx.world),
                Timer::Forget(node) => drop(self.backoffs.remove(&node)),
                Timer::Sync => {}
            }
        }
    }

    /// Sets the timer for whatever waits for a pause to end.
    fn arm(&mut self, now: Mono) {
        let retries = [
            Some(&self.creates.missing.retry),
            Some(&self.creates.routine.retry),
            Some(&self.creates.fresh.retry),
            Some(&self.status.retry),
            Some(&self.claims.retry),
            self.history_dirty.then_some(&self.history.retry),
            self.surplus_dirty.then_some(&self.history.clean_retry),
        ];
        let pauses = retries.into_iter().flatten().filter_map(|retry| retry.opens_at(now));
        let due = [self.status.due, self.status.tell, self.report.due]
            .into_iter()
            .flatten()
            .filter(|at| *at > now);
        let next = pauses.chain(due).min();
        self.timers.set(&Timer::Sync, next);
    }
}
