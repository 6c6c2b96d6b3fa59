//! Identities and values shared by the decision cores of all stages.
//!
//! Nothing here performs I/O, reads a clock or draws a random number. A type lives here when two stages need it: who is meant
//! ([`NodeName`], [`NodeUid`], [`PodRef`], …), where it is ([`Zone`]), what keeps pods away ([`Taint`], [`Toleration`] and the one
//! implementation of toleration matching), and the domain form of what crosses the bus ([`health`], [`intent`], [`outcome`],
//! [`rollout`]). Wire types stop at the event bus, which converts to and from these. [`decode`] is what decoding of API objects has in
//! common, in cores and in shells; [`names`] is what the API lets names look like.

pub mod about;
pub mod backoff;
pub mod decode;
pub mod duty;
pub mod health;
mod hex;
pub mod hold;
pub mod ids;
pub mod intent;
pub mod listed;
pub mod names;
pub mod outcome;
pub mod rollout;
pub mod selector;
pub mod shard;
pub mod shared;
pub mod stamp;
pub mod table;
pub mod taint;
pub mod time;
pub mod timers;
pub mod topic;
pub mod trace;
pub mod uid;
pub mod under_way;
pub mod version;
pub mod wellknown;
pub mod words;
pub mod zone;

pub use about::About;
pub use backoff::{Backoff, heeded_retry_after};
pub use duty::{Duties, EvictionMode, Profile};
pub use health::{NodeHealth, Ready, ReadyStatus, SignOfLife, Signal, Verdict};
pub use hold::{Hold, HoldReason, HoldScope, Holds};
pub use ids::{Incarnation, Namespace, NodeName, NodeRef, NodeUid, PodName, PodRef, PodUid};
pub use listed::{Listed, Unlisted};
pub use selector::{Labels, Selector};
pub use shard::Shard;
pub use shared::Shared;
pub use stamp::Stamp;
pub use table::{Hashes, IndexMap, IndexSet};
pub use taint::{Effect, Operator, Taint, Tolerance, Toleration};
pub use time::{ClockReading, Moment, Mono, Now, Wall};
pub use topic::{Origin, Revision, Topic};
pub use trace::TraceContext;
pub use uid::Uid;
pub use under_way::{Load, Window, under_way};
pub use version::ResourceVersion;
pub use zone::{Zone, ZoneState};
