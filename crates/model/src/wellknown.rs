//! Names that Kubernetes gives to labels, taints and conditions; the rules name their use.

/// Region label before it was stable (NL-020).
pub const LABEL_REGION_LEGACY: &str = "failure-domain.beta.kubernetes.io/region";
/// Zone label before it was stable (NL-020).
pub const LABEL_ZONE_LEGACY: &str = "failure-domain.beta.kubernetes.io/zone";
/// Region label.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Zone label.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Takes a node out of the zone vote (NL-091).
pub const LABEL_EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";
/// Operating system (NL-120).
pub const LABEL_OS: &str = "kubernetes.io/os";
/// Operating system, beta twin (NL-120).
pub const LABEL_OS_BETA: &str = "beta.kubernetes.io/os";
/// Architecture (NL-120).
pub const LABEL_ARCH: &str = "kubernetes.io/arch";
/// Architecture, beta twin (NL-120).
pub const LABEL_ARCH_BETA: &str = "beta.kubernetes.io/arch";

/// Node is not ready (NL-070, NL-111).
pub const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Node is unreachable (NL-070, NL-111).
pub const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Memory pressure (NL-111).
pub const TAINT_MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// Disk pressure (NL-111).
pub const TAINT_DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// PID pressure (NL-111).
pub const TAINT_PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// Network unavailable (NL-111).
pub const TAINT_NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
/// Cordoned (NL-111).
pub const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition type Ready, of nodes and pods.
pub const CONDITION_READY: &str = "Ready";
/// Node condition type.
pub const CONDITION_MEMORY_PRESSURE: &str = "MemoryPressure";
/// Node condition type.
pub const CONDITION_DISK_PRESSURE: &str = "DiskPressure";
/// Node condition type.
pub const CONDITION_PID_PRESSURE: &str = "PIDPressure";
/// Node condition type.
pub const CONDITION_NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Pod condition type set before a disruption (TE-072).
pub const CONDITION_DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Condition of a pod that says whether a node was found for it.
pub const CONDITION_POD_SCHEDULED: &str = "PodScheduled";

/// Namespace of node Leases (NL-047).
pub const NAMESPACE_NODE_LEASE: &str = "kube-node-lease";
