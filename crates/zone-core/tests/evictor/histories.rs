//! Random histories from seeds, and invariants over what happened in the API.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::intent::{HealthTaint, Intent};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Effect, HoldReason, Mono, PodUid, ReadyStatus, Topic, Verdict, Zone};
use bailiff_zone_core::{Body, Effect as Request, FailureKind, Input};

use crate::world::{Happened, World, mk_config, secs, zone};

/// Enough that each kind of step meets each other one many times, in a few seconds.
const SEEDS: u64 = 100;
const STEPS: usize = 150;
const RATE_INTERVAL: u64 = 10;
const NODES: [&str; 9] = ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1"];

/// xorshift64*: one line of state, the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

struct History {
    world: World,
    random: Random,
    /// Verdicts as published: what "all down" is judged by.
    verdicts: BTreeMap<&'static str, Verdict>,
    withdrawn: BTreeMap<PodUid, usize>,
    all_down_checked: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let nodes = NODES.map(|name| (name, &name[..1]));
        Self {
            world: World::new(mk_config(|_| ()), &nodes),
            random: Random::new(seed),
            verdicts: NODES.into_iter().map(|name| (name, Verdict::Healthy)).collect(),
            withdrawn: BTreeMap::new(),
            all_down_checked: 0,
        }
    }

    fn isolated(&self) -> usize {
        let isolated = |(_, happened): &&(Mono, Happened)| matches!(happened, Happened::Isolated(..));
        self.world.history.iter().filter(isolated).count()
    }

    fn is_all_down_for_brake(&self) -> bool {
        self.verdicts.values().all(|verdict| *verdict != Verdict::Healthy)
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            let (was_down, before) = (self.is_all_down_for_brake(), self.isolated());
            self.step();
            if was_down && self.is_all_down_for_brake() {
                self.all_down_checked += 1;
                assert_eq!(self.isolated(), before, "nothing is isolated while all zones are down");
            }
        }
    }

    fn step(&mut self) {
        let name = self.random.pick(&NODES);
        match self.random.below(16) {
            0 | 1 => self.silence(name),
            2 => self.recover(name),
            3 => self.late(name),
            4 => {
                for name in NODES {
                    self.silence(name);
                }
            }
            5 | 6 => self.world.pass(secs(self.random.below(12) as u64)),
            7 => self
                .world
                .pass(std::time::Duration::from_millis(self.random.below(900) as u64)),
            8 => self.restart(),
            9 => self.fail(),
            10 => self.world.set_shard(Topic::NodeHealth, true, false),
            11 => self.world.set_shard(Topic::NodeHealth, true, true),
            12 => self.tinker(name),
            13 => self.due(name),
            14 => self.withdraw(),
            _ => self.world.tell(Input::Wake),
        }
    }

    fn silence(&mut self, name: &'static str) {
        if self.world.node(name).ready == ReadyStatus::Unknown {
            return;
        }
        self.verdicts.insert(name, Verdict::Unreachable);
        self.world.fall_silent(&[name]);
    }

    fn recover(&mut self, name: &'static str) {
        self.verdicts.insert(name, Verdict::Healthy);
        self.world.come_back(&[name]);
    }

    fn late(&mut self, name: &'static str) {
        if self.verdicts[name] == Verdict::Healthy {
            self.verdicts.insert(name, Verdict::Late);
            self.world.health(name, Verdict::Late);
        }
    }

    /// With or without the bus's memory of outcomes.
    fn restart(&mut self) {
        // Without memory only the taints that stand tell of earlier grants (see `restarts`): it is lost only while they all stand.
        let granted: Vec<String> = self.world.isolations().iter().map(|(name, _)| (*name).to_owned()).collect();
        let all_stand = granted.iter().all(|name| self.world.is_isolated(name));
        if all_stand && self.random.below(2) == 0 {
            self.world.forget_outcomes();
        }
        self.world.restart();
    }

    fn fail(&mut self) {
        let kinds = [
            FailureKind::Conflict,
            FailureKind::Denied,
            FailureKind::Unknown,
            FailureKind::Throttled,
        ];
        let kind = kinds[self.random.below(kinds.len())];
        self.world.retry_after = (self.random.below(2) == 0).then(|| secs(3));
        self.world.failures.push_back(kind);
    }

    /// An operator at work.
    fn tinker(&mut self, name: &'static str) {
        match self.random.below(4) {
            0 => self.world.change_node(name, |_| ()),
            1 => self.world.taint(name, HealthTaint::NotReady.key(), Effect::NoSchedule),
            2 => self.world.untaint(name, HealthTaint::Unreachable.key(), Effect::NoExecute),
            _ => self
                .world
                .change_node(name, |facts| facts.taints.push(crate::world::mk_taint("maintenance", "x"))),
        }
    }

    fn due(&mut self, name: &'static str) {
        let pod = self.world.add_pod(&format!("p{}", self.world.pods.len()), name, vec![]);
        self.world.due(&pod);
    }

    fn withdraw(&mut self) {
        let due: Vec<PodUid> = self
            .world
            .pods
            .keys()
            .filter(|uid| !self.withdrawn.contains_key(*uid))
            .cloned()
            .collect();
        if let Some(pod) = due.first() {
            self.world.withdraw(pod);
            self.withdrawn.insert(pod.clone(), self.world.history.len());
        }
    }
}

/// NL-081: in no zone are two nodes isolated within one interval, over restarts and failures.
fn assert_rate_is_kept(history: &[(Mono, Happened)]) -> usize {
    let mut last: BTreeMap<Zone, Mono> = BTreeMap::new();
    let mut checked = 0;
    for (at, happened) in history {
        let Happened::Isolated(name, zone) = happened else {
            continue;
        };
        let Some(before) = last.insert(zone.clone(), *at) else {
            continue;
        };
        checked += 1;
        let apart = at.saturating_since(before);
        assert!(
            apart >= secs(RATE_INTERVAL),
            "{name} in {zone} only {apart:?} after the one before"
        );
    }
    checked
}

/// NL-081, NL-034, NL-097, TE-066: whatever happens in whatever order.
#[test]
fn invariants_hold_over_random_histories() {
    let (mut rate, mut down, mut isolated, mut deleted, mut withdrawn) = (0, 0, 0, 0, 0);
    for seed in 1..=SEEDS {
        let mut history = History::new(seed);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history.run()));
        assert!(caught.is_ok(), "seed {seed}");
        rate += assert_rate_is_kept(&history.world.history);
        for pod in history.withdrawn.keys() {
            assert!(
                history.world.pods.contains_key(pod),
                "seed {seed}: {pod} was deleted after its withdrawal was seen"
            );
            withdrawn += 1;
        }
        down += history.all_down_checked;
        isolated += history.isolated();
        deleted += history.world.deleted();
    }
    for (premise, count) in [
        ("rate", rate),
        ("all down", down),
        ("isolated", isolated),
        ("deleted", deleted),
        ("withdrawn", withdrawn),
    ] {
        assert!(count > 100, "premise {premise} was met {count} times only");
    }
}

/// Design §1: whatever happened, once things are quiet everything that should be isolated is, everybody else is not, and another look
/// changes nothing.
#[test]
fn every_history_comes_to_rest_in_the_state_that_the_world_asks_for() {
    for seed in 1..=SEEDS {
        let mut history = History::new(seed);
        history.run();
        let world = &mut history.world;
        world.failures.clear();
        world.set_shard(Topic::NodeHealth, true, true);
        for name in ["a1", "b1", "c1"] {
            history.recover(name);
        }
        for name in ["a4", "a5"] {
            history.recover(name);
        }
        let world = &mut history.world;
        world.pass(secs(600));
        for name in NODES {
            let sick = world.node(name).ready == ReadyStatus::Unknown;
            assert_eq!(
                world.is_isolated(name),
                sick,
                "seed {seed}: {name} {:?} {:?}",
                world.node(name),
                world.zone_status("a")
            );
        }
        let (published, requests) = (world.published, world.requests);
        world.list_nodes();
        world.tell(Input::Snapshot {
            records: world.bus.values().cloned().collect(),
            shards: world.shards(),
        });
        world.pass(secs(600));
        assert_eq!(
            (world.published, world.requests),
            (published, requests),
            "seed {seed}: a quiet world is not quiet"
        );
    }
}

/// Design §1: whatever happened, of every pod that is due it is said what became of it or what it waits for, and until when it is tried
/// again if a request failed; only of what is under way nothing needs to be said yet. The API answers at once, or not for a while.
#[test]
fn every_pod_that_is_due_says_what_it_waits_for() {
    let (mut due, mut waiting, mut slow) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let mut history = History::new(seed);
        for _ in 0..STEPS / 10 {
            history.world.is_slow = history.random.below(3) == 0;
            if !history.world.is_slow {
                history.world.answer_all();
            }
            (0..10).for_each(|_| history.step());
            history.world.pass(secs(1));
            let world = &history.world;
            let asked: BTreeSet<&PodUid> = world.unanswered.iter().filter_map(asks_about).collect();
            slow += asked.len();
            for record in world.bus.values() {
                let Some(Body::Intent(Intent::Pod(intent))) = &record.body else {
                    continue;
                };
                let said = world.pod_outcome(&intent.pod.uid);
                let is_asked = asked.contains(&intent.pod.uid);
                if is_asked && said.is_none() {
                    continue;
                }
                let said = said.unwrap_or_else(|| unreachable!("seed {seed}: nothing is said of {}", intent.pod.uid));
                due += 1;
                waiting += usize::from(world.pod_held(&intent.pod.uid) == Some(HoldReason::RateLimited));
                // Who has its turn within a second is not told that it waits.
                let last = said.next_try_at.and_then(|next| next.checked_add(secs(1)).ok());
                let told = said.state != PodOutcomeState::Evicting || last.is_some_and(|last| last > world.now.wall);
                assert!(told || is_asked, "seed {seed}: {said:?}");
            }
        }
    }
    assert!(
        due > 100 && waiting > 10 && slow > 10,
        "{due} due, {waiting} of them in line, {slow} asked about"
    );
}

/// The pod that a request is about.
fn asks_about(request: &Request) -> Option<&PodUid> {
    match request {
        Request::ReadPod { pod, .. }
        | Request::MarkPod { pod, .. }
        | Request::DeletePod { pod, .. }
        | Request::EvictPod { pod, .. } => Some(&pod.uid),
        _ => None,
    }
}

/// NL-072, NL-080: nobody who waits is passed by for ever, however many fall ill after it.
#[test]
fn nobody_starves() {
    let mut world = World::new(mk_config(|_| ()), &[("old", "a"), ("first", "a")]);
    for n in 0..60 {
        world.add_node(&format!("x{n}"), "a");
        world.change_node(&format!("x{n}"), |_| ());
        world.health(&format!("x{n}"), Verdict::Healthy);
    }
    world.fall_silent(&["first"]);
    world.pass(secs(1));
    world.fall_silent(&["old"]);
    for n in 0..20 {
        world.fall_silent(&[&format!("x{n}")]);
        world.pass(secs(1));
    }
    assert_eq!(world.isolations()[..2], [("first", 0), ("old", 10)]);
    assert_eq!(world.zone_status("a").queue_length, 19);
    assert_eq!(world.zone_status("a").zone, zone("a"));
}
