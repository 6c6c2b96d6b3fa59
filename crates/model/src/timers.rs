//! Many deadlines, at some sixteen bytes each: setting one, moving it, taking it off and waiting for it cost about the same at any number.
//!
//! Whose a deadline is says a small number, a *place*: that of a node in an [`indexmap::IndexMap`], say. What is due comes in the order of
//! time, and at the same time in that of places.
//!
//! ```text
//!    near: in exact order               far: by the highest digit in which they differ from the horizon, in no order
//!   │ due first ▸ …        horizon ▸ │ 64 buckets of 8 ms │ 64 of half a second │ 64 of 34 s │ …
//! ```
//! When nothing is near, the horizon moves on to the next bucket that is not empty: what is in it is put in order if that is little, and
//! else goes to smaller buckets. So a deadline moves a few times in its life, and few are near. What is set for before the horizon goes
//! to a heap besides. A few deadlines are in that heap all together, and there are no buckets.
//!
//! All of these hold places, or what was one: whether there is a deadline, and when, is kept by place, and what is not so any more is
//! dropped where it is come upon. If that is too much, all is put in order anew.

mod keyed;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Mono;
pub use keyed::Keyed;

/// Whose a deadline is.
pub type Place = u32;

/// Digits of six bits that tell the bucket: together with the bits of a tick they are more than a deadline has.
const LEVELS: usize = 8;
const DIGIT: u32 = 6;
const BUCKETS: usize = 1 << DIGIT;

/// A tick has so many bits of nanoseconds: about eight milliseconds, in which few deadlines are.
const TICK: u32 = 23;

/// So many are few: a heap of them lies in the processor's nearest cache. (For tests, few are.)
const FEW: usize = if cfg!(test) { 4 } else { 512 };

/// So many are put in order at once: that takes about a millisecond, and less than to move them to smaller buckets. (For tests, few are.)
const MOST_NEAR: usize = if cfg!(test) { 2 } else { 1 << 14 };

/// Instead of a deadline: none.
const UNSET: u64 = u64::MAX;

/// At most one deadline for each place.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Nanoseconds since the origin, or [`UNSET`].
    by_place: Vec<u64>,
    /// Places with a deadline.
    len: usize,
    /// The earliest deadline, as long as it is known.
    earliest: Option<(u64, Place)>,
    /// Deadlines of the bucket that the horizon has passed last, the earliest one last.
    near: Vec<(u64, Place)>,
    /// Deadlines that were set for before the horizon.
    heap: BinaryHeap<Reverse<(u64, Place)>>,
    /// The tick from which on deadlines are in buckets.
    horizon: u64,
    /// Buckets, if there are any.
    far: Vec<Level>,
    /// What is in them, dropped or not.
    in_far: usize,
}

/// Buckets of one digit.
#[derive(Clone, Debug)]
struct Level {
    /// Which of them are not empty.
    used: u64,
    buckets: [Vec<Place>; BUCKETS],
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            by_place: Vec::new(),
            len: 0,
            earliest: None,
            near: Vec::new(),
            heap: BinaryHeap::new(),
            horizon: u64::MAX,
            far: Vec::new(),
            in_far: 0,
        }
    }
}

impl Timers {
    /// Sets the deadline of a place, instead of one that is set, or takes it off. [`Mono::FAR_FUTURE`] never comes.
    pub fn set(&mut self, place: Place, at: Option<Mono>) {
        let before = self.nanos_of(place);
        let at = at.map_or(UNSET, Mono::as_nanos);
        if before == at {
            return;
        }
        self.take_off(place);
        if at == UNSET {
            return;
        }
        let index = place as usize;
        if index >= self.by_place.len() {
            grow(&mut self.by_place, index + 1);
        }
        self.by_place[index] = at;
        self.len += 1;
        self.earliest = match self.earliest {
            Some(earliest) => Some(earliest.min((at, place))),
            None => (self.len == 1).then_some((at, place)),
        };
        if !self.shares_bucket(before, at) {
            self.put(place, at);
        }
        // What that costs is little beside what was set since it was done last.
        let some = FEW.max(self.by_place.len() / 8);
        if self.heap.len() > some || self.in_far > 2 * self.len + some {
            self.put_in_order();
        }
    }

    /// When the deadline of a place is, if it has one.
    pub fn get(&self, place: Place) -> Option<Mono> {
        mono(self.nanos_of(place))
    }

    /// Takes the earliest deadline off if it is not after `now`, and says whose it was.
    pub fn pop_due(&mut self, now: Mono) -> Option<Place> {
        let (at, place) = self.find_earliest()?;
        if mono(at)? > now {
            return None;
        }
        self.take_off(place);
        Some(place)
    }

    /// The earliest deadline.
    pub fn first(&mut self) -> Option<Mono> {
        self.find_earliest().and_then(|(at, _)| mono(at))
    }

    /// Takes the deadline of a place off; that of the `last` place is its own from then on. This is what
    /// [`indexmap::IndexMap::swap_remove`] does to places.
    pub fn swap_remove(&mut self, place: Place, last: Place) {
        let moved = self.get(last).filter(|_| last != place);
        self.set(last, None);
        self.set(place, moved);
    }

    /// Takes all off.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn nanos_of(&self, place: Place) -> u64 {
        self.by_place.get(place as usize).copied().unwrap_or(UNSET)
    }

    fn take_off(&mut self, place: Place) {
        if self.nanos_of(place) == UNSET {
            return;
        }
        self.by_place[place as usize] = UNSET;
        self.len -= 1;
        self.earliest = self.earliest.filter(|(_, earliest)| *earliest != place);
        if self.len == 0 {
            let by_place = std::mem::take(&mut self.by_place);
            *self = Self {
                by_place,
                ..Self::default()
            };
        }
    }

    fn find_earliest(&mut self) -> Option<(u64, Place)> {
        while self.earliest.is_none() {
            let (near, late) = (self.near.last().copied(), self.heap.peek().map(|Reverse(first)| *first));
            let is_late = late.is_some_and(|late| near.is_none_or(|near| late < near));
            match if is_late { late } else { near } {
                Some((at, place)) if self.nanos_of(place) == at => self.earliest = Some((at, place)),
                Some(_) if is_late => drop(self.heap.pop()),
                Some(_) => drop(self.near.pop()),
                None if self.in_far == 0 => break,
                None => self.move_on(),
            }
        }
        self.earliest
    }

    /// Puts a place where its deadline belongs.
    fn put(&mut self, place: Place, at: u64) {
        if at >> TICK < self.horizon {
            return self.heap.push(Reverse((at, place)));
        }
        let (level, bucket) = self.bucket(at);
        let level = &mut self.far[level];
        level.used |= 1 << bucket;
        level.buckets[bucket].push(place);
        self.in_far += 1;
    }

    /// The level and the bucket of what is not before the horizon.
    fn bucket(&self, at: u64) -> (usize, usize) {
        let tick = at >> TICK;
        let level = (tick ^ self.horizon).checked_ilog2().unwrap_or(0) / DIGIT;
        (level as usize, digit(tick, level as usize))
    }

    /// True if both are in the same bucket: who was put there for one need not be for the other.
    fn shares_bucket(&self, one: u64, other: u64) -> bool {
        one != UNSET && one.min(other) >> TICK >= self.horizon && self.bucket(one) == self.bucket(other)
    }

    /// Moves the horizon on to the next bucket that is not empty, and what is in it to smaller buckets; or beyond it, and what is in it
    /// is near then.
    fn move_on(&mut self) {
        let Some(level) = self.far.iter().position(|level| level.used != 0) else {
            return;
        };
        // Nobody in a bucket is before the horizon, so that the first bucket of the first level comes first.
        let bucket = self.far[level].used.trailing_zeros();
        let shift = DIGIT * level as u32;
        let begins = (self.horizon >> shift >> DIGIT << DIGIT | u64::from(bucket)) << shift;
        let are_few = self.far[level].buckets[bucket as usize].len() <= MOST_NEAR;
        self.horizon = if level == 0 || are_few {
            begins + (1 << shift)
        } else {
            begins
        };
        self.empty(level, begins);
        // What the horizon has entered belongs to smaller buckets, too.
        for level in (1..LEVELS).rev() {
            if self.far[level].used & 1 << digit(self.horizon, level) != 0 {
                self.empty(level, self.horizon);
            }
        }
        self.near.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Puts those that are in the bucket of this tick, and belong there, where they belong by the present horizon.
    fn empty(&mut self, level: usize, tick: u64) {
        let bucket = digit(tick, level);
        let from = &mut self.far[level];
        from.used &= !(1 << bucket);
        let places = std::mem::take(&mut from.buckets[bucket]);
        self.in_far -= places.len();
        let shift = DIGIT * level as u32;
        for place in places {
            let at = self.nanos_of(place);
            if at == UNSET || at >> TICK >> shift != tick >> shift {
                continue;
            }
            if at >> TICK < self.horizon {
                self.near.push((at, place));
            } else {
                self.put(place, at);
            }
        }
    }

    /// Begins anew with what is set: at the earliest deadline, or if there are few, with a heap of them.
    fn put_in_order(&mut self) {
        let set = self.by_place.iter().zip(0..).filter(|(at, _)| **at != UNSET);
        let set: Vec<(u64, Place)> = set.map(|(at, place)| (*at, place)).collect();
        self.earliest = set.iter().min().copied();
        self.near.clear();
        self.heap.clear();
        self.in_far = 0;
        let are_few = set.len() <= FEW / 2;
        (self.horizon, self.far) = match self.earliest {
            Some((at, _)) if !are_few => (at >> TICK, vec![Level::default(); LEVELS]),
            _ => (u64::MAX, Vec::new()),
        };
        for (at, place) in set {
            self.put(place, at);
        }
    }
}

impl Default for Level {
    fn default() -> Self {
        Self {
            used: 0,
            buckets: [const { Vec::new() }; BUCKETS],
        }
    }
}

fn digit(tick: u64, level: usize) -> usize {
    (tick >> (DIGIT * level as u32)) as usize % BUCKETS
}

/// Room for so many places, and an eighth more: twice as many, as a vector grows by, would be much of what deadlines take.
fn grow(by_place: &mut Vec<u64>, places: usize) {
    if places > by_place.capacity() {
        by_place.reserve_exact(places - by_place.len() + places / 8);
    }
    by_place.resize(places, UNSET);
}

fn mono(nanos: u64) -> Option<Mono> {
    (nanos != UNSET).then(|| Mono::from_nanos(nanos))
}
