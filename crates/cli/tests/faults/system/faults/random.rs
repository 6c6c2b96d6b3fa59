//! Kills at random points.

use std::time::Duration;

use bailiff_runtime::Seed;

use crate::clock;
use crate::system::members::MEMBERS;
use crate::system::{Stage, System};

/// How long it takes at most from one kill to the next. A failover takes longer, so that some of them meet.
const NEXT_WITHIN: u64 = 1_500;
/// How long somebody stays dead at most.
const DEAD_FOR: u64 = 3_000;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Replica(u64),
    Bus(usize),
    Member(usize),
}

impl System {
    /// So many processes are killed, whoever they are and whatever they are doing, and stay dead for a while.
    pub fn kill_at_random(&mut self, draw: &Seed, kills: usize) {
        let mut point = Duration::ZERO;
        // What happens, at which distance from the beginning: somebody is killed, or started again.
        let mut plan: Vec<(Duration, Who, bool)> = Vec::new();
        for _ in 0..kills {
            point += Duration::from_millis(draw.below(NEXT_WITHIN));
            let who = self.draw_one(draw);
            let until = point + Duration::from_millis(draw.below(DEAD_FOR));
            // Whoever is dead is not killed.
            let is_dead = |(at, other, is_killed): &(Duration, Who, bool)| *other == who && !is_killed && *at >= point;
            if !plan.iter().any(is_dead) {
                plan.extend([(point, who, true), (until, who, false)]);
            }
        }
        plan.sort_by_key(|(at, _, _)| *at);
        let begin = clock::now();
        for (at, who, is_killed) in plan {
            self.take_until(begin + at);
            let what = if is_killed { "is killed" } else { "is started again" };
            println!("after {at:?} {} {what}", self.name(who));
            self.set_dead(who, is_killed);
            self.premises.saw("somebody was killed at random");
        }
        for stage in Stage::ALL {
            self.leader(stage);
        }
        self.until_published();
    }

    fn draw_one(&self, draw: &Seed) -> Who {
        let ids = self.replicas.iter().map(|replica| Who::Replica(replica.id));
        let buses = (0..self.buses.len()).map(Who::Bus);
        let members = (0..if self.etcd.is_some() { MEMBERS } else { 0 }).map(Who::Member);
        let all: Vec<Who> = ids.chain(buses).chain(members).collect();
        all[usize::try_from(draw.below(all.len() as u64)).unwrap()]
    }

    fn name(&self, who: Who) -> String {
        match who {
            Who::Replica(id) => {
                let replica = self.replicas.iter().find(|replica| replica.id == id);
                replica.map_or("", |replica| replica.stage.name()).to_owned()
            }
            Who::Bus(number) => format!("replica {number} of the bus"),
            Who::Member(number) => format!("member {number} of etcd"),
        }
    }

    fn set_dead(&mut self, who: Who, is_dead: bool) {
        match who {
            Who::Replica(id) => {
                let number = self
                    .replicas
                    .iter()
                    .position(|replica| replica.id == id)
                    .expect("all are kept");
                if is_dead {
                    self.note_stop(number);
                    self.replicas[number].is_down = true;
                    self.replicas[number].program.kill();
                } else {
                    // Its end was seen by now, or is of no interest any more.
                    self.replicas[number].ended();
                    self.restart(number);
                }
            }
            Who::Bus(number) if is_dead => self.buses[number].program.kill(),
            Who::Bus(number) => self.start_bus(number),
            Who::Member(number) => {
                let etcd = self.etcd.as_mut().expect("it has members");
                if is_dead {
                    etcd.kill(number);
                } else {
                    etcd.run(number);
                }
            }
        }
    }
}
