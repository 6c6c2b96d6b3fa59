//! Decisions of the daemonset-syncer: which daemon pods belong where, and what to do about it.
//!
//! [`Syncer::apply`] takes one input and answers with effects; it performs no I/O, reads no clock and draws no random number.
//! Desired state is kept per (DaemonSet, node) pair, and counters over pairs are kept incrementally: an input costs the pairs it
//! concerns. A pod event costs its own pair, a node event one evaluation per DaemonSet, a template change one per node. What needs
//! a round trip before it can decide (history, adoption) is a step function fed by [`effect::Answer`]s.
//!
//! Not here: watching, writing, deadlines and concurrency of requests (the shell), and anything that waits for the bus: upstream's
//! DaemonSet behaviour never does. Rules named `DS-…` are those of the behaviour specification.

mod budget;
pub mod canonical;
pub mod effect;
pub mod facts;
mod hash;
mod history;
mod lanes;
mod pair;
pub mod placement;
mod policy;
mod retry;
pub mod rollouts;
mod scopes;
pub mod selector;
mod set;
mod stale;
mod syncer;
pub mod template;
mod timers;
pub mod wire;
mod world;

pub use bailiff_model::{Profile, Shard};
pub use effect::{Answer, Effect, Failure, FailureKind, Input, Request, RequestId, Scope, Severity, Urgency, Watched};
pub use facts::{DaemonSet, Node, Pod, Revision};
pub use lanes::{Lanes, Ticket, Turn};
pub use syncer::{Options, Syncer};
