//! What the daemonset-syncer keeps of a node, of a daemon pod and of a pair of DaemonSet and node at rest, in bytes of the allocator.

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::wire::Call;
use bailiff_daemonset_core::{Answer, DaemonSet, Effect, Input, Node, Options, Pod, Request, Revision, Scope, Syncer};
use bailiff_footprint::fleet::{self, NOW};
use bailiff_footprint::{Bytes, held};
use bailiff_model::NodeName;
use serde_json::{Value, json};

const NODES: usize = 5_000;
/// DaemonSets, each with a pod on every node.
const SETS: usize = 4;
const NODE: Bytes = Bytes { known: 276, most: 512 };
const POD: Bytes = Bytes { known: 238, most: 256 };
const PAIR: Bytes = Bytes { known: 258, most: 512 };

fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    // Raw JSON members can only be taken from text.
    serde_json::from_str(&object.to_string()).expect("a valid object")
}

/// With the labels that nodes of a cloud have.
fn mk_node(nth: usize) -> Node {
    let name = fleet::name(nth);
    let (zone, id) = (["a", "b", "c"][nth % 3], ["euw1-az1", "euw1-az2", "euw1-az3"][nth % 3]);
    let kind = ["m6i.4xlarge", "c6i.8xlarge"][nth % 2];
    decode(&json!({
        "metadata": {
            "name": name.as_str(),
            "uid": fleet::uid(nth).to_string(),
            "resourceVersion": "123456789",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/instance-type": kind,
                "beta.kubernetes.io/os": "linux",
                "eks.amazonaws.com/capacityType": "ON_DEMAND",
                "eks.amazonaws.com/nodegroup": "workers",
                "failure-domain.beta.kubernetes.io/region": "eu-west-1",
                "failure-domain.beta.kubernetes.io/zone": format!("eu-west-1{zone}"),
                "k8s.io/cloud-provider-aws": "7c1d1ab5a9b6b2f5a3f2d7c1d1ab5a9b",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name.as_str(),
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": kind,
                "topology.ebs.csi.aws.com/zone": format!("eu-west-1{zone}"),
                "topology.k8s.aws/zone-id": id,
                "topology.kubernetes.io/region": "eu-west-1",
                "topology.kubernetes.io/zone": format!("eu-west-1{zone}"),
            },
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]},
    }))
}

fn mk_daemonset(nth: usize) -> Value {
    let app = format!("agent-{nth}");
    json!({
        "metadata": {
            "name": app, "namespace": "kube-system", "uid": mk_owner(nth), "resourceVersion": "1", "generation": 1,
            "annotations": {"deprecated.daemonset.template.generation": "1"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "c", "image": "v1"}]},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "revisionHistoryLimit": 10,
        },
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    })
}

/// One that wants no node: as long as it is there, what is known of pods outlives the others.
fn mk_keeper() -> Value {
    let mut keeper = mk_daemonset(SETS);
    keeper["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "none"});
    keeper
}

fn mk_owner(set: usize) -> String {
    format!("{set:08x}-77aa-4f10-8a11-4b6f7a9c0000")
}

/// The pod that was asked for with this body, as it is once it runs.
fn mk_pod(mut pod: Value, nth: usize, node: &NodeName) -> Pod {
    let meta = &mut pod["metadata"];
    meta["namespace"] = json!("kube-system");
    meta["uid"] = json!(fleet::pod_uid(nth).to_string());
    meta["resourceVersion"] = json!("123456789");
    meta["creationTimestamp"] = json!("2026-01-01T00:00:30Z");
    pod["spec"]["nodeName"] = json!(node.as_str());
    pod["status"] = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
    });
    decode(&pod)
}

/// A core, and an API server that does what it asks for.
struct Cluster {
    core: Syncer,
    sets: Vec<Value>,
    pods: usize,
}

impl Cluster {
    /// Gives the core one input, and the answers to what it asks for.
    fn give(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.core.apply(input, NOW) {
                if let Effect::Send { id, owner, request, .. } = effect {
                    let (answer, shown) = self.serve(&owner, &request);
                    inputs.extend(shown);
                    inputs.push(Input::Answered(id, answer));
                }
            }
        }
    }

    /// What is answered, and what the watch shows then.
    fn serve(&mut self, owner: &Owner, request: &Request) -> (Answer, Option<Input>) {
        let mut body: Value = match request.call(owner).expect("JSON") {
            Call::Create { body, .. } => serde_json::from_str(&body).expect("JSON"),
            Call::Strategic { body, .. } | Call::Merge { body, .. } => body,
            Call::Get { .. } | Call::Delete { .. } => Value::Null,
        };
        match request {
            Request::CreatePod { node, .. } => {
                self.pods += 1;
                let pod = mk_pod(body, self.pods, node);
                let answer = Answer::Created {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                };
                let of = Scope::Namespace("kube-system".into());
                (answer, Some(Input::PodApplied { of, pod }))
            }
            Request::CreateRevision(_) => {
                let meta = &mut body["metadata"];
                meta["namespace"] = json!("kube-system");
                meta["uid"] = json!(format!("revision of {}", owner.uid));
                meta["resourceVersion"] = json!("7");
                meta["creationTimestamp"] = json!("2025-12-31T00:00:00Z");
                let revision: Revision = decode(&body);
                (
                    Answer::Revision(Box::new(revision.clone())),
                    Some(Input::RevisionApplied(revision)),
                )
            }
            Request::WriteStatus { .. } => {
                let set = self.sets.iter_mut().find(|set| set["metadata"]["name"] == *owner.name);
                let set = set.expect("one of these");
                set["status"] = body["status"].take();
                (Answer::DaemonSet(Box::new(decode(set))), None)
            }
            other => unreachable!("nothing else is asked for: {other:?}"),
        }
    }
}

#[test]
fn a_node_a_pod_and_a_pair_take_few_bytes() {
    let mut cluster = Cluster {
        core: Syncer::new(Options::default()),
        sets: (0..SETS).map(mk_daemonset).chain([mk_keeper()]).collect(),
        pods: 0,
    };
    let before = held();
    for input in [
        Input::Nodes((0..NODES).map(mk_node).collect()),
        Input::Revisions(Vec::new().into()),
        Input::DaemonSets(vec![decode(&mk_keeper())].into()),
        Input::Pods {
            of: Scope::Namespace("kube-system".into()),
            pods: Vec::new().into(),
        },
    ] {
        cluster.give(input);
    }
    let with_nodes = held();
    for set in 0..SETS {
        let set: DaemonSet = decode(&cluster.sets[set]);
        cluster.give(Input::DaemonSetApplied(set));
    }
    let with_pods = held();
    assert_eq!(cluster.pods, NODES * SETS, "every node runs a pod of each");
    // What is known of pods outlives their DaemonSets, what is known of pairs does not.
    for set in 0..SETS {
        cluster.give(Input::DaemonSetDeleted {
            namespace: "kube-system".into(),
            name: format!("agent-{set}").into(),
            uid: mk_owner(set).into(),
        });
    }
    let without_pairs = held();
    let keeper = mk_owner(SETS);
    cluster.give(Input::DaemonSetDeleted {
        namespace: "kube-system".into(),
        name: format!("agent-{SETS}").into(),
        uid: keeper.into(),
    });
    let without_pods = held();
    NODE.check("node", (with_nodes - before) / NODES);
    POD.check("pod", (without_pairs - with_nodes) / cluster.pods);
    PAIR.check("pair", (with_pods - without_pairs) / cluster.pods);
    // With the last of its DaemonSets what is known of the pods of a namespace goes, but for room in indexes.
    let left = without_pods.saturating_sub(with_nodes) / cluster.pods;
    assert!(
        left * 4 < (without_pairs - with_nodes) / cluster.pods,
        "{left} bytes of each pod are left"
    );
}
