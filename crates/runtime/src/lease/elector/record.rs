//! What a Lease says, reduced to what the election reads and writes.

use std::time::Duration;

use bailiff_model::{ResourceVersion, Wall};

use super::Layout;

/// The record in a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `holderIdentity`; empty if nobody holds it.
    pub holder: String,
    /// `leaseDurationSeconds`, whole seconds; zero if absent or not allowed.
    pub duration: Duration,
    /// `acquireTime`, on the holder's clock: for people.
    pub acquired: Option<Wall>,
    /// `renewTime`, on the holder's clock: only that it changes counts.
    pub renewed: Option<Wall>,
    /// `leaseTransitions`: how often the holder changed.
    pub transitions: i32,
}

/// A Lease as it was read, or answered to a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// What it says.
    pub record: Record,
    /// At which version.
    pub version: ResourceVersion,
    /// Of how many shards it is one; said by the Lease of shard 0.
    pub layout: Option<Layout>,
    /// Who asked for it.
    pub wanted_by: Option<String>,
}

/// A Lease as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// What it says.
    pub record: Record,
    /// Of how many shards it is one; `None` leaves what is there.
    pub layout: Option<Layout>,
    /// Nobody's wish for it stands any more.
    pub drops_wish: bool,
}

// === impl Record ===

impl Record {
    /// The record of a candidate that takes the Lease.
    pub fn new(holder: &str, duration: Duration, transitions: i32, now: Wall) -> Self {
        let now = Some(micros(now));
        Self {
            holder: holder.to_owned(),
            duration,
            acquired: now,
            renewed: now,
            transitions,
        }
    }

    /// The record of the same holder, renewed.
    pub fn renewed(&self, duration: Duration, now: Wall) -> Self {
        let mut renewed = micros(now);
        if Some(renewed) == self.renewed {
            // Others see a renewal by its change alone, and a wall clock may have been set back to this very microsecond.
            renewed = renewed.checked_add(Duration::from_micros(1)).unwrap_or(Wall::MIN);
        }
        Self {
            duration,
            renewed: Some(renewed),
            ..self.clone()
        }
    }

    /// The record of a Lease that its holder gave up: nobody waits longer than a second.
    pub fn released(&self, now: Wall) -> Self {
        Self {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: Some(micros(now)),
            renewed: Some(micros(now)),
            transitions: self.transitions,
        }
    }
}

/// The time as the API server gives it back: without what is below a microsecond.
fn micros(wall: Wall) -> Wall {
    Wall::from_microsecond(wall.as_microsecond()).unwrap_or(wall)
}
