//! Steps of wall clocks, by an hour forward and by an hour back.

use jiff::SignedDuration;

use crate::system::{Stage, System};

/// Whose clock is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of the replica that leads.
    Leader,
    /// Those of all replicas of the stage: they agree with each other, and with nobody else.
    All,
}

impl System {
    /// The clocks are an hour fast, then an hour slow, and then right: neither is a reason to stop, nor to be early.
    pub fn step(&mut self, stage: Stage, whose: Whose) {
        let leader = self.leader(stage);
        let is_meant = |number: usize| whose == Whose::All || number == leader;
        let clocks: Vec<_> = self
            .replicas
            .iter()
            .enumerate()
            .filter(|(number, replica)| replica.stage == stage && is_meant(*number))
            .map(|(_, replica)| replica.clock.clone().expect("libfaketime is installed"))
            .collect();
        for hours in [1, -1] {
            clocks.iter().for_each(|clock| clock.step(SignedDuration::from_hours(hours)));
            let before = self.witness.with(|seen| seen.skewed_renewals);
            self.until("a renewal by a clock that is off", |system| {
                system.witness.with(|seen| seen.skewed_renewals > before)
            });
            self.until_work_went_on("work went on with a clock that is off");
        }
        clocks.iter().for_each(|clock| clock.step(SignedDuration::ZERO));
        let skewed = self
            .witness
            .with(|seen| seen.nodes.values().filter(|node| node.is_skewed).count());
        println!("{skewed} nodes were isolated by clocks that were off so far");
    }
}
