//! The decisions of the taint-manager: what the state of a node means for its pods, and when.
//!
//! [`Manager::apply`] is a state machine: facts about Nodes and Pods, verdicts of topic `node-health` and the answers to earlier
//! requests go in, [`Effect`]s come out. It decides
//! - which NoSchedule taints and beta labels a node should carry (NL-110 to NL-122, [`schedule`]),
//! - which pods of a node that fell silent are to be marked not ready (NL-084 to NL-089),
//! - which nodes should be isolated, or evicted in node mode (wishes, from verdicts alone),
//! - which pods should be evicted, when, and why (TE rules in taint mode, NL-200 ff in node mode).
//!
//! It performs nothing. Deleting pods and writing NoExecute taints is the zone-evictor's; judging nodes is the
//! node-health-monitor's. Work done is proportional to what changed: a pod costs itself, a node costs its own pods.
//!
//! # Terminating and finished pods
//! They are judged like any other (TE-077, TE-078, recording `te-user-terminating`): upstream marks a pod that its user is already
//! deleting, so an intent is published for it. What a second delete would do is the zone-evictor's to know.

pub mod config;
pub mod effect;
pub mod facts;
mod held;
pub mod input;
pub mod schedule;
pub mod stats;
pub mod told;

mod deadlines;
mod judge;
mod manager;
mod markings;
mod nodes;
mod pods;
mod start;
mod tasks;

pub use bailiff_model::{Duties, EvictionMode, Profile};
pub use config::Config;
pub use effect::{Component, Effect, Event, NodePatch, PodMark, Severity};
pub use facts::{NodeFacts, NodeReady, PlatformLabels, PodFacts, Pressure};
pub use input::{Answer, HealthRecord, Inherited, Input, Reading};
pub use manager::Manager;
pub use stats::Stats;
pub use told::Told;
