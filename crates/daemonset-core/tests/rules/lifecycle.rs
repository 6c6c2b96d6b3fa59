//! Creating, keeping and deleting daemon pods; status and Events.

use bailiff_daemonset_core::{Effect, FailureKind, Input, Profile, Watched};
use bailiff_model::Listed;
use bailiff_model::rollout::{Counts, WhyNot};
use serde_json::json;

use crate::model::{Cluster, all_pods, mk_node, scope};

fn count(cluster: &Cluster, prefix: &str) -> usize {
    cluster.writes.iter().filter(|write| write.starts_with(prefix)).count()
}

fn mk_counts(all: u32) -> Counts {
    Counts {
        desired: all,
        current: all,
        ready: all,
        available: all,
        updated: all,
        ..Counts::default()
    }
}

/// DS-005: nothing is decided before everything was listed.
#[test]
fn nothing_happens_before_everything_was_listed() {
    let mut source = Cluster::with(1, json!({}));
    source.settle();
    let mut core = bailiff_daemonset_core::Syncer::default();
    let inputs = [
        Input::DaemonSets(vec![source.daemonset()].into()),
        Input::Nodes(vec![mk_node("n0")].into()),
        Input::Revisions(Vec::new().into()),
    ];
    for input in inputs {
        let effects = core.apply(input, source.now);
        let asks = effects.iter().all(|effect| matches!(effect, Effect::WatchPods(_)));
        assert!(asks && !core.is_ready(), "pods are missing: {effects:?}");
    }
    assert!(!core.apply(all_pods(Vec::new()), source.now).is_empty() && core.is_ready());
}

/// One broken object must not look like a deleted one: nothing is created for a node or pod that is there.
#[test]
fn what_a_list_names_as_unreadable_stays_as_it_was() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.settle();
    let uid = cluster.daemonset().uid;
    let lists = [
        Input::Nodes(Listed {
            all: Vec::new(),
            unreadable: vec!["n0".into()],
        }),
        Input::DaemonSets(Listed {
            all: Vec::new(),
            unreadable: vec![(cluster.daemonset().namespace, cluster.daemonset().name)],
        }),
    ];
    for list in lists {
        assert_eq!(cluster.core.apply(list, cluster.now), []);
    }
    let gone = cluster.core.apply(Input::DaemonSets(Vec::new().into()), cluster.now);
    assert!(!gone.is_empty(), "{uid} was still known");
}

/// DS-040, DS-100, DS-142, DS-147, DS-150, DS-157, DS-183; upstream's TestSimpleDaemonSetLaunchesPods, TestNumberReadyStatus
#[test]
fn every_node_gets_a_pod_and_the_status_follows() {
    let mut cluster = Cluster::with(5, json!({}));
    cluster.settle();
    assert_eq!(count(&cluster, "create pods"), 5);
    assert_eq!(count(&cluster, "create controllerrevisions"), 1);
    let status = cluster.daemonset().status;
    assert_eq!(
        (status.counts.desired, status.counts.current, status.observed_generation),
        (5, 5, 1)
    );
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(5));
    let created: Vec<&String> = cluster
        .events
        .iter()
        .filter(|event| event.starts_with("SuccessfulCreate Created pod: ds-"))
        .collect();
    assert_eq!(created.len(), 5);
}

/// DS-145: the liveness sentence. At rest, nothing is written, whatever is said again.
#[test]
fn syncing_twice_writes_nothing() {
    let mut cluster = Cluster::with(3, json!({}));
    cluster.rest();
    let writes = cluster.writes.len();
    for object in cluster.objects.clone() {
        cluster.put(&object.0, object.1);
    }
    cluster.settle();
    cluster.restart(Profile::Bailiff);
    cluster.rest();
    assert_eq!(cluster.writes.len(), writes, "{:?}", &cluster.writes[writes..]);
}

/// DS-030, DS-031, DS-100: a new node gets its own, and costs nobody else anything.
#[test]
fn a_new_node_gets_its_own_pod() {
    let mut cluster = Cluster::with(3, json!({}));
    cluster.rest();
    cluster.writes.clear();
    cluster.add_node("new", json!({}), json!([]));
    cluster.settle();
    assert_eq!(cluster.writes[0], "create pods new");
    assert_eq!(count(&cluster, "create"), 1);
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(4));
}

/// DS-080, DS-107, DS-108, DS-225: placement follows labels and taints.
#[test]
fn placement_follows_labels_and_taints() {
    let selector = json!({"template": {"spec": {"nodeSelector": {"zone": "a"}}}});
    let mut cluster = Cluster::with(1, selector);
    cluster.rest();
    assert!(cluster.pods().is_empty());
    cluster.change("nodes/n0", json!({"metadata": {"labels": {"zone": "a"}}}));
    cluster.rest();
    assert_eq!(cluster.on("n0").len(), 1);
    cluster.change(
        "nodes/n0",
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    cluster.rest();
    assert_eq!(cluster.on("n0").len(), 1, "a running pod stays");
    let counts = cluster.daemonset().status.counts;
    assert_eq!((counts.desired, counts.misscheduled), (0, 1));
    cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    cluster.rest();
    assert!(cluster.pods().is_empty());
    assert_eq!(cluster.daemonset().status.counts, Counts::default());
}

/// DS-109, DS-226: a node that goes takes its unbound pods along; bound ones are left to the pod garbage collector.
#[test]
fn a_deleted_node_is_no_longer_desired() {
    for (profile, desired) in [(Profile::Bailiff, 1), (Profile::Upstream, 2)] {
        let mut cluster = Cluster::with(2, json!({}));
        cluster.rest();
        cluster.restart(profile);
        cluster.rest();
        let writes = cluster.writes.len();
        cluster.remove("nodes/n1");
        cluster.rest();
        assert_eq!(cluster.pods().len(), 2, "{profile:?}");
        assert_eq!(
            cluster.daemonset().status.counts.desired,
            desired,
            "{profile:?}: upstream has no handler"
        );
        assert_eq!(
            cluster.writes.len() - writes,
            usize::from(profile == Profile::Bailiff),
            "{profile:?}"
        );
        // DS-226: any other event makes up for it.
        cluster.change("daemonsets/ds", json!({"metadata": {"labels": {"poke": "1"}}}));
        cluster.rest();
        assert_eq!(cluster.daemonset().status.counts.desired, 1, "{profile:?}");
    }
}

/// DS-109; upstream's TestDeleteUnscheduledPodForNotExistingNode
#[test]
fn unbound_pods_of_missing_nodes_are_deleted() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.settle();
    let bound = cluster.on("n0").remove(0);
    cluster.bind(&bound);
    cluster.settle();
    cluster.remove("nodes/n0");
    cluster.remove("nodes/n1");
    cluster.settle();
    let left: Vec<_> = cluster.pods().into_iter().map(|pod| pod.name).collect();
    assert_eq!(left, [bound.name]);
}

/// DS-101, DS-102, DS-182: succeeded pods are replaced without backoff, after they are gone.
#[test]
fn succeeded_pods_are_replaced() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    cluster.writes.clear();
    let pod = cluster.on("n0").remove(0);
    cluster.set_phase(&pod, "Succeeded", false);
    cluster.settle();
    let wanted = format!(
        "SucceededDaemonPod Found succeeded daemon pod ns/{} on node n0, will try to delete it",
        pod.name
    );
    assert!(cluster.events.contains(&wanted), "{:?}", cluster.events);
    assert_eq!(
        cluster.writes[..2],
        [format!("delete pods/{}", pod.name), "create pods n0".to_owned()]
    );
}

/// DS-105, DS-106, DS-181; upstream's TestDaemonKillFailedPodsBackoff; the pace of `ds-failed-backoff`
#[test]
fn failed_pods_are_replaced_with_growing_delay() {
    let mut cluster = Cluster::with(1, json!({}));
    let mut deleted_at = Vec::new();
    let start = cluster.now.mono;
    for _ in 0..2500 {
        cluster.settle();
        for pod in cluster.pods() {
            if !pod.bound {
                cluster.bind(&pod);
            } else if !pod.is_terminal() {
                cluster.set_phase(&pod, "Failed", false);
            }
        }
        let before = count(&cluster, "delete");
        cluster.settle();
        cluster.now.mono = cluster.now.mono + std::time::Duration::from_millis(10);
        cluster.feed(Input::Tick);
        if count(&cluster, "delete") > before {
            deleted_at.push(cluster.now.mono.saturating_since(start).as_millis() / 100);
        }
    }
    // Each failure waits its full delay from when it was seen: 1, 2, 4, 8 s.
    assert_eq!(deleted_at, [0, 10, 30, 70, 150]);
    let failed = cluster
        .events
        .iter()
        .filter(|event| event.starts_with("FailedDaemonPod Found failed daemon pod ns/ds-"));
    assert_eq!(failed.count(), 5);
}

/// DS-071: a terminal pod held by a finalizer does not block its replacement, a running one does.
#[test]
fn finalizers_block_only_running_pods() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    let pod = cluster.on("n0").remove(0);
    let path = crate::model::path_of(&pod);
    cluster.change(
        &path,
        json!({"metadata": {"finalizers": ["a/b"], "deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    );
    cluster.settle();
    assert_eq!(cluster.on("n0").len(), 1);
    cluster.set_phase(&pod, "Failed", false);
    cluster.settle();
    assert_eq!(cluster.on("n0").len(), 2);
}

/// DS-110, DS-111: batches double, and never more than 250 are under way.
#[test]
fn creates_start_slowly() {
    let mut cluster = Cluster::with(600, json!({}));
    let mut batches = Vec::new();
    for stream in [0, 2] {
        while cluster.pending().contains(&stream) {
            cluster.deliver(stream);
        }
    }
    for _ in 0..2000 {
        let before = count(&cluster, "create pods");
        // Answers only: the watch lags behind.
        if !cluster.pending().contains(&4) {
            break;
        }
        cluster.deliver(4);
        let sent = count(&cluster, "create pods") - before;
        if sent > 0 {
            batches.push(sent);
        }
    }
    assert_eq!(batches, [1, 2, 4, 8, 16, 32, 64, 123], "1 + 2 + … + 123 = 250");
    cluster.rest();
    assert_eq!(cluster.pods().len(), 600);
}

/// DS-111, DS-112, DS-114, DS-147, DS-184; upstream's TestSimpleDaemonSetPodCreateErrors
#[test]
fn failed_creates_stop_the_batch_and_the_status_is_written_anyway() {
    let mut cluster = Cluster::with(20, json!({}));
    cluster.failures.push(("create pods", FailureKind::Other));
    cluster.settle();
    assert_eq!(count(&cluster, "create pods"), 1);
    assert!(cluster.events.contains(&"FailedCreate Error creating: refused".to_owned()));
    let status = cluster.daemonset().status;
    assert_eq!(
        (status.counts.desired, status.counts.unavailable, status.observed_generation),
        (20, 20, 1)
    );
    cluster.pass(10);
    let attempts = count(&cluster, "create pods");
    assert!((8..=14).contains(&attempts), "{attempts} attempts, one per pause");
    cluster.failures.clear();
    cluster.edit(json!({"template": {"metadata": {"labels": {"repaired": "yes"}}}}));
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(20));
}

/// DS-112, DS-193, DS-230
#[test]
fn a_terminating_namespace_is_left_alone() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.failures.push(("create pods", FailureKind::NamespaceTerminating));
    cluster.pass(290);
    assert_eq!(count(&cluster, "create pods"), 2);
    assert_eq!(cluster.events, [] as [String; 0]);
    cluster.pass(20);
    assert_eq!(count(&cluster, "create pods"), 4, "after five minutes");
}

/// DS-050: a created pod that the watch does not show is waited for, but not for ever.
#[test]
fn an_unseen_pod_is_not_created_twice() {
    let mut cluster = Cluster::with(1, json!({}));
    for stream in [0, 2] {
        while cluster.pending().contains(&stream) {
            cluster.deliver(stream);
        }
    }
    while cluster.pending().contains(&4) {
        cluster.deliver(4);
    }
    cluster.add_node("other", json!({}), json!([]));
    cluster.deliver(0);
    cluster.deliver(4);
    assert_eq!(count(&cluster, "create pods"), 2);
    for seconds in [299, 2] {
        cluster.now.mono = cluster.now.mono + std::time::Duration::from_secs(seconds);
        cluster.feed(Input::Tick);
    }
    assert!(count(&cluster, "create pods") > 2, "five minutes are over");
}

/// DS-113, DS-185, DS-186: failed deletes are said and tried again; what is gone already is no failure.
#[test]
fn failed_deletes_are_tried_again() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.rest();
    cluster.failures.push(("delete pods", FailureKind::Other));
    cluster.change("nodes/n0", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    cluster.pass(1);
    assert!(cluster.events.contains(&"FailedDelete Error deleting: refused".to_owned()));
    cluster.failures = vec![("delete pods", FailureKind::NotFound)];
    let before = cluster.events.len();
    cluster.pass(20);
    assert_eq!(cluster.events.len(), before, "404 is no failure, and the pod is waited for");
    cluster.failures.clear();
    cluster.pass(300);
    cluster.rest();
    assert!(cluster.pods().is_empty());
    assert!(
        cluster
            .events
            .iter()
            .any(|event| event.starts_with("SuccessfulDelete Deleted pod: ds-"))
    );
}

/// DS-040, DS-190; upstream's TestDontDoAnythingIfBeingDeleted
#[test]
fn a_daemonset_being_deleted_is_left_alone() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    cluster.change(
        "daemonsets/ds",
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
    );
    cluster.settle();
    let writes = cluster.writes.len();
    let pod = cluster.on("n0").remove(0);
    cluster.remove(&crate::model::path_of(&pod));
    cluster.add_node("new", json!({}), json!([]));
    cluster.rest();
    assert_eq!(cluster.writes.len(), writes);
    cluster.remove("daemonsets/ds");
    cluster.settle();
    assert_eq!(cluster.published, None);
}

/// DS-040, DS-180; upstream's TestPodIsNotDeletedByDaemonsetWithEmptyLabelSelector
#[test]
fn an_empty_selector_is_said_and_nothing_else() {
    let mut cluster = Cluster::with(1, json!({"selector": {"matchLabels": {"app": null}}}));
    cluster.rest();
    assert_eq!(cluster.writes, [] as [String; 0]);
    assert_eq!(
        cluster.events,
        ["SelectingAll This daemon set is selecting all pods. A non-empty selector is required."]
    );
}

/// DS-020, DS-021, DS-051; upstream's TestExpectationsOnRecreate
#[test]
fn a_recreated_daemonset_starts_anew() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.failures.push(("create pods", FailureKind::NamespaceTerminating));
    cluster.settle();
    cluster.failures.clear();
    cluster.remove("daemonsets/ds");
    cluster.add_daemonset("ds", json!({}));
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(1));
}

/// DS-027, DS-118, DS-148: availability comes by itself.
#[test]
fn pods_become_available_after_min_ready_seconds() {
    let mut cluster = Cluster::with(2, json!({"minReadySeconds": 30}));
    cluster.settle();
    for _ in 0..2 {
        cluster.kubelets();
        cluster.settle();
    }
    cluster.pass(2);
    let counts = cluster.daemonset().status.counts;
    assert_eq!((counts.ready, counts.available), (2, 0));
    let reasons = cluster.published.as_ref().map(|sync| sync.reasons.clone());
    assert_eq!(reasons, Some(vec![(WhyNot::MinReady, 2)]));
    cluster.pass(30);
    assert_eq!(cluster.daemonset().status.counts, mk_counts(2));
    assert_eq!(cluster.published.as_ref().map(|sync| sync.reasons.len()), Some(0));
}

/// DS-144, DS-146, DS-238: conditions survive, and a failed write is computed anew.
#[test]
fn a_failed_status_write_is_repeated() {
    let mut cluster = Cluster::with(1, json!({}));
    cluster.change(
        "daemonsets/ds",
        json!({"status": {"conditions": [{"type": "Foreign", "status": "True"}], "collisionCount": 2}}),
    );
    cluster.failures.push(("status", FailureKind::Conflict));
    cluster.pass(1);
    assert_eq!(cluster.daemonset().status.counts, Counts::default());
    cluster.failures.clear();
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(1));
    let status = &cluster.objects["daemonsets/ds"]["status"];
    assert_eq!(
        (status["conditions"][0]["type"].as_str(), status["collisionCount"].as_i64()),
        (Some("Foreign"), Some(2))
    );
}

/// DS-055, DS-056 in effect: while a watch is stale nothing is written, and it is said.
#[test]
fn nothing_is_written_while_held() {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.rest();
    let stale = |watch| Input::WatchStale {
        watch,
        reason: "no answer".to_owned(),
    };
    let hold = bailiff_model::Hold {
        reason: bailiff_model::HoldReason::ApiStale,
        detail: "the watch of pods in ns is stale: no answer".to_owned(),
        since: cluster.now.wall,
        until: None,
    };
    cluster.feed(stale(Watched::Pods(scope())));
    let writes = cluster.writes.len();
    cluster.set_image("v2");
    cluster.pass(5);
    assert_eq!(cluster.writes.len(), writes);
    let held = |cluster: &Cluster| cluster.published.as_ref().and_then(|sync| sync.held.clone());
    assert_eq!(held(&cluster), Some(hold.clone()));
    cluster.feed(stale(Watched::DaemonSets));
    cluster.feed(stale(Watched::Pods(scope())));
    assert_eq!(
        held(&cluster),
        Some(hold),
        "the one that is stale longest, since it first was"
    );
    cluster.feed(Input::WatchFresh(Watched::Pods(scope())));
    let other = held(&cluster).map(|hold| hold.detail);
    assert_eq!(other.as_deref(), Some("the watch of daemonsets is stale: no answer"));
    cluster.pass(5);
    assert_eq!(cluster.writes.len(), writes, "one is enough");
    cluster.feed(Input::WatchFresh(Watched::DaemonSets));
    cluster.rest();
    assert_eq!(cluster.daemonset().status.counts, mk_counts(2));
}
