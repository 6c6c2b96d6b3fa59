//! What a deadline takes among a million, in bytes of the allocator.

use std::alloc::System;
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_model::timers::Timers;
use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const DEADLINES: u32 = 1_000_000;
const MOST_BYTES: usize = 16;

#[test]
fn a_deadline_takes_few_bytes() {
    let before = ALLOCATOR.allocated();
    let mut timers = Timers::default();
    for place in 0..DEADLINES {
        // In no order, within a minute from half a minute on.
        let ahead = 30_000_000_000 + u64::from(place) * 7_919_000_003 % 60_000_000_000;
        timers.set(place, Some(Mono::from_origin(Duration::from_nanos(ahead))));
    }
    assert!(timers.first().is_some());
    let bytes = (ALLOCATOR.allocated() - before).div_ceil(DEADLINES as usize);
    println!("{bytes} bytes per deadline");
    assert!(bytes <= MOST_BYTES, "{bytes} bytes, {MOST_BYTES} at most");
}
