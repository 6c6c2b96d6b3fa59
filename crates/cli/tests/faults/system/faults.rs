//! What goes wrong: each fault begins, waits until its effect is seen, and ends.

mod bus;
mod clocks;
mod etcd;
mod pauses;
mod random;
mod rollouts;
mod stages;
mod swap;

use std::collections::BTreeMap;

pub use clocks::Whose;
pub use swap::python;

use super::stage::PUBLISHERS;
use super::{Replica, Stage, System};

impl System {
    /// Waits until those who published have another connection to the bus, or none.
    fn until_changed(&mut self, before: &BTreeMap<u64, usize>) {
        self.until("the end of the old connections", |system| {
            let now = system.connections();
            // Who was started again meanwhile has no old connection.
            let mut all = before.iter();
            all.all(|(start, changes)| now.get(start).is_none_or(|more| more > changes))
        });
    }

    /// How often those that publish got or lost a connection to the bus, by their starts.
    fn connections(&self) -> BTreeMap<u64, usize> {
        let leads = |replica: &&Replica| PUBLISHERS.contains(&replica.stage) && !replica.leads.is_empty();
        let publishers = self.replicas.iter().filter(leads);
        publishers.map(|replica| (replica.program.start, replica.changes)).collect()
    }

    /// Waits until who leads has renewed its Lease so many times.
    fn until_renewed(&mut self, stage: Stage, times: usize) {
        let lease = self.lease(stage);
        let before = self.renewals(&lease);
        self.until("renewals", |system| system.renewals(&lease) >= before + times);
    }

    fn renewals(&self, lease: &str) -> usize {
        self.witness.with(|seen| seen.renewals[lease].len())
    }
}
