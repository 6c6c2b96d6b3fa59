//! Which records concern what is asked about.

use bailiff_model::Topic;
use bailiff_model::outcome::Outcome;

use super::Told;
use crate::Said;

/// Where the records about a node are.
pub fn of_node(name: &str) -> Vec<(Topic, String)> {
    vec![
        (Topic::NodeHealth, name.to_owned()),
        (Topic::EvictionIntents, format!("node/{name}")),
        (Topic::EvictionOutcomes, format!("node/{name}")),
    ]
}

/// Where the records about a pod are, and those about its node, without which it would not go.
pub fn of_pod(uid: &str, node: &str) -> Vec<(Topic, String)> {
    let mut keys = of_node(node);
    keys.extend(of_pod_alone(uid));
    keys
}

/// Where the records about a pod are that are about nothing else.
pub fn of_pod_alone(uid: &str) -> [(Topic, String); 2] {
    [Topic::EvictionIntents, Topic::EvictionOutcomes].map(|topic| (topic, format!("pod/{uid}")))
}

/// Where the zone's record is in which the zone-evictor last put the node: what holds a zone is said there, not of each node in it.
pub fn of_zone(told: &[Told<'_>]) -> Option<(Topic, String)> {
    let said = told.iter().filter_map(|told| Some((told.revision, told.said?)));
    let zones = said.filter_map(|(revision, said)| match said {
        Said::Outcome(Outcome::Node(outcome)) => Some((revision, &outcome.zone)),
        Said::Outcome(Outcome::Pod(outcome)) => Some((revision, &outcome.zone)),
        _ => None,
    });
    let (_, zone) = zones.max_by_key(|(revision, _)| *revision)?;
    Some((Topic::EvictionOutcomes, format!("zone/{zone}")))
}
