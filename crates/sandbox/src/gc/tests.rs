//! The garbage collector, without an API server.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Now, Wall};

use super::lost_pods::QUARANTINE;
use super::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Item, LostPods, Namespaces, Owners, Resource};
use crate::Verb;
use crate::effect::Effect;
use crate::facts::PodKey;
use crate::facts::view::OwnerReference;

fn mk_resource(storage: &str, kind: &str) -> Arc<Resource> {
    let (plural, group) = storage.split_once('.').unwrap_or((storage, ""));
    Arc::new(Resource {
        storage: storage.into(),
        kind: kind.into(),
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        is_namespaced: storage != "nodes" && storage != "namespaces",
    })
}

fn mk_item(resource: &Arc<Resource>, uid: &str, revision: u64, owners: &[(&str, bool)]) -> Item {
    let owners = owners.iter().map(|(uid, blocks)| OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: (*uid).to_owned(),
        uid: (*uid).to_owned(),
        controller: false,
        block_owner_deletion: *blocks,
    });
    Item {
        resource: Arc::clone(resource),
        uid: uid.into(),
        namespace: "ns".into(),
        name: uid.into(),
        revision,
        owners: owners.collect(),
        finalizers: Vec::new(),
        is_terminating: false,
    }
}

fn mk_going(item: Item, finalizer: &str) -> Item {
    Item {
        is_terminating: true,
        finalizers: vec![finalizer.to_owned()],
        ..item
    }
}

fn at(seconds: u64) -> Now {
    let since = Duration::from_secs(seconds);
    Now {
        mono: Mono::from_origin(since),
        wall: Wall::UNIX_EPOCH + since,
    }
}

fn brief(effects: &[Effect]) -> Vec<String> {
    let texts = effects.iter().map(|effect| {
        let Effect::Send(request) = effect else {
            return format!("{effect:?}");
        };
        let name = request.path.rsplit('/').next().unwrap();
        let body = &request.body;
        match request.verb {
            Verb::Delete => format!("delete {name} {}", body["propagationPolicy"].as_str().unwrap_or("-")),
            Verb::MergePatch if body["metadata"].get("finalizers").is_some() => {
                format!("finalizers of {name}: {}", body["metadata"]["finalizers"])
            }
            Verb::MergePatch => {
                let owners = body["metadata"]["ownerReferences"].as_array().unwrap();
                let names: Vec<&str> = owners.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
                format!("owners of {name}: {}", names.join(","))
            }
            verb => format!("{verb:?} {}", request.path),
        }
    });
    texts.collect()
}

struct Bench {
    sets: Arc<Resource>,
    pods: Arc<Resource>,
    owners: Owners,
}

impl Bench {
    fn new() -> Self {
        let (sets, pods) = (mk_resource("replicasets.apps", "ReplicaSet"), mk_resource("pods", "Pod"));
        let mut owners = Owners::new(&[Arc::clone(&sets), Arc::clone(&pods)]);
        owners.synced();
        Self { sets, pods, owners }
    }

    fn set(&mut self, uid: &str) {
        assert_eq!(
            brief(&self.owners.seen(mk_item(&self.sets, uid, 1, &[]))),
            Vec::<String>::new()
        );
    }

    fn pod(&mut self, uid: &str, owners: &[(&str, bool)]) -> Vec<String> {
        brief(&self.owners.seen(mk_item(&self.pods, uid, 1, owners)))
    }
}

#[test]
fn dependents_go_when_their_last_owner_is_gone() {
    let mut bench = Bench::new();
    bench.set("a");
    bench.set("b");
    assert_eq!(bench.pod("one", &[("a", true)]), Vec::<String>::new());
    assert_eq!(bench.pod("two", &[("a", false), ("b", false)]), Vec::<String>::new());
    assert_eq!(brief(&bench.owners.gone("a")), ["delete one Background", "owners of two: b"]);
    // Once is enough.
    assert_eq!(bench.pod("one", &[("a", true)]), Vec::<String>::new());
}

#[test]
fn what_names_an_owner_that_never_was_goes_unless_its_kind_is_unknown() {
    let mut bench = Bench::new();
    assert_eq!(bench.pod("one", &[("nobody", false)]), ["delete one Background"]);
    let mut foreign = mk_item(&bench.pods, "two", 1, &[("nobody", false)]);
    foreign.owners[0].kind = "Widget".to_owned();
    assert_eq!(brief(&bench.owners.seen(foreign)), Vec::<String>::new());
}

#[test]
fn nothing_is_judged_before_everything_is_known() {
    let (sets, pods) = (mk_resource("replicasets.apps", "ReplicaSet"), mk_resource("pods", "Pod"));
    let mut owners = Owners::new(&[Arc::clone(&sets), Arc::clone(&pods)]);
    assert!(owners.seen(mk_item(&pods, "kept", 1, &[("a", false)])).is_empty());
    assert!(owners.seen(mk_item(&pods, "lost", 1, &[("b", false)])).is_empty());
    assert!(owners.seen(mk_item(&sets, "a", 2, &[])).is_empty());
    assert_eq!(brief(&owners.synced()), ["delete lost Background"]);
}

#[test]
fn foreground_deletion_waits_for_the_dependents_that_block_it() {
    let mut bench = Bench::new();
    bench.set("a");
    bench.pod("one", &[("a", true)]);
    bench.pod("two", &[("a", false)]);
    let going = mk_going(mk_item(&bench.sets, "a", 5, &[]), FINALIZER_FOREGROUND);
    assert_eq!(
        brief(&bench.owners.seen(going)),
        ["delete one Background", "delete two Background"]
    );
    assert_eq!(brief(&bench.owners.gone("one")), ["finalizers of a: []"]);
    assert_eq!(brief(&bench.owners.gone("two")), Vec::<String>::new());
}

#[test]
fn foreground_deletion_reaches_dependents_of_dependents() {
    let mut bench = Bench::new();
    bench.set("a");
    let middle = mk_item(&bench.sets, "b", 1, &[("a", true)]);
    bench.owners.seen(middle.clone());
    bench.pod("one", &[("b", true)]);
    let going = mk_going(mk_item(&bench.sets, "a", 5, &[]), FINALIZER_FOREGROUND);
    assert_eq!(brief(&bench.owners.seen(going)), ["delete b Foreground"]);
    let middle = mk_going(Item { revision: 6, ..middle }, FINALIZER_FOREGROUND);
    assert_eq!(brief(&bench.owners.seen(middle)), ["delete one Background"]);
    assert_eq!(brief(&bench.owners.gone("one")), ["finalizers of b: []"]);
    assert_eq!(brief(&bench.owners.gone("b")), ["finalizers of a: []"]);
}

#[test]
fn orphans_are_let_go_before_their_owner_goes() {
    let mut bench = Bench::new();
    bench.set("a");
    bench.pod("one", &[("a", true)]);
    let going = mk_going(mk_item(&bench.sets, "a", 5, &[]), FINALIZER_ORPHAN);
    assert_eq!(brief(&bench.owners.seen(going)), ["owners of one: "]);
    let free = Item {
        revision: 6,
        ..mk_item(&bench.pods, "one", 6, &[])
    };
    assert_eq!(brief(&bench.owners.seen(free)), ["finalizers of a: []"]);
    assert_eq!(brief(&bench.owners.gone("a")), Vec::<String>::new());
}

#[test]
fn a_refusal_is_tried_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.pod("one", &[("nobody", false)]), ["delete one Background"]);
    bench.owners.answered("one", true, at(1));
    assert_eq!(bench.owners.next_deadline(), None);
    bench.owners.answered("one", false, at(1));
    assert!(bench.owners.wake(at(5)).is_empty());
    assert_eq!(brief(&bench.owners.wake(at(6))), ["delete one Background"]);
}

#[test]
fn a_terminating_namespace_is_emptied_then_finalised() {
    let (namespaces, pods) = (mk_resource("namespaces", "Namespace"), mk_resource("pods", "Pod"));
    let mut core = Namespaces::default();
    core.synced();
    let ns = Item {
        namespace: "".into(),
        ..mk_item(&namespaces, "ns", 1, &[])
    };
    assert!(core.seen(&ns).is_empty());
    assert!(core.seen(&mk_item(&pods, "one", 2, &[])).is_empty());
    let going = Item {
        is_terminating: true,
        revision: 3,
        ..ns
    };
    assert_eq!(brief(&core.seen(&going)), ["delete pods -"]);
    // What slips in is deleted too.
    assert_eq!(brief(&core.seen(&mk_item(&pods, "two", 4, &[]))), ["delete pods -"]);
    assert!(core.gone(&pods, "ns", "one", "one").is_empty());
    let finalize = "Update /api/v1/namespaces/ns/finalize";
    assert_eq!(brief(&core.gone(&pods, "ns", "two", "two")), [finalize]);
    core.answered("ns", false, at(1));
    assert_eq!(brief(&core.wake(at(6))), [finalize]);
    core.gone(&namespaces, "", "ns", "ns");
    core.answered("ns", false, at(7));
    assert_eq!(core.next_deadline(), None);
}

#[test]
fn pods_of_a_deleted_node_go_after_its_quarantine() {
    let mk_pod = |name: &str| {
        let mut facts = crate::facts::tests::mk_pod(name);
        facts.node = Some(NodeName::from("n1"));
        facts
    };
    let mut core = LostPods::default();
    core.pod_seen(&mk_pod("a"), at(0));
    core.node_seen(&NodeName::from("n1"));
    core.synced(at(0));
    core.node_gone(&NodeName::from("n1"), at(10));
    // A node that comes back in time keeps its pods.
    core.node_seen(&NodeName::from("n1"));
    assert_eq!(core.next_deadline(), None);
    core.node_gone(&NodeName::from("n1"), at(20));
    core.pod_seen(&mk_pod("b"), at(21));
    core.pod_gone(&PodKey::new("default", "a"));
    assert_eq!(core.next_deadline(), Some(at(20).mono + QUARANTINE));
    let effects = core.wake(at(60));
    let texts: Vec<String> = effects
        .iter()
        .map(|effect| match effect {
            Effect::Send(request) => format!("{:?} {}", request.verb, request.path),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "StrategicMergePatch /api/v1/namespaces/default/pods/b/status",
            "Delete /api/v1/namespaces/default/pods/b",
        ]
    );
}
