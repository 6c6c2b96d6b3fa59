//! What fails is tried again after pauses that grow, and holds up nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_daemonset_core::{FailureKind, Profile};
use bailiff_model::Mono;
use serde_json::{Value, json};

use crate::model::{ANSWERS, Cluster, DAEMONSETS, NODES, PODS, REVISIONS, path_of};

pub const HOUR: u64 = 3600;

/// A request that is made to fail.
pub struct Case {
    /// How the request is written down.
    pub what: &'static str,
    pub given: fn() -> Cluster,
    /// Makes the request necessary.
    pub when: fn(&mut Cluster),
}

fn at_rest(strategy: Value) -> Cluster {
    let mut cluster = Cluster::with(2, json!({"updateStrategy": strategy}));
    cluster.rest();
    cluster
}

fn rolling() -> Cluster {
    at_rest(json!({"rollingUpdate": {"maxUnavailable": 1}}))
}

fn on_delete() -> Cluster {
    at_rest(json!({"type": "OnDelete"}))
}

/// One with two revisions, the older of which is in use nowhere.
fn rolled() -> Cluster {
    let mut cluster = rolling();
    cluster.set_image("v2");
    cluster.rest();
    cluster
}

/// One of whose current revision there is a duplicate with a higher number.
fn duplicate(cluster: &mut Cluster) {
    let mut copy = cluster.objects[&revision(cluster)].clone();
    copy["metadata"]["name"] = json!("copy");
    copy["metadata"]["uid"] = Value::Null;
    copy["metadata"]["labels"]["controller-revision-hash"] = json!("copied");
    copy["revision"] = json!(9);
    cluster.put("controllerrevisions/copy", copy);
    // A revision that appears wakes nobody (DS-032).
    cluster.rest();
    cluster.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
}

fn revision(cluster: &Cluster) -> String {
    let paths = cluster.objects.keys();
    let mut revisions = paths.filter(|path| path.starts_with("controllerrevisions/"));
    revisions.next().expect("there is one").clone()
}

fn first_pod(cluster: &Cluster) -> String {
    path_of(&cluster.on("n0")[0])
}

fn orphan(cluster: &mut Cluster) {
    let pod = json!({"metadata": {"name": "orphan", "namespace": "ns", "labels": {"app": "ds"}}, "spec": {"nodeName": "n0"}});
    cluster.put("pods/orphan", pod);
}

fn collide(cluster: &mut Cluster) {
    let mut probe = rolling();
    probe.set_image("v2");
    probe.rest();
    let before = cluster.revisions()[0].name.clone();
    let new = probe.revisions().into_iter().find(|one| one.name != before).expect("two");
    let foreign = json!({"metadata": {"name": &*new.name, "namespace": "ns"}, "data": {"other": 1}, "revision": 5});
    cluster.put(&format!("controllerrevisions/{}", new.name), foreign);
    cluster.set_image("v2");
}

/// Everything that the core asks for.
pub const CASES: [Case; 18] = [
    Case {
        what: "create pods",
        given: rolling,
        when: |cluster| cluster.add_node("n2", json!({}), json!([])),
    },
    Case {
        what: "create pods",
        given: || at_rest(json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}})),
        when: |cluster| cluster.set_image("v2"),
    },
    // An available old pod, an unavailable one, one too many, a misplaced one, a finished one.
    Case {
        what: "delete pods",
        given: rolling,
        when: |cluster| cluster.set_image("v2"),
    },
    Case {
        what: "delete pods",
        given: rolling,
        when: |cluster| {
            let pod = cluster.on("n0").remove(0);
            cluster.set_phase(&pod, "Running", false);
            cluster.set_image("v2");
        },
    },
    Case {
        what: "delete pods",
        given: rolling,
        when: |cluster| {
            let mut twin = cluster.objects[&first_pod(cluster)].clone();
            twin["metadata"]["name"] = json!("twin");
            twin["metadata"]["uid"] = json!("twin");
            cluster.put("pods/twin", twin);
        },
    },
    Case {
        what: "delete pods",
        given: rolling,
        when: |cluster| {
            cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
        },
    },
    Case {
        what: "delete pods",
        given: rolling,
        when: |cluster| {
            let pod = cluster.on("n0").remove(0);
            cluster.set_phase(&pod, "Succeeded", false);
        },
    },
    Case {
        what: "adopt pods",
        given: on_delete,
        when: orphan,
    },
    Case {
        what: "get daemonsets",
        given: on_delete,
        when: orphan,
    },
    Case {
        what: "release pods",
        given: rolling,
        when: |cluster| {
            cluster.change(&first_pod(cluster), json!({"metadata": {"labels": {"app": "other"}}}));
        },
    },
    Case {
        what: "status",
        given: rolling,
        when: |cluster| cluster.add_node("n2", json!({}), json!([])),
    },
    Case {
        what: "create controllerrevisions",
        given: rolling,
        when: |cluster| cluster.set_image("v2"),
    },
    Case {
        what: "renumber",
        given: rolled,
        when: |cluster| cluster.set_image("v1"),
    },
    Case {
        what: "adopt controllerrevisions",
        given: rolling,
        when: |cluster| {
            cluster.change(&revision(cluster), json!({"metadata": {"ownerReferences": null}}));
        },
    },
    Case {
        what: "label controllerrevisions",
        given: rolling,
        when: |cluster| {
            cluster.change(
                &revision(cluster),
                json!({"metadata": {"labels": {"controller-revision-hash": null}}}),
            );
        },
    },
    Case {
        what: "label pods",
        given: rolling,
        when: duplicate,
    },
    Case {
        what: "delete controllerrevisions",
        given: rolled,
        when: |cluster| cluster.edit(json!({"revisionHistoryLimit": 0})),
    },
    Case {
        what: "collision",
        given: rolling,
        when: collide,
    },
];

/// When each request that begins like this was sent.
pub fn moments(cluster: &Cluster, what: &str) -> BTreeMap<String, Vec<Mono>> {
    let mut moments: BTreeMap<String, Vec<Mono>> = BTreeMap::new();
    for (at, request) in cluster.requests.iter().filter(|(_, request)| request.starts_with(what)) {
        moments.entry(request.clone()).or_default().push(*at);
    }
    moments
}

/// Pauses between tries of one request grow.
pub fn assert_paced(name: &str, moments: &[Mono]) {
    assert!(moments.len() > 2, "{name}: it was tried {} times", moments.len());
    assert!(moments.len() < 40, "{name}: it was tried {} times in an hour", moments.len());
    let pauses: Vec<Duration> = moments.windows(2).map(|two| two[1].saturating_since(two[0])).collect();
    assert!(pauses[0] >= Duration::from_millis(5), "{name}: {pauses:?}");
    assert!(pauses.is_sorted(), "{name}: {pauses:?}");
    let last = pauses[pauses.len() - 1];
    assert!(last >= Duration::from_secs(60), "{name}: {pauses:?}");
}

/// DS-006, DS-114: whatever fails, however long, is tried again after pauses that grow, and works once it can.
#[test]
fn requests_that_fail_for_ever_are_tried_ever_more_rarely() {
    for kind in [
        FailureKind::Other,
        FailureKind::Conflict,
        FailureKind::Unknown,
        FailureKind::Invalid,
    ] {
        for (index, case) in CASES.iter().enumerate() {
            let name = format!("{index} {} {kind:?}", case.what);
            let mut cluster = (case.given)();
            cluster.failures.push((case.what, kind));
            cluster.requests.clear();
            (case.when)(&mut cluster);
            cluster.pass(HOUR);
            let tried = moments(&cluster, case.what);
            assert!(!tried.is_empty(), "{name}: it was never tried");
            for (request, moments) in &tried {
                assert_paced(&format!("{name}: {request}"), moments);
            }
            cluster.failures.clear();
            cluster.requests.clear();
            cluster.rest_longer();
            assert!(!moments(&cluster, case.what).is_empty(), "{name}: it was given up");
        }
    }
}

/// DS-006: answers that never come back are failures; what was done meanwhile is seen and not done again.
#[test]
fn lost_answers_are_failures_and_what_was_done_is_not_repeated() {
    for (index, case) in CASES.iter().enumerate() {
        let name = format!("{index} {}", case.what);
        let mut cluster = (case.given)();
        cluster.loses = Some(case.what);
        cluster.requests.clear();
        (case.when)(&mut cluster);
        cluster.pass(HOUR);
        let tried = moments(&cluster, case.what);
        assert!(!tried.is_empty(), "{name}: it was never tried");
        for (request, moments) in &tried {
            // Only a read has nothing that could be seen without its answer.
            let most = if case.what.starts_with("get") { 40 } else { 1 };
            assert!(moments.len() <= most, "{name}: {request} was sent {} times", moments.len());
        }
        cluster.loses = None;
        cluster.rest_longer();
        assert_eq!(cluster.daemonset().status.counts.unavailable, 0, "{name}");
    }
}

/// DS-135: a delete whose answer was lost may have been done, and uses up the budget until the watch has had time to tell.
#[test]
fn a_delete_whose_answer_was_lost_uses_up_the_budget() {
    let mut cluster = rolling();
    cluster.loses = Some("delete pods");
    cluster.set_image("v2");
    cluster.requests.clear();
    // The watch of pods says nothing.
    for _ in 0..20 {
        for stream in [DAEMONSETS, REVISIONS, ANSWERS] {
            cluster.deliver(stream);
        }
        cluster.pass_some(Duration::from_millis(100));
    }
    assert_eq!(moments(&cluster, "delete pods").len(), 1);
}

/// DS-050, DS-100: a create whose answer was lost is asked for again under the same name, however late the watch is, and whatever else it
/// shows meanwhile: there are never two.
#[test]
fn a_create_whose_answer_was_lost_is_repeated_as_the_same_one() {
    for strategy in [json!({"maxUnavailable": 1}), json!({"maxUnavailable": 0, "maxSurge": 1})] {
        let mut cluster = at_rest(json!({"rollingUpdate": strategy}));
        let surges = strategy["maxSurge"] == json!(1);
        let before = moments(&cluster, "create pods").values().map(Vec::len).sum::<usize>();
        if surges {
            cluster.set_image("v2");
        } else {
            let pod = cluster.on("n0").remove(0);
            cluster.remove(&path_of(&pod));
            cluster.deliver(PODS);
        }
        cluster.loses = Some("create pods");
        let old = cluster.on("n0").first().map(path_of);
        // The watch of pods shows nothing new for half a minute, but that an old pod changes.
        for second in 0..30 {
            if second == 5
                && let Some(old) = &old
            {
                let late = cluster.hold_back(PODS);
                cluster.change(old, json!({"metadata": {"labels": {"poke": "1"}}}));
                cluster.deliver(PODS);
                cluster.give_back(PODS, late);
            }
            for stream in [DAEMONSETS, REVISIONS, ANSWERS, ANSWERS] {
                cluster.deliver(stream);
            }
            cluster.pass_one_second();
            assert!(cluster.on("n0").len() <= 1 + usize::from(surges), "{:#?}", cluster.writes);
            let asked = moments(&cluster, "create pods").values().map(Vec::len).sum::<usize>();
            assert!(
                second > 8 || asked <= before + 1,
                "the watch is given time to tell: {:#?}",
                cluster.writes
            );
        }
        let asked = cluster
            .writes
            .iter()
            .filter(|write| write.starts_with("create pods n0"))
            .count();
        assert!(asked > 1, "it was repeated: {:#?}", cluster.writes);
        cluster.loses = None;
        cluster.rest_longer();
        assert_eq!(cluster.on("n0").len(), 1);
        assert_eq!(cluster.daemonset().status.counts.available, 2);
    }
}

/// DS-095: a name that somebody else's pod has is another one's; the next is tried.
#[test]
fn a_name_that_is_taken_is_not_tried_again() {
    let mut cluster = rolling();
    cluster.failures.push(("create pods", FailureKind::AlreadyExists));
    cluster.add_node("n2", json!({}), json!([]));
    cluster.events.clear();
    cluster.pass(1);
    cluster.failures.clear();
    cluster.rest();
    assert_eq!(cluster.on("n2").len(), 1);
    assert!(
        !cluster.events.iter().any(|event| event.starts_with("FailedCreate")),
        "{:?}",
        cluster.events
    );
}

/// DS-069: who says that a pod conflicts is not always the API server. A pod that stays there is asked for again, soon.
#[test]
fn a_delete_that_conflicts_is_tried_again_while_the_pod_is_there() {
    let mut cluster = rolling();
    cluster.failures.push(("delete pods", FailureKind::Conflict));
    cluster.requests.clear();
    cluster.set_image("v2");
    cluster.pass(1);
    let tried = moments(&cluster, "delete pods");
    assert!(
        tried.values().all(|moments| moments.len() == 1),
        "the watch is given time to tell: {tried:?}"
    );
    cluster.failures.clear();
    cluster.pass(30);
    cluster.rest();
    assert!(cluster.pods().iter().all(|pod| pod.ready));
    assert_eq!(cluster.daemonset().status.counts.updated, 2, "{:#?}", cluster.writes);
}

/// DS-006: a success ends the pauses.
#[test]
fn a_success_forgets_the_failures_before_it() {
    let mut cluster = rolling();
    cluster.failures.push(("status", FailureKind::Conflict));
    cluster.add_node("n2", json!({}), json!([]));
    cluster.pass(HOUR);
    cluster.failures.clear();
    cluster.rest_longer();
    cluster.failures.push(("status", FailureKind::Conflict));
    cluster.requests.clear();
    cluster.remove("nodes/n2");
    cluster.pass(1);
    let tried = &moments(&cluster, "status")["status daemonsets/ds"];
    assert_eq!(tried[1].saturating_since(tried[0]), Duration::from_millis(5));
}

/// DS-114: a node for which no pod can be created holds up no other one.
#[test]
fn a_node_whose_pod_is_refused_holds_up_no_other() {
    for profile in [Profile::Bailiff, Profile::Upstream] {
        let mut cluster = Cluster::new(profile);
        for node in ["n0", "n1", "n2"] {
            cluster.add_node(node, json!({}), json!([]));
        }
        cluster.failures.push(("create pods n0", FailureKind::Other));
        cluster.failures.push(("create pods n1", FailureKind::Other));
        cluster.add_daemonset("ds", json!({}));
        cluster.pass(5);
        assert_eq!((cluster.on("n0").len(), cluster.on("n2").len()), (0, 1), "{profile:?}");
    }
}

/// DS-066: what the server does not find is gone, whether or not the watch says so.
#[test]
fn a_revision_that_is_gone_is_not_asked_for_again() {
    let mut cluster = rolling();
    cluster.failures.push(("adopt controllerrevisions", FailureKind::NotFound));
    cluster.requests.clear();
    cluster.change(&revision(&cluster), json!({"metadata": {"ownerReferences": null}}));
    cluster.settle();
    assert_eq!(
        moments(&cluster, "create controllerrevisions").len(),
        1,
        "it is no failure, so nothing waits"
    );
    cluster.pass(60);
    assert_eq!(
        moments(&cluster, "adopt controllerrevisions")[&format!("adopt {}", revision(&cluster))].len(),
        1
    );
}

/// DS-006: whoever refuses a request may say how long to wait, whatever it was about.
#[test]
fn a_pause_that_the_server_asks_for_is_kept() {
    for (index, case) in CASES.iter().enumerate() {
        let mut cluster = (case.given)();
        cluster.failures.push((case.what, FailureKind::Other));
        cluster.retry_after = Some(Duration::from_secs(30));
        cluster.requests.clear();
        (case.when)(&mut cluster);
        for (seconds, most) in [(29, 1), (30, 2)] {
            cluster.pass(seconds);
            for (request, moments) in moments(&cluster, case.what) {
                assert!(moments.len() <= most, "{index} {request}: {moments:?}");
            }
        }
    }
}

/// DS-050, DS-112: a create whose answer was lost, and that turns out to be done, has not failed: its pod is waited for.
#[test]
fn a_create_that_turns_out_to_be_done_is_no_failure() {
    let mut cluster = rolling();
    cluster.loses = Some("create pods");
    cluster.add_node("n2", json!({}), json!([]));
    cluster.settle();
    assert!(
        !cluster.events.iter().any(|event| event.starts_with("FailedCreate")),
        "it was seen first"
    );
    // The next one is not seen for two minutes.
    cluster.add_node("n3", json!({}), json!([]));
    cluster.deliver(NODES);
    cluster.deliver(ANSWERS);
    cluster.loses = None;
    for _ in 0..120 {
        cluster.deliver(ANSWERS);
        cluster.pass_one_second();
    }
    let asked = &moments(&cluster, "create pods n3")["create pods n3"];
    assert_eq!(asked.len(), 2, "once more, to learn that it is there: {asked:?}");
}

/// DS-062: only the conflict of a delete may mean that it is done; others are tried again soon.
#[test]
fn other_requests_that_conflict_are_tried_again_soon() {
    let mut cluster = rolling();
    cluster.failures.push(("release pods", FailureKind::Conflict));
    cluster.requests.clear();
    cluster.change(&first_pod(&cluster), json!({"metadata": {"labels": {"app": "other"}}}));
    cluster.pass(1);
    assert!(moments(&cluster, "release pods").values().all(|moments| moments.len() > 3));
}
