//! What a daemonset-syncer is held to.

mod items;

use std::collections::BTreeMap;

use bailiff_event_bus::Body;
use bailiff_model::Topic;
use bailiff_sandbox::{Change, Observation, Verb};
use futures::FutureExt as _;
use serde_json::{Value, json};

use self::items::{
    ALONE, COMPLETE, LEAVES, MISPLACED, NEW_NODES, ON_DELETE, OWN_WRITES, OWNED, PLACES, RESTART, REVISIONS, ROLLS_OUT, STATUS,
    STRANGERS, TELLS, TWICE, UNAVAILABLE,
};
use crate::acts::{all_is_well, clear_taints, is_ready, name_of, names, run, taint, uneven, until_up};
use crate::stand::{Setting, Stand, Stop};
use crate::timeline::{Timeline, is_deletion, is_leaving, subject};
use crate::writes::{Part, Right};
use crate::{Situation, Suite};

const TOPIC: Topic = Topic::DaemonRollouts;
const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const PODS: &str = "/api/v1/namespaces/default/pods";

const SETTING: Setting = Setting {
    nodes: 4,
    zones: 1,
    pods_per_node: 0,
    environment: &[],
};

/// What it may write.
const RIGHTS: [Right; 3] = [
    Right {
        resource: "pods",
        what: Part::All,
    },
    Right {
        resource: "controllerrevisions.apps",
        what: Part::All,
    },
    Right {
        resource: "daemonsets.apps",
        what: Part::Field("status"),
    },
];

/// Everything a daemonset-syncer is held to.
pub static SUITE: Suite = Suite {
    stage: "daemonset-syncer",
    reads: &[Topic::NodeHealth, Topic::EvictionOutcomes],
    items: &[
        &COMPLETE,
        &PLACES,
        &OWNED,
        &NEW_NODES,
        &LEAVES,
        &REVISIONS,
        &STATUS,
        &ROLLS_OUT,
        &ALONE,
        &TELLS,
        &MISPLACED,
        &TWICE,
        &UNAVAILABLE,
        &ON_DELETE,
        &STRANGERS,
        &RESTART,
        &OWN_WRITES,
    ],
    situations: &[
        Situation {
            name: "nodes-come-and-go",
            setting: SETTING,
            items: &[
                &COMPLETE,
                &PLACES,
                &OWNED,
                &NEW_NODES,
                &LEAVES,
                &MISPLACED,
                &STRANGERS,
                &TELLS,
                &OWN_WRITES,
            ],
            play: |stand| nodes_come_and_go(stand).boxed(),
        },
        Situation {
            name: "template-changes",
            setting: SETTING,
            items: &[&REVISIONS, &STATUS, &ROLLS_OUT, &UNAVAILABLE, &ON_DELETE, &TWICE, &OWN_WRITES],
            play: |stand| template_changes(stand).boxed(),
        },
        Situation {
            name: "it-is-killed",
            setting: SETTING,
            items: &[&RESTART],
            play: |stand| it_is_killed(stand).boxed(),
        },
        Situation {
            name: "bus-is-out",
            setting: SETTING,
            items: &[&ALONE],
            play: |stand| bus_is_out(stand).boxed(),
        },
    ],
    trials: &[],
};

// === beginnings ===

async fn begin(stand: &mut Stand) -> Result<(), Stop> {
    until_up(stand).await?;
    clear_taints(stand);
    all_is_well(stand).await?;
    run(stand, TOPIC, &COMPLETE).await
}

/// A DaemonSet whose pods are labelled `app: NAME`.
fn daemon_set(name: &str, strategy: &Value, selector: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": selector, "containers": [{"name": "c", "image": "registry.example/agent:1"}]},
            },
        },
    })
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
}

fn create(stand: &Stand, set: &Value) -> Result<Value, Stop> {
    stand.request(Verb::Create, SETS, set)
}

fn set_image(stand: &Stand, name: &str, image: &str) -> Result<(), Stop> {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    stand
        .request(Verb::StrategicMergePatch, &format!("{SETS}/{name}"), &patch)
        .map(drop)
}

fn label(stand: &Stand, node: &str, pool: &str) {
    stand.change("nodes", "", node, |node| node["metadata"]["labels"]["pool"] = json!(pool));
}

// === what is seen ===

/// The node that a pod is on, or is made for.
fn target(pod: &Value) -> &str {
    let by_affinity =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let node = pod["spec"]["nodeName"]
        .as_str()
        .or_else(|| pod.pointer(by_affinity)?.as_str());
    node.unwrap_or_default()
}

/// The pods of a DaemonSet that stay, by the node that they are on or made for.
fn by_node(seen: &Timeline, set: &str) -> BTreeMap<String, Vec<Value>> {
    let pods = seen.objects("pods").into_iter();
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pod in pods.filter(|pod| pod["metadata"]["labels"]["app"] == set && !is_leaving(pod)) {
        found.entry(target(&pod).to_owned()).or_default().push(pod);
    }
    found
}

/// Exactly one pod that is ready, of this image, on each of these nodes, and none elsewhere.
fn runs_on(seen: &Timeline, set: &str, image: &str, nodes: &[String]) -> bool {
    let pods = by_node(seen, set);
    let is_up = |pod: &Value| pod["spec"]["containers"][0]["image"] == image && is_ready(pod);
    pods.len() == nodes.len()
        && nodes
            .iter()
            .all(|node| pods.get(node).is_some_and(|pods| matches!(&pods[..], [pod] if is_up(pod))))
}

fn set(seen: &Timeline, name: &str) -> Value {
    seen.object("daemonsets.apps", "default", name).unwrap_or_default()
}

fn is_owned(pod: &Value, set: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_controller = |owner: &Value| owner["uid"] == set["metadata"]["uid"] && owner["controller"] == true;
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let is_bound_by_affinity = pod.pointer(affinity).is_some_and(|terms| !terms.is_null());
    owners.into_iter().any(is_controller) && is_bound_by_affinity && pod["metadata"]["labels"]["app"] == set["metadata"]["name"]
}

/// The program's deletions and creations of pods.
fn pod_writes(seen: &Timeline, place: usize) -> impl Iterator<Item = &Observation> {
    let of_pods = seen.writes(place).filter(|(_, write)| &*write.resource == "pods");
    of_pods
        .map(|(_, write)| write)
        .filter(|write| write.event.change == Change::Added || is_deletion(write))
}

/// What the API's history says of the pods of a DaemonSet, one state after another: pods by uid, with their node and whether they
/// are ready and stay.
fn states(stand: &Stand, set: &str) -> Vec<BTreeMap<String, (String, bool)>> {
    let (mut now, mut all) = (BTreeMap::new(), Vec::new());
    for write in stand.sandbox.history() {
        if &*write.resource != "pods" || write.event.object.label("app") != Some(set) {
            continue;
        }
        let pod = write.event.object.value();
        if write.event.change == Change::Deleted || is_leaving(&pod) {
            now.remove(write.event.object.uid());
        } else {
            now.insert(write.event.object.uid().to_owned(), (target(&pod).to_owned(), is_ready(&pod)));
        }
        all.push(now.clone());
    }
    all
}

/// A node with two pods of the DaemonSet that stay.
fn twice(states: &[BTreeMap<String, (String, bool)>]) -> Option<String> {
    states.iter().find_map(|pods| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (node, _) in pods.values().filter(|(node, _)| !node.is_empty()) {
            *counts.entry(node).or_default() += 1;
        }
        let twice = counts.into_iter().find(|(_, count)| *count > 1);
        twice.map(|(node, count)| format!("{count} pods ran on node {node}"))
    })
}

// === situations ===

async fn nodes_come_and_go(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    let [first, second, kept_out, elsewhere] = &all[..] else {
        return Err(uneven());
    };
    for node in [first, second, kept_out] {
        label(stand, node, "agents");
    }
    taint(
        stand,
        kept_out,
        &json!({"key": "example.com/no-agents", "effect": "NoSchedule"}),
    );
    // Somebody else's: what the selector matches and another controller owns, and what it does not match.
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "other", "controller": true});
    let stranger = |name: &str, labels: &Value, owners: &Value| {
        json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
            "spec": {"nodeName": elsewhere, "containers": [{"name": "c", "image": "registry.example/other:1"}]},
        })
    };
    stand.request(
        Verb::Create,
        PODS,
        &stranger("owned", &json!({"app": "agent"}), &json!([owner])),
    )?;
    stand.request(
        Verb::Create,
        PODS,
        &stranger("unmatched", &json!({"app": "other"}), &json!([])),
    )?;

    create(stand, &daemon_set("agent", &rolling(), &json!({"pool": "agents"})))?;
    let image = "registry.example/agent:1";
    let wanted = [first.clone(), second.clone()];
    let ours = |seen: &Timeline, nodes: &[String]| {
        let pods = by_node(seen, "agent");
        let one = |node: &String| pods.get(node).is_some_and(|pods| matches!(&pods[..], [pod] if is_ready(pod)));
        nodes.iter().all(one)
    };
    stand.demand(&PLACES, |seen| ours(seen, &wanted)).await?;
    stand.check(&OWNED, |seen| {
        let set = set(seen, "agent");
        let pods = by_node(seen, "agent");
        let mut pods = wanted.iter().filter_map(|node| pods.get(node)).flatten();
        let astray = pods.find(|pod| !is_owned(pod, &set) || pod["spec"]["containers"][0]["image"] != image);
        astray.map(|pod| format!("pod {} lacks its owner, its label or its affinity", name_of(pod)))
    });
    let key = "default/agent";
    let is_told = |seen: &Timeline| match seen.latest(TOPIC, key).and_then(|record| record.body.as_ref()) {
        Some(Body::DaemonSetSync(sync)) => sync.observed_generation > 0 && !sync.current_revision.is_empty(),
        _ => false,
    };
    stand.expect(&TELLS, is_told).await;

    label(stand, elsewhere, "agents");
    let joined = [first.clone(), second.clone(), elsewhere.clone()];
    let on_elsewhere = |seen: &Timeline| {
        let pods = by_node(seen, "agent");
        pods.get(elsewhere)
            .is_some_and(|pods| pods.iter().any(|pod| name_of(pod) != "owned" && is_ready(pod)))
    };
    stand
        .demand(&NEW_NODES, |seen| {
            on_elsewhere(seen) && joined[..2].iter().all(|node| by_node(seen, "agent").contains_key(node))
        })
        .await?;
    label(stand, second, "none");
    stand
        .demand(&LEAVES, |seen| !by_node(seen, "agent").contains_key(second))
        .await?;
    stand.check(&MISPLACED, |seen| {
        let is_there = by_node(seen, "agent").contains_key(kept_out);
        is_there.then(|| format!("there is a pod for node {kept_out}, whose taint it does not tolerate"))
    });
    stand.check(&STRANGERS, |seen| {
        let mut touched = seen.writes(0).filter(|(_, write)| &*write.resource == "pods");
        let stranger = touched.find(|(_, write)| ["owned", "unmatched"].contains(&write.event.object.name()));
        stranger.map(|(_, write)| format!("it wrote {}", subject(write)))
    });
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn template_changes(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    create(stand, &daemon_set("agent", &rolling(), &json!({})))?;
    create(stand, &daemon_set("manual", &json!({"type": "OnDelete"}), &json!({})))?;
    let (old, new) = ("registry.example/agent:1", "registry.example/agent:2");
    let both = |seen: &Timeline, image| runs_on(seen, "agent", image, &all) && runs_on(seen, "manual", old, &all);
    stand.demand(&PLACES, |seen| both(seen, old)).await?;
    let before = states(stand, "agent").len();
    set_image(stand, "manual", new)?;
    set_image(stand, "agent", new)?;
    stand.demand(&ROLLS_OUT, |seen| runs_on(seen, "agent", new, &all)).await?;
    let history = states(stand, "agent");
    stand.check(&UNAVAILABLE, |_| {
        let ready = |pods: &BTreeMap<String, (String, bool)>| pods.values().filter(|(_, is_ready)| *is_ready).count();
        let fewest = history.iter().skip(before).map(ready).min().unwrap_or_default();
        (fewest + 1 < all.len()).then(|| format!("{} of {} pods were unavailable; allowed is 1", all.len() - fewest, all.len()))
    });
    stand.check(&TWICE, |_| twice(&history));
    let is_counted = |seen: &Timeline| {
        let set = set(seen, "agent");
        let count = json!(all.len());
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let are_right = counts.iter().all(|field| set["status"][field] == count);
        are_right && set["status"]["observedGeneration"] == set["metadata"]["generation"]
    };
    stand.expect(&STATUS, is_counted).await;
    let revisions = |seen: &Timeline, set: &str| {
        let all = seen.objects("controllerrevisions.apps").into_iter();
        let owned = all.filter(|revision| revision["metadata"]["ownerReferences"][0]["name"] == set);
        owned.count()
    };
    stand
        .expect(&REVISIONS, |seen| {
            revisions(seen, "agent") == 2 && revisions(seen, "manual") == 2
        })
        .await;
    stand.check(&ON_DELETE, |seen| {
        let is_old = runs_on(seen, "manual", old, &all);
        (!is_old).then(|| "pods of DaemonSet manual were replaced".to_owned())
    });
    stand.check_writes(&OWN_WRITES, &RIGHTS);
    Ok(())
}

async fn it_is_killed(stand: &mut Stand) -> Result<(), Stop> {
    begin(stand).await?;
    let all = names(stand);
    create(stand, &daemon_set("agent", &rolling(), &json!({})))?;
    let image = "registry.example/agent:1";
    stand.demand(&PLACES, |seen| runs_on(seen, "agent", image, &all)).await?;
    let place = stand.place();
    stand.restart().await?;
    // A second DaemonSet has its pods only once it works again, and has looked at the first.
    create(stand, &daemon_set("second", &rolling(), &json!({})))?;
    stand.demand(&PLACES, |seen| runs_on(seen, "second", image, &all)).await?;
    stand.check(&RESTART, |seen| {
        let mut of_first = pod_writes(seen, place).filter(|write| write.event.object.label("app") == Some("agent"));
        of_first
            .next()
            .map(|write| format!("it created or deleted {}", subject(write)))
    });
    Ok(())
}

async fn bus_is_out(stand: &mut Stand) -> Result<(), Stop> {
    stand.bus_gate.close();
    until_up(stand).await?;
    clear_taints(stand);
    all_is_well(stand).await?;
    let all = names(stand);
    stand.start()?;
    create(stand, &daemon_set("agent", &rolling(), &json!({})))?;
    stand
        .demand(&ALONE, |seen| runs_on(seen, "agent", "registry.example/agent:1", &all))
        .await
}
