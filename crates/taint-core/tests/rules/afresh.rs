//! A manager that went through a random history, against one that begins on the world that is left and inherits what the bus keeps.
//!
//! Watches and bus lag, lists come in parts and break off, requests fail, conflict, are called off, or are done without an answer; clocks
//! are stepped; nodes, pods and verdicts come, change and go, under holds and without. Once all was delivered both say the same, the new
//! one wants to write nothing, and in the end, when every time has run out, both still say the same.
//!
//! By design they differ in this:
//! - Withdrawals are not said again.
//! - A pod that nothing tolerates is due anew: there is no time that it waits for.
//! - Whether a pod's trace is that of a hand-made taint or of a verdict taken back meanwhile is not on record.
//! - Node mode and upstream's profile forget times (NL-207, TE-102), and with them what ran because of a Node that is gone.
//! - Pods that were ready when their node fell silent without having been Ready are marked by the new one only (NL-085, NL-086), and in
//!   upstream's profile so are those of every node that is not ready then (NL-089).
//! - Pods of a node whose kubelet says that it is not ready are left as they are by the new one (NL-089), but in upstream's profile. The
//!   old one owes a mark to those that it saw bound, or the node silent before.
//! - What the monitor holds is unknown to the new one while its record cannot be read.

mod dice;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::{EvictionMode, Holds, Origin, Taint, Toleration, TraceContext, Wall};
use bailiff_taint_core::{Config, Effect, Inherited, Input, Profile};

use crate::harness::Harness;
use dice::Dice;
use world::World;

/// Some seconds.
const SEEDS: u64 = 2000;

/// A moment of the test, in nanoseconds: whatever clock told it, and whenever.
type Moment = i128;

/// What stands about a pod.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    state: IntentState,
    trigger: Trigger,
    due: Moment,
    node: String,
    /// With what is counted from.
    taints: Vec<(String, Option<Moment>)>,
    tolerations: Vec<Toleration>,
    trace: Option<TraceContext>,
    from: Origin,
}

/// What stands about each pod.
fn said(h: &Harness) -> BTreeMap<String, Said> {
    let about = |record: Inherited| match &record.intent {
        Intent::Pod(eviction) if !matches!(eviction.state, IntentState::Withdrawn(_)) => {
            Some((eviction.pod.uid.to_string(), said_of(eviction, &record, h.millis)))
        }
        _ => None,
    };
    h.memory().into_iter().filter_map(about).collect()
}

fn said_of(eviction: &PodEviction, record: &Inherited, millis: u64) -> Said {
    let age = record.age.unwrap_or_default().as_nanos() as Moment;
    let decided = Moment::from(millis) * 1_000_000 - age;
    let moment = |wall: Wall| decided + wall.as_nanosecond() - eviction.decided_at.as_nanosecond();
    let counted = |taint: &Taint| (taint.to_string(), taint.time_added.map(moment));
    let (taints, tolerations) = match &*eviction.cause {
        EvictionCause::Taints { taints, tolerations } => (taints.iter().map(counted).collect(), tolerations.clone()),
        EvictionCause::Node => (Vec::new(), Vec::new()),
    };
    Said {
        state: eviction.state,
        trigger: eviction.trigger,
        due: moment(eviction.due_at),
        node: format!("{} {} {:?}", eviction.node.name, eviction.node.uid, eviction.zone),
        taints,
        tolerations,
        trace: record.trace,
        from: record.derived_from.clone(),
    }
}

/// What stands about nodes, but for times.
fn wishes(h: &Harness) -> BTreeMap<String, String> {
    let about = |(key, record): (&String, &Inherited)| {
        let text = match &record.intent {
            Intent::Isolation(wish) => format!("{:?} {:?} {:?} {}", wish.node, wish.zone, wish.taint, wish.cause),
            Intent::NodeEviction(wish) => format!("{:?} {:?} {}", wish.node, wish.zone, wish.cause),
            Intent::Pod(_) => return None,
        };
        Some((key.clone(), format!("{text} {:?} {:?}", record.derived_from, record.trace)))
    };
    h.published.iter().filter_map(about).collect()
}

/// Pods that were asked to be marked.
fn marked(h: &Harness) -> BTreeSet<String> {
    h.marks.iter().map(|mark| mark.pod.uid.to_string()).collect()
}

/// One history, and both at its end.
struct Story {
    seed: u64,
    config: Config,
    world: World,
    old: Harness,
    fresh: Harness,
}

impl Story {
    /// Lives through a history, and starts another manager on what is left.
    fn play(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let config = Config {
            profile: dice.of(&[Profile::Bailiff, Profile::Bailiff, Profile::Upstream]),
            mode: dice.of(&[EvictionMode::Taint, EvictionMode::Taint, EvictionMode::Node]),
            ..Config::default()
        };
        let mut world = World::new(dice.below(usize::MAX) as u64);
        let mut old = Harness::new(config);
        // What there is from the beginning is older.
        old.millis = 1000;
        old.apply(Input::Inherit(Vec::new()));
        for _ in 0..dice.below(200) + 20 {
            world.step(&mut old);
        }
        world.settle(&mut old);
        old.marks.clear();

        let mut fresh = Harness::new(config);
        fresh.millis = old.millis;
        fresh.ahead = dice.of(&[old.ahead, 30, -30]);
        fresh.apply(Input::Braked(world.holds.clone()));
        let [nodes, pods] = world.lists();
        let mut inputs = vec![nodes, pods, Input::Inherit(old.memory()), world.health(true)];
        while !inputs.is_empty() {
            fresh.apply(inputs.swap_remove(dice.below(inputs.len())));
        }
        Self {
            seed,
            config,
            world,
            old,
            fresh,
        }
    }

    /// Nothing is held any more: what waited for that is marked.
    fn release(&mut self) {
        self.world.release(&mut self.old);
        self.fresh.apply(Input::Braked(Holds::NONE));
        self.fresh.apply(self.world.health(false));
        self.world.settle(&mut self.old);
    }

    /// Every time runs out; lists of what is known change nothing.
    fn run_out(&mut self) {
        let Self { seed, world, old, .. } = self;
        world.pass(old, 1_000_000);
        for list in world.lists() {
            let said = old.apply(list);
            let is_silent = said.iter().all(|effect| matches!(effect, Effect::WakeAt(_)));
            assert!(is_silent, "seed {seed}: {said:?}");
        }
        let end = old.millis / 1000 + 1;
        self.old.at(end);
        self.fresh.at(end);
    }

    /// The new one wants to write nothing but marks.
    fn assert_quiet(&self) {
        let Self { seed, fresh, .. } = self;
        assert_eq!((&fresh.patches[..], &fresh.reads[..]), (&[][..], &[][..]), "seed {seed}");
    }

    /// What the old one marked since the new one began, that one wants to mark too, and nothing else. What is held waits in both.
    fn assert_same_marks(&self) {
        let Self { seed, old, fresh, .. } = self;
        let (made, wanted) = (marked(old), marked(fresh));
        let missing: Vec<&String> = made.difference(&wanted).filter(|uid| !self.is_left_by_new(uid)).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?} would not be marked");

        let [ours, theirs] = [old, fresh].map(|h| h.manager.stats());
        // Nobody answers the new one, and there are fewer pods than may be marked at a time: it asked for all that is not held.
        let unheld = [ours, theirs].map(|stats| stats.pod_marks - stats.held_marks);
        assert_eq!(unheld, [0, wanted.len()], "seed {seed}");
        if self.world.is_free() {
            assert_eq!([ours.held_marks, theirs.held_marks], [0, 0], "seed {seed}");
        }
        let held_unknown = if self.world.is_readable() { 0 } else { ours.held_marks };
        let more: Vec<&String> = wanted.difference(&made).filter(|uid| !self.is_left_by_old(uid)).collect();
        assert!(more.len() <= held_unknown, "seed {seed}: {more:?} was not marked");
    }

    /// True if only who was there marks this pod.
    fn is_left_by_new(&self, uid: &str) -> bool {
        self.config.profile == Profile::Bailiff && self.world.is_not_ready(uid)
    }

    /// True if only who comes later marks this pod.
    fn is_left_by_old(&self, uid: &str) -> bool {
        self.config.profile == Profile::Upstream || self.world.left_ready.contains(uid)
    }

    /// Both say the same; `ended` if every time has run out.
    fn assert_same(&self, ended: bool) {
        let Self { seed, old, fresh, .. } = self;
        if self.config.mode == EvictionMode::Taint {
            assert_eq!(wishes(old), wishes(fresh), "seed {seed}");
        }
        let (mut ours, mut theirs) = (said(old), said(fresh));
        for all in [&mut ours, &mut theirs] {
            all.retain(|uid, _| !self.forgets() || self.world.nodes.contains_key(self.world.pods[uid].node.as_str()));
        }
        assert!(ours.keys().eq(theirs.keys()), "seed {seed}: {ours:#?} {theirs:#?}");
        for (ours, theirs) in ours.into_values().zip(theirs.into_values()) {
            let like = self.but_for_differences(&ours, &theirs, ended);
            assert_eq!(ours, like, "seed {seed}, ended: {ended}");
        }
    }

    /// `theirs` with `ours` where they may differ.
    fn but_for_differences(&self, ours: &Said, theirs: &Said, ended: bool) -> Said {
        let is_later = theirs.due >= ours.due;
        let mut like = theirs.clone();
        if ours.from != theirs.from || ours.from.is_none() {
            like.trace = ours.trace;
        }
        like.from.clone_from(&ours.from);
        if ours.trigger == Trigger::Untolerated && is_later {
            like.due = ours.due;
        }
        if self.forgets() {
            let seed = self.seed;
            assert!(
                is_later || self.config.mode == EvictionMode::Taint,
                "seed {seed}: {ours:#?} {theirs:#?}"
            );
            like.due = ours.due;
            like.taints.clone_from(&ours.taints);
            if !ended {
                like.state = ours.state;
            }
        }
        like
    }

    fn forgets(&self) -> bool {
        self.config.mode == EvictionMode::Node || self.config.profile == Profile::Upstream
    }
}

/// NL-084, NL-112, TE-057, TE-102
#[test]
fn who_was_there_and_who_comes_say_the_same() {
    for seed in 1..=SEEDS {
        let mut story = Story::play(seed);
        assert_eq!(story.fresh.events, [""; 0], "seed {seed}");
        story.assert_quiet();
        story.assert_same_marks();
        story.assert_same(false);
        story.release();
        story.assert_quiet();
        story.assert_same_marks();
        story.run_out();
        story.assert_same(true);
    }
}
