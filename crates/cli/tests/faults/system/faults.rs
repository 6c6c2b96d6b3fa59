//! What goes wrong: each fault begins, waits until its effect is seen, and ends.

use std::collections::BTreeMap;

use super::stage::PUBLISHERS;
use super::{Replica, Stage, System, certificates};

impl System {
    pub fn kill(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        // The process that leads may be started again at once: another start of it may follow it, too.
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.kill();
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
    }

    pub fn pause(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.signal("-STOP");
        self.until_followed(leader);
        self.replicas[leader].program.signal("-CONT");
        self.until("the end of who was stopped", |system| {
            system.replicas[leader].program.start != start
        });
    }

    pub fn cut_from_api(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.replicas[leader].api.cut(true);
        let start = self.replicas[leader].program.start;
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
        self.replicas[leader].api.cut(false);
    }

    pub fn cut_from_bus(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(true));
        self.until("the loss of the bus", |system| !system.replicas[leader].publishes);
        assert!(self.is_led(stage, |_| true), "the bus is no reason to lead no more");
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(false));
        self.until_published();
    }

    /// All replicas of the bus are killed, and started again.
    pub fn kill_bus(&mut self) {
        self.buses.iter_mut().for_each(|bus| bus.program.kill());
        for stage in PUBLISHERS {
            self.until("the loss of the bus", |system| {
                let mut of_stage = system.replicas.iter().filter(|replica| replica.stage == stage);
                of_stage.all(|replica| !replica.publishes)
            });
        }
        for number in 0..self.buses.len() {
            self.buses[number].program = self.start_bus(self.buses[number].address);
        }
        self.until_published();
    }

    /// One replica of the bus is killed: whoever was connected to it goes on with another.
    pub fn kill_a_bus(&mut self) {
        self.until_published();
        self.buses[0].program.kill();
        self.until_published();
        self.buses[0].program = self.start_bus(self.buses[0].address);
    }

    /// A member of etcd is killed, and started again on its data.
    pub fn kill_a_member(&mut self) {
        let isolated = self.witness.isolated();
        let etcd = self.etcd.as_mut().expect("etcd keeps the bus");
        etcd.kill(0);
        self.until_isolated(isolated + 1);
        self.etcd.as_mut().expect("etcd keeps the bus").run(0);
    }

    /// All members of etcd are stopped until the stages have lost the bus.
    pub fn stop_etcd(&mut self) {
        self.until_published();
        let before = self.connections();
        let etcd = self.etcd.as_ref().expect("etcd keeps the bus");
        (0..3).for_each(|member| etcd.stop(member));
        self.until_changed(&before);
        let etcd = self.etcd.as_ref().expect("etcd keeps the bus");
        (0..3).for_each(|member| etcd.go_on(member));
        self.until_published();
    }

    fn until_changed(&mut self, before: &BTreeMap<u64, usize>) {
        self.until("the end of the old connections", |system| {
            let now = system.connections();
            // Who was started again meanwhile has no old connection.
            let mut all = before.iter();
            all.all(|(start, changes)| now.get(start).is_none_or(|more| more > changes))
        });
    }

    /// All certificates are replaced at once, the CA's too: who reads them late does not understand who was early.
    pub fn replace_certificates(&mut self) {
        self.until_published();
        let before = self.connections();
        certificates::make(self.directory.path());
        self.until_changed(&before);
        self.until_published();
    }

    /// How often those that publish got or lost a connection to the bus, by their starts.
    fn connections(&self) -> BTreeMap<u64, usize> {
        let leads = |replica: &&Replica| PUBLISHERS.contains(&replica.stage) && !replica.leads.is_empty();
        let publishers = self.replicas.iter().filter(leads);
        publishers.map(|replica| (replica.program.start, replica.changes)).collect()
    }

    /// A rolling update: a new replica is started before an old one is ended.
    pub fn divide(&mut self, stage: Stage, shards: u32) {
        self.shards.insert(stage, shards);
        let (old, others): (Vec<_>, Vec<_>) = self.replicas.drain(..).partition(|replica| replica.stage == stage);
        self.replicas = others;
        for (number, replica) in old.into_iter().enumerate() {
            self.add(stage, number);
            assert_eq!(replica.program.stop(), Some(0), "SIGTERM is a reason to end, not a failure");
        }
        self.until("leaders of all shards", |system| system.is_led(stage, |_| true));
    }
}
