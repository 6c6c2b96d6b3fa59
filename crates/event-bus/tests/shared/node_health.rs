//! The record that most tests publish. Tests inside the crate and outside it share this file, so it speaks of the model alone.

use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, ReadyStatus, Verdict};
use bailiff_model::{NodeRef, Wall, Zone};

/// A healthy node; `content` tells one from another, and a long `reason` makes it large.
pub fn mk_node_health(node: NodeRef, zone: &str, reason: &str, content: u64) -> NodeHealth {
    NodeHealth {
        node,
        zone: Zone::new("eu", zone),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::True,
            reason: reason.to_owned(),
            since: None,
        },
        verdict: Verdict::Healthy,
        last_sign_of_life: None,
        late_since: None,
        counted_from: Wall::UNIX_EPOCH,
        grace: Duration::from_secs(content),
        decided_at: Wall::UNIX_EPOCH,
        held: None,
    }
}
