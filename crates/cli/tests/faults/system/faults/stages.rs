//! Faults of one replica of a stage: the one that leads.

use crate::system::{Replica, Stage, System};

impl System {
    /// It is killed.
    pub fn kill(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.note_stop(leader);
        // The process that leads may be started again at once: another start of it may follow it, too.
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.kill();
        self.until_another_leads(stage, start);
    }

    /// It is stopped until another leads, and goes on then.
    pub fn pause(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.note_stop(leader);
        let start = self.replicas[leader].program.start;
        self.replicas[leader].program.signal("-STOP");
        self.until_another_leads(stage, start);
        self.replicas[leader].program.signal("-CONT");
        self.until("the end of who was stopped", |system| {
            system.replicas[leader].program.start != start
        });
    }

    /// It does not reach the API until another leads.
    pub fn cut_from_api(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.note_stop(leader);
        let start = self.replicas[leader].program.start;
        self.replicas[leader].api.cut(true);
        self.until_another_leads(stage, start);
        self.replicas[leader].api.cut(false);
    }

    fn until_another_leads(&mut self, stage: Stage, start: u64) {
        self.until("another leader", |system| {
            system.is_led(stage, |replica| replica.program.start != start)
        });
    }

    /// It does not reach the bus until it says so.
    pub fn cut_from_bus(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        self.until_published();
        let start = self.replicas[leader].program.start;
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(true));
        self.until("the loss of the bus", |system| !system.replicas[leader].publishes);
        let leads = |replica: &Replica| replica.program.start == start && !replica.leads.is_empty();
        assert!(leads(&self.replicas[leader]), "the bus is no reason to lead no more");
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(false));
        self.until_published();
    }

    /// All its ways are slow and narrow for some renewals of its Lease, which is no reason to stop.
    pub fn slow_down(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        let start = self.replicas[leader].program.start;
        self.set_slow(leader, true);
        self.until_renewed(stage, 8);
        let replica = &self.replicas[leader];
        let leads = replica.program.start == start && !replica.leads.is_empty();
        assert!(leads, "a slow link is no reason to lead no more");
        let ways = [&replica.api].into_iter().chain(&replica.bus);
        let carried = ways.filter(|way| way.slowly() > 0).count();
        self.premises.saw_so_many("a slow link carried something", carried);
        self.until_work_went_on("work went on over a slow link");
        self.set_slow(leader, false);
    }

    fn set_slow(&self, number: usize, is_slow: bool) {
        let replica = &self.replicas[number];
        replica.api.slow(is_slow);
        replica.bus.iter().for_each(|bus| bus.slow(is_slow));
    }

    /// A rolling update to so many shards: a new replica is started before an old one is ended.
    pub fn divide(&mut self, stage: Stage, shards: u32) {
        for (number, old) in self.outdate(stage, shards).into_iter().enumerate() {
            self.add(stage, number);
            self.end(old);
        }
        self.until("leaders of all shards", |system| system.is_led(stage, |_| true));
        self.premises.saw("work was divided anew");
    }

    /// The same, while the old replica that leads does not reach the API: it cannot know that it is outdated, nor give up what it has.
    pub fn divide_beside_a_partition(&mut self, stage: Stage, shards: u32) {
        let leader = self.leader(stage);
        self.note_stop(leader);
        let cut = self.replicas[leader].id;
        self.replicas[leader].api.cut(true);
        for (number, old) in self.outdate(stage, shards).into_iter().enumerate() {
            self.add(stage, number);
            if old != cut {
                self.end(old);
            }
        }
        self.until("leaders of all shards", |system| system.is_led(stage, |_| true));
        // It has lost its Leases, and was started again as it was: with the old number.
        let number = self.number_of(cut);
        self.replicas[number].api.cut(false);
        self.until_work_went_on("work went on beside a replica of another layout");
        self.end(cut);
        assert!(self.is_led(stage, |_| true), "it had nothing any more");
        self.premises.saw("work was divided anew beside a partition");
    }

    /// Everybody there counts otherwise than those who are added from now on.
    fn outdate(&mut self, stage: Stage, shards: u32) -> Vec<u64> {
        self.leader(stage);
        self.shards.insert(stage, shards);
        let of_stage = self.replicas.iter().filter(|replica| replica.stage == stage);
        of_stage.map(|replica| replica.id).collect()
    }

    /// Ends all replicas for good, those that lead last, so that they tell what they have not told yet.
    pub fn end_all(&mut self) {
        self.replicas.sort_by_key(|replica| !replica.leads.is_empty());
        while let Some(replica) = self.replicas.first() {
            self.end(replica.id);
        }
    }

    /// Ends a replica for good, as a rolling update does.
    pub(super) fn end(&mut self, id: u64) {
        let number = self.number_of(id);
        self.note_end(number);
        let replica = self.replicas.remove(number);
        assert_eq!(replica.program.stop(), Some(0), "SIGTERM is a reason to end, not a failure");
    }

    fn number_of(&self, id: u64) -> usize {
        let number = self.replicas.iter().position(|replica| replica.id == id);
        number.expect("it was not ended for good")
    }
}
