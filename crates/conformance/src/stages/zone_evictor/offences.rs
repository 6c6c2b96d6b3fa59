//! What writes and records show of a zone-evictor that does what it must not: all of them count, not only what they come to.

use std::time::Duration;

use bailiff_event_bus::Body;
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_sandbox::{Object, Observation};
use serde_json::Value;

use super::TOPIC;
use crate::acts::{NO_EXECUTE, UNREACHABLE};
use crate::timeline::{Timeline, condition, is_deletion, taint_of};

/// How much earlier than allowed a turn may seem to come: the clocks of two processes, and what requests take.
const LEEWAY: Duration = Duration::from_millis(200);

/// The health taint that isolates a node.
fn isolating(node: &Object) -> Option<Value> {
    taint_of(&node.value(), UNREACHABLE, NO_EXECUTE).cloned()
}

/// The writes that isolated nodes.
pub(super) fn isolations(seen: &Timeline) -> impl Iterator<Item = (usize, &Observation)> {
    seen.writes(0).filter(|(_, write)| {
        let before = write.event.previous.as_deref().and_then(isolating);
        &*write.resource == "nodes" && before.is_none() && isolating(&write.event.object).is_some()
    })
}

/// A record that says what no write before it did.
pub(super) fn said_before_written(seen: &Timeline) -> Option<String> {
    seen.records(TOPIC, 0).find_map(|(place, _, record)| match &record.body {
        Some(Body::Outcome(Outcome::Node(outcome))) if outcome.state == NodeOutcomeState::Isolated => {
            let name = outcome.node.name.as_str();
            let is_written = isolations(seen).any(|(written, write)| written < place && write.event.object.name() == name);
            (!is_written).then(|| format!("node {name} was said to be ISOLATED before it had the taint"))
        }
        Some(Body::Outcome(Outcome::Pod(outcome))) if outcome.state == PodOutcomeState::Deleted => {
            let uid = outcome.pod.uid.to_string();
            let mut writes = seen
                .writes(0)
                .filter(|(_, write)| write.event.object.uid() == uid && is_deletion(write));
            let is_written = writes.any(|(written, _)| written < place);
            (!is_written).then(|| format!("pod {} was said to be DELETED before it was", outcome.pod))
        }
        _ => None,
    })
}

/// Two nodes that were isolated sooner after each other than a zone's rate allows.
pub(super) fn too_fast(seen: &Timeline, turn: Duration) -> Option<String> {
    let grants: Vec<(&str, Duration)> = isolations(seen)
        .map(|(_, write)| (write.event.object.name(), write.at.mono.since_origin()))
        .collect();
    let pairs = grants.windows(2).filter_map(|pair| match pair {
        [(first, then), (second, now)] => Some((first, second, now.saturating_sub(*then))),
        _ => None,
    });
    let mut early = pairs.filter(|(_, _, after)| *after + LEEWAY < turn);
    early.next().map(|(first, second, after)| {
        format!(
            "node {second} was isolated {:.1} s after {first}: allowed are {} s",
            after.as_secs_f64(),
            turn.as_secs()
        )
    })
}

/// A pod that was not marked at the moment at which its deletion began: before that write, or with it, as the Eviction API marks. It may
/// be gone by now, or marked since.
pub(super) fn unmarked(seen: &Timeline) -> Option<String> {
    let mut deletions = seen
        .writes(0)
        .filter(|(_, write)| &*write.resource == "pods" && is_deletion(write));
    let has_mark = |pod: &Object| condition(&pod.value(), "DisruptionTarget")["status"] == "True";
    let is_marked = |write: &Observation| write.event.previous.as_deref().is_some_and(has_mark) || has_mark(&write.event.object);
    deletions.find(|(_, write)| !is_marked(write)).map(|(_, write)| {
        format!(
            "pod {} had no condition DisruptionTarget when it was deleted",
            write.event.object.name()
        )
    })
}

/// A write, from `place` on, that took the taint off the node, which may have it again, or made it another: the toleration times of its
/// pods start anew with it.
pub(super) fn stripped(seen: &Timeline, name: &str, place: usize) -> Option<String> {
    let mut writes = seen
        .writes(place)
        .filter(|(_, write)| &*write.resource == "nodes" && write.event.object.name() == name);
    writes.find_map(|(_, write)| {
        let before = write.event.previous.as_deref().and_then(isolating)?;
        match isolating(&write.event.object) {
            None => Some(format!("node {name} has lost its taint")),
            Some(after) if after["timeAdded"] != before["timeAdded"] => Some(format!("the taint of node {name} was made anew")),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests;
