//! What a deadline costs among a thousand, a hundred thousand and a million, beside an ordered set, which is the plain way to keep them:
//! to set one, to take one off, and to wait for one, in nanoseconds.
//!
//! Each is set for half a minute to a minute ahead, as those of nodes are, and to an hour for every tenth, as tolerations may be.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use bailiff_model::Mono;
use bailiff_model::timers::{Place, Timers};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
/// The fastest counts, whatever else the machine does.
const RUNS: usize = 3;

/// Numbers in no order.
fn scattered(nth: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        >> 20
}

/// Deadlines of all places, when they are set at `nth` of `of` parts of a minute.
fn deadline(place: Place, round: u64) -> Mono {
    let spread = scattered(u64::from(place) << 8 | round);
    let minute = 60_000_000_000;
    let ahead = if place.is_multiple_of(10) {
        spread % (60 * minute)
    } else {
        minute / 2 + spread % (minute / 2)
    };
    Mono::from_origin(Duration::from_nanos(round * minute + ahead))
}

/// What is measured: to set all, to take a tenth off, and to wait for all others.
trait Deadlines: Default {
    fn set(&mut self, place: Place, at: Mono);
    fn clear(&mut self, place: Place, at: Mono);
    fn pop(&mut self) -> Option<Place>;
}

impl Deadlines for Timers {
    fn set(&mut self, place: Place, at: Mono) {
        Self::set(self, place, Some(at));
        black_box(self.first());
    }

    fn clear(&mut self, place: Place, _at: Mono) {
        Self::set(self, place, None);
    }

    fn pop(&mut self) -> Option<Place> {
        let first = self.first()?;
        self.pop_due(first)
    }
}

impl Deadlines for BTreeSet<(Mono, Place)> {
    fn set(&mut self, place: Place, at: Mono) {
        self.insert((at, place));
        black_box(self.first());
    }

    fn clear(&mut self, place: Place, at: Mono) {
        self.remove(&(at, place));
    }

    fn pop(&mut self) -> Option<Place> {
        self.pop_first().map(|(_, place)| place)
    }
}

/// Nanoseconds of each.
fn measure<D: Deadlines>(places: u32) -> [f64; 3] {
    let mut deadlines = D::default();
    let order: Vec<Place> = (0..places)
        .map(|nth| (u64::from(nth) * 7_919 % u64::from(places)) as Place)
        .collect();
    let cleared: Vec<Place> = order.iter().copied().filter(|place| place % 10 == 3).collect();
    let timed = |work: &mut dyn FnMut() -> usize| {
        let began = Instant::now();
        let times = work();
        began.elapsed().as_secs_f64() * 1e9 / times as f64
    };
    let set = timed(&mut || {
        order.iter().for_each(|place| deadlines.set(*place, deadline(*place, 0)));
        order.len()
    });
    let clear = timed(&mut || {
        cleared.iter().for_each(|place| deadlines.clear(*place, deadline(*place, 0)));
        cleared.len()
    });
    let pop = timed(&mut || std::iter::from_fn(|| deadlines.pop()).map(black_box).count());
    [set, clear, pop]
}

fn best<D: Deadlines>(places: u32) -> [f64; 3] {
    let runs = (0..RUNS).map(|_| measure::<D>(places));
    runs.reduce(|best, run| std::array::from_fn(|nth| best[nth].min(run[nth])))
        .unwrap_or_default()
}

fn main() {
    println!("{:>9} {:>28} {:>28} {:>28}", "deadlines", "set", "take off", "wait for");
    for places in SIZES {
        let (ours, plain) = (best::<Timers>(places), best::<BTreeSet<(Mono, Place)>>(places));
        print!("{places:>9}");
        for (ours, plain) in ours.into_iter().zip(plain) {
            print!(" {ours:>8.0} ns, set {plain:>5.0} {:>4.2}", ours / plain);
        }
        println!();
    }
}
