//! zone-evictor
