//! An evictor that ran through a random history, against one that begins on the world that is left.
//!
//! Watches and bus lag, answers come late, in any order, or get lost, requests fail, nodes and pods come, go and change, processes end.
//! Once all was delivered and enough time passed, both say the same, the new one has nothing to write, nothing is kept of who is gone, and
//! what happens next makes both do the same: no token and no slot was lost on the way. Meanwhile nothing is asked for that is held, or
//! about a pod that is not due ([`World`] sees to that).

mod stages;
mod story;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};

use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::{Effect as TaintEffect, Hold, Holds, PodUid, ReadyStatus, Topic};
use bailiff_zone_core::{EvictionMode, Input};

use crate::histories::Random;
use crate::world::{World, secs};
use story::Story;

/// Some seconds.
const SEEDS: u64 = 150;
/// Histories in which the two differed once.
const DIFFERED: [u64; 7] = [
    697_794_346_955_214_914,
    2_957_411_621_245_239_154,
    13_243_814_926_885_032_178,
    14_108_309_298_848_247_491,
    14_811_735_145_207_618_859,
    15_668_722_447_779_775_119,
    18_168_193_684_907_951_860,
];
const NAMES: [&str; 8] = ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1"];
const ZONES: [&str; 3] = ["a", "b", "c"];

/// What is said of what, but for since when, and for what is over.
fn said(world: &World) -> BTreeMap<String, String> {
    let of_hold = |hold: &Hold| format!("held {:?} {:?}", hold.reason, hold.until);
    let text = |outcome: &Outcome| match outcome {
        // That there was a zone once is remembered (NL-025).
        Outcome::Zone(zone) if zone.voting == 0 && zone.queue_length == 0 => None,
        Outcome::Zone(zone) => Some(format!(
            "{:?} {}/{}/{} rate {} waiting {} {:?}",
            zone.state,
            zone.voting,
            zone.not_ready,
            zone.late,
            zone.rate_per_second,
            zone.queue_length,
            zone.held.as_ref().map(of_hold)
        )),
        Outcome::Node(node) => {
            let state = match &node.state {
                NodeOutcomeState::Released => return None,
                NodeOutcomeState::Held(hold) => of_hold(hold),
                NodeOutcomeState::Queued { .. } => "queued".to_owned(),
                state => format!("{state:?}"),
            };
            Some(format!("{} {} {state}", node.node.uid, node.zone))
        }
        Outcome::Pod(pod) => {
            let state = match &pod.state {
                state if state.is_terminal() => return None,
                PodOutcomeState::Held(hold) => of_hold(hold),
                state => format!("{state:?}"),
            };
            // Not its zone: that its node moved is no news of the pod, which is said to be where it was.
            Some(format!("{} {state}", pod.node.name))
        }
    };
    let outcomes = world.outcomes.iter();
    outcomes
        .filter_map(|(key, outcome)| Some((key.clone(), text(outcome)?)))
        .collect()
}

fn check(seed: u64) {
    let mut story = Story::new(seed);
    story.run();
    story.come_to_rest();
    let world = &mut story.world;
    let mut fresh = world.successor();
    fresh.tell(Input::Braked(story.holds.clone()));
    fresh.show_everything();
    fresh.pass(secs(600));
    world.pass(secs(600));
    assert_eq!(fresh.happened(), [], "seed {seed}: the new one found something to do");
    assert_same(&said(world), &said(&fresh), seed);
    assert_keeps_nothing(world, seed);
    assert_keeps_nothing(&fresh, seed);
    probe(story, fresh, seed);
}

fn assert_same(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>, seed: u64) {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        assert_eq!(old.get(key), new.get(key), "seed {seed}: {key}, old and new");
    }
}

/// Of who is gone nothing is kept.
fn assert_keeps_nothing(world: &World, seed: u64) {
    let kept = format!("{:?}", world.evictor);
    let intents = world.bus.values().filter(|record| record.topic == Topic::EvictionIntents);
    let wanted = format!("{:?}", intents.collect::<Vec<_>>());
    let around = |word: &str| {
        let at = kept.find(word).unwrap_or_default();
        kept[at.saturating_sub(300)..(at + 60).min(kept.len())].to_owned()
    };
    let there = |uid: &str| world.pods.contains_key(&PodUid::from(uid));
    for word in kept.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let is_pod = word.contains("-uid-");
        assert!(
            !is_pod || there(word),
            "seed {seed}: of {word} something is kept: {}",
            around(word)
        );
        let is_node = NAMES
            .iter()
            .any(|name| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')));
        let is_there = world.nodes.values().any(|facts| facts.uid.to_string() == word) || wanted.contains(word);
        assert!(
            !is_node || is_there,
            "seed {seed}: of {word} something is kept: {}",
            around(word)
        );
    }
}

/// What happens next makes both do the same.
fn probe(story: Story, fresh: World, seed: u64) {
    let (mut results, mut spoken) = (Vec::new(), Vec::new());
    let (holds, monitored) = (story.holds, story.monitored);
    for world in [story.world, fresh] {
        let mut story = Story {
            world,
            random: Random::new(1),
            holds: holds.clone(),
            monitored: monitored.clone(),
            pods: 1000,
            listing: None,
        };
        for _ in 0..4 {
            for name in NAMES {
                if story.has(name) {
                    story.set_ready(name, ReadyStatus::True);
                    if story.world.config.mode == EvictionMode::Taint {
                        story.world.untaint(name, "maintenance", TaintEffect::NoExecute);
                    }
                }
                story.monitor(name);
                story.manage(name);
            }
            story.world.pass(secs(200));
        }
        story.holds = Holds::NONE;
        story.world.tell(Input::Braked(Holds::NONE));
        story.world.pass(secs(200));
        // Names are given by it, and one may have written more than the other until now.
        story.world.version = 10_000;
        let from = story.world.history.len();
        for home in ZONES {
            for nth in 0..3 {
                let name = format!("{home}{nth}x");
                story.world.add_node(&name, home);
                story.world.change_node(&name, |_| ());
                story.monitor(&name);
            }
            let name = format!("{home}0x");
            for nth in 0..5 {
                story.world.add_pod(&format!("{name}-{nth}"), &name, Vec::new());
            }
            story.set_ready(&name, ReadyStatus::Unknown);
            story.monitor(&name);
            story.manage(&name);
            story.world.pass(secs(3));
            story.manage(&name);
        }
        story.world.pass(secs(100));
        results.push(story.world.history[from..].to_vec());
        spoken.push(said(&story.world));
    }
    let differ = results[0].iter().zip(&results[1]).find(|(old, new)| old != new);
    assert_eq!(differ, None, "seed {seed}: old, new, after a probe");
    assert_eq!(results[0].len(), results[1].len(), "seed {seed}: old, new, after a probe");
    assert_same(&spoken[0], &spoken[1], seed);
}

/// Design §1, design §8: a process that ran for long and one that was just started are the same to the cluster.
#[test]
fn who_ran_for_long_and_who_begins_want_the_same() {
    (1..=SEEDS).chain(DIFFERED).for_each(check);
}
