//! What the records of the bus mean, in words: for `bailiff events`, `bailiff status` and whoever else tells people.
//!
//! Pure: it reads records and says what they say. It asks nobody and decides nothing.

#[cfg(test)]
mod fixture;
pub mod json;
pub mod overview;
pub mod sentence;
pub mod story;

use bailiff_model::health::NodeHealth;
use bailiff_model::intent::Intent;
use bailiff_model::outcome::Outcome;
use bailiff_model::rollout::DaemonSetSync;

/// What a record says, by topic.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// Topic `node-health`.
    Health(&'a NodeHealth),
    /// Topic `eviction-intents`.
    Intent(&'a Intent),
    /// Topic `eviction-outcomes`.
    Outcome(&'a Outcome),
    /// Topic `daemon-rollouts`.
    Rollout(&'a DaemonSetSync),
}
