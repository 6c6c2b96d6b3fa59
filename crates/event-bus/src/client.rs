//! The client side of the bus: how to reach it, how to follow topics, how to publish.
//!
//! Both [`Subscription`] and [`Publisher`] reconnect by themselves, with backoff and jitter, for as long as they live.

use std::time::Duration;

mod backoff;
mod bus;
mod line;
mod outbox;
mod publisher;
mod route;
mod session;
mod shards;
mod subscription;

pub use bus::{Bus, BusStatus, Error, TopicStatus};
pub use line::Line;
pub use publisher::{PublishOptions, Published, Publisher, publish};
pub use shards::Shards;
pub use subscription::{RouteFilter, Skipped, SubscribeOptions, Subscription, Update, subscribe};

/// How long the bus may take to answer a call or to open a stream: it works in memory, so this is all network.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A bus that was not heard of for so long is lost: five bookmarks or keepalives missed.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// A lost connection counts as stale after this.
const STALE_AFTER: Duration = Duration::from_secs(10);
