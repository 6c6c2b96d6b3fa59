//! Properties over random histories: lagging watches, answers in any order, failing requests, nodes that come and go.

use std::collections::BTreeMap;

use bailiff_daemonset_core::{FailureKind, Input, Pod, Profile, Syncer};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use crate::model::{Cluster, PODS, all_pods, path_of, some_pods};

/// A small generator: what it draws depends on the seed alone.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64: https://prng.di.unimi.it/splitmix64.c
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let index = self.roll(items.len().max(1) as u64) as usize;
        items.get(index).cloned()
    }
}

/// At most one pod that is not being deleted per node; with surge one per revision and node.
///
/// Counted at the API server, which knows more than any watch.
fn assert_no_duplicates(cluster: &Cluster, surging: bool) {
    let mut live: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    for pod in cluster.pods().into_iter().filter(|pod| !pod.deleting && !pod.is_terminal()) {
        live.entry(pod.target.clone().unwrap_or_default().to_string())
            .or_default()
            .push(pod);
    }
    for (node, pods) in live {
        let most = if surging { 2 } else { 1 };
        assert!(pods.len() <= most, "{} pods on {node}: {:#?}", pods.len(), cluster.writes);
    }
}

/// Every node ends with exactly one pod, current and available, and the status says so.
fn assert_converged(cluster: &Cluster, nodes: usize) {
    let pods = cluster.pods();
    assert_eq!(pods.len(), nodes, "{:#?}", cluster.writes);
    assert!(pods.iter().all(|pod| pod.ready));
    let counts = cluster.daemonset().status.counts;
    let all = u32::try_from(nodes).expect("few");
    assert_eq!((counts.desired, counts.available, counts.updated), (all, all, all));
    assert_eq!((counts.misscheduled, counts.unavailable), (0, 0));
    assert!(
        cluster
            .published
            .as_ref()
            .is_some_and(|sync| sync.reasons.is_empty() && sync.nodes.is_empty())
    );
}

struct Story {
    cluster: Cluster,
    dice: Dice,
    surging: bool,
    /// Unavailable nodes that the rules allow, if nothing breaks by itself.
    budget: usize,
    calm: bool,
    /// Requests may fail all the same.
    failing: bool,
    /// Creates wait for their turn now and then.
    creates_wait: bool,
}

impl Story {
    fn new(seed: u64, calm: bool) -> Self {
        let mut dice = Dice(seed);
        let surging = dice.roll(2) == 0;
        let amount = 1 + dice.roll(3);
        let (unavailable, surge) = if surging { (0, amount) } else { (amount, 0) };
        let strategy = json!({"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
        let profile = if dice.roll(2) == 0 {
            Profile::Bailiff
        } else {
            Profile::Upstream
        };
        let mut cluster = Cluster::new(profile);
        for index in 0..3 + dice.roll(5) {
            cluster.add_node(&format!("n{index}"), json!({}), json!([]));
        }
        cluster.add_daemonset("ds", json!({"updateStrategy": strategy}));
        cluster.rest();
        Self {
            cluster,
            surging,
            budget: usize::try_from(unavailable).expect("few"),
            dice,
            calm,
            failing: false,
            creates_wait: false,
        }
    }

    /// Lets something happen; true if an object changed.
    fn act(&mut self, turn: usize) -> bool {
        let before = self.cluster.changes();
        self.act_somehow(turn);
        self.cluster.changes() != before
    }

    fn act_somehow(&mut self, turn: usize) {
        if self.creates_wait && self.dice.roll(5) == 0 {
            return self.let_creates_wait();
        }
        match self.dice.roll(20) {
            0 => self.cluster.set_image(&format!("v{turn}")),
            1 if !self.calm => {
                let name = format!("extra{turn}");
                self.cluster.add_node(&name, json!({}), json!([]));
            }
            2 if !self.calm => self.break_something(),
            3 if !self.calm || self.failing => self.toggle_failures(),
            4 => {
                // No watch lags for longer than that.
                self.cluster.settle();
                self.cluster.pass_one_second();
            }
            5..=9 => self.kubelet(),
            _ => {
                let pending = self.cluster.pending();
                if let Some(stream) = self.dice.pick(&pending) {
                    self.cluster.deliver(stream);
                }
            }
        }
    }

    /// Creates wait from now on or do not, and some of those that wait are sent.
    fn let_creates_wait(&mut self) {
        self.cluster.creates_wait = self.dice.roll(3) > 0;
        let most = self.dice.roll(3) as usize;
        self.cluster.send(most);
    }

    fn break_something(&mut self) {
        let pods = self.cluster.pods();
        let Some(pod) = self.dice.pick(&pods) else { return };
        match self.dice.roll(3) {
            0 => self.cluster.remove(&path_of(&pod)),
            1 if pod.bound => self.cluster.set_phase(&pod, "Failed", false),
            _ if pod.bound && !pod.is_terminal() => self.cluster.set_phase(&pod, "Running", false),
            _ => {}
        }
    }

    fn toggle_failures(&mut self) {
        if self.dice.roll(4) == 0 {
            self.cluster.loses = self.cluster.loses.is_none().then_some("");
        } else if self.cluster.failures.pop().is_none() {
            // A delete conflicts only if another object has the name, which the cluster itself answers.
            let kinds = [
                ("create pods", FailureKind::Other),
                ("create pods", FailureKind::Unknown),
                ("delete pods", FailureKind::Other),
                ("delete pods", FailureKind::Unknown),
                ("status", FailureKind::Conflict),
                ("create controllerrevisions", FailureKind::Other),
            ];
            let (what, kind) = self.dice.pick(&kinds).expect("not empty");
            self.cluster.failures.push((what, kind));
        }
    }

    fn kubelet(&mut self) {
        let pods = self.cluster.pods();
        if let Some(pod) = self.dice.pick(&pods) {
            self.cluster.kubelet(&pod);
        }
    }

    fn nodes(&self) -> usize {
        self.cluster.objects.keys().filter(|path| path.starts_with("nodes/")).count()
    }

    fn assert_budget(&self) {
        let available = self.cluster.objects.keys().filter_map(|path| path.strip_prefix("nodes/"));
        let served = available
            .filter(|node| self.cluster.on(node).iter().any(|pod| pod.ready && !pod.deleting))
            .count();
        let lacking = self.nodes() - served;
        assert!(
            lacking <= self.budget,
            "{lacking} nodes lack a pod: {:#?}",
            self.cluster.writes
        );
    }
}

/// A list of pods in parts that end at these places; what is behind the last of them ends it.
fn cut(mut pods: Vec<Pod>, places: &[Index]) -> Vec<Input> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(pods.len() + 1)).collect();
    places.sort_unstable();
    let mut parts = Vec::new();
    let mut begin = 0;
    for end in places {
        let (first, part) = (parts.is_empty(), pods.drain(..end - begin).collect());
        parts.push(some_pods(first, part));
        begin = end;
    }
    parts.push(all_pods(pods));
    parts
}

/// A history in which creates wait for their turn now and then. Answers how many of them were taken back.
fn play_while_creates_wait(seed: u64, calm: bool) -> usize {
    let mut story = Story {
        creates_wait: true,
        ..Story::new(seed, calm)
    };
    for turn in 0..200 {
        if story.act(turn) {
            assert_no_duplicates(&story.cluster, story.surging);
            if calm {
                story.assert_budget();
            }
        }
    }
    story.cluster.failures.clear();
    story.cluster.loses = None;
    story.cluster.creates_wait = false;
    story.cluster.send(usize::MAX);
    story.cluster.rest_longer();
    assert_converged(&story.cluster, story.nodes());
    story.cluster.called_off
}

/// Else the property about them would say nothing: creates that wait are taken back, whether anything breaks by itself or not.
#[test]
fn of_creates_that_wait_some_are_taken_back() {
    for calm in [false, true] {
        let taken_back: Vec<usize> = (0..24).map(|seed| play_while_creates_wait(seed, calm)).collect();
        assert!(taken_back.iter().any(|count| *count > 0), "calm: {calm}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// DS-100, DS-102, DS-104, DS-134, DS-142: never two, and everything ends well, whatever lags or breaks.
    #[test]
    fn every_node_ends_with_one_current_pod_and_never_has_two(seed in any::<u64>()) {
        let mut story = Story::new(seed, false);
        for turn in 0..200 {
            if story.act(turn) {
                assert_no_duplicates(&story.cluster, story.surging);
            }
        }
        story.cluster.failures.clear();
        story.cluster.loses = None;
        story.cluster.rest_longer();
        assert_converged(&story.cluster, story.nodes());
        // DS-145: twice is once.
        let writes = story.cluster.writes.len();
        story.cluster.restart(Profile::Bailiff);
        story.cluster.rest();
        prop_assert_eq!(story.cluster.writes.len(), writes);
    }

    /// However a list of pods is cut, it is the whole list: after a watch that broke, and to a core that begins.
    #[test]
    fn a_list_in_parts_is_the_whole_list(
        seed in any::<u64>(),
        turns in 0..100_usize,
        places in prop::collection::vec(any::<Index>(), 1..4),
    ) {
        for begins in [false, true] {
            let [whole, parts] = [false, true].map(|in_parts| {
                let mut story = Story::new(seed, false);
                for turn in 0..turns {
                    story.act(turn);
                }
                let cluster = &mut story.cluster;
                let pods = cluster.pods();
                let list = if in_parts { cut(pods, &places) } else { vec![all_pods(pods)] };
                let before = cluster.requests.len();
                if begins {
                    cluster.core = Syncer::default();
                    cluster.wake = None;
                    cluster.watched.clear();
                    cluster.relist_as(list);
                } else {
                    // The watch missed what is still on its way.
                    cluster.hold_back(PODS);
                    for input in list {
                        let is_end = matches!(input, Input::Pods { .. });
                        cluster.feed(input);
                        assert!(is_end || cluster.requests.len() == before, "nothing is decided amid a list");
                    }
                }
                let mut asked: Vec<String> = cluster.requests[before..].iter().map(|(_, what)| what.clone()).collect();
                asked.sort_unstable();
                cluster.failures.clear();
                cluster.loses = None;
                cluster.rest_longer();
                assert_converged(&story.cluster, story.nodes());
                (asked, story.cluster.writes.len())
            });
            prop_assert_eq!(parts, whole);
        }
    }

    /// DS-135, DS-138: if nothing breaks by itself, never more nodes lack a pod than maxUnavailable allows.
    #[test]
    fn budgets_hold_whatever_lags(seed in any::<u64>()) {
        let mut story = Story::new(seed, true);
        for turn in 0..200 {
            if story.act(turn) {
                story.assert_budget();
                assert_no_duplicates(&story.cluster, story.surging);
            }
        }
        story.cluster.rest_longer();
        assert_converged(&story.cluster, story.nodes());
    }

    /// DS-100, DS-104, DS-135, DS-138: creates that wait for their turn, and are taken back, make no second pod and widen no budget.
    #[test]
    fn creates_that_wait_do_no_harm(seed in any::<u64>(), calm in any::<bool>()) {
        play_while_creates_wait(seed, calm);
    }

    /// DS-006, DS-135, DS-138: requests that fail, and answers that are lost, widen no budget.
    #[test]
    fn budgets_hold_whatever_fails(seed in any::<u64>()) {
        let mut story = Story { failing: true, ..Story::new(seed, true) };
        for turn in 0..200 {
            if story.act(turn) {
                story.assert_budget();
                assert_no_duplicates(&story.cluster, story.surging);
            }
        }
        story.cluster.failures.clear();
        story.cluster.loses = None;
        story.cluster.rest_longer();
        assert_converged(&story.cluster, story.nodes());
    }
}
