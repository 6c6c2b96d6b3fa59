//! What this thread's work takes the processor. Others that are at work on the same processor meanwhile take none of that.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

thread_local! {
    /// What it had taken when the work began.
    static BEGAN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// There is work from now on.
pub(super) fn begin() {
    BEGAN.set(taken());
}

/// What it took since it began.
pub(super) fn took() -> Duration {
    taken().saturating_sub(BEGAN.get())
}

fn taken() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_what_it_takes_since_it_began() {
        let wanted = Duration::from_millis(2);
        while took() < wanted {
            std::hint::spin_loop();
        }
        let before = took();
        begin();
        assert!(took() < before, "{before:?} and {:?}", took());
    }
}
