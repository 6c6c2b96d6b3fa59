//! The event bus: keyed, compacted, revisioned topics that carry decisions from stage to stage.
//!
//! Stages use the client side: [`Bus`] says how to reach a bus, [`subscribe`] follows topics, [`publish`] owns a producer's session
//! on one shard of a topic. In process and over TCP the same messages are spoken. Nothing here decides anything about nodes or pods
//! and nothing here talks to Kubernetes; what a record means is the stages' business.

pub mod access;
pub mod client;
pub mod engine;
pub mod record;
pub mod server;
pub mod service;
pub mod wire;

pub use access::Roles;
pub use client::{
    Bus, Line, PublishOptions, Published, Publisher, RouteFilter, Skipped, SubscribeOptions, Subscription, Update, publish,
    subscribe,
};
pub use record::{Body, Draft, Record, ShardStatus, TombstoneReason};
pub use server::{Server, ServerOptions};
