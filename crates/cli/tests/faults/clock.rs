//! Real time, which processes live in: to say when something was seen, when what is in its way arrives, and to end a run that hangs.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The present, for distances.
#[expect(clippy::disallowed_methods, reason = "processes live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// The present, to be compared with what the API says.
#[expect(clippy::disallowed_methods, reason = "processes live in real time")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Lets others work before one looks again. Never a condition by itself.
#[expect(
    clippy::disallowed_methods,
    reason = "what is asked of a process over and over gives it time to answer"
)]
pub fn breathe(time: Duration) {
    std::thread::sleep(time);
}
