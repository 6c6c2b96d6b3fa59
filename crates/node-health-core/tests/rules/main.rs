//! The rules of the specification, one test each, and a property test against a small model.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is a test; clippy only knows that of functions marked so"
)]

mod batch;
mod everything_down;
mod failures;
mod grace;
mod history;
mod identity;
mod incidents;
mod inherit;
mod loss;
mod model;
mod parts;
mod shards;
mod signals;
mod support;
mod upstream;
mod writing;
