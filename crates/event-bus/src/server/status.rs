//! From refusals to gRPC statuses, in one place.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::places::Full;
use crate::engine::Refusal;
use crate::wire;

/// Metadata of a refusing status: [`Refusal::kind`], for people and metrics. What a caller has to do is in the code alone.
pub const REFUSAL_METADATA: &str = "bailiff-refusal";

/// Kind of the refusal of a caller whose role does not allow it.
pub(super) const DENIED: &str = "denied";

/// The bus is down or going down.
pub(super) fn down() -> Status {
    Status::unavailable("the bus is down")
}

pub(super) fn of_refusal(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::Shard { .. } | Refusal::Batch { .. } | Refusal::NotReplacing | Refusal::Cursor { .. } => Code::InvalidArgument,
        // Passes by itself.
        Refusal::Layout { .. } => Code::FailedPrecondition,
        // The refused producer stops for good: nothing but the code is needed to know.
        Refusal::Epoch { .. } | Refusal::Fenced { .. } | Refusal::Reset { .. } => Code::Aborted,
        Refusal::Ended | Refusal::Silent { .. } | Refusal::Store | Refusal::Forgotten { .. } => Code::Unavailable,
        Refusal::Keys { .. } | Refusal::Sessions { .. } => Code::ResourceExhausted,
    };
    with_kind(Status::new(code, refusal.to_string()), refusal.kind())
}

pub(super) fn of_wire(error: &wire::Error) -> Status {
    with_kind(Status::invalid_argument(error.to_string()), "invalid")
}

/// There is no place of this kind.
pub(super) fn of_full(places_of: &str, full: &Full, kind: &'static str) -> Status {
    with_kind(Status::resource_exhausted(format!("places of {places_of}: {full}")), kind)
}

pub(super) fn with_kind(mut status: Status, kind: &'static str) -> Status {
    status
        .metadata_mut()
        .insert(REFUSAL_METADATA, MetadataValue::from_static(kind));
    status
}

/// The kind of a refusing status.
pub(super) fn kind(status: &Status) -> Option<&str> {
    status.metadata().get(REFUSAL_METADATA)?.to_str().ok()
}
