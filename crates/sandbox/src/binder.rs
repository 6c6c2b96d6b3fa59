//! The stand-in scheduler: gives pods a node.
//!
//! Two modes. [`Mode::TargetsOnly`] binds pods that name their node by required node affinity (`matchFields: metadata.name`), without
//! judging: so do the recorded scenarios. [`Mode::Scheduler`] places every pod of the default scheduler: on the node it names, or on
//! the ready node with the fewest pods, honouring cordons, taints (NoSchedule and NoExecute), nodeSelector, required node affinity and
//! what nodes can hold (pods, CPU, memory). A pod that fits nowhere gets PodScheduled=False, as people expect to see.
//!
//! Not simulated: preferences, pod affinity, spreading, volumes, preemption.
//!
//! Cost follows change. Placing a pod looks at nodes in order of load until one fits; a node that changed for the better is offered to
//! the pods that wait, and only that node.

mod core;
mod fit;
mod stuck;

pub use self::core::Mode;
pub(crate) use self::core::{Core, Input};

#[cfg(test)]
mod tests;
