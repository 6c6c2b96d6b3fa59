//! A property test: whatever happens in whatever order, nobody is judged who spoke, and everybody who stays silent is.

use std::time::Duration;

use bailiff_model::{NodeName, ReadyStatus};
use bailiff_node_health_core::{Config, Input, Profile};
use proptest::prelude::*;

use crate::support::{Answers, World, name};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u16),
    StandStill(u16),
    Renew(usize),
    /// A renewal is seen so many milliseconds after it was made.
    SeeRenewal(usize, u16),
    RenewBack(usize),
    Post(usize, bool),
    Edit(usize),
    Recreate(usize, bool),
    Delete(usize),
    Stall(bool),
    Relist,
    Api(Answers),
    AnswerKept,
    TurnClock(i16),
    Restart(bool),
    Lead,
    Hold(bool),
}

fn mk_step() -> impl Strategy<Value = Step> {
    let node = 0..NAMES.len();
    let answers = prop_oneof![
        Just(Answers::AtOnce),
        Just(Answers::Later),
        Just(Answers::Fails),
        Just(Answers::FailsWrites),
        Just(Answers::StoresInSilence)
    ];
    prop_oneof![
        8 => (1..400_u16).prop_map(Step::Pass),
        1 => (1..900_u16).prop_map(Step::StandStill),
        8 => node.clone().prop_map(Step::Renew),
        3 => (node.clone(), 0..300_u16).prop_map(|(node, late)| Step::SeeRenewal(node, late)),
        1 => node.clone().prop_map(Step::RenewBack),
        3 => (node.clone(), any::<bool>()).prop_map(|(node, ready)| Step::Post(node, ready)),
        2 => node.clone().prop_map(Step::Edit),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, ready)| Step::Recreate(node, ready)),
        1 => node.prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Stall),
        1 => Just(Step::Relist),
        2 => answers.prop_map(Step::Api),
        3 => Just(Step::AnswerKept),
        1 => any::<i16>().prop_map(Step::TurnClock),
        1 => any::<bool>().prop_map(Step::Restart),
        1 => Just(Step::Lead),
        1 => any::<bool>().prop_map(Step::Hold),
    ]
}

/// What the model knows of a node: when it last spoke, by a clock that nothing steps.
#[derive(Clone, Copy, Debug)]
struct Told {
    spoke: f64,
}

fn mk_config(profile: Profile) -> Config {
    Config {
        profile,
        look: Duration::from_millis(128),
        ..Config::default()
    }
}

struct Model {
    world: World,
    told: [Option<Told>; NAMES.len()],
    /// True time, in seconds; restarts reset the world's.
    time: f64,
    /// True time at the world's start.
    base: f64,
    uids: u32,
    /// A clock was stepped, or a kubelet's is wrong.
    clocks_disagree: bool,
    profile: Profile,
}

impl Model {
    fn new(profile: Profile) -> Self {
        Self {
            world: World::running(mk_config(profile), &NAMES),
            told: [Some(Told { spoke: 0.0 }); NAMES.len()],
            time: 0.0,
            base: 0.0,
            uids: 1,
            clocks_disagree: false,
            profile,
        }
    }

    fn spoke(&mut self, node: usize) {
        if let Some(told) = &mut self.told[node] {
            told.spoke = self.time;
        }
    }

    /// Every node that a write was asked for had been silent for longer than its grace; for longer than the quarter of it that is
    /// always counted on this process's own clock, if the clocks that stamps are compared with after a restart disagree.
    fn check_writes(&mut self) {
        for (name, asked) in std::mem::take(&mut self.world.writes) {
            let node = NAMES
                .iter()
                .position(|known| *known == name.as_str())
                .expect("a node of the model");
            if let Some(told) = self.told[node] {
                let silent = self.base + asked - told.spoke;
                let least = if self.clocks_disagree { 12.5 } else { 50.0 };
                assert!(silent > least - 1e-6, "{name} was judged after {silent} s of silence");
            }
        }
    }

    fn apply(&mut self, step: Step) {
        let config = mk_config(self.profile);
        match step {
            Step::Pass(tenths) => {
                let seconds = f64::from(tenths) / 10.0;
                self.world.pass(seconds);
                self.time += seconds;
            }
            Step::StandStill(tenths) => {
                let seconds = f64::from(tenths) / 10.0;
                self.world.stand_still(seconds);
                self.time += seconds;
            }
            Step::Renew(node) if self.told[node].is_some() => {
                self.spoke(node);
                self.world.renew(NAMES[node]);
            }
            // Upstream takes a lease that goes backwards for silence (NL-048).
            Step::SeeRenewal(node, late) if self.profile == Profile::Bailiff => {
                let late = Duration::from_millis(late.into());
                if let Some(told) = &mut self.told[node] {
                    told.spoke = told.spoke.max(self.time - late.as_secs_f64());
                    self.world.renew_at(NAMES[node], Some(self.world.now.wall - late));
                }
            }
            Step::RenewBack(node) if self.told[node].is_some() && self.profile == Profile::Bailiff => {
                self.spoke(node);
                self.clocks_disagree = true;
                let back = self.world.now.wall - jiff::SignedDuration::from_hours(1);
                self.world.renew_at(NAMES[node], Some(back));
            }
            Step::Post(node, ready) if self.told[node].is_some() => {
                self.spoke(node);
                self.world
                    .post(NAMES[node], if ready { ReadyStatus::True } else { ReadyStatus::False });
            }
            Step::Edit(node) if self.told[node].is_some() => {
                self.world.change(NAMES[node], |facts| facts.excluded = !facts.excluded);
            }
            Step::Recreate(node, ready) => self.recreate(node, ready),
            Step::Delete(node) if self.told[node].is_some() => {
                self.told[node] = None;
                self.world.delete(NAMES[node]);
            }
            Step::Stall(stalled) => {
                self.world.watch_stalled = stalled;
                if !stalled {
                    self.relist();
                }
            }
            Step::Relist => self.relist(),
            Step::Api(answers) => self.world.answers = answers,
            Step::AnswerKept => self.world.answer_pending(),
            // Upstream takes a lease that goes backwards for silence (NL-048).
            Step::TurnClock(seconds) if self.profile == Profile::Bailiff => {
                self.clocks_disagree = true;
                let by = jiff::SignedDuration::from_secs(i64::from(seconds));
                self.world.now.wall += by;
            }
            Step::Restart(topic_lost) => {
                if topic_lost {
                    self.world.topic.clear();
                }
                self.base = self.time - 1.0;
                self.world.restart(config);
            }
            Step::Lead => {
                self.world.give(Input::Leading(false));
                self.world.start();
            }
            Step::Hold(held) => self.world.brake(held),
            Step::Renew(_)
            | Step::SeeRenewal(..)
            | Step::RenewBack(_)
            | Step::Post(..)
            | Step::Edit(_)
            | Step::Delete(_)
            | Step::TurnClock(_) => {}
        }
        self.check_writes();
    }

    fn recreate(&mut self, node: usize, ready: bool) {
        self.uids += 1;
        let status = if ready { ReadyStatus::True } else { ReadyStatus::Absent };
        self.told[node] = Some(Told { spoke: self.time });
        let uid = format!("u{}", self.uids);
        self.world.create(NAMES[node], &uid, status);
    }

    fn relist(&mut self) {
        if !self.world.watch_stalled {
            self.world.list();
        }
    }

    /// Everything is well again and everybody is silent: after a grace, a startup grace and some periods all are judged, on the
    /// bus as in the API, and then nothing happens any more.
    fn check_rest(&mut self) {
        self.apply(Step::Stall(false));
        self.world.answers = Answers::AtOnce;
        self.apply(Step::AnswerKept);
        self.apply(Step::Hold(false));
        for _ in 0..3 {
            self.apply(Step::Pass(600));
        }
        for (node, told) in NAMES.iter().zip(&self.told) {
            let wanted = if told.is_some() { "unreachable" } else { "none" };
            assert_eq!(self.world.verdict(node), wanted, "{node}");
        }
        self.world.story();
        for _ in 0..5 {
            self.apply(Step::Pass(600));
        }
        assert_eq!(self.world.story(), Vec::<String>::new());
        let summary = self.world.monitor.summary();
        assert_eq!((summary.waiting, summary.under_way), (0, 0));
        let live: Vec<NodeName> = NAMES
            .iter()
            .zip(&self.told)
            .filter(|(_, told)| told.is_some())
            .map(|(node, _)| name(node))
            .collect();
        assert_eq!(summary.nodes, live.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// NL-040, NL-052, NL-055, NL-057, NL-151
    #[test]
    fn nobody_is_judged_who_spoke_and_everybody_silent_is(steps in proptest::collection::vec(mk_step(), 1..80), upstream: bool) {
        let mut model = Model::new(if upstream { Profile::Upstream } else { Profile::Bailiff });
        for step in steps {
            model.apply(step);
        }
        model.check_rest();
    }
}
