//! What is kept of an object, in bytes of the allocator: for `tests/memory.rs` of each core, of the bus, and of the node-health-monitor.
//!
//! Whoever uses this gets an allocator that counts. It counts the whole process: a test that asks it is alone in its binary.

pub mod fleet;

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What something takes, in bytes, all indexes and their room to grow included.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// When this was last looked at.
    pub known: usize,
    /// At most (ARCHITECTURE.md, invariants).
    pub most: usize,
}

/// Bytes that are allocated at this moment.
pub fn held() -> usize {
    ALLOCATOR.allocated()
}

/// Bytes that were allocated since the process began, given back or not.
pub fn taken() -> usize {
    ALLOCATOR.total_allocated()
}

// === impl Bytes ===

impl Bytes {
    /// Prints what it takes, and holds it to what is known.
    ///
    /// # Panics
    ///
    /// If it takes more than the most, or by a twentieth more than before.
    #[track_caller]
    pub fn check(self, what: &str, bytes: usize) {
        println!("{bytes} bytes per {what}");
        let Self { known, most } = self;
        let most = most.min(known + known / 20);
        assert!(bytes <= most, "{bytes} bytes per {what}, {known} before, {most} at most");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Bytes = Bytes { known: 400, most: 512 };

    #[test]
    fn what_is_allocated_is_counted() {
        let (held_before, taken_before) = (held(), taken());
        let some = vec![0_u8; 1_000_000];
        assert!(held() >= held_before + some.len() / 2);
        drop(some);
        assert!(taken() >= taken_before + 1_000_000);
    }

    #[test]
    fn a_twentieth_more_is_let_pass() {
        BYTES.check("node", 420);
    }

    #[test]
    #[should_panic(expected = "421 bytes per node, 400 before, 420 at most")]
    fn more_than_that_is_not() {
        BYTES.check("node", 421);
    }

    #[test]
    #[should_panic(expected = "513 bytes per node, 510 before, 512 at most")]
    fn nor_more_than_the_most() {
        Bytes { known: 510, ..BYTES }.check("node", 513);
    }
}
