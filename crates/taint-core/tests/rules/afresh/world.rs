//! A cluster around a manager: what it is shown late, what it asks for, and what becomes of that.

mod changes;
mod health;
mod requests;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::{Holds, ReadyStatus, Wall};
use bailiff_taint_core::{Answer, Effect, HealthRecord, Input, NodeFacts, PodFacts};

use super::dice::Dice;
use crate::harness::{Harness, wall};
use health::News;

pub struct World {
    dice: Dice,
    versions: u64,
    pub nodes: BTreeMap<String, NodeFacts>,
    pub pods: BTreeMap<String, PodFacts>,
    /// The newest records; none where it cannot be read.
    pub topic: BTreeMap<String, Option<HealthRecord>>,
    pub holds: Holds,
    shown_nodes: VecDeque<Input>,
    shown_pods: VecDeque<Input>,
    shown_health: VecDeque<News>,
    complete: bool,
    asked: Vec<Effect>,
    answers: Vec<Input>,
    /// Pods that were on a node when it last fell silent, if it had not been Ready: nobody marks them but who comes later (NL-085).
    pub left_ready: BTreeSet<String>,
}

// === impl World ===

impl World {
    /// A world in which some things happened before anybody watched.
    pub fn new(seed: u64) -> Self {
        let mut world = Self {
            dice: Dice(seed),
            versions: 10,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            topic: BTreeMap::new(),
            holds: Holds::NONE,
            shown_nodes: VecDeque::new(),
            shown_pods: VecDeque::new(),
            shown_health: VecDeque::new(),
            complete: false,
            asked: Vec::new(),
            answers: Vec::new(),
            left_ready: BTreeSet::new(),
        };
        for _ in 0..world.dice.below(12) {
            world.change(world.versions);
        }
        world.list_nodes();
        world.list_pods();
        world.shown_health.push_back(News::Complete);
        world
    }

    fn version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }

    /// Something happens, somewhere.
    pub fn step(&mut self, h: &mut Harness) {
        h.millis += 1;
        match self.dice.below(20) {
            0..=6 => self.change(h.millis),
            7..=9 => self.show(h),
            10 => self.serve(h, false),
            11 => self.answer(h),
            12 | 13 => {
                let millis = self.dice.of(&[5, 500, 1000, 3000, 9000, 20_000]);
                self.pass(h, millis);
            }
            14 => self.judge_node(h.millis),
            15 => match self.dice.below(8) {
                0 => self.list_nodes(),
                1 => self.list_pods(),
                2 => self.reconnect(h),
                3 => self.brake(h),
                4 => h.ahead = self.dice.of(&[-40, 0, 0, 40]),
                _ => {}
            },
            _ => self.catch_up(h),
        }
    }

    /// Lets time pass, waking whenever it was asked for.
    pub fn pass(&mut self, h: &mut Harness, millis: u64) {
        let end = h.millis + millis;
        while let Some(at) = h
            .wake_at
            .map(|at| at.since_origin().as_millis() as u64)
            .filter(|at| *at <= end)
        {
            h.millis = h.millis.max(at);
            h.wake_at = None;
            self.apply(h, Input::Wake);
        }
        h.millis = end;
    }

    /// Applies an input; what is asked for waits until it is served.
    pub fn apply(&mut self, h: &mut Harness, input: Input) -> Vec<Effect> {
        let effects = h.apply(input);
        for effect in &effects {
            match effect {
                Effect::PatchNode(_) | Effect::ReadNode(_) | Effect::MarkPod(_) | Effect::ReadPod(_) => {
                    self.asked.push(effect.clone())
                }
                Effect::CallOff(uid) => {
                    let waits = |asked: &Effect| matches!(asked, Effect::MarkPod(mark) if mark.pod.uid == *uid);
                    if let Some(place) = self.asked.iter().position(waits) {
                        self.asked.remove(place);
                        let answer = Answer::CalledOff;
                        self.answers.push(Input::PodMarked {
                            uid: uid.clone(),
                            answer,
                        });
                    }
                }
                _ => {}
            }
        }
        effects
    }

    /// Shows everything, serves everything, and lets time pass until nothing comes of it.
    pub fn settle(&mut self, h: &mut Harness) {
        if self.dice.one_in(3) {
            self.list_nodes();
            self.list_pods();
        }
        let mut quiet = 0;
        for _ in 0..200 {
            let before = self.asked.len() + self.answers.len();
            while let Some(input) = self.shown_nodes.pop_front() {
                self.apply(h, input);
            }
            while let Some(input) = self.shown_pods.pop_front() {
                self.apply(h, input);
            }
            while let Some(input) = self.news_of_health() {
                self.apply(h, input);
            }
            while !self.asked.is_empty() {
                self.serve(h, true);
            }
            while !self.answers.is_empty() {
                self.answer(h);
            }
            self.pass(h, 10_000);
            quiet = if before + self.shown_nodes.len() + self.shown_pods.len() == 0 {
                quiet + 1
            } else {
                0
            };
            if quiet == 8 {
                return;
            }
        }
        unreachable!("it never ends: {:?}", self.asked);
    }

    /// True if the pod's kubelet says that its node is not ready.
    pub fn is_not_ready(&self, uid: &str) -> bool {
        let node = self.pods.get(uid).and_then(|pod| self.nodes.get(pod.node.as_str()));
        node.is_some_and(|node| node.ready.status == ReadyStatus::False)
    }

    /// The node falls silent; `before`, its condition was this.
    fn fall_silent(&mut self, name: &str, before: ReadyStatus) {
        for (uid, _) in self.pods.iter().filter(|(_, pod)| pod.node.as_str() == name) {
            if before == ReadyStatus::True {
                self.left_ready.remove(uid);
            } else {
                self.left_ready.insert(uid.clone());
            }
        }
    }
}

fn at(millis: u64) -> Wall {
    wall(0) + Duration::from_millis(millis)
}
