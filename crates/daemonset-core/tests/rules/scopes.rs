//! Whose pods are watched.

use std::collections::BTreeSet;

use bailiff_daemonset_core::{Input, Options, Pod, Profile, Scope, Shard, Syncer, Watched};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{Cluster, Lists, NODES, PODS, all_pods, path_of, scope};
use crate::properties::Dice;

fn mk_scope(namespace: &str) -> Scope {
    Scope::Namespace(namespace.into())
}

/// A cluster at rest with two nodes, and a DaemonSet in each of two namespaces.
fn mk_two() -> Cluster {
    let mut cluster = Cluster::with(2, json!({}));
    cluster.add_daemonset_in("other", "agent", json!({}));
    cluster.rest();
    cluster.writes.clear();
    cluster
}

/// Writes that concern pods.
fn written(cluster: &Cluster) -> Vec<&str> {
    let writes = cluster.writes.iter().map(String::as_str);
    writes.filter(|write| write.contains(" pods")).collect()
}

fn pod_of(cluster: &Cluster, name: &str, node: &str) -> Pod {
    let mut pods = cluster.on(node).into_iter();
    let is_its = |pod: &Pod| pod.name.as_str().starts_with(name);
    pods.find(is_its).expect("it has one there")
}

/// DS-022, DS-024: no pod of another namespace is ever a DaemonSet's, so nobody asks for it.
#[test]
fn pods_are_asked_for_where_daemonsets_are() {
    let mut cluster = Cluster::new(Profile::Bailiff);
    cluster.add_node("n0", json!({}), json!([]));
    cluster.rest();
    assert_eq!(cluster.watched, BTreeSet::new());
    cluster.add_daemonset("ds", json!({}));
    cluster.add_daemonset_in("other", "agent", json!({}));
    cluster.add_daemonset_in("other", "agent2", json!({}));
    cluster.rest();
    assert_eq!(cluster.watched, BTreeSet::from([scope(), mk_scope("other")]));
    assert_eq!(cluster.on("n0").len(), 3);
    for (gone, is_watched) in [("daemonsets/agent2", true), ("daemonsets/agent", false)] {
        cluster.remove(gone);
        cluster.rest();
        assert_eq!(cluster.watched.contains(&mk_scope("other")), is_watched, "{gone}");
    }
}

/// DS-064: what a DaemonSet left behind, and nobody watched for a while, is known to the one that comes after it.
#[test]
fn pods_that_nobody_watched_are_adopted() {
    let mut cluster = mk_two();
    cluster.remove("daemonsets/agent");
    cluster.rest();
    for node in ["n0", "n1"] {
        let left = pod_of(&cluster, "agent", node);
        cluster.change(&path_of(&left), json!({"metadata": {"ownerReferences": Value::Null}}));
    }
    cluster.rest();
    cluster.add_daemonset_in("other", "agent", json!({}));
    cluster.rest();
    let written = written(&cluster);
    assert_eq!(written.len(), 2, "{written:?}");
    assert!(
        written.iter().all(|write| write.starts_with("adopt pods/agent")),
        "{written:?}"
    );
}

/// DS-005, DS-201: a DaemonSet waits for the list of its own namespace, and nobody else does.
#[test]
fn no_daemonset_waits_for_the_pods_of_others() {
    let mut cluster = Cluster::at_rest(2, json!({}));
    cluster.lists = Lists::ByHand;
    cluster.add_daemonset_in("other", "agent", json!({}));
    cluster.settle();
    assert!(!cluster.core.is_ready() && cluster.watched.contains(&mk_scope("other")));
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(written(&cluster).len(), 4, "two were replaced: {:?}", cluster.writes);
    assert!(
        !cluster.writes.iter().any(|write| write.contains("agent")),
        "{:?}",
        cluster.writes
    );
    cluster.feed(Input::Pods {
        of: mk_scope("other"),
        pods: Vec::new().into(),
    });
    cluster.rest();
    assert!(cluster.core.is_ready());
    assert_eq!(written(&cluster).len(), 6);
}

/// DS-056: a watch that is stale holds the DaemonSets of its namespace.
#[test]
fn a_stale_watch_holds_nobody_elsewhere() {
    let mut cluster = mk_two();
    let watch = Watched::Pods(mk_scope("other"));
    cluster.feed(mk_stale(watch.clone()));
    for name in ["ds", "agent"] {
        cluster.remove(&path_of(&pod_of(&cluster, name, "n0")));
    }
    cluster.pass(60);
    assert_eq!(written(&cluster), ["create pods n0"]);
    assert!(cluster.on("n0")[0].name.as_str().starts_with("ds-"));
    cluster.feed(Input::WatchFresh(watch));
    cluster.rest();
    assert_eq!(cluster.on("n0").len(), 2);
}

fn mk_stale(watch: Watched) -> Input {
    Input::WatchStale {
        watch,
        reason: "no answer".to_owned(),
    }
}

/// What a watch said that ended since, or that nobody asked for, holds nobody.
#[test]
fn a_watch_that_ended_holds_nobody() {
    let mut cluster = mk_two();
    for scope in [mk_scope("other"), mk_scope("third"), Scope::All] {
        cluster.feed(mk_stale(Watched::Pods(scope)));
    }
    cluster.remove("daemonsets/agent");
    cluster.rest();
    for namespace in ["other", "third"] {
        cluster.add_daemonset_in(namespace, &format!("again-{namespace}"), json!({}));
    }
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.on("n0").len(), 4, "one of agent's is left: {:?}", cluster.writes);
}

/// As many as are watched each by itself.
const FEW: usize = 16;

fn mk_namespace(nth: usize) -> String {
    format!("ns-{nth:02}")
}

/// A cluster at rest with one node, and a DaemonSet in each of so many namespaces.
fn mk_few() -> Cluster {
    let mut cluster = Cluster::with(1, json!({}));
    for nth in 1..FEW {
        cluster.add_daemonset_in(&mk_namespace(nth), &format!("agent-{nth}"), json!({}));
    }
    cluster.rest();
    assert_eq!((cluster.watched.len(), cluster.on("n0").len()), (FEW, FEW));
    cluster.writes.clear();
    cluster
}

/// With DaemonSets in more namespaces one watch of all pods serves the others. Nobody else waits for its list, or is held when it is stale.
#[test]
fn all_pods_are_watched_for_the_rest_of_many_namespaces() {
    let mut cluster = mk_few();
    cluster.lists = Lists::ByHand;
    cluster.add_daemonset_in("last", "last", json!({}));
    cluster.feed(mk_stale(Watched::Pods(Scope::All)));
    cluster.set_image("v2");
    cluster.rest();
    assert!(cluster.watched.len() == FEW + 1 && cluster.watched.contains(&Scope::All));
    assert_eq!(cluster.on("n0").len(), FEW, "the last one waits");
    let replaced = written(&cluster);
    assert!(
        replaced.len() == 2 && replaced[0].starts_with("delete pods/ds-"),
        "{replaced:?}"
    );
    cluster.feed(Input::WatchFresh(Watched::Pods(Scope::All)));
    // An old list: it neither takes a pod away that another watch has told of nor brings one back.
    let past = Pod {
        uid: "past".into(),
        ..pod_of(&cluster, "ds", "n0")
    };
    for pods in [vec![past], cluster.pods()] {
        cluster.feed(Input::Pods {
            of: Scope::All,
            pods: pods.into(),
        });
    }
    cluster.rest();
    assert_eq!((cluster.on("n0").len(), written(&cluster).len()), (FEW + 1, 3));
    // Once it serves a namespace a stale time of it holds that one, and is told.
    cluster.feed(mk_stale(Watched::Pods(Scope::All)));
    let held = cluster.published.as_ref().and_then(|sync| sync.held.as_ref());
    let last = cluster.published.as_ref().map(|sync| sync.name.as_str());
    assert_eq!(last, Some("last"));
    assert!(
        held.is_some_and(|hold| hold.detail.contains("the watch of pods is stale")),
        "{held:?}"
    );
}

/// Of a pod that the watch of all told first a list of its namespace's own watch may be too old to know: it is not gone.
#[test]
fn a_pod_that_another_watch_told_first_is_not_gone() {
    let mut cluster = mk_few();
    cluster.add_daemonset_in("last", "last", json!({}));
    cluster.rest();
    cluster.writes.clear();
    let old = cluster.pods().into_iter().filter(|pod| pod.namespace.as_str() == "ns");
    let old: Vec<Pod> = old.collect();
    cluster.add_node("n1", json!({}), json!([]));
    cluster.deliver(NODES);
    let is_own = |input: &Input| matches!(input, Input::PodApplied { of, .. } if *of == scope());
    let (own, others): (Vec<Input>, Vec<Input>) = cluster.hold_back(PODS).into_iter().partition(is_own);
    for input in others.into_iter().chain([all_pods(old)]).chain(own) {
        cluster.feed(input);
    }
    cluster.rest_longer();
    let created = cluster.writes.iter().filter(|write| *write == "create pods n1");
    assert_eq!(
        (created.count(), cluster.on("n1").len()),
        (FEW + 1, FEW + 1),
        "{:?}",
        cluster.writes
    );
}

/// A DaemonSet that goes before the pods of its namespace are listed keeps nobody waiting.
#[test]
fn who_goes_before_its_list_is_not_waited_for() {
    let mut cluster = Cluster::at_rest(1, json!({}));
    cluster.lists = Lists::ByHand;
    cluster.add_daemonset_in("other", "agent", json!({}));
    cluster.settle();
    assert!(!cluster.core.is_ready());
    cluster.remove("daemonsets/agent");
    cluster.settle();
    assert!(cluster.core.is_ready());
}

/// Nobody can say any more whether a hold covers them. Those of others wait on.
#[test]
fn deletes_of_pods_that_are_not_watched_any_more_are_called_off() {
    let strategy = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}});
    let mut cluster = Cluster::with(3, strategy.clone());
    cluster.add_daemonset_in("other", "agent", strategy);
    cluster.rest();
    cluster.is_slow = true;
    cluster.set_image("v2");
    let image = json!({"template": {"spec": {"containers": [{"name": "c", "image": "v2"}]}}});
    cluster.edit_one("daemonsets/agent", image);
    cluster.settle();
    assert_eq!(cluster.waiting(), 6);
    cluster.remove("daemonsets/ds");
    cluster.settle();
    assert_eq!((cluster.called_off, cluster.waiting(), cluster.on("n0").len()), (3, 3, 2));
}

/// The DaemonSets of another shard are not ours, nor are the pods where they are.
#[test]
fn pods_of_another_shards_daemonsets_are_not_asked_for() {
    let mut watched = [0, 1].map(|index| {
        let mut cluster = mk_few();
        cluster.restart_with(Options {
            shard: Shard { index, count: 2 },
            ..Options::default()
        });
        std::mem::take(&mut cluster.watched)
    });
    let both: BTreeSet<Scope> = watched.iter().flatten().cloned().collect();
    assert_eq!(both.len(), FEW);
    assert_eq!(
        watched.iter_mut().map(|scopes| scopes.len()).sum::<usize>(),
        FEW,
        "none is watched twice"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever comes and goes in few or many namespaces, processes among it, and whatever lags: no DaemonSet ever has two pods on a node,
    /// and each ends with one.
    #[test]
    fn daemonsets_come_and_go_in_many_namespaces(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut cluster = Cluster::with(2, json!({}));
        cluster.lists = Lists::InTurn;
        let (namespaces, come) = [(3, 2), (40, 5)][dice.roll(2) as usize];
        for turn in 0..150 {
            match dice.roll(12) {
                roll if roll < come => {
                    let nth = dice.roll(namespaces) as usize;
                    cluster.add_daemonset_in(&mk_namespace(nth), &format!("agent-{turn}"), json!({}));
                }
                5 => {
                    let sets = names(&cluster, "daemonsets/");
                    if let Some(gone) = dice.pick(&sets) {
                        collect(&mut cluster, &gone);
                    }
                }
                6 => cluster.kubelets(),
                7 if dice.roll(4) == 0 => {
                    cluster.core = Syncer::default();
                    cluster.wake = None;
                    cluster.watched.clear();
                    cluster.relist_as(Vec::new());
                }
                _ => {
                    let pending = cluster.pending();
                    if let Some(stream) = dice.pick(&pending) {
                        cluster.deliver(stream);
                    }
                }
            }
            assert_no_two(&cluster);
        }
        cluster.rest_longer();
        assert_no_two(&cluster);
        collect_left(&mut cluster);
        let sets = names(&cluster, "daemonsets/").len();
        prop_assert_eq!(cluster.pods().len(), 2 * sets);
        prop_assert!(cluster.core.is_ready());
        let namespaces: BTreeSet<String> = cluster.objects.iter()
            .filter(|(path, _)| path.starts_with("daemonsets/"))
            .map(|(_, set)| set["metadata"]["namespace"].to_string())
            .collect();
        let is_all = cluster.watched.contains(&Scope::All);
        prop_assert!(is_all || cluster.watched.len() == namespaces.len());
    }
}

fn names(cluster: &Cluster, prefix: &str) -> Vec<String> {
    cluster
        .objects
        .keys()
        .filter(|path| path.starts_with(prefix))
        .cloned()
        .collect()
}

/// A DaemonSet goes with all that is its.
fn collect(cluster: &mut Cluster, gone: &str) {
    let uid = cluster.objects[gone]["metadata"]["uid"].clone();
    let is_its = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"] == uid;
    let its: Vec<String> = cluster
        .objects
        .iter()
        .filter(|(_, object)| is_its(object))
        .map(|(path, _)| path.clone())
        .collect();
    cluster.remove(gone);
    for path in its {
        cluster.remove(&path);
    }
}

/// So do pods that were created for one that was gone.
fn collect_left(cluster: &mut Cluster) {
    let sets = names(cluster, "daemonsets/");
    let uids: Vec<Value> = sets
        .iter()
        .map(|set| cluster.objects[set]["metadata"]["uid"].clone())
        .collect();
    for pod in names(cluster, "pods/") {
        if !uids.contains(&cluster.objects[&pod]["metadata"]["ownerReferences"][0]["uid"]) {
            cluster.remove(&pod);
        }
    }
}

fn assert_no_two(cluster: &Cluster) {
    let mut seen = BTreeSet::new();
    for pod in cluster.pods().into_iter().filter(|pod| !pod.deleting && !pod.is_terminal()) {
        let owner = cluster.objects[&path_of(&pod)]["metadata"]["ownerReferences"][0]["uid"].to_string();
        assert!(seen.insert((owner, pod.target.clone())), "two: {pod:?} {:#?}", cluster.writes);
    }
}
