//! What is kept per node name.

use crate::facts::NodeFacts;
use crate::pods::Place;
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
    /// Its pods, in no order.
    pub(crate) pods: Vec<Place>,
}
