//! daemonset-syncer
