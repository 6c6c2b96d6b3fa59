//! What happens to a cluster and its evictor, drawn from a seed.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::{
    Effect as TaintEffect, HoldReason, HoldScope, Holds, NodeName, PodUid, ReadyStatus, Shard, Taint, Toleration, Verdict,
};
use bailiff_zone_core::{Block, Config, EvictionMethod, EvictionMode, Input, NodeFacts};

use super::{NAMES, ZONES};
use crate::histories::Random;
use crate::world::{World, mk_taint, mk_toleration, secs, zone};

const STEPS: usize = 120;

pub struct Story {
    pub world: World,
    pub random: Random,
    pub holds: Holds,
    /// Zones that the monitor holds.
    pub monitored: BTreeSet<String>,
    pub pods: usize,
    /// What is left of a list of nodes that takes long.
    pub listing: Option<Vec<NodeFacts>>,
}

impl Story {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mode = if random.below(3) == 0 {
            EvictionMode::Node
        } else {
            EvictionMode::Taint
        };
        let method = match random.below(4) {
            0 => EvictionMethod::Evict,
            1 => EvictionMethod::EvictThenDelete { after: secs(60) },
            _ => EvictionMethod::Delete,
        };
        let count = 1 + u32::from(random.below(4) == 0);
        let config = Config {
            mode,
            method,
            shard: Shard { index: 0, count },
            max_evictions_in_flight: 2,
            ..Config::default()
        };
        let nodes = NAMES.map(|name| (name, &name[..1]));
        let mut world = World::new(config, &nodes);
        world.shown.others_speak = count > 1;
        Self {
            world,
            random,
            holds: Holds::NONE,
            monitored: BTreeSet::new(),
            pods: 0,
            listing: None,
        }
    }

    pub(super) fn one_in(&mut self, sides: usize) -> bool {
        self.random.below(sides) == 0
    }

    pub fn has(&self, name: &str) -> bool {
        self.world.nodes.contains_key(&NodeName::from(name))
    }

    pub fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
    }

    fn step(&mut self) {
        let name = self.random.pick(&NAMES);
        match self.random.below(31) {
            0..=2 => self.change_ready(name),
            3 | 4 => self.monitor(name),
            5 => NAMES.into_iter().for_each(|name| self.monitor(name)),
            6 | 7 => self.manage(name),
            8 | 9 => NAMES.into_iter().for_each(|name| self.manage(name)),
            10 if self.has(name) => self.world.health(name, Verdict::Late),
            11 => self.come_or_go(name),
            12 if self.has(name) => self.tinker(name),
            13 | 14 => self.add_pod(name),
            15 => self.change_some_pod(),
            16..=18 => self.world.pass(secs(self.random.below(15) as u64)),
            19 => {
                let millis = self.random.below(900) as u64;
                self.world.pass(Duration::from_millis(millis));
            }
            20 => self.be_late(),
            21 | 22 => self.be_slow(),
            23 => self.fail(),
            24 => self.hold(),
            25 => self.hold_by_monitor(name),
            26 => self.disturb_the_bus(name),
            27 => self.list(),
            28 => self.restart(name),
            29 => NAMES.into_iter().for_each(|name| {
                self.set_ready(name, ReadyStatus::Unknown);
                self.monitor(name);
                self.manage(name);
            }),
            _ => self.world.tell(Input::Wake),
        }
    }

    pub(super) fn change_ready(&mut self, name: &'static str) {
        let ready = [ReadyStatus::True, ReadyStatus::False, ReadyStatus::Unknown][self.random.below(3)];
        self.set_ready(name, ready);
        if self.one_in(2) {
            self.monitor(name);
            self.manage(name);
        }
    }

    pub fn set_ready(&mut self, name: &str, ready: ReadyStatus) {
        if !self.has(name) || self.world.node(name).ready == ready {
            return;
        }
        let now = self.world.now.wall;
        self.world.change_node(name, |facts| {
            facts.recovered_at = (ready == ReadyStatus::True).then_some(now);
            facts.ready = ready;
        });
    }

    pub(super) fn come_or_go(&mut self, name: &'static str) {
        if self.has(name) {
            self.world.delete_node(name);
            if self.one_in(2) {
                return;
            }
        }
        let home = if self.one_in(4) {
            self.random.pick(&ZONES)
        } else {
            &name[..1]
        };
        self.world.add_node(name, home);
        let ready = [ReadyStatus::True, ReadyStatus::Unknown][self.random.below(2)];
        self.world.change_node(name, |facts| facts.ready = ready);
    }

    fn tinker(&mut self, name: &'static str) {
        let home = self.random.pick(&ZONES);
        let now = self.world.now.wall;
        match self.random.below(8) {
            0 => self.world.change_node(name, |_| ()),
            1 => self
                .world
                .untaint(name, HealthTaint::Unreachable.key(), TaintEffect::NoExecute),
            2 => self.world.untaint(name, HealthTaint::NotReady.key(), TaintEffect::NoExecute),
            3 => self.world.untaint(name, "maintenance", TaintEffect::NoExecute),
            4 => self.world.change_node(name, |facts| {
                facts.taints.retain(|taint| &*taint.key != "maintenance");
                facts.taints.push(mk_taint("maintenance", "x"));
            }),
            5 => self.world.change_node(name, |facts| facts.zone = zone(home)),
            6 => self.world.change_node(name, |facts| facts.excluded_from_disruption ^= true),
            _ => self.world.change_node(name, |facts| {
                let taint = Taint {
                    time_added: Some(now),
                    ..Taint::new(HealthTaint::Unreachable.key(), TaintEffect::NoExecute)
                };
                if facts.health_taints().next().is_none() {
                    facts.taints.push(taint);
                }
            }),
        }
    }

    fn tolerations(&mut self) -> Vec<Toleration> {
        let seconds = self.random.below(30) as i64;
        match self.random.below(4) {
            0 => vec![mk_toleration(HealthTaint::Unreachable.key(), Some(seconds))],
            1 => vec![mk_toleration("maintenance", None)],
            _ => Vec::new(),
        }
    }

    fn add_pod(&mut self, name: &'static str) {
        self.pods += 1;
        let tolerations = self.tolerations();
        let pod = self.world.add_pod(&format!("p{}", self.pods), name, tolerations);
        match self.random.below(3) {
            0 => self.judge(&pod, name),
            1 if self.world.config.mode == EvictionMode::Node => self.world.due_with_node(&pod),
            1 => self.world.due(&pod),
            _ => {}
        }
    }

    fn change_some_pod(&mut self) {
        let uids: Vec<PodUid> = self.world.pods.keys().cloned().collect();
        if uids.is_empty() {
            return;
        }
        let uid = uids[self.random.below(uids.len())].clone();
        let tolerations = self.tolerations();
        let block = Block {
            by: "default/budget".to_owned(),
            retry_after: self.one_in(2).then(|| secs(4)),
            detail: String::new(),
        };
        match self.random.below(8) {
            0 => {
                self.world.pods.remove(&uid);
            }
            1 => self.world.change_pod(&uid, |pod| pod.tolerations = tolerations),
            2 => self.world.change_pod(&uid, |pod| pod.disruption_target ^= true),
            3 => {
                // Another one takes its name.
                if let Some(pod) = self.world.pods.remove(&uid) {
                    self.world.add_pod(pod.name.as_str(), pod.node.as_str(), tolerations);
                }
            }
            4 => {
                self.world.budgets.insert(uid, block);
            }
            5 => self.world.budgets.clear(),
            6 => self.world.withdraw(&uid),
            _ => self.world.change_pod(&uid, |_| ()),
        }
    }

    fn hold(&mut self) {
        let scope = match self.random.below(4) {
            0 => HoldScope::All,
            1 => HoldScope::Zone(zone(self.random.pick(&ZONES))),
            2 => HoldScope::Node(NodeName::from(self.random.pick(&NAMES))),
            _ => {
                self.holds = Holds::NONE;
                return self.world.tell(Input::Braked(Holds::NONE));
            }
        };
        let reason = [HoldReason::Paused, HoldReason::Rival, HoldReason::Observing][self.random.below(3)];
        self.holds.insert(scope, self.mk_hold(reason));
        self.world.tell(Input::Braked(self.holds.clone()));
    }

    fn hold_by_monitor(&mut self, name: &'static str) {
        let home = &name[..1];
        if !self.monitored.remove(home) {
            self.monitored.insert(home.to_owned());
        }
        NAMES.into_iter().for_each(|name| self.monitor(name));
    }
}
