//! The decisions of the zone-evictor: may it happen now?
//!
//! [`Evictor::apply`] is a state machine: an [`Input`] and the present go in, [`Effect`]s come out. It knows no Kubernetes client, no
//! bus and no clock; the shell performs the effects and feeds back what they were answered.
//!
//! # Guarantees
//! - A node gets its first health NoExecute taint, or is evicted in node mode, only with a token of its zone. A zone never hands
//!   out more than its rate, restarts included: the last grant is inherited from the stage's own topic and from `timeAdded`
//!   (NL-081, NL-082, NL-034).
//! - While all voting zones are fully disrupted nothing is isolated, late nodes included; when all are truly not ready, standing
//!   health NoExecute taints are removed (NL-096, NL-097).
//! - A pod is deleted only on a standing DUE intent that the node's own taints (node mode: its Ready condition) justify at that
//!   moment, and only the incarnation meant.
//! - Silence, staleness and missing shards hold what depends on them, and only that. Removing taints and cancelling are never held.
//! - The same view applied twice has no second effect.
//!
//! # Cost
//! An input costs what it changes. Only a change of a gate (completeness, liveness, a hold from outside, full disruption) looks at
//! everything that waits behind it.

mod backoff;
mod config;
mod effect;
mod evictor;
mod fact;
mod input;
mod judge;
mod queue;
mod rate;
mod span;
mod topics;
mod votes;

pub use bailiff_model::{Duties, EvictionMode, Profile, Shard};
pub use config::{AcceptIntents, Config, Error as ConfigError, EvictionMethod, Rates};
pub use effect::{Component, Count, Draft, Effect, Event, Mark, Purpose, Regarding, TaintWrite, Ticket};
pub use effect::{DISRUPTION_MESSAGE, DISRUPTION_REASON, NODE_LOST};
pub use evictor::{Evictor, ZoneView};
pub use fact::{DaemonSetFacts, DaemonSetKey, NodeFacts, PodFacts};
pub use input::{Block, Body, Failure, FailureKind, Input, PodAnswer, Record, ShardStatus};
pub use span::{Span, SpanEnd, SpanKind, SpanReason, Why};
