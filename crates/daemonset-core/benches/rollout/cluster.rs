//! A cluster in memory around the core: every request is done and answered, kubelets run what is there, and watches say so.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::facts::Controller;
use bailiff_daemonset_core::wire::Call;
use bailiff_daemonset_core::{Answer, DaemonSet, Effect, Input, Node, Options, Pod, Profile, Request, RequestId, Revision, Syncer};
use bailiff_model::{Mono, Namespace, NodeName, Now, PodName, PodUid, ResourceVersion, Wall};
use indexmap::IndexMap;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// How long the cluster takes for what it was asked: kubelets and API server together.
const ROUND: Duration = Duration::from_millis(500);

/// So many inputs are timed together. A shell gives them to the core one by one; few enough that what lies between being read and being
/// applied, and what was wanted and is not done yet, is as little in a large cluster as in a small one.
const BLOCK: usize = 50;

/// What a rollout took.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// CPU time in the core, by blocks of inputs: they are the same ones in every rollout of the same cluster.
    pub cpu: Vec<Duration>,
    /// Inputs it was given.
    pub inputs: usize,
    /// Requests it made.
    pub requests: usize,
    creates: usize,
    deletes: usize,
}

pub struct Cluster {
    core: Syncer,
    nodes: usize,
    now: Now,
    pods: IndexMap<PodUid, Pod>,
    daemonset: Value,
    /// What watches and answers have still to say.
    queue: VecDeque<Input>,
    /// Pods that a kubelet has still to run, or to end.
    at_kubelets: Vec<PodUid>,
    /// A created pod of the present revision, to make the others from.
    sample: Option<Pod>,
    wake: Option<Mono>,
    versions: u64,
    work: Work,
}

impl Cluster {
    /// One whose nodes all run their pod of the first template.
    pub fn new(nodes: usize, max_unavailable: &str, max_surge: &str) -> Self {
        let amount = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
        let mut cluster = Self {
            core: Syncer::new(Options {
                profile: Profile::Bailiff,
                ..Options::default()
            }),
            nodes,
            now: Now {
                mono: Mono::from_origin(Duration::from_secs(1000)),
                wall: Wall::from_second(1_700_000_000).expect("in range"),
            },
            pods: IndexMap::new(),
            daemonset: mk_daemonset(&amount(max_unavailable), &amount(max_surge)),
            queue: VecDeque::new(),
            at_kubelets: Vec::new(),
            sample: None,
            wake: None,
            versions: 1,
            work: Work::default(),
        };
        let all: Vec<Node> = (0..nodes).map(mk_node).collect();
        cluster.queue.extend([
            Input::Nodes(all.into()),
            Input::Pods(Vec::new().into()),
            Input::Revisions(Vec::new().into()),
            Input::DaemonSets(vec![decode(&cluster.daemonset)].into()),
        ]);
        cluster.rest();
        assert_eq!(cluster.pods.len(), nodes, "every node runs a pod");
        cluster
    }

    /// Changes the template, and plays until nothing happens any more.
    pub fn roll_out(&mut self) -> Work {
        self.work = Work::default();
        self.sample = None;
        self.daemonset["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
        self.daemonset["metadata"]["generation"] = json!(2);
        self.daemonset["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("2");
        self.say_daemonset();
        self.rest();
        std::mem::take(&mut self.work)
    }

    /// Every node has exactly one pod, of the second template, after one create and one delete; and the status says so.
    pub fn assert_rolled_out(&self, work: &Work) {
        assert_eq!((work.creates, work.deletes), (self.nodes, self.nodes));
        let generations = self.pods.values().map(|pod| pod.labels.get("pod-template-generation"));
        assert!(
            generations
                .into_iter()
                .all(|label| label.is_some_and(|label| &**label == "2"))
        );
        let targets = self.pods.values().map(|pod| pod.target.as_ref());
        assert_eq!(targets.collect::<BTreeSet<_>>().len(), self.nodes);
        let status = &self.daemonset["status"];
        for counter in ["updatedNumberScheduled", "numberAvailable"] {
            assert_eq!(status[counter], json!(self.nodes), "{counter}");
        }
    }

    fn rest(&mut self) {
        loop {
            while !self.queue.is_empty() {
                self.feed();
            }
            if self.at_kubelets.is_empty() && self.wake.is_none() {
                return;
            }
            // Waits are passed over if nothing else happens.
            let idle = self.wake.filter(|_| self.at_kubelets.is_empty());
            let by = idle.map_or(ROUND, |wake| wake.saturating_since(self.now.mono));
            self.now = Now {
                mono: self.now.mono + by,
                wall: self.now.wall + by,
            };
            self.run_kubelets();
            if self.wake.is_some_and(|wake| wake <= self.now.mono) {
                self.queue.push_back(Input::Tick);
            }
        }
    }

    /// Gives the core all that there is, and does what it wants.
    fn feed(&mut self) {
        let mut effects = Vec::new();
        let block = self.work.inputs / BLOCK;
        let inputs: Vec<Input> = self.queue.drain(..self.queue.len().min(BLOCK)).map(read_anew).collect();
        self.work.inputs += inputs.len();
        let before = cpu();
        for input in inputs {
            effects.extend(self.core.apply(input, self.now));
        }
        let took = cpu().saturating_sub(before);
        self.work.cpu.resize(block + 1, Duration::ZERO);
        self.work.cpu[block] += took;
        for effect in effects {
            match effect {
                Effect::Send { id, owner, request, .. } => self.serve(id, &owner, &request),
                Effect::WakeAt(at) => self.wake = at,
                Effect::CallOff(_) | Effect::Event { .. } | Effect::Publish(_) | Effect::Withdraw(_) => {}
            }
        }
    }

    fn serve(&mut self, id: RequestId, owner: &Owner, request: &Request) {
        self.work.requests += 1;
        let answer = match request {
            Request::CreatePod { name, node, .. } => self.create(owner, request, name, node),
            Request::DeletePod { uid, .. } => self.delete(uid),
            Request::CreateRevision(_) => {
                let version = self.version();
                let revision: Revision = decode(&named(body(request, owner), &version));
                self.queue.push_back(Input::RevisionApplied(revision.clone()));
                Answer::Revision(Box::new(revision))
            }
            Request::WriteStatus { .. } => {
                self.daemonset["status"] = body(request, owner)["status"].take();
                self.say_daemonset();
                Answer::DaemonSet(Box::new(decode(&self.daemonset)))
            }
            other => unreachable!("nothing else is asked for: {other:?}"),
        };
        self.queue.push_back(Input::Answered(id, answer));
    }

    fn version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }

    fn say_daemonset(&mut self) {
        self.daemonset["metadata"]["resourceVersion"] = json!(self.version());
        let daemonset: DaemonSet = decode(&self.daemonset);
        self.queue.push_back(Input::DaemonSetApplied(daemonset));
    }

    fn say_pod(&mut self, pod: &mut Pod) {
        pod.version = ResourceVersion::from(self.version());
        self.queue.push_back(Input::PodApplied(pod.clone()));
        self.pods.insert(pod.uid.clone(), pod.clone());
    }

    fn create(&mut self, owner: &Owner, request: &Request, name: &PodName, node: &NodeName) -> Answer {
        self.work.creates += 1;
        let version = self.version();
        let read = || -> Pod { decode(&named(body(request, owner), &version)) };
        let sample = self.sample.get_or_insert_with(read);
        let mut pod = Pod {
            name: name.clone(),
            uid: PodUid::from(format!("pod-{version}")),
            target: Some(node.clone()),
            created: self.now.wall,
            ..sample.clone()
        };
        self.say_pod(&mut pod);
        self.at_kubelets.push(pod.uid.clone());
        Answer::Pod(Box::new(pod))
    }

    fn delete(&mut self, uid: &PodUid) -> Answer {
        self.work.deletes += 1;
        let mut pod = self.pods[uid].clone();
        pod.deleting = true;
        self.say_pod(&mut pod);
        self.at_kubelets.push(pod.uid);
        Answer::Done
    }

    /// Each pod that changed is bound, then ready; or gone.
    fn run_kubelets(&mut self) {
        for uid in std::mem::take(&mut self.at_kubelets) {
            let mut pod = self.pods[&uid].clone();
            if pod.deleting {
                self.pods.swap_remove(&uid);
                self.queue.push_back(Input::PodDeleted(uid));
                continue;
            }
            if pod.bound {
                pod.ready = true;
                pod.ready_changed = Some(self.now.wall);
            } else {
                pod.bound = true;
                self.at_kubelets.push(uid);
            }
            self.say_pod(&mut pod);
        }
    }
}

/// An input as a shell has it: read from an answer or a watch just now, so that nothing in it is shared with what was read before.
fn read_anew(input: Input) -> Input {
    match input {
        Input::PodApplied(pod) => Input::PodApplied(copy(&pod)),
        Input::PodDeleted(uid) => Input::PodDeleted(PodUid::from(uid.as_str())),
        Input::Answered(id, Answer::Pod(pod)) => Input::Answered(id, Answer::Pod(Box::new(copy(&pod)))),
        other => other,
    }
}

/// The same pod, sharing no memory.
fn copy(pod: &Pod) -> Pod {
    let labels = pod.labels.iter().map(|(key, value)| (Arc::from(&**key), Arc::from(&**value)));
    let controller = match &pod.controller {
        Controller::DaemonSet { name, uid } => Controller::DaemonSet {
            name: Arc::from(&**name),
            uid: Arc::from(&**uid),
        },
        other => other.clone(),
    };
    Pod {
        namespace: Namespace::from(pod.namespace.as_str()),
        name: PodName::from(pod.name.as_str()),
        uid: PodUid::from(pod.uid.as_str()),
        controller,
        labels: Arc::new(labels.collect()),
        target: pod.target.as_ref().map(|node| NodeName::from(node.as_str())),
        ..pod.clone()
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let whole = u64::try_from(time.tv_sec).expect("time does not run backwards");
    Duration::new(whole, u32::try_from(time.tv_nsec).expect("less than a second"))
}

fn mk_node(nth: usize) -> Node {
    Node {
        name: NodeName::from(format!("node-{nth:05}")),
        uid: Arc::from(format!("node-{nth}")),
        ..Node::default()
    }
}

fn mk_daemonset(max_unavailable: &Value, max_surge: &Value) -> Value {
    json!({
        "metadata": {
            "name": "ds", "namespace": "ns", "uid": "ds", "resourceVersion": "1", "generation": 1,
            "annotations": {"deprecated.daemonset.template.generation": "1"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": "ds"}},
            "template": {
                "metadata": {"labels": {"app": "ds"}},
                "spec": {"containers": [{"name": "c", "image": "v1"}]},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}},
            "revisionHistoryLimit": 10,
        },
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    })
}

/// What a request sends.
fn body(request: &Request, owner: &Owner) -> Value {
    match request.call(owner).expect("JSON") {
        Call::Create { body, .. } => serde_json::from_str(body.get()).expect("JSON"),
        Call::Strategic { body, .. } | Call::Merge { body, .. } => body,
        Call::Get { .. } | Call::Delete { .. } => Value::Null,
    }
}

/// An object as the API server keeps it.
fn named(mut object: Value, version: &str) -> Value {
    let meta = &mut object["metadata"];
    meta["namespace"] = json!("ns");
    meta["uid"] = json!(format!("uid-{version}"));
    meta["resourceVersion"] = json!(version);
    meta["creationTimestamp"] = json!("2023-11-14T22:13:20Z");
    object
}

fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    // Raw JSON members can only be taken from text.
    serde_json::from_str(&object.to_string()).expect("a valid object")
}
