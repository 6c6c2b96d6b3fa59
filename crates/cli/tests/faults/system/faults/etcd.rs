//! Faults of what several replicas of the bus share, and of the ways to it.

use crate::system::members::{MEMBERS, Members};
use crate::system::{PER_ZONE, Stage, System};

/// Renewals until what is known is stale: one each 500 ms, for 10 s.
const STALE: usize = 22;
/// Renewals in which the rate would let more than one node be isolated.
const HELD: usize = 6;

impl System {
    fn etcd(&mut self) -> &mut Members {
        self.etcd.as_mut().expect("etcd keeps the bus")
    }

    /// A member is killed, and started again on its data.
    pub fn kill_a_member(&mut self) {
        self.etcd().kill(0);
        self.until_work_went_on("work went on without a member of etcd");
        self.etcd().run(0);
    }

    /// All members are stopped until the stages have lost the bus.
    pub fn stop_etcd(&mut self) {
        self.until_published();
        let before = self.connections();
        self.etcd().stop(true);
        self.until_changed(&before);
        self.etcd().stop(false);
        self.until_published();
    }

    /// The member that leads does not reach the others, nor they it; the bus reaches all.
    pub fn part_the_leader(&mut self) {
        self.until_members_serve();
        let mut leader = None;
        self.until_answered("a member of etcd that leads", |system| {
            leader = system.etcd().leader();
            leader.is_some()
        });
        let member = leader.expect("it was seen");
        self.etcd().part(member, true);
        self.until_answered("that a member cannot serve", |system| !system.etcd().is_healthy(member));
        self.until_work_went_on("work went on while a member of etcd was cut off from the others");
        self.etcd().part(member, false);
        self.until_answered("that a member can serve", |system| system.etcd().is_healthy(member));
    }

    /// One replica of the bus does not reach etcd: whoever publishes and reads there goes on with another.
    pub fn cut_a_bus_from_etcd(&mut self) {
        self.until_etcd_serves(true);
        self.buses[0].ways.iter().for_each(|way| way.cut(true));
        self.until_etcd_serves(false);
        self.until_published();
        self.until_work_went_on("work went on while a replica of the bus did not reach etcd");
        self.buses[0].ways.iter().for_each(|way| way.cut(false));
        self.until_etcd_serves(true);
        self.until_published();
        self.until_work_went_on("work went on when a replica of the bus reached etcd again");
    }

    /// Waits until all members can read and write: one may have been started a moment ago.
    fn until_members_serve(&mut self) {
        self.until_answered("that all members serve", |system| {
            let etcd = system.etcd();
            (0..MEMBERS).all(|member| etcd.is_healthy(member))
        });
    }

    /// Waits until the first replica of the bus says that etcd serves it, or does not.
    fn until_etcd_serves(&mut self, serves: bool) {
        self.until("what etcd does for a bus", |system| system.buses[0].has_etcd == serves);
    }

    /// Somebody else fills etcd until the stages have lost the bus. They hold what depends on it until there is space again.
    pub fn fill_etcd(&mut self) {
        self.until_members_serve();
        self.until_published();
        let before = self.connections();
        let written = self.etcd().fill();
        println!("etcd is full after {written} writes");
        self.until_changed(&before);
        // What was decided on what was known is acted upon until that is stale.
        self.until_renewed(Stage::ZoneEvictor, STALE);
        let isolated = self.witness.isolated();
        self.until_renewed(Stage::ZoneEvictor, HELD);
        assert_eq!(self.witness.isolated(), isolated, "nobody knew anything any more");
        self.premises.saw_so_many("there was something to hold", PER_ZONE - isolated);
        self.etcd().make_space();
        self.until_published();
        self.until_work_went_on("work went on when etcd was full no more");
    }
}
