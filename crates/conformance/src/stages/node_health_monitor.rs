//! What a node-health-monitor is held to.

mod items;

use std::time::Duration;

use bailiff_event_bus::Body;
use bailiff_model::{Mono, NodeHealth, NodeUid, Topic, Verdict};
use bailiff_sandbox::{Observation, Verb};
use futures::FutureExt as _;
use serde_json::{Value, json};

use self::items::{
    COMPLETE, EARLY, FINDS_NOT_READY, FINDS_RETURN, FINDS_SILENCE, FRESH_GRACE, GONE, HEARSAY, HEARTBEATS, OWN_WRITES, REMEMBERS,
    SETS_UNKNOWN, TELLS_HEALTHY, TELLS_LATE, UID,
};
use crate::acts::{annotate, go_silent, names, run, uneven, until_up, wake};
use crate::stand::{Setting, Stand, Stop};
use crate::timeline::{Timeline, condition};
use crate::writes::{Part, Right};
use crate::{Situation, Suite};

const TOPIC: Topic = Topic::NodeHealth;
const LEASES: &str = "leases.coordination.k8s.io";

const GRACE: Duration = Duration::from_secs(4);
/// A grace that nothing outlasts that a program and this here do meanwhile.
const LONG_GRACE: Duration = Duration::from_secs(100);
const SETTING: Setting = Setting {
    nodes: 4,
    zones: 2,
    pods_per_node: 0,
    environment: &[
        ("BAILIFF_NODE_MONITOR_GRACE_PERIOD", "4s"),
        ("BAILIFF_NODE_STARTUP_GRACE_PERIOD", "8s"),
        ("BAILIFF_NODE_MONITOR_PERIOD", "1s"),
    ],
};
/// The same with [`LONG_GRACE`].
const PATIENT: Setting = Setting {
    environment: &[
        ("BAILIFF_NODE_MONITOR_GRACE_PERIOD", "100s"),
        ("BAILIFF_NODE_STARTUP_GRACE_PERIOD", "200s"),
        ("BAILIFF_NODE_MONITOR_PERIOD", "1s"),
    ],
    ..SETTING
};
/// How often kubelets renew here, by the annotation of the sandbox.
const RENEWAL: &str = "500ms";
/// How much earlier than its grace a verdict may seem to come: the clocks of two processes.
const LEEWAY: Duration = Duration::from_millis(100);

/// What it may write.
const RIGHTS: [Right; 1] = [Right {
    resource: "nodes",
    what: Part::Field("status/conditions"),
}];

/// Everything a node-health-monitor is held to.
pub static SUITE: Suite = Suite {
    stage: "node-health-monitor",
    reads: &[],
    items: &[
        &COMPLETE,
        &TELLS_HEALTHY,
        &TELLS_LATE,
        &FINDS_SILENCE,
        &SETS_UNKNOWN,
        &FINDS_RETURN,
        &FINDS_NOT_READY,
        &UID,
        &GONE,
        &EARLY,
        &HEARTBEATS,
        &HEARSAY,
        &REMEMBERS,
        &FRESH_GRACE,
        &OWN_WRITES,
    ],
    situations: &[
        Situation {
            name: "node-fails",
            setting: SETTING,
            items: &[
                &COMPLETE,
                &TELLS_HEALTHY,
                &TELLS_LATE,
                &FINDS_SILENCE,
                &SETS_UNKNOWN,
                &FINDS_RETURN,
                &EARLY,
                &HEARTBEATS,
                &OWN_WRITES,
            ],
            play: |stand| node_fails(stand).boxed(),
        },
        Situation {
            name: "nodes-change",
            setting: SETTING,
            items: &[&FINDS_NOT_READY, &GONE, &UID, &OWN_WRITES],
            play: |stand| nodes_change(stand).boxed(),
        },
        Situation {
            name: "api-is-out",
            setting: SETTING,
            items: &[&HEARSAY],
            play: |stand| api_is_out(stand).boxed(),
        },
        Situation {
            name: "it-is-killed",
            setting: SETTING,
            items: &[&REMEMBERS, &FRESH_GRACE],
            play: |stand| it_is_killed(stand).boxed(),
        },
    ],
    trials: &[Situation {
        name: "node-has-a-long-grace",
        setting: PATIENT,
        items: &[&EARLY],
        play: |stand| node_has_a_long_grace(stand).boxed(),
    }],
};

// === beginnings ===

/// All kubelets renew often, and the program has heard of each.
async fn begin(stand: &mut Stand) -> Result<(), Stop> {
    for name in names(stand) {
        annotate(stand, &name, "lease-interval", RENEWAL);
    }
    until_up(stand).await?;
    run(stand, TOPIC, &COMPLETE).await?;
    let all = names(stand);
    let is_heard = |seen: &Timeline| {
        all.iter().all(|name| {
            let heard = |health: &NodeHealth| health.verdict == Verdict::Healthy && health.last_sign_of_life.is_some();
            health(seen, name).is_some_and(heard)
        })
    };
    stand.demand(&TELLS_HEALTHY, is_heard).await
}

// === what is seen ===

fn health<'a>(seen: &'a Timeline, name: &str) -> Option<&'a NodeHealth> {
    match &seen.latest(TOPIC, name)?.body {
        Some(Body::NodeHealth(health)) => Some(health),
        _ => None,
    }
}

fn is(seen: &Timeline, name: &str, verdict: Verdict) -> bool {
    health(seen, name).is_some_and(|health| health.verdict == verdict)
}

/// What was said of nodes from `place` on.
fn said(seen: &Timeline, place: usize) -> impl Iterator<Item = (usize, Mono, &NodeHealth)> {
    seen.records(TOPIC, place)
        .filter_map(|(place, at, record)| match &record.body {
            Some(Body::NodeHealth(health)) => Some((place, at.mono, &**health)),
            _ => None,
        })
}

/// The writes of the program that set Ready of a node to Unknown.
fn unknowns(seen: &Timeline) -> impl Iterator<Item = (usize, &Observation)> {
    seen.writes(0).filter(|(_, write)| {
        let is_unknown = |object: &Value| condition(object, "Ready")["status"] == "Unknown";
        let before = write
            .event
            .previous
            .as_ref()
            .is_some_and(|object| is_unknown(&object.value()));
        &*write.resource == "nodes" && !before && is_unknown(&write.event.object.value())
    })
}

/// When the kubelet of a node last renewed its Lease.
fn renewed(stand: &Stand, name: &str) -> Option<Mono> {
    let history = stand.sandbox.history();
    let of_node = |write: &&Observation| &*write.resource == LEASES && write.event.object.name() == name;
    history.iter().rev().find(of_node).map(|write| write.at.mono)
}

fn renewals(seen: &Stand) -> usize {
    let history = seen.sandbox.history();
    history.iter().filter(|write| &*write.resource == LEASES).count()
}

/// A verdict that came before its time, for a node whose last renewal was at `last`.
fn early(seen: &Timeline, name: &str, last: Mono, grace: Duration) -> Option<String> {
    let verdicts =
        said(seen, 0).filter(|(_, _, health)| health.node.name.as_str() == name && health.verdict == Verdict::Unreachable);
    let written = unknowns(seen).filter(|(_, write)| write.event.object.name() == name);
    let times = verdicts.map(|(_, at, _)| at).chain(written.map(|(_, write)| write.at.mono));
    let first = times.min()?.saturating_since(last);
    (first + LEEWAY < grace).then(|| {
        let (after, grace) = (first.as_secs_f64(), grace.as_secs());
        format!("node {name} was judged {after:.1} s after its last renewal; its grace is {grace} s")
    })
}

// === situations ===

async fn node_fails(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    let (place, renewed_before) = (stand.place(), renewals(stand));
    let sandbox = stand.sandbox.clone();
    let renewed_often = move |_: &Timeline| {
        let history = sandbox.history();
        history.iter().filter(|write| &*write.resource == LEASES).count() >= renewed_before + 5 * all.len()
    };
    stand.reach("kubelets renew", renewed_often).await?;
    stand.check(&HEARTBEATS, |seen| {
        let records = said(seen, place).count();
        (records > 0).then(|| format!("{records} records during five renewals of every node"))
    });

    let name = &names(stand)[0];
    go_silent(stand, name);
    // A broken item is told; nothing depends on this one.
    let _ = stand
        .demand_after(GRACE, &TELLS_LATE, |seen| {
            said(seen, place).any(|(_, _, health)| is_late(health, name))
        })
        .await;
    is_judged(stand, name, GRACE).await?;
    stand.check(&SETS_UNKNOWN, |seen| {
        let mut verdicts = said(seen, 0).filter(|(_, _, health)| health.node.name.as_str() == *name);
        let (place, ..) = verdicts.find(|(_, _, health)| health.verdict == Verdict::Unreachable)?;
        let mut written = unknowns(seen).filter(|(_, write)| write.event.object.name() == *name);
        let is_written = written.any(|(written, _)| written < place);
        (!is_written).then(|| format!("node {name} was said to be UNREACHABLE before its condition was Unknown"))
    });
    wake(stand, name);
    stand.expect(&FINDS_RETURN, |seen| is(seen, name, Verdict::Healthy)).await;
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

/// A node that is silent is judged, and not before its grace is over.
async fn is_judged(stand: &mut Stand, name: &str, grace: Duration) -> Result<(), Stop> {
    stand
        .demand_after(grace, &FINDS_SILENCE, |seen| is(seen, name, Verdict::Unreachable))
        .await?;
    let last = renewed(stand, name).ok_or_else(uneven)?;
    stand.check(&EARLY, |seen| early(seen, name, last, grace));
    Ok(())
}

async fn node_has_a_long_grace(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let name = &names(stand)[0];
    go_silent(stand, name);
    is_judged(stand, name, LONG_GRACE).await
}

fn is_late(health: &NodeHealth, name: &str) -> bool {
    health.node.name.as_str() == name && health.verdict == Verdict::Late
}

async fn nodes_change(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    let (sick, replaced) = (&all[0], &all[1]);
    annotate(stand, sick, "ready", "False");
    stand.expect(&FINDS_NOT_READY, |seen| is(seen, sick, Verdict::NotReady)).await;

    go_silent(stand, replaced);
    stand
        .demand_after(GRACE, &FINDS_SILENCE, |seen| is(seen, replaced, Verdict::Unreachable))
        .await?;
    let before = stand.look().node(replaced);
    let path = "/api/v1/nodes";
    stand.request(Verb::Delete, &format!("{path}/{replaced}"), &json!({}))?;
    stand.expect(&GONE, |seen| seen.latest(TOPIC, replaced).is_none()).await;
    let successor = json!({
        "metadata": {
            "name": replaced,
            "labels": before["metadata"]["labels"],
            "annotations": {"sandbox.bailiff.dev/lease-interval": RENEWAL},
        },
        "status": {"capacity": before["status"]["capacity"], "allocatable": before["status"]["allocatable"]},
    });
    let successor = stand.request(Verb::Create, path, &successor)?;
    let uid = NodeUid::from(successor["metadata"]["uid"].as_str().unwrap_or_default());
    let new = uid.clone();
    let is_new = |seen: &Timeline| {
        let is_well = |health: &NodeHealth| health.node.uid == new && health.verdict == Verdict::Healthy;
        health(seen, replaced).is_some_and(is_well)
    };
    stand.demand(&UID, is_new).await?;
    stand.check(&UID, |seen| {
        let mut of_new = said(seen, 0).filter(|(_, _, health)| health.node.uid == uid);
        let inherited = of_new.any(|(_, _, health)| health.verdict == Verdict::Unreachable);
        inherited.then(|| format!("the new node {replaced} was said to be UNREACHABLE"))
    });
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn api_is_out(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let name = &names(stand)[0];
    stand.api.close();
    let over = stand.clock().now().mono + GRACE * 2;
    stand.pass(over).await?;
    stand.api.open();
    let place = stand.place();
    // It works again once it finds a node that is silent now.
    stand.reach("it is live again", |seen| seen.is_live(TOPIC)).await?;
    go_silent(stand, name);
    stand
        .demand_after(GRACE, &FINDS_SILENCE, |seen| {
            said(seen, place).any(|(_, _, health)| is_silent(health, name))
        })
        .await?;
    stand.check(&HEARSAY, |seen| {
        let mut others = said(seen, 0).filter(|(_, _, health)| health.node.name.as_str() != *name);
        let judged = others.find(|(_, _, health)| health.verdict == Verdict::Unreachable);
        judged.map(|(_, _, health)| {
            format!(
                "node {} was said to be UNREACHABLE; it renewed its Lease all the time",
                health.node.name
            )
        })
    });
    Ok(())
}

fn is_silent(health: &NodeHealth, name: &str) -> bool {
    health.node.name.as_str() == name && health.verdict == Verdict::Unreachable
}

async fn it_is_killed(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    let (judged, silent) = (&all[0], &all[1]);
    go_silent(stand, judged);
    stand
        .demand_after(GRACE, &FINDS_SILENCE, |seen| is(seen, judged, Verdict::Unreachable))
        .await?;
    stand.candidate.kill().await;
    go_silent(stand, silent);
    let place = stand.place();
    // Before the act: the program may run before this here does again.
    let started = stand.clock().now().mono;
    stand.start()?;
    stand
        .reach("it is live again", |seen| seen.is_complete(TOPIC) && seen.is_live(TOPIC))
        .await?;
    stand
        .demand_after(GRACE, &FINDS_SILENCE, |seen| is(seen, silent, Verdict::Unreachable))
        .await?;
    stand.check(&REMEMBERS, |seen| {
        let mut of_judged = said(seen, place).filter(|(_, _, health)| health.node.name.as_str() == *judged);
        let revived = of_judged.any(|(_, _, health)| health.verdict == Verdict::Healthy);
        revived.then(|| format!("node {judged} was said to be HEALTHY; it is silent still"))
    });
    stand.check(&FRESH_GRACE, |seen| {
        let (_, at, _) = said(seen, place).find(|(_, _, health)| is_silent(health, silent))?;
        let after = at.saturating_since(started);
        (after + LEEWAY < GRACE).then(|| {
            let (after, grace) = (after.as_secs_f64(), GRACE.as_secs());
            format!("node {silent} was said to be UNREACHABLE {after:.1} s after the start; its grace is {grace} s")
        })
    });
    Ok(())
}

#[cfg(test)]
mod tests;
