//! zone-core
