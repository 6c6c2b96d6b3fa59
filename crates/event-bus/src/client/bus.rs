//! How to reach a bus: in process or over TCP, with the same messages.

/// How to reach a bus; cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus {}
