//! Plumbing that every service shares: clock, seeded source, arguments, telemetry, admin port, leadership, shutdown.
//!
//! Nothing here knows a stage. What decides lives in the `-core` crates; what a stage does with its own watches and topics lives in
//! its shell.

pub mod clock;
pub mod seed;

pub use clock::Clock;
pub use seed::Seed;
