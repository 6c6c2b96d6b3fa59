//! Kubernetes I/O: trimmed watches, preconditioned writes, an event recorder.
//!
//! Nothing here decides. A stage declares the fields it reads as a type of its own ([`watch::View`]); whatever else an object holds is
//! dropped while it is decoded, from JSON by serde, or from protobuf where bytes matter ([`decode::Decode`]). Writes ([`api::Api`]) are single requests with a deadline, refused when leadership is gone,
//! and answer with an error whose kind a core can match on. Retrying is the cores' decision.

pub mod api;
pub mod decode;
pub mod error;
pub mod events;
pub mod metrics;
pub mod protobuf;
pub mod scan;
pub mod views;
pub mod watch;

pub use api::{Api, Patch, Precondition};
pub use decode::{Decode, DecodeError, Encoded};
pub use error::{Error, Kind};
pub use events::Recorder;
pub use metrics::Metrics;
pub use watch::{Snapshot, View, Watch, Witness};
