//! daemonset-core
