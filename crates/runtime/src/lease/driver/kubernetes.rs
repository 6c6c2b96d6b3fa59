//! The election's words in a Kubernetes Lease, and back.

use std::time::Duration;

use bailiff_model::ResourceVersion;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt as _;

use super::super::elector::{Draft, Layout, Observed, Record};

/// Annotation of the Lease of shard 0: of how many shards it is one ([`Layout`]). Absent: it is the only one.
pub(super) const SHARDS: &str = "bailiff.dev/shards";
/// Annotation beside it: which holder said so.
pub(super) const SHARDS_BY: &str = "bailiff.dev/shards-by";
/// Annotation of a Lease: which candidate would like to have it.
pub(super) const WANTED_BY: &str = "bailiff.dev/wanted-by";

/// `lease` with what the elector wants to write.
pub(super) fn drafted(mut lease: Lease, name: String, draft: Draft) -> Lease {
    lease.metadata.name = Some(name);
    if draft.drops_wish {
        lease.annotations_mut().remove(WANTED_BY);
    }
    if let Some(layout) = draft.layout {
        for (name, text) in [(SHARDS, layout.to_string()), (SHARDS_BY, draft.record.holder.clone())] {
            if layout == Layout::WHOLE {
                lease.annotations_mut().remove(name);
            } else {
                lease.annotations_mut().insert(name.to_owned(), text);
            }
        }
    }
    lease.metadata.annotations = lease.metadata.annotations.filter(|all| !all.is_empty());
    let before = lease.spec.take().unwrap_or_default();
    lease.spec = Some(spec_of(draft.record, before));
    lease
}

/// `lease` with the wish of a candidate.
pub(super) fn wished(mut lease: Lease, identity: &str) -> Lease {
    lease.annotations_mut().insert(WANTED_BY.to_owned(), identity.to_owned());
    lease
}

/// Of how many shards the Lease of shard 0 is one. What is not understood is a layout, and none of ours. What another than the holder
/// said is not so any more: a release that knows no shards took the Lease, and works on everything.
pub(super) fn layout(lease: &Lease) -> Layout {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    let by = lease.annotations().get(SHARDS_BY).map(String::as_str);
    if by != holder && holder.is_some_and(|holder| !holder.is_empty()) {
        return Layout::WHOLE;
    }
    let said = lease.annotations().get(SHARDS).map(|text| text.parse());
    said.map_or(Layout::WHOLE, |read| read.unwrap_or(Layout::UNKNOWN))
}

/// What the Lease says.
pub(super) fn observed(lease: &Lease) -> Observed {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Observed {
        record: Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds.unwrap_or(0)),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
        },
        version: ResourceVersion::from(lease.resource_version().unwrap_or_default()),
        layout: lease.annotations().contains_key(SHARDS).then(|| layout(lease)),
        wanted_by: lease.annotations().get(WANTED_BY).cloned(),
    }
}

fn spec_of(record: Record, keep: LeaseSpec) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(record.holder),
        lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: Some(record.transitions),
        ..keep
    }
}
