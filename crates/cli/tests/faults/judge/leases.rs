//! Whoever holds a shard is followed. How soon at the latest is proven where time is not real; here it is what the machine makes of it,
//! and one of them at least is in time.

use jiff::{SignedDuration, Timestamp};

use super::Premises;
use crate::record::{Record, Stop};
use crate::system::{DEADLINE, LEASE};
use crate::witness::Seen;

/// A standby looks every second, and a Lease that ends takes a request to be taken: whoever is there for so long can follow.
const BEYOND: SignedDuration = SignedDuration::from_secs(2);

pub fn judge(seen: &Seen, record: &Record, premises: &mut Premises) {
    premises.saw_so_many("a holder was followed", 0);
    premises.saw_so_many("a holder was followed in time", 0);
    let mut slowest = SignedDuration::ZERO;
    for stop in &record.stops {
        let enough = stop.at + LEASE + BEYOND;
        let is_there = |start: &u64| record.ends.get(start).is_none_or(|end| *end > enough);
        if !stop.standbys.iter().any(is_there) {
            // Whoever stood by for it was stopped as well.
            continue;
        }
        let followed = followed(seen, stop).unwrap_or_else(|| panic!("nobody followed: {stop:?}, {:?}", seen.leases[&stop.lease]));
        let time = followed.duration_since(stop.at);
        assert!(
            time.unsigned_abs() <= DEADLINE,
            "followed {time:?} after the stop: {stop:?}, {:?}",
            seen.leases[&stop.lease]
        );
        slowest = slowest.max(time);
        premises.saw("a holder was followed");
        premises.saw_so_many("a holder was followed in time", usize::from(time <= LEASE + BEYOND));
    }
    println!("slowest failover: {slowest:?}");
}

/// When somebody else held it.
fn followed(seen: &Seen, stop: &Stop) -> Option<Timestamp> {
    let holdings = &seen.leases[&stop.lease];
    let before = holdings.iter().rposition(|holding| holding.since <= stop.at)?;
    let mut after = holdings.iter().skip(before + 1);
    let is_another = |holder: &str| !holder.is_empty() && holder != holdings[before].holder;
    after.find(|holding| is_another(&holding.holder)).map(|holding| holding.since)
}
