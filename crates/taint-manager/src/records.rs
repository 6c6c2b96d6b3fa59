//! Records of the bus, and what they are to the core.

use bailiff_event_bus::{Body, Record};
use bailiff_model::{Mono, NodeName};
use bailiff_taint_core::{HealthRecord, Inherited};

/// A record of topic `node-health`.
pub(crate) fn health(record: Record) -> HealthRecord {
    let origin = record.origin();
    let health = match record.body {
        Some(Body::NodeHealth(health)) => Some(*health),
        _ => None,
    };
    // The key is the name of the node, which is there already.
    let named = health.as_ref().map(|health| &health.node.name);
    let named = named.filter(|name| name.as_str() == record.key).cloned();
    HealthRecord {
        origin,
        name: named.unwrap_or_else(|| NodeName::from(record.key)),
        trace: record.trace,
        health,
    }
}

/// A record of the own topic, as it is now; `None` if it says nothing any more.
pub(crate) fn inherited(record: Record, now: Mono) -> Option<Inherited> {
    let age = record.age_at(now);
    match record.body {
        Some(Body::Intent(intent)) => Some(Inherited {
            intent,
            age,
            derived_from: record.derived_from,
            trace: record.trace,
        }),
        _ => None,
    }
}
