//! What is kept per node name.

use std::collections::BTreeSet;

use bailiff_model::PodUid;

use crate::facts::NodeFacts;
use crate::start::Standing;

/// A node name: the Node behind it, if any, and the pods that are assigned to it.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The Node as last seen; empty if none was ever seen.
    pub(crate) facts: NodeFacts,
    /// The Node exists. One that is gone leaves its taints behind, because the pods' running times go on (TE-034).
    pub(crate) present: bool,
    /// Its NoExecute taints, in order.
    pub(crate) taints: Vec<Standing>,
    /// Its pods.
    pub(crate) pods: BTreeSet<PodUid>,
}
