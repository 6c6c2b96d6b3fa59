//! What is listed: stages, zones, nodes that wait, timers, pods that do not go, DaemonSets.

use bailiff_event_bus::ShardStatus;
use bailiff_explain::overview::NodeStanding;
use bailiff_explain::sentence;
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, PodOutcome, PodOutcomeState, ZoneStatus};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{Hold, Now, Topic, ZoneState};

use super::grid::Grid;
use super::line::{Span, Tone};
use super::{age, ahead};
use crate::top::view::View;

/// All lists that are not empty. Of single nodes and pods there are at most so many rows.
pub(super) fn all(view: &View, now: Now, most: usize) -> Vec<Grid> {
    let grids = [
        stages(view),
        zones(view, now),
        nodes(view, now, most),
        timers(view, now, most),
        stuck(view, now, most),
        rollouts(view, now),
    ];
    grids.into_iter().flatten().collect()
}

fn grid(titles: &'static [&'static str], rows: Vec<Vec<Span>>, total: usize) -> Option<Grid> {
    (total > 0).then(|| Grid::new(titles, rows, total))
}

fn stages(view: &View) -> Option<Grid> {
    let rows: Vec<Vec<Span>> = Topic::ALL.iter().flat_map(|topic| stages_of(*topic, view)).collect();
    let total = rows.len();
    grid(&["STAGES", "SHARD", "STATE", "LAG", "PRODUCER"], rows, total)
}

fn stages_of(topic: Topic, view: &View) -> Vec<Vec<Span>> {
    let shards: Vec<&ShardStatus> = view.shards.iter().filter(|shard| shard.topic == topic).collect();
    if shards.is_empty() {
        let nobody = Span::new("nobody has published yet", Tone::Bad);
        return vec![vec![topic.as_str().into(), "-".into(), "-".into(), "-".into(), nobody]];
    }
    let row = |shard: &&ShardStatus| {
        let state = match (shard.live, shard.complete) {
            (true, true) => Span::new("live", Tone::Good),
            (true, false) => Span::new("live, not complete", Tone::Odd),
            (false, _) => Span::new("NOT LIVE", Tone::Bad),
        };
        let detail = if shard.detail.is_empty() { "" } else { ": " };
        vec![
            topic.as_str().into(),
            format!("{}/{}", shard.shard, shard.shard_count).into(),
            state,
            format!("{:.1}s", shard.lag.as_secs_f64()).into(),
            format!("{}{detail}{}", shard.producer, shard.detail).into(),
        ]
    };
    shards.iter().map(row).collect()
}

fn zones(view: &View, now: Now) -> Option<Grid> {
    const TITLES: &[&str] = &[
        "ZONES",
        "STATE",
        "NOT READY",
        "LATE",
        "WAITING",
        "NODES/S",
        "LAST GRANT",
        "HELD",
    ];
    let rows: Vec<Vec<Span>> = view.overview.zones().map(|zone| row_of_zone(zone, now)).collect();
    let total = rows.len();
    grid(TITLES, rows, total)
}

fn row_of_zone(zone: &ZoneStatus, now: Now) -> Vec<Span> {
    let tone = match zone.state {
        ZoneState::Normal => Tone::Good,
        ZoneState::Initial => Tone::Faint,
        ZoneState::PartialDisruption => Tone::Odd,
        ZoneState::FullDisruption => Tone::Bad,
    };
    let odd_if = |count: u32| if count > 0 { Tone::Odd } else { Tone::Plain };
    let granted = zone
        .last_grant
        .map_or_else(|| "-".to_owned(), |at| format!("{} ago", age(now, at)));
    vec![
        zone.zone.to_string().into(),
        Span::new(zone.state.to_string(), tone),
        Span::new(format!("{}/{}", zone.not_ready, zone.voting), odd_if(zone.not_ready)),
        Span::new(zone.late.to_string(), odd_if(zone.late)),
        Span::new(zone.queue_length.to_string(), odd_if(zone.queue_length)),
        zone.rate_per_second.to_string().into(),
        granted.into(),
        zone.held.as_ref().map_or_else(Span::default, |hold| held(hold, now)),
    ]
}

fn held(hold: &Hold, now: Now) -> Span {
    let detail = if hold.detail.is_empty() { "" } else { ": " };
    let text = format!("{} for {}{detail}{}", hold.reason, age(now, hold.since), hold.detail);
    Span::new(text, Tone::Odd)
}

fn nodes(view: &View, now: Now, most: usize) -> Option<Grid> {
    let overview = &view.overview;
    let rows = overview.waiting().take(most).map(|node| row_of_node(node, now)).collect();
    let total = overview.nodes_standing(NodeStanding::Waiting) + overview.nodes_standing(NodeStanding::Held);
    grid(&["WAITING NODES", "ZONE", "FOR", "EXPECTED", "WHY"], rows, total)
}

fn row_of_node(node: &NodeOutcome, now: Now) -> Vec<Span> {
    let (expected, why) = match &node.state {
        NodeOutcomeState::Queued { position, expected_at } => {
            let expected = expected_at.map(|at| ahead(now, at));
            (expected, Span::from(format!("the zone's rate; it came as number {position}")))
        }
        NodeOutcomeState::Held(hold) => (None, held(hold, now)),
        NodeOutcomeState::Isolated | NodeOutcomeState::Released | NodeOutcomeState::Evicted => (None, Span::default()),
    };
    vec![
        node.node.name.as_str().into(),
        node.zone.to_string().into(),
        age(now, node.since).into(),
        expected.unwrap_or_else(|| "-".to_owned()).into(),
        why,
    ]
}

fn timers(view: &View, now: Now, most: usize) -> Option<Grid> {
    let timers = view.overview.next_due().take(most);
    let rows = timers.map(|timer| vec![ahead(now, timer.due_at).into(), timer.text().into()]);
    grid(&["TIMERS", "WHAT"], rows.collect(), view.overview.timers())
}

fn stuck(view: &View, now: Now, most: usize) -> Option<Grid> {
    let overview = &view.overview;
    let rows = overview.stuck().take(most).map(|pod| row_of_pod(pod, now)).collect();
    grid(&["PODS THAT DO NOT GO", "NODE", "FOR", "WHY"], rows, overview.stuck().count())
}

fn row_of_pod(pod: &PodOutcome, now: Now) -> Vec<Span> {
    let tone = match pod.state {
        PodOutcomeState::Refused(_) => Tone::Bad,
        _ => Tone::Odd,
    };
    vec![
        format!("{}/{}", pod.pod.namespace, pod.pod.name).into(),
        pod.node.name.as_str().into(),
        age(now, pod.since).into(),
        Span::new(sentence::what_of(pod), tone),
    ]
}

fn rollouts(view: &View, now: Now) -> Option<Grid> {
    const TITLES: &[&str] = &[
        "DAEMONSETS",
        "REVISION",
        "UPDATED",
        "AVAILABLE",
        "NODES WITHOUT AN AVAILABLE CURRENT POD",
    ];
    let rows: Vec<Vec<Span>> = view.overview.rollouts().map(|sync| row_of_sync(sync, now)).collect();
    let total = rows.len();
    grid(TITLES, rows, total)
}

fn row_of_sync(sync: &DaemonSetSync, now: Now) -> Vec<Span> {
    let counts = &sync.counts;
    let of = |count: u32| {
        let tone = if count < counts.desired { Tone::Odd } else { Tone::Good };
        Span::new(format!("{count}/{}", counts.desired), tone)
    };
    let why = match &sync.held {
        Some(hold) => held(hold, now),
        None => Span::from(sentence::reasons(sync)),
    };
    vec![
        format!("{}/{}", sync.namespace, sync.name).into(),
        sync.revision.to_string().into(),
        of(counts.updated),
        of(counts.available),
        why,
    ]
}
