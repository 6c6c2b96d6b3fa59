//! What a zone-evictor is held to.

mod items;
mod offences;

use std::time::Duration;

use bailiff_event_bus::Body;
use bailiff_model::intent::{IntentState, WithdrawnReason};
use bailiff_model::outcome::{NodeOutcomeState, Outcome, PodOutcomeState};
use bailiff_model::{Topic, Verdict};
use bailiff_sandbox::Verb;
use futures::FutureExt as _;
use serde_json::{Value, json};

use self::items::{
    BRAKE, COMPLETE, EARLY, EVICTS, FOREIGN_TAINTS, FREE_NODE, HAND_MADE, IGNORES_HOLDS, ISOLATES, MARKS, OWN_WRITES, RELEASES,
    RESUMES, STRIPS, TELLS_EVICTION, TELLS_HOLD, TELLS_ISOLATION, TELLS_REFUSAL, TELLS_RELEASE, TOO_FAST, UNJUSTIFIED,
    WAITS_ITS_TURN, WITHDRAWN, WRITES_FIRST, WRONG_UID,
};
use self::offences::{isolations, said_before_written, stripped, too_fast, unmarked};
use crate::acts::{
    NO_EXECUTE, UNREACHABLE, all_is_well, clear_taints, fail_silently, intend, isolate, leaves, lost, name_of, names, pods_of,
    recover, run, taint, taint_by_hand, uneven, until_up,
};
use crate::say::{health, pod_key};
use crate::stand::{Setting, Stand, Stop};
use crate::timeline::{Timeline, has_taint};
use crate::writes::{Part, Right};
use crate::{Situation, Suite};

const TOPIC: Topic = Topic::EvictionOutcomes;

/// What it may write.
const RIGHTS: [Right; 4] = [
    Right {
        resource: "nodes",
        what: Part::Field("spec/taints/node.kubernetes.io/unreachable:NoExecute"),
    },
    Right {
        resource: "nodes",
        what: Part::Field("spec/taints/node.kubernetes.io/not-ready:NoExecute"),
    },
    Right {
        resource: "pods",
        what: Part::Field("status/conditions/DisruptionTarget"),
    },
    Right {
        resource: "pods",
        what: Part::Deletion,
    },
];

/// Everything a zone-evictor is held to.
pub static SUITE: Suite = Suite {
    stage: "zone-evictor",
    reads: &[Topic::NodeHealth, Topic::EvictionIntents],
    items: &[
        &COMPLETE,
        &ISOLATES,
        &TELLS_ISOLATION,
        &EVICTS,
        &MARKS,
        &TELLS_EVICTION,
        &TELLS_REFUSAL,
        &RELEASES,
        &TELLS_RELEASE,
        &HAND_MADE,
        &RESUMES,
        &WAITS_ITS_TURN,
        &WRITES_FIRST,
        &EARLY,
        &WITHDRAWN,
        &UNJUSTIFIED,
        &WRONG_UID,
        &FOREIGN_TAINTS,
        &IGNORES_HOLDS,
        &BRAKE,
        &TOO_FAST,
        &FREE_NODE,
        &STRIPS,
        &OWN_WRITES,
        &TELLS_HOLD,
    ],
    situations: &[
        Situation {
            name: "node-fails",
            setting: SETTING,
            items: &[
                &COMPLETE,
                &ISOLATES,
                &TELLS_ISOLATION,
                &EVICTS,
                &MARKS,
                &TELLS_EVICTION,
                &RELEASES,
                &TELLS_RELEASE,
                &WRITES_FIRST,
                &EARLY,
                &FOREIGN_TAINTS,
                &OWN_WRITES,
            ],
            play: |stand| node_fails(stand).boxed(),
        },
        Situation {
            name: "intents-are-wrong",
            setting: SETTING,
            items: &[&UNJUSTIFIED, &TELLS_REFUSAL, &WRONG_UID, &OWN_WRITES],
            play: |stand| intents_are_wrong(stand).boxed(),
        },
        Situation {
            name: "monitor-is-silent",
            setting: SETTING,
            items: &[&IGNORES_HOLDS, &TELLS_HOLD, &HAND_MADE, &RESUMES, &WITHDRAWN],
            play: |stand| monitor_is_silent(stand).boxed(),
        },
        Situation {
            name: "everything-fails",
            setting: SETTING,
            items: &[&BRAKE],
            play: |stand| everything_fails(stand).boxed(),
        },
        Situation {
            name: "many-nodes-fail",
            setting: CROWD,
            items: &[&TOO_FAST, &WAITS_ITS_TURN, &WRITES_FIRST],
            play: |stand| many_nodes_fail(stand, TURN).boxed(),
        },
        Situation {
            name: "it-is-killed",
            setting: SLOW_CROWD,
            items: &[&FREE_NODE, &STRIPS, &EARLY],
            play: |stand| it_is_killed(stand, LONG_TURN).boxed(),
        },
    ],
    trials: &[
        Situation {
            name: "many-nodes-fail-in-a-turn",
            setting: SLOWEST_CROWD,
            items: &[&TOO_FAST],
            play: |stand| many_nodes_fail(stand, LONGEST_TURN).boxed(),
        },
        Situation {
            name: "it-is-killed-in-its-turn",
            setting: SLOWEST_CROWD,
            items: &[&FREE_NODE],
            play: |stand| it_is_killed(stand, LONGEST_TURN).boxed(),
        },
    ],
};

const SETTING: Setting = Setting {
    nodes: 6,
    zones: 2,
    pods_per_node: 2,
    environment: &[("BAILIFF_NODE_EVICTION_RATE", "100")],
};

/// One zone, in which each further node takes [`TURN`].
const CROWD: Setting = Setting {
    nodes: 8,
    zones: 1,
    pods_per_node: 1,
    environment: &[("BAILIFF_NODE_EVICTION_RATE", "0.5")],
};
const TURN: Duration = Duration::from_secs(2);
/// The same with turns of [`LONG_TURN`]: a program that takes some seconds to start has to know that its turn is not over by then.
const SLOW_CROWD: Setting = Setting {
    environment: &[("BAILIFF_NODE_EVICTION_RATE", "0.1")],
    ..CROWD
};
const LONG_TURN: Duration = Duration::from_secs(10);
/// The same with turns of [`LONGEST_TURN`], which nothing outlasts that a program and this here do in between.
const SLOWEST_CROWD: Setting = Setting {
    environment: &[("BAILIFF_NODE_EVICTION_RATE", "0.01")],
    ..CROWD
};
const LONGEST_TURN: Duration = Duration::from_secs(100);

// === beginnings ===

/// All nodes are well, the stages before have said so, and the program has said everything that it has to say.
async fn begin(stand: &mut Stand) -> Result<(), Stop> {
    until_up(stand).await?;
    clear_taints(stand);
    all_is_well(stand).await?;
    run(stand, TOPIC, &COMPLETE).await
}

/// A node fails, and is isolated.
async fn fail(stand: &mut Stand, name: &str) -> Result<(), Stop> {
    fail_silently(stand, name).await?;
    isolate(stand, name).await?;
    stand.demand(&ISOLATES, |seen| is_isolated(seen, name)).await
}

// === what is seen ===

fn is_isolated(seen: &Timeline, name: &str) -> bool {
    has_taint(&seen.node(name), UNREACHABLE, NO_EXECUTE)
}

fn pod_state(seen: &Timeline, pod: &Value) -> Option<PodOutcomeState> {
    match &seen.latest(TOPIC, &pod_key(pod))?.body {
        Some(Body::Outcome(Outcome::Pod(outcome))) => Some(outcome.state.clone()),
        _ => None,
    }
}

fn node_state(seen: &Timeline, name: &str) -> Option<NodeOutcomeState> {
    match &seen.latest(TOPIC, &format!("node/{name}"))?.body {
        Some(Body::Outcome(Outcome::Node(outcome))) => Some(outcome.state.clone()),
        _ => None,
    }
}

// === situations ===

async fn node_fails(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let name = "node-a-000";
    taint(
        stand,
        name,
        &json!({"key": "example.com/team", "value": "blue", "effect": "NoSchedule"}),
    );
    fail(stand, name).await?;
    stand
        .expect(&TELLS_ISOLATION, |seen| {
            node_state(seen, name) == Some(NodeOutcomeState::Isolated)
        })
        .await;

    let pods = pods_of(stand, name);
    let [early, due] = &pods[..] else { return Err(uneven()) };
    intend(stand, early, IntentState::Scheduled).await?;
    intend(stand, due, IntentState::Due).await?;
    stand.demand(&EVICTS, |seen| leaves(seen, due)).await?;
    stand.check(&EARLY, |seen| lost(seen, early));
    stand.check(&MARKS, unmarked);
    stand
        .expect(&TELLS_EVICTION, |seen| pod_state(seen, due) == Some(PodOutcomeState::Deleted))
        .await;

    intend(stand, early, IntentState::Withdrawn(WithdrawnReason::TaintsGone)).await?;
    recover(stand, name).await?;
    stand.demand(&RELEASES, |seen| !is_isolated(seen, name)).await?;
    stand
        .expect(&TELLS_RELEASE, |seen| {
            node_state(seen, name) != Some(NodeOutcomeState::Isolated)
        })
        .await;
    stand.check(&FOREIGN_TAINTS, |seen| {
        let is_there = has_taint(&seen.node(name), "example.com/team", "NoSchedule");
        (!is_there).then(|| "taint example.com/team=blue:NoSchedule is gone".to_owned())
    });
    // Again: both pods may have been on their way out at the same time.
    stand.check(&EARLY, |seen| lost(seen, early));
    stand.check(&WRITES_FIRST, said_before_written);
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn intents_are_wrong(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let (failed, well) = ("node-a-000", "node-b-000");
    fail(stand, failed).await?;
    let (here, there) = (pods_of(stand, failed), pods_of(stand, well));
    let ([replaced, due], [spared, _]) = (&here[..], &there[..]) else {
        return Err(uneven());
    };
    // A pod of a node without any taint.
    intend(stand, spared, IntentState::Due).await?;
    stand
        .expect(&TELLS_REFUSAL, |seen| {
            matches!(pod_state(seen, spared), Some(PodOutcomeState::Refused(_)))
        })
        .await;
    // A pod that was replaced by one of the same name meanwhile.
    let name = name_of(replaced);
    let path = "/api/v1/namespaces/default/pods";
    stand.request(Verb::Delete, &format!("{path}/{name}"), &json!({"gracePeriodSeconds": 0}))?;
    let successor = json!({"metadata": {"name": name}, "spec": replaced["spec"]});
    let successor = stand.request(Verb::Create, path, &successor)?;
    intend(stand, replaced, IntentState::Due).await?;
    // What is right is done after that.
    intend(stand, due, IntentState::Due).await?;
    stand.demand(&EVICTS, |seen| leaves(seen, due)).await?;
    let is_judged = |seen: &Timeline| pod_state(seen, replaced).is_some_and(|state| state.is_terminal());
    // Who does not say what became of it has had its time.
    let _ = stand.until(is_judged).await;
    stand.check(&WRONG_UID, |seen| lost(seen, &successor));
    stand.check(&UNJUSTIFIED, |seen| lost(seen, spared));
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn monitor_is_silent(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let (failed, late, by_hand) = ("node-a-000", "node-b-000", "node-b-001");
    fail(stand, failed).await?;
    let pods = pods_of(stand, failed);
    let [withdrawn, held] = &pods[..] else { return Err(uneven()) };
    stand.trouble(Topic::NodeHealth, "its watches are not fresh").await?;
    fail_silently(stand, late).await?;
    isolate(stand, late).await?;
    intend(stand, withdrawn, IntentState::Due).await?;
    intend(stand, held, IntentState::Due).await?;
    taint_by_hand(stand, by_hand);
    let drained = pods_of(stand, by_hand);
    for pod in &drained {
        intend(stand, pod, IntentState::Due).await?;
    }
    stand
        .demand(&HAND_MADE, |seen| drained.iter().all(|pod| leaves(seen, pod)))
        .await?;
    let is_held = |seen: &Timeline| {
        let is_pod_held = matches!(pod_state(seen, held), Some(PodOutcomeState::Held(_)));
        is_pod_held && matches!(node_state(seen, late), Some(NodeOutcomeState::Held(_)))
    };
    stand.expect(&TELLS_HOLD, is_held).await;
    stand.check(&IGNORES_HOLDS, |seen| {
        let isolated = is_isolated(seen, late).then(|| format!("node {late} was isolated"));
        isolated.or_else(|| lost(seen, held)).or_else(|| lost(seen, withdrawn))
    });
    intend(stand, withdrawn, IntentState::Withdrawn(WithdrawnReason::Tolerated)).await?;
    stand.trouble(Topic::NodeHealth, "").await?;
    stand
        .demand(&RESUMES, |seen| is_isolated(seen, late) && leaves(seen, held))
        .await?;
    let is_judged =
        |seen: &Timeline| pod_state(seen, withdrawn).is_some_and(|state| state.is_terminal()) || leaves(seen, withdrawn);
    // Who does not say what became of it has had its time.
    let _ = stand.until(is_judged).await;
    stand.check(&WITHDRAWN, |seen| lost(seen, withdrawn));
    Ok(())
}

async fn everything_fails(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    // As it is when a network goes: everybody is late before anybody's grace is over.
    for name in &all {
        let late = health(stand, name, Verdict::Late);
        stand.say(late).await?;
    }
    for name in &all {
        fail_silently(stand, name).await?;
        isolate(stand, name).await?;
    }
    // What is not about health goes on, and comes after all that.
    let tainted = &all[0];
    taint_by_hand(stand, tainted);
    let drained = pods_of(stand, tainted);
    for pod in &drained {
        intend(stand, pod, IntentState::Due).await?;
    }
    stand
        .reach("pods go for a taint made by hand", |seen| {
            drained.iter().all(|pod| leaves(seen, pod))
        })
        .await?;
    stand.check(&BRAKE, |seen| {
        let first = isolations(seen).next();
        first.map(|(_, write)| format!("node {} was isolated", write.event.object.name()))
    });
    Ok(())
}

async fn many_nodes_fail(stand: &mut Stand, turn: Duration) -> Result<(), Stop> {
    begin(stand).await?;
    let failing: Vec<String> = names(stand).into_iter().take(3).collect();
    for name in &failing {
        fail_silently(stand, name).await?;
        isolate(stand, name).await?;
    }
    let all_isolated = |seen: &Timeline| failing.iter().all(|name| is_isolated(seen, name));
    stand.demand_after(turn * 2, &WAITS_ITS_TURN, all_isolated).await?;
    stand.check(&TOO_FAST, |seen| too_fast(seen, turn));
    // Who says it while a node still waits is found out however fast the rest is.
    stand.check(&WRITES_FIRST, said_before_written);
    Ok(())
}

async fn it_is_killed(stand: &mut Stand, turn: Duration) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    let (first, second) = (&all[0], &all[1]);
    fail_silently(stand, first).await?;
    isolate(stand, first).await?;
    // Its nodes became ready just now, which may be after a grant that nobody remembers: even the first may wait for a turn.
    stand.demand_after(turn, &ISOLATES, |seen| is_isolated(seen, first)).await?;
    let pods = pods_of(stand, first);
    for pod in &pods {
        intend(stand, pod, IntentState::Scheduled).await?;
    }
    let is_told = |seen: &Timeline| node_state(seen, first) == Some(NodeOutcomeState::Isolated);
    stand.demand(&TELLS_ISOLATION, is_told).await?;
    fail_silently(stand, second).await?;
    let killed = stand.place();
    stand.restart().await?;
    isolate(stand, second).await?;
    let is_granted = stand
        .demand_after(turn, &WAITS_ITS_TURN, |seen| is_isolated(seen, second))
        .await;
    stand.check(&STRIPS, |seen| stripped(seen, first, killed));
    stand.check(&EARLY, |seen| pods.iter().find_map(|pod| lost(seen, pod)));
    is_granted?;
    stand.check(&FREE_NODE, |seen| too_fast(seen, turn));
    Ok(())
}
