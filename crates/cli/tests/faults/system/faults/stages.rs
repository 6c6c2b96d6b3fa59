//! Faults of one replica of a stage: the one that leads.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::clock;
use crate::system::{Stage, System};

/// How long a leader waits for an answer about its Lease, which is half of its deadline: whoever has to stop did not renew it for longer.
const ANSWER: SignedDuration = SignedDuration::from_millis(1_500);

/// A replica that leads.
struct Lead {
    start: u64,
    leases: BTreeSet<String>,
    since: Timestamp,
}

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
        let lead = self.lead(leader);
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(true));
        self.until("the loss of the bus", |system| !system.replicas[leader].publishes);
        self.judge_lead(&lead, "who lost the bus led on");
        self.replicas[leader].bus.iter().for_each(|bus| bus.cut(false));
        self.until_published();
    }

    /// All its ways are slow and narrow for some renewals of its Lease, which is no reason to stop.
    pub fn slow_down(&mut self, stage: Stage) {
        let leader = self.leader(stage);
        let (lead, lease) = (self.lead(leader), self.lease(stage));
        self.set_slow(leader, true);
        let before = self.renewals(&lease);
        self.until("renewals over a slow link", |system| {
            !system.goes_on(&lead) || system.renewals(&lease) >= before + 8
        });
        self.judge_lead(&lead, "who had slow links led on");
        let replica = &self.replicas[leader];
        let ways = [&replica.api].into_iter().chain(&replica.bus);
        let carried = ways.filter(|way| way.slowly() > 0).count();
        self.premises.saw_so_many("a slow link carried something", carried);
        self.until_work_went_on_while("work went on over a slow link", |system| system.goes_on(&lead));
        self.set_slow(leader, false);
    }

    fn lead(&self, number: usize) -> Lead {
        let replica = &self.replicas[number];
        Lead {
            start: replica.program.start,
            leases: replica.leads.clone(),
            since: clock::wall(),
        }
    }

    /// It leads still.
    fn goes_on(&self, lead: &Lead) -> bool {
        let replica = self.replicas.iter().find(|replica| replica.program.start == lead.start);
        replica.is_some_and(|replica| !replica.leads.is_empty())
    }

    /// It leads still, whatever happened to it. One may have had to stop as its Lease was not renewed, which a machine that is too slow for
    /// it is enough for; that not all of those had to to whom it happens is a premise.
    fn judge_lead(&mut self, lead: &Lead, leads_on: &'static str) {
        let goes_on = self.goes_on(lead);
        self.premises.saw_so_many(leads_on, usize::from(goes_on));
        let now = clock::wall();
        let was_late = |lease: &String| self.witness.with(|seen| seen.unrenewed(lease, lead.since, now)) > ANSWER;
        assert!(goes_on || lead.leases.iter().any(was_late), "not so: {leads_on}: {self}");
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
        // It may have been started a moment ago.
        self.until("that signals are minded", |system| {
            system.replicas[system.number_of(id)].minds_signals
        });
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
