//! Simulated kubelets: leases, node status, and pods that start, fail, crash and stop.
//!
//! One state machine ([`Core`]) holds the machines of a whole sandbox, so that ten thousand nodes are one task with one queue of
//! deadlines. It decides; [`crate::driver`] performs. What a kubelet does is a set of [`KubeletSettings`] that can be changed while it
//! runs: by the program ([`Change`]) or by anybody who may annotate a Node ([`annotations`], with the table of all of them).
//!
//! Nothing here places pods (the binder does) or removes what belongs to deleted objects (the garbage collector does).

pub mod annotations;
mod core;
mod hash;
mod machine;
mod nodes;
mod pod;
mod pods;
mod post;
pub mod settings;

pub use self::core::Target;
pub(crate) use self::core::{Core, Input};
pub use settings::{Change, Error, Fidelity, Key, KubeletSettings, PodMode, Value};

#[cfg(test)]
mod tests;
