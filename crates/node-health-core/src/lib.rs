//! node-health-core
