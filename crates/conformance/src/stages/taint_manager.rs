//! What a taint-manager is held to.

mod items;

use std::time::Duration;

use bailiff_event_bus::Body;
use bailiff_model::intent::{EvictionCause, Intent, IntentState, NodeIsolation, PodEviction, Trigger};
use bailiff_model::{Mono, Origin, Topic, Verdict};
use bailiff_sandbox::Verb;
use futures::FutureExt as _;
use serde_json::{Value, json};

use self::items::{
    ADMITS, COMPLETE, DUE, DUE_EARLY, EXPIRES, KEEPS_OFF, MARKS_PODS, OWN_WRITES, SCHEDULES, START_KEPT, TOLERATED, UID, UNWISHES,
    WISHES, WITHDRAWS,
};
use crate::acts::{
    NO_EXECUTE, NO_SCHEDULE, UNREACHABLE, all_is_well, go_silent, is_ready, name_of, names, pods_of, run, set_unknown, taint,
    uneven, untaint, until_up, wake,
};
use crate::say::{health, pod_key};
use crate::stand::{Setting, Stand, Stop};
use crate::timeline::{Timeline, condition, has_taint};
use crate::writes::{Part, Right};
use crate::{Situation, Suite};

const TOPIC: Topic = Topic::EvictionIntents;
const KEY: &str = "example.com/maintenance";

/// What it may write.
const RIGHTS: [Right; 12] = [
    no_schedule("spec/taints/node.kubernetes.io/not-ready:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/unreachable:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/memory-pressure:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/disk-pressure:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/pid-pressure:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/network-unavailable:NoSchedule"),
    no_schedule("spec/taints/node.kubernetes.io/unschedulable:NoSchedule"),
    no_schedule("metadata/labels/kubernetes.io/os"),
    no_schedule("metadata/labels/beta.kubernetes.io/os"),
    no_schedule("metadata/labels/kubernetes.io/arch"),
    no_schedule("metadata/labels/beta.kubernetes.io/arch"),
    Right {
        resource: "pods",
        what: Part::Field("status/conditions/Ready"),
    },
];

const fn no_schedule(path: &'static str) -> Right {
    Right {
        resource: "nodes",
        what: Part::Field(path),
    }
}

/// Everything a taint-manager is held to.
pub static SUITE: Suite = Suite {
    stage: "taint-manager",
    reads: &[Topic::NodeHealth],
    items: &[
        &COMPLETE,
        &ADMITS,
        &KEEPS_OFF,
        &MARKS_PODS,
        &WISHES,
        &UNWISHES,
        &DUE,
        &SCHEDULES,
        &EXPIRES,
        &WITHDRAWS,
        &UID,
        &START_KEPT,
        &DUE_EARLY,
        &TOLERATED,
        &OWN_WRITES,
    ],
    situations: &[
        Situation {
            name: "node-fails",
            setting: SETTING,
            items: &[&COMPLETE, &ADMITS, &KEEPS_OFF, &MARKS_PODS, &WISHES, &UNWISHES, &OWN_WRITES],
            play: |stand| node_fails(stand).boxed(),
        },
        Situation {
            name: "node-is-tainted",
            setting: SETTING,
            items: &[
                &DUE,
                &SCHEDULES,
                &EXPIRES,
                &DUE_EARLY,
                &TOLERATED,
                &WITHDRAWS,
                &UID,
                &OWN_WRITES,
            ],
            play: |stand| node_is_tainted(stand).boxed(),
        },
        Situation {
            name: "it-is-killed",
            setting: SETTING,
            items: &[&START_KEPT, &DUE_EARLY],
            play: |stand| it_is_killed(stand).boxed(),
        },
    ],
    trials: &[],
};

const SETTING: Setting = Setting {
    nodes: 3,
    zones: 1,
    pods_per_node: 1,
    environment: &[],
};

/// How much an end of a toleration may seem to come early: the clocks of two processes, and seconds without fractions.
const LEEWAY: Duration = Duration::from_millis(100);
/// How far apart an end may be told before and after a restart: `timeAdded` has no fractions of seconds.
const DRIFT: Duration = Duration::from_millis(1_500);

// === beginnings ===

async fn begin(stand: &mut Stand) -> Result<(), Stop> {
    until_up(stand).await?;
    all_is_well(stand).await?;
    run(stand, TOPIC, &COMPLETE).await?;
    let is_clear = |node: &Value| !has_taint(node, "node.kubernetes.io/not-ready", NO_SCHEDULE);
    stand.demand(&ADMITS, |seen| seen.objects("nodes").iter().all(is_clear)).await
}

/// A pod on a node that tolerates [`KEY`] for so many seconds, without limit, or not at all. It runs.
async fn pod(stand: &mut Stand, name: &str, node: &str, tolerates: Tolerates) -> Result<Value, Stop> {
    let tolerations = match tolerates {
        Tolerates::No => json!([]),
        Tolerates::Seconds(seconds) => {
            json!([{"key": KEY, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}])
        }
        Tolerates::Forever => json!([{"key": KEY, "operator": "Exists", "effect": NO_EXECUTE}]),
    };
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "registry.example/app:1"}]},
    });
    let pod = stand.request(Verb::Create, "/api/v1/namespaces/default/pods", &pod)?;
    stand
        .reach("the pod runs", |seen| seen.pod(name)["status"]["phase"] == "Running")
        .await?;
    Ok(pod)
}

#[derive(Clone, Copy, Debug)]
enum Tolerates {
    No,
    Seconds(u32),
    Forever,
}

fn taint_node(stand: &Stand, name: &str) {
    let now = stand.clock().wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    taint(
        stand,
        name,
        &json!({"key": KEY, "value": "now", "effect": NO_EXECUTE, "timeAdded": now}),
    );
}

// === what is seen ===

fn wish(seen: &Timeline, name: &str) -> Option<(NodeIsolation, Origin)> {
    let record = seen.latest(TOPIC, &format!("node/{name}"))?;
    match &record.body {
        Some(Body::Intent(Intent::Isolation(isolation))) => Some((NodeIsolation::clone(isolation), record.derived_from.clone())),
        _ => None,
    }
}

fn intent(seen: &Timeline, pod: &Value) -> Option<PodEviction> {
    match &seen.latest(TOPIC, &pod_key(pod))?.body {
        Some(Body::Intent(Intent::Pod(eviction))) => Some(PodEviction::clone(eviction)),
        _ => None,
    }
}

/// Nothing is wanted of the pod.
fn is_left_alone(seen: &Timeline, pod: &Value) -> bool {
    intent(seen, pod).is_none_or(|eviction| matches!(eviction.state, IntentState::Withdrawn(_)))
}

/// The intent names what it is about: both uids, and the taint with its value.
fn is_precise(seen: &Timeline, eviction: &PodEviction, pod: &Value) -> bool {
    let node = seen.node(pod["spec"]["nodeName"].as_str().unwrap_or_default());
    let names_taint = match &*eviction.cause {
        EvictionCause::Taints { taints, .. } => taints.iter().any(|taint| &*taint.key == KEY && &*taint.value == "now"),
        EvictionCause::Node => false,
    };
    names_taint
        && pod["metadata"]["uid"] == eviction.pod.uid.to_string()
        && node["metadata"]["uid"] == eviction.node.uid.to_string()
}

/// Says so if the pod's eviction was DUE less than `tolerated` after its node was tainted.
fn due_early(seen: &Timeline, pod: &Value, tainted: Mono, tolerated: Duration) -> Option<String> {
    let key = pod_key(pod);
    let mut due = seen.records(TOPIC, 0).filter(|(_, _, record)| {
        let is_due = |eviction: &PodEviction| eviction.state == IntentState::Due;
        record.key == key && matches!(&record.body, Some(Body::Intent(Intent::Pod(eviction))) if is_due(eviction))
    });
    let (_, at, _) = due.next()?;
    let after = at.mono.saturating_since(tainted);
    (after + LEEWAY < tolerated).then(|| {
        let (after, tolerated) = (after.as_secs_f64(), tolerated.as_secs());
        format!(
            "pod {} tolerates the taint for {tolerated} s; its eviction was DUE after {after:.1} s",
            name_of(pod)
        )
    })
}

// === situations ===

async fn node_fails(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let name = &names(stand)[0];
    let pods = pods_of(stand, name);
    go_silent(stand, name);
    set_unknown(stand, name);
    let unreachable = health(stand, name, Verdict::Unreachable);
    stand.say(unreachable).await?;
    let cause = stand.origin(Topic::NodeHealth, name);
    stand
        .expect(&KEEPS_OFF, |seen| has_taint(&seen.node(name), UNREACHABLE, NO_SCHEDULE))
        .await;
    let is_marked = |seen: &Timeline, pod: &Value| condition(&seen.pod(name_of(pod)), "Ready")["status"] == "False";
    stand
        .expect(&MARKS_PODS, |seen| pods.iter().all(|pod| is_marked(seen, pod)))
        .await;
    stand
        .demand(&WISHES, |seen| wish(seen, name).is_some_and(|(_, origin)| origin == cause))
        .await?;

    wake(stand, name);
    stand
        .reach("the node is ready again", |seen| is_ready(&seen.node(name)))
        .await?;
    let well = health(stand, name, Verdict::Healthy);
    stand.say(well).await?;
    let is_over = |seen: &Timeline| wish(seen, name).is_none() && !has_taint(&seen.node(name), UNREACHABLE, NO_SCHEDULE);
    stand.expect(&UNWISHES, is_over).await;
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn node_is_tainted(stand: &mut Stand) -> Result<(), Stop> {
    const BRIEF: u32 = 3;
    const LONG: u32 = 300;
    begin(stand).await?;
    let name = &names(stand)[1];
    let untolerant = pod(stand, "untolerant", name, Tolerates::No).await?;
    let brief = pod(stand, "brief", name, Tolerates::Seconds(BRIEF)).await?;
    let patient = pod(stand, "patient", name, Tolerates::Seconds(LONG)).await?;
    let replaced = pod(stand, "replaced", name, Tolerates::Seconds(LONG)).await?;
    let tolerant = pod(stand, "tolerant", name, Tolerates::Forever).await?;
    // Before the act: the program may see it before this here runs again.
    let tainted = stand.clock().now().mono;
    taint_node(stand, name);

    let is_due = |seen: &Timeline, pod: &Value, trigger: Trigger| {
        intent(seen, pod).is_some_and(|one| one.state == IntentState::Due && one.trigger == trigger && is_precise(seen, &one, pod))
    };
    let is_scheduled = |seen: &Timeline, pod: &Value| {
        intent(seen, pod).is_some_and(|one| one.state == IntentState::Scheduled && is_precise(seen, &one, pod))
    };
    stand
        .expect(&DUE, |seen| is_due(seen, &untolerant, Trigger::Untolerated))
        .await;
    stand
        .expect(&SCHEDULES, |seen| {
            is_scheduled(seen, &patient) && is_scheduled(seen, &replaced)
        })
        .await;

    let path = "/api/v1/namespaces/default/pods/replaced";
    stand.request(Verb::Delete, path, &json!({"gracePeriodSeconds": 0}))?;
    let successor = pod(stand, "replaced", name, Tolerates::Seconds(LONG)).await?;
    stand
        .expect(&UID, |seen| is_scheduled(seen, &successor) && is_left_alone(seen, &replaced))
        .await;

    let tolerated = Duration::from_secs(u64::from(BRIEF));
    stand
        .demand_after(tolerated, &EXPIRES, |seen| is_due(seen, &brief, Trigger::Expired))
        .await?;
    stand.check(&DUE_EARLY, |seen| {
        let long = Duration::from_secs(u64::from(LONG));
        due_early(seen, &brief, tainted, tolerated).or_else(|| due_early(seen, &patient, tainted, long))
    });
    stand.check(&TOLERATED, |seen| {
        let wanted = intent(seen, &tolerant);
        wanted.map(|one| format!("pod tolerant has a PodEviction in state {:?}", one.state))
    });

    untaint(stand, name, KEY, NO_EXECUTE);
    stand
        .expect(&WITHDRAWS, |seen| {
            is_left_alone(seen, &patient) && is_left_alone(seen, &successor)
        })
        .await;
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn it_is_killed(stand: &mut Stand) -> Result<(), Stop> {
    const TOLERATED: u32 = 6;
    let tolerated = Duration::from_secs(u64::from(TOLERATED));
    begin(stand).await?;
    let name = &names(stand)[1];
    let brief = pod(stand, "brief", name, Tolerates::Seconds(TOLERATED)).await?;
    // Before the act: the program may see it before this here runs again.
    let tainted = stand.clock().now().mono;
    taint_node(stand, name);
    stand
        .demand(&SCHEDULES, |seen| {
            intent(seen, &brief).is_some_and(|one| one.state == IntentState::Scheduled)
        })
        .await?;
    let Some(before) = intent(&stand.look(), &brief) else {
        return Err(uneven());
    };
    // Long enough that who counts anew from its own start ends noticeably later.
    stand.candidate.kill().await;
    stand.pass(tainted + DRIFT * 2).await?;
    stand.start()?;
    stand
        .demand_after(tolerated, &EXPIRES, |seen| {
            intent(seen, &brief).is_some_and(|one| one.state == IntentState::Due)
        })
        .await?;
    stand.check(&START_KEPT, |seen| {
        let after = intent(seen, &brief)?;
        let moved = Duration::try_from(after.due_at.duration_since(before.due_at).abs()).unwrap_or_default();
        (moved > DRIFT).then(|| format!("the end was {} before the restart, {} after it", before.due_at, after.due_at))
    });
    stand.check(&DUE_EARLY, |seen| due_early(seen, &brief, tainted, tolerated));
    Ok(())
}
