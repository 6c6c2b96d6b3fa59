//! What holds for any sequence of facts.

use std::collections::BTreeMap;

use bailiff_model::intent::{Intent, IntentState, Trigger};
use bailiff_model::{Listed, ReadyStatus, Tolerance, taint};
use bailiff_taint_core::{Effect, Input, NodeFacts, PodFacts, Profile};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::harness::{FAILED, Harness, mk_config, mk_node, mk_pod, mk_ready, recreated};

const KEYS: [&str; 4] = ["a", "b=v", "b=w", "node.kubernetes.io/unreachable"];

/// One step of a story: after so many seconds, a node or a pod changes, comes or goes.
#[derive(Clone, Debug)]
enum Step {
    Node(usize, Vec<&'static str>, ReadyStatus, bool),
    NodeGone(usize),
    Pod(usize, usize, Vec<(&'static str, Option<i64>)>),
    PodGone(usize),
}

fn mk_taints() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(KEYS.to_vec(), 0..=3)
        .prop_filter("one entry per key", |keys| !(keys.contains(&"b=v") && keys.contains(&"b=w")))
}

fn mk_tolerations() -> impl Strategy<Value = Vec<(&'static str, Option<i64>)>> {
    let key = select(vec!["a", "b", "b=v", "", "node.kubernetes.io/unreachable"]);
    let limit = prop_oneof![Just(None), (-1_i64..40).prop_map(Some), Just(Some(i64::MAX))];
    proptest::collection::vec((key, limit), 0..4)
}

fn mk_step() -> impl Strategy<Value = Step> {
    let ready = select(vec![ReadyStatus::True, ReadyStatus::False, ReadyStatus::Unknown]);
    prop_oneof![
        4 => (0..3_usize, mk_taints(), ready, proptest::bool::weighted(0.1)).prop_map(|(n, t, r, new)| Step::Node(n, t, r, new)),
        1 => (0..3_usize).prop_map(Step::NodeGone),
        4 => (0..6_usize, 0..3_usize, mk_tolerations()).prop_map(|(p, n, t)| Step::Pod(p, n, t)),
        1 => (0..6_usize).prop_map(Step::PodGone),
    ]
}

/// The world that a story leads to, for comparison.
#[derive(Clone, Default)]
struct World {
    nodes: BTreeMap<String, NodeFacts>,
    pods: BTreeMap<String, PodFacts>,
    incarnations: usize,
}

impl World {
    fn apply(&mut self, step: &Step) -> Option<Input> {
        match step {
            Step::Node(node, taints, ready, new) => {
                let name = format!("n{node}");
                let facts = NodeFacts {
                    ready: mk_ready(*ready),
                    ..mk_node(&name, taints)
                };
                let facts = if *new { recreated(facts) } else { facts };
                self.nodes.insert(name, facts.clone());
                Some(Input::Node(facts))
            }
            Step::NodeGone(node) => {
                let facts = self.nodes.remove(&format!("n{node}"))?;
                Some(Input::NodeGone {
                    name: facts.node.name,
                    uid: facts.node.uid,
                })
            }
            Step::Pod(pod, node, tolerations) => {
                let slot = format!("p{pod}");
                let node = match self.pods.get(&slot) {
                    Some(known) => known.node.to_string(),
                    None => format!("n{node}"),
                };
                let uid = match self.pods.get(&slot) {
                    Some(known) => known.pod.uid.to_string(),
                    None => {
                        self.incarnations += 1;
                        format!("{slot}-{}", self.incarnations)
                    }
                };
                let facts = mk_pod(&uid, &node, tolerations);
                self.pods.insert(slot, facts.clone());
                Some(Input::Pod(facts))
            }
            Step::PodGone(pod) => {
                let facts = self.pods.remove(&format!("p{pod}"))?;
                Some(Input::PodGone(facts.pod.uid))
            }
        }
    }

    fn lists(&self) -> [Input; 2] {
        [
            Input::Nodes(self.nodes.values().cloned().collect()),
            Input::Pods(self.pods.values().cloned().collect()),
        ]
    }
}

fn play(profile: Profile, steps: &[(u64, Step)]) -> (Harness, World) {
    let mut harness = Harness::begun(profile, Vec::new(), Vec::new());
    let mut world = World::default();
    for (pause, step) in steps {
        let at = harness.millis / 1000 + pause;
        harness.at(at);
        if let Some(input) = world.apply(step) {
            harness.apply(input);
        }
    }
    (harness, world)
}

/// State of every pod intent that stands.
fn standing(harness: &Harness) -> BTreeMap<String, IntentState> {
    let states = harness.published.iter().filter_map(|(key, record)| match &record.intent {
        Intent::Pod(eviction) if !matches!(eviction.state, IntentState::Withdrawn(_)) => Some((key.clone(), eviction.state)),
        _ => None,
    });
    states.collect()
}

fn is_write(effect: &Effect) -> bool {
    !matches!(effect, Effect::WakeAt(_))
}

/// What a list is of.
#[derive(Clone, Copy, Debug)]
enum Of {
    Nodes,
    Pods,
}

impl World {
    /// All there is, in parts that end at these places; what is behind the last of them ends it. The bits say which cannot be read.
    fn list(&self, of: Of, places: &[Index], unreadable: u8) -> Vec<Input> {
        match of {
            Of::Nodes => {
                let name = |facts: &NodeFacts| facts.node.name.clone();
                let part = |first, nodes| Input::SomeNodes { first, nodes };
                cut(self.nodes.values(), name, places, unreadable, part, Input::Nodes)
            }
            Of::Pods => {
                let uid = |facts: &PodFacts| facts.pod.uid.clone();
                let part = |first, pods| Input::SomePods { first, pods };
                cut(self.pods.values(), uid, places, unreadable, part, Input::Pods)
            }
        }
    }
}

fn cut<'a, T: Clone + 'a, K: ToString>(
    all: impl Iterator<Item = &'a T>,
    key: impl Fn(&T) -> K,
    places: &[Index],
    unreadable: u8,
    part: impl Fn(bool, Vec<T>) -> Input,
    end: impl Fn(Listed<T, K>) -> Input,
) -> Vec<Input> {
    let is_unreadable = |object: &T| {
        let last = key(object).to_string().bytes().last().expect("a key");
        unreadable >> (last % 8) & 1 == 1
    };
    let (unreadable, mut all): (Vec<T>, Vec<T>) = all.cloned().partition(is_unreadable);
    let mut places: Vec<usize> = places.iter().map(|place| place.index(all.len() + 1)).collect();
    places.sort_unstable();
    let mut inputs = Vec::new();
    let mut begin = 0;
    for place in places {
        let shown = all.drain(..place - begin).collect();
        inputs.push(part(inputs.is_empty(), shown));
        begin = place;
    }
    let unreadable = unreadable.iter().map(key).collect();
    inputs.push(end(Listed { all, unreadable }));
    inputs
}

/// What inputs lead to, in no order: that of what is independent of each other is not the same.
fn effects(harness: &mut Harness, inputs: Vec<Input>) -> Vec<String> {
    let effects = inputs.into_iter().flat_map(|input| harness.apply(input));
    let mut effects: Vec<String> = effects.filter(is_write).map(|effect| format!("{effect:?}")).collect();
    effects.sort_unstable();
    effects
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Present taints and tolerations alone decide which pods have an intent at all, and which are due without a time.
    #[test]
    fn intents_follow_from_present_taints_and_tolerations(steps in proptest::collection::vec((0..9_u64, mk_step()), 1..60)) {
        for profile in [Profile::Bailiff, Profile::Upstream] {
            let (harness, world) = play(profile, &steps);
            let standing = standing(&harness);
            for pod in world.pods.values() {
                let Some(node) = world.nodes.get(pod.node.as_str()) else { continue };
                let state = standing.get(&format!("pod/{}", pod.pod.uid));
                match taint::tolerance(&node.taints, &pod.tolerations) {
                    Tolerance::Untolerated(_) => prop_assert_eq!(state, Some(&IntentState::Due)),
                    Tolerance::Forever => prop_assert_eq!(state, None),
                    Tolerance::For(time) if time.as_secs() > 9_223_372_036 => prop_assert_eq!(state, None),
                    Tolerance::For(_) => prop_assert!(state.is_some()),
                }
            }
            let known: Vec<String> = world.pods.values().map(|pod| format!("pod/{}", pod.pod.uid)).collect();
            prop_assert!(harness.published.keys().all(|key| known.contains(key)), "nothing is left of pods that are gone");
        }
    }

    /// A pod is never due before a toleration time that it has at that moment could have run out.
    #[test]
    fn nothing_is_due_early(steps in proptest::collection::vec((0..9_u64, mk_step()), 1..60)) {
        let (harness, world) = play(Profile::Bailiff, &steps);
        for pod in world.pods.values() {
            let Some(node) = world.nodes.get(pod.node.as_str()) else { continue };
            let due = harness.eviction(&pod.pod.uid.to_string()).filter(|eviction| eviction.state == IntentState::Due);
            if let (Some(due), Tolerance::For(time)) = (due, taint::tolerance(&node.taints, &pod.tolerations)) {
                let since = crate::harness::seconds(due.due_at);
                prop_assert!(since <= i64::try_from(harness.millis / 1000).expect("small"));
                prop_assert!(u128::from(time.as_secs()) * 1000 <= u128::from(harness.millis), "{:?}", due);
            }
        }
    }

    /// The same facts twice: no effect.
    #[test]
    fn a_quiet_world_is_left_alone(steps in proptest::collection::vec((0..9_u64, mk_step()), 1..40)) {
        let (mut harness, world) = play(Profile::Bailiff, &steps);
        for input in world.lists().into_iter().chain(world.lists()).chain([Input::Wake]) {
            let effects: Vec<Effect> = harness.apply(input).into_iter().filter(is_write).collect();
            prop_assert_eq!(effects, []);
        }
    }

    /// Facts of one moment lead to the same intents, whatever order they come in.
    #[test]
    fn the_order_of_events_does_not_matter(
        steps in proptest::collection::vec(mk_step(), 1..30),
        swaps in proptest::collection::vec((any::<Index>(), any::<Index>()), 0..30),
    ) {
        let mut world = World::default();
        for step in &steps {
            world.apply(step);
        }
        let nodes = world.nodes.values().cloned().map(Input::Node);
        let pods = world.pods.values().cloned().map(Input::Pod);
        let events: Vec<Input> = nodes.chain(pods).collect();
        let mut shuffled = events.clone();
        for (a, b) in swaps {
            if !shuffled.is_empty() {
                let (a, b) = (a.index(shuffled.len()), b.index(shuffled.len()));
                shuffled.swap(a, b);
            }
        }
        let end = |events: Vec<Input>| {
            let mut harness = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
            harness.at(5);
            for event in events {
                harness.apply(event);
            }
            harness.published
        };
        prop_assert_eq!(end(events), end(shuffled));
    }

    /// However a list is cut, it is the whole list: to a manager that begins, and to one that missed something.
    #[test]
    fn a_list_in_parts_is_the_whole_list(
        seen in proptest::collection::vec((0..9_u64, mk_step()), 0..30),
        missed in proptest::collection::vec(mk_step(), 0..10),
        places in proptest::collection::vec(any::<Index>(), 1..5),
        broken in any::<Index>(),
        unreadable in any::<u8>(),
    ) {
        let lists = [(Of::Pods, Of::Nodes), (Of::Nodes, Of::Pods)];
        let cases = [(Profile::Bailiff, false), (Profile::Upstream, false), (Profile::Bailiff, true)];
        for (index, (profile, is_first)) in cases.repeat(lists.len()).into_iter().enumerate() {
            let (of, other) = lists[index / cases.len()];
            let (_, mut world) = play(profile, &seen);
            let broken_off = world.list(of, &[broken], unreadable).remove(0);
            for step in &missed {
                world.apply(step);
            }
            let begin = || {
                let mut harness = if is_first { Harness::new(mk_config(profile)) } else { play(profile, &seen).0 };
                harness.at(1000);
                effects(&mut harness, world.list(other, &[], 0));
                harness
            };
            let end = |harness: &mut Harness| {
                let effects = effects(harness, vec![Input::Inherit(Vec::new())]);
                harness.at(2000);
                (effects, format!("{:?}", harness.published), harness.manager.stats(), harness.manager.waits_for())
            };

            let (mut whole, mut parts) = (begin(), begin());
            let expected = effects(&mut whole, world.list(of, &[], unreadable));
            prop_assert_eq!(effects(&mut parts, world.list(of, &places, unreadable)), expected);
            let expected = end(&mut whole);
            prop_assert_eq!(end(&mut parts), expected);

            // One that broke off, of an earlier moment, leaves no trace.
            let mut after = begin();
            after.apply(broken_off);
            effects(&mut after, world.list(of, &places, unreadable));
            end(&mut after);
            prop_assert_eq!(standing(&after), standing(&whole));
            let counts = |harness: &Harness| (harness.manager.stats().nodes, harness.manager.stats().pods);
            prop_assert_eq!(counts(&after), counts(&whole));
        }
    }

    /// A restart with the bus's memory changes no state and moves no toleration time; only withdrawals are forgotten.
    #[test]
    fn a_restart_changes_nothing(steps in proptest::collection::vec((0..9_u64, mk_step()), 1..60)) {
        let (before, world) = play(Profile::Bailiff, &steps);
        let mut after = Harness::new(mk_config(Profile::Bailiff));
        after.millis = before.millis;
        let [nodes, pods] = world.lists();
        after.apply(nodes);
        after.apply(pods);
        after.apply(Input::Inherit(before.memory()));
        prop_assert_eq!(standing(&after), standing(&before));
        for key in standing(&after).keys() {
            let uid = key.trim_start_matches("pod/");
            if before.eviction(uid).is_some_and(|eviction| eviction.trigger == Trigger::Expired) {
                prop_assert_eq!(after.due(uid), before.due(uid), "{}", uid);
            }
        }
    }

    /// Nothing that comes from outside makes it panic, and answers to questions nobody asked are ignored.
    #[test]
    fn stray_answers_are_ignored(steps in proptest::collection::vec((0..9_u64, mk_step()), 0..20), uid in "p[0-5]-[0-9]") {
        use bailiff_taint_core::{Answer, Reading};
        let (mut harness, _) = play(Profile::Bailiff, &steps);
        for answer in [Answer::Done("1".into()), Answer::Gone, FAILED] {
            harness.apply(Input::PodMarked { uid: uid.as_str().into(), answer: answer.clone() });
            harness.apply(Input::NodePatched { name: "n7".into(), answer });
        }
        harness.apply(Input::PodRead { uid: "nobody".into(), reading: Reading::Gone });
        harness.apply(Input::NodeRead { name: "n7".into(), reading: Reading::Gone });
        harness.at(10_000);
    }
}
