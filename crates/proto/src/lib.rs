//! Generated wire types of the `bailiff.v1` contract.
//!
//! The contract itself, with the meaning and unit of every field, is in `proto/bailiff/v1/`. Nothing but the [`codec`] is written by
//! hand here, and nothing here knows the rest of the workspace; conversion to domain values is the event bus's
//! (`bailiff_event_bus::wire`).

pub mod codec;

/// Package `bailiff.v1`.
#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("bailiff.v1");
}
