//! What this thread's work takes the processor. Others that are at work on the same processor meanwhile take none of that.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

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
    // A system that does not tell has all time taken.
    let time = clock_gettime_dynamic(DynamicClockId::Known(ClockId::ThreadCPUTime));
    Duration::try_from(time.unwrap_or_else(|_| clock_gettime(ClockId::Monotonic))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(wanted: Duration) {
        while took() < wanted {
            std::hint::spin_loop();
        }
    }

    /// Another thread's work is none of it.
    #[test]
    fn work_takes_what_this_thread_took_since_it_began() {
        let long = Duration::from_millis(20);
        spin(long);
        begin();
        let other = std::thread::spawn(move || {
            begin();
            spin(long);
        });
        other.join().expect("it ends");
        assert!(took() < long, "{:?}", took());
    }
}
