//! Lanes: with 200 DaemonSets on 5,000 nodes a new node gets its daemon pods before rollouts in progress, and a DaemonSet
//! that is busy or broken delays no other. Facts only: nothing is decoded but one DaemonSet per kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::facts::{Controller, Controlling, Labels, Phase};
use bailiff_daemonset_core::{
    Answer, DaemonSet, Effect, Failure, FailureKind, Input, Lanes, Node, Options, Pod, Request, RequestId, Revision, Syncer,
};
use bailiff_model::{Mono, Namespace, NodeName, Now, PodName, PodUid, ResourceVersion, Wall};
use serde_json::json;

use crate::model::{all_pods, mk_node, shown};

const SETS: usize = 200;
const NODES: usize = 5_000;
/// Of each kind of priority class.
const CRITICAL: usize = 10;

/// A request on its way: what it is for, and what answers it.
struct Sent {
    id: RequestId,
    owner: Arc<Owner>,
    request: Request,
}

impl Sent {
    /// The node that a pod is created for.
    fn creates_on(&self) -> Option<&str> {
        match &self.request {
            Request::CreatePod { node, .. } => Some(node.as_str()),
            _ => None,
        }
    }

    fn is_delete(&self) -> bool {
        matches!(self.request, Request::DeletePod { .. })
    }
}

struct Fleet {
    core: Syncer,
    lanes: Lanes<Sent>,
    now: Now,
    /// How many pods were created.
    pods: u64,
}

fn wall(seconds: i64) -> Wall {
    Wall::from_second(seconds).expect("in range")
}

/// DaemonSets are named after what they are: `node-critical-…`, `cluster-critical-…`, `plain-…`.
fn name_of(index: usize) -> String {
    // The critical ones are not the first by name.
    match SETS - 1 - index {
        from_end if from_end < CRITICAL => format!("u-node-critical-{index}"),
        from_end if from_end < 2 * CRITICAL => format!("v-cluster-critical-{index}"),
        _ => format!("a-plain-{index}"),
    }
}

fn mk_daemonset(name: &str, image: &str) -> DaemonSet {
    let class = match name {
        _ if name.starts_with("u-node") => json!("system-node-critical"),
        _ if name.starts_with("v-cluster") => json!("system-cluster-critical"),
        _ => json!("other"),
    };
    let generation = if image == "v1" { 1 } else { 2 };
    let object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": generation,
            "resourceVersion": generation.to_string()},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}], "priorityClassName": class},
            },
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
        },
        "status": {"desiredNumberScheduled": NODES, "currentNumberScheduled": NODES, "numberReady": NODES,
            "numberAvailable": NODES, "updatedNumberScheduled": NODES, "numberMisscheduled": 0, "observedGeneration": 1},
    });
    serde_json::from_str(&object.to_string()).expect("a valid object")
}

fn mk_labels(name: &str, hash: &str) -> Arc<Labels> {
    Arc::new(Labels::from([
        (Arc::from("app"), Arc::from(name)),
        (Arc::from("controller-revision-hash"), Arc::from(hash)),
    ]))
}

fn mk_revision(ds: &DaemonSet) -> Revision {
    Revision {
        namespace: ds.namespace.clone(),
        name: Arc::from(format!("{}-v1", ds.name)),
        uid: Arc::from(format!("revision-{}", ds.name)),
        version: ResourceVersion::from("1"),
        labels: mk_labels(&ds.name, "v1"),
        controller: controller(&ds.name, &ds.uid),
        deleting: false,
        created: wall(1_000),
        number: 1,
        data: ds.template.data().clone(),
    }
}

fn controller(name: &Arc<str>, uid: &Arc<str>) -> Controller {
    Controller::DaemonSet(Arc::new(Controlling {
        name: name.clone(),
        uid: uid.clone(),
    }))
}

fn mk_pod(owner: (&Arc<str>, &Arc<str>), labels: &Arc<Labels>, node: &NodeName, uid: &str) -> Pod {
    Pod {
        namespace: Namespace::from("ns"),
        name: PodName::from(uid),
        uid: PodUid::from(uid),
        version: ResourceVersion::from("1"),
        controller: controller(owner.0, owner.1),
        labels: labels.clone(),
        target: Some(node.clone()),
        bound: true,
        phase: Phase::Active,
        ready: true,
        ready_changed: Some(wall(1_000).into()),
        deleting: false,
        created: wall(1_000).into(),
        trouble: None,
    }
}

impl Fleet {
    /// Everything runs; nothing is to be done.
    fn start() -> Self {
        let mut fleet = Self {
            core: Syncer::new(Options::default()),
            lanes: Lanes::new(60),
            now: Now {
                mono: Mono::from_origin(Duration::from_secs(1_000)),
                wall: wall(100_000),
            },
            pods: 0,
        };
        let nodes: Vec<Node> = (0..NODES).map(|index| mk_node(&format!("node-{index:04}"))).collect();
        let sets: Vec<DaemonSet> = (0..SETS).map(|index| mk_daemonset(&name_of(index), "v1")).collect();
        let mut pods = Vec::with_capacity(SETS * NODES);
        for ds in &sets {
            let labels = mk_labels(&ds.name, "v1");
            for (index, node) in nodes.iter().enumerate() {
                let uid = format!("{}-{index}", ds.name);
                pods.push(mk_pod((&ds.name, &ds.uid), &labels, &node.name, &uid));
            }
        }
        fleet.feed(Input::Revisions(sets.iter().map(mk_revision).collect()));
        fleet.feed(Input::DaemonSets(sets.into()));
        fleet.feed(Input::Nodes(nodes.into()));
        fleet.feed(all_pods(pods));
        assert_eq!(fleet.lanes.waiting(), 0, "at rest nothing is written");
        fleet
    }

    fn feed(&mut self, input: Input) {
        for effect in self.core.apply(input, self.now) {
            if let Effect::Send {
                id,
                owner,
                urgency,
                request,
            } = effect
            {
                let uid = owner.uid.clone();
                self.lanes.push(urgency, &uid, Sent { id, owner, request });
            }
        }
    }

    /// The next request is sent, and answered as it should be. Kubelets do at once what is theirs.
    fn send(&mut self) -> Option<Sent> {
        let turn = self.lanes.pop()?;
        self.lanes.done(&turn.ticket);
        let Sent { id, owner, request } = &turn.request;
        match request {
            Request::CreatePod { node, .. } => {
                self.pods += 1;
                let uid = format!("new-{}", self.pods);
                let pod = mk_pod((&owner.name, &owner.uid), &mk_labels(&owner.name, "v2"), node, &uid);
                self.feed(shown(Pod {
                    ready: false,
                    ..pod.clone()
                }));
                let answer = Answer::Created {
                    name: pod.name,
                    uid: pod.uid,
                };
                self.feed(Input::Answered(*id, answer));
            }
            Request::DeletePod { uid, .. } => {
                let uid = uid.clone();
                self.feed(Input::Answered(*id, Answer::Done));
                self.feed(Input::PodDeleted(uid));
            }
            Request::CreateRevision(draft) => {
                let revision = Revision {
                    name: Arc::from(draft.name.as_str()),
                    uid: Arc::from(draft.name.as_str()),
                    number: draft.number,
                    data: draft.data.clone(),
                    labels: mk_labels(&owner.name, "v2"),
                    ..mk_revision(&mk_daemonset(&owner.name, "v2"))
                };
                self.feed(Input::Answered(*id, Answer::Revision(Box::new(revision))));
            }
            _ => self.feed(Input::Answered(*id, Answer::Done)),
        }
        Some(turn.request)
    }

    fn refuse(&mut self, id: RequestId) {
        self.feed(Input::Answered(
            id,
            Answer::Failed(Failure {
                kind: FailureKind::Other,
                message: "refused".to_owned(),
                retry_after: None,
            }),
        ));
    }

    fn pass(&mut self, by: Duration) {
        self.now = Now {
            mono: self.now.mono + by,
            wall: self.now.wall + by,
        };
        self.feed(Input::Tick);
    }

    /// Templates of these are edited, and their rollouts are in full swing: deletes and creates wait for their turn.
    fn roll_out(&mut self, sets: usize) {
        for index in 0..sets {
            self.feed(Input::DaemonSetApplied(mk_daemonset(&name_of(index), "v2")));
        }
        let mut seen = BTreeSet::new();
        for _ in 0..sets * 20 {
            let sent = self.send().expect("they have only begun");
            seen.insert((sent.is_delete(), sent.creates_on().is_some()));
        }
        assert!(seen.is_superset(&BTreeSet::from([(true, false), (false, true)])), "{seen:?}");
        assert!(self.lanes.waiting() > sets * 100, "{} wait", self.lanes.waiting());
    }
}

/// How urgent a DaemonSet's missing pod is, by its name.
fn class(name: &str) -> u8 {
    match name {
        _ if name.starts_with("u-node") => 0,
        _ if name.starts_with("v-cluster") => 1,
        _ => 2,
    }
}

/// with rollouts of ten DaemonSets in progress the pods of a new node are the next 200 writes, critical ones first; and a
/// DaemonSet whose every write fails delays neither another nor itself for longer than its own pause.
#[test]
fn a_new_node_gets_its_pods_before_rollouts_in_progress() {
    let mut fleet = Fleet::start();
    fleet.roll_out(10);
    fleet.feed(Input::NodeApplied(mk_node("new-1")));
    let first: Vec<Sent> = (0..SETS).filter_map(|_| fleet.send()).collect();
    assert!(first.iter().all(|sent| sent.creates_on() == Some("new-1")));
    let owners: BTreeSet<&str> = first.iter().map(|sent| &*sent.owner.name).collect();
    assert_eq!(owners.len(), SETS);
    let classes: Vec<u8> = first.iter().map(|sent| class(&sent.owner.name)).collect();
    assert!(classes.is_sorted(), "{classes:?}");
    let next = fleet.send().expect("rollouts go on");
    assert!(next.is_delete() || next.creates_on().is_some_and(|node| node != "new-1"));

    // One of them is broken from now on.
    let broken = name_of(50);
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    for index in 2..6 {
        fleet.feed(Input::NodeApplied(mk_node(&format!("new-{index}"))));
        let mut others = 0;
        while others < SETS - 1 {
            let turn = fleet.lanes.pop().expect("others wait");
            let node = turn.request.creates_on().unwrap_or_default().to_owned();
            assert!(node.starts_with("new-"), "{node}: nothing else goes before");
            if *turn.request.owner.name == *broken {
                fleet.lanes.done(&turn.ticket);
                fleet.refuse(turn.request.id);
                *tries.entry(node).or_default() += 1;
            } else {
                assert_eq!(node, format!("new-{index}"));
                fleet.lanes.done(&turn.ticket);
                fleet.feed(Input::Answered(turn.request.id, Answer::Done));
                others += 1;
            }
        }
        fleet.pass(Duration::from_millis(1));
    }
    assert!(tries.values().sum::<usize>() <= 4, "its own pause grows: {tries:?}");
    // It works again: its pause is over within a second, and nobody else had to wait for it.
    fleet.pass(Duration::from_secs(1));
    let turn = fleet.lanes.pop().expect("it is tried again");
    assert_eq!(&*turn.request.owner.name, &*broken);
}
