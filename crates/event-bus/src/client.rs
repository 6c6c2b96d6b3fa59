//! The client side of the bus: how to reach it, how to follow topics, how to publish.
//!
//! Both [`Subscription`] and [`Publisher`] reconnect by themselves, with backoff and jitter, for as long as they live.

mod bus;
mod publisher;
mod subscription;

pub use bus::Bus;
pub use publisher::{PublishOptions, Published, Publisher, publish};
pub use subscription::{RouteFilter, SubscribeOptions, Subscription, Update, subscribe};
