//! Plumbing that every service shares: clock, seeded source, arguments, telemetry, TLS, ports and
//! their bounds, leadership, shutdown.
//!
//! Nothing here knows a stage. What decides lives in the `-core` crates; what a stage does with its own watches and topics lives in
//! its shell.

pub mod admin;
mod alarm;
mod alloc;
pub mod args;
pub mod client;
pub mod clock;
mod identity;
pub mod lease;
pub mod metrics;
pub mod port;
pub mod seed;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
mod ticks;
pub mod tls;
pub mod trace;
mod wakes;

pub use admin::Readiness;
pub use alarm::{Alarm, Timer};
pub use alloc::Allocator;
pub use args::{BusArgs, CommonArgs, GoDuration, KubeArgs, LeaderElectionArgs, TlsArgs, parse_or_exit};
pub use clock::Clock;
pub use identity::identity;
pub use lease::Leadership;
pub use metrics::Metrics;
pub use seed::Seed;
pub use shutdown::Shutdown;
pub use tasks::{DeathPolicy, Tasks};
pub use ticks::Ticks;
pub use tls::Tls;
pub use trace::Spans;
pub use wakes::{OneThread, Pace, Wakes, single_threaded};
