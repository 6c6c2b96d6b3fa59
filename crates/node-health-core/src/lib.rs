//! Decides whether nodes are alive.
//!
//! [`Monitor`] is told what the API says about nodes and leases, and when; it answers with what to do: read again to be sure, write
//! that a node's state is unknown, publish the judgement. It performs nothing itself: no I/O, no clock, no randomness. Behaviour is
//! that of the rules NL- in the specification of the node lifecycle controller, sections 1 to 5.
//!
//! # Guarantees
//! - A node is judged silent only on a read that was asked for after its grace ended and that shows no sign of life.
//! - A verdict is published only once the condition it stands for is in the API. A failed write is no verdict and no vote.
//! - Grace is counted on the monotonic clock. Wall time stamps what is written, starts the startup grace (NL-041), and says of a renewal
//!   when it came within the time that it may have waited to be seen ([`Config::look`], NL-040), no more.
//! - A lease renewal costs a lookup and a few stores. It allocates nothing that stays and moves no timer: timers are set again when they
//!   fire, or are about to.

mod cadence;
mod config;
mod effect;
mod facts;
mod incident;
mod input;
mod loss;
mod monitor;
mod node;
mod queue;
mod unknown;
mod votes;
mod zones;

pub use bailiff_model::{Profile, Shard};
pub use config::{Config, ConfigError};
pub use effect::{Effect, EventKind, Judgement, Measurement, NodeEvent, ReadBy};
pub use facts::{LeaseFacts, NodeFacts, Pressures, ReadyFacts};
pub use incident::{Closing, Opening, Outcome, Part, Passage, Refusal, Reprieve, Request};
pub use input::{Inherited, Input, Read, TopicNews, WriteOutcome};
pub use loss::{LossLimit, LossNews, LossState, Scope};
pub use monitor::{Monitor, Summary};
pub use unknown::{ConditionWrite, StatusWrite};
