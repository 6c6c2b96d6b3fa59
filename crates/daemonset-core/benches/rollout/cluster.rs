//! A cluster in memory around the core: every request is done and answered, kubelets run what is there, and watches say so.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::wire::Call;
use bailiff_daemonset_core::{
    Answer, DaemonSet, Effect, Input, Node, Options, Pod, Profile, Request, RequestId, Revision, Scope, Syncer,
};
use bailiff_model::{IndexMap, Mono, NodeName, Now, Wall};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::pods::{Running, Stage, Templates};

/// How long the cluster takes for what it was asked: kubelets and API server together.
const ROUND: Duration = Duration::from_millis(500);

/// So many inputs are timed together. A shell has them one by one; few enough that what was read and is not applied yet, and what is
/// wanted and not done yet, is as little in a large cluster as in a small one.
const BLOCK: usize = 50;

/// What a rollout took.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// CPU time by blocks of inputs: they are the same ones in every rollout of the same cluster.
    pub cpu: Vec<Duration>,
    /// That of the core alone.
    pub core: Vec<Duration>,
    /// Inputs it was given.
    pub inputs: usize,
    /// Requests it made.
    pub requests: usize,
    creates: usize,
    deletes: usize,
}

/// What a watch or an answer has to say.
enum News {
    /// A pod, as it was when that was written.
    Pod(u64, Running),
    /// A pod is gone.
    Gone(u64, Running),
    /// A create was answered with this pod.
    Created(RequestId, u64, Running),
    /// Something of which there are few.
    Other(Input),
}

pub struct Cluster {
    core: Syncer,
    nodes: usize,
    now: Now,
    /// By the number that its uid says.
    pods: IndexMap<u64, Running>,
    templates: Templates,
    daemonset: Value,
    generation: usize,
    /// What watches and answers have still to say.
    queue: VecDeque<News>,
    /// Pods that a kubelet has still to run, or to end.
    at_kubelets: Vec<u64>,
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
            pods: IndexMap::default(),
            templates: Templates::default(),
            daemonset: mk_daemonset(&amount(max_unavailable), &amount(max_surge)),
            generation: 1,
            queue: VecDeque::new(),
            at_kubelets: Vec::new(),
            wake: None,
            versions: 1,
            work: Work::default(),
        };
        let all: Vec<Node> = (0..nodes).map(mk_node).collect();
        let listed = [
            Input::Nodes(all.into()),
            Input::Revisions(Vec::new().into()),
            Input::DaemonSets(vec![decode(&cluster.daemonset)].into()),
            Input::Pods {
                of: Scope::Namespace("ns".into()),
                pods: Vec::new().into(),
            },
        ];
        cluster.queue.extend(listed.map(News::Other));
        cluster.rest();
        assert_eq!(cluster.pods.len(), nodes, "every node runs a pod");
        cluster
    }

    /// Changes the template, and plays until nothing happens any more.
    pub fn roll_out(&mut self) -> Work {
        self.work = Work::default();
        self.generation += 1;
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
        assert!(self.pods.values().all(|pod| pod.generation == self.generation));
        assert_eq!(
            self.pods.values().map(|pod| &pod.node).collect::<BTreeSet<_>>().len(),
            self.nodes
        );
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
                self.queue.push_back(News::Other(Input::Tick));
            }
        }
    }

    /// Gives the core some of what there is, as a shell does, and does what it wants. What counts is reading what was said, deciding, and
    /// writing requests.
    fn feed(&mut self) {
        let block = self.work.inputs / BLOCK;
        let some = self.queue.len().min(BLOCK);
        let news: Vec<Told> = self.queue.drain(..some).map(|news| tell(&mut self.templates, news)).collect();
        self.work.inputs += news.len();
        let began = cpu();
        let inputs: Vec<Input> = news.into_iter().map(read).collect();
        let read = cpu();
        let mut effects = Vec::new();
        for input in inputs {
            effects.extend(self.core.apply(input, self.now));
        }
        let decided = cpu();
        for effect in &effects {
            if let Effect::Send { owner, request, .. } = effect {
                std::hint::black_box(text(request, owner));
            }
        }
        let written = cpu();
        for all in [&mut self.work.cpu, &mut self.work.core] {
            all.resize(block + 1, Duration::ZERO);
        }
        self.work.cpu[block] += written.saturating_sub(began);
        self.work.core[block] += decided.saturating_sub(read);
        for effect in effects {
            match effect {
                Effect::Send { id, owner, request, .. } => self.serve(id, &owner, &request),
                Effect::WakeAt(at) => self.wake = at,
                Effect::CallOff(_) | Effect::Event { .. } | Effect::Publish(_) | Effect::Withdraw(_) | Effect::WatchPods(_) => {}
            }
        }
    }

    fn serve(&mut self, id: RequestId, owner: &Owner, request: &Request) {
        self.work.requests += 1;
        let answer = match request {
            Request::CreatePod { name, node, .. } => return self.create(id, owner, request, name.as_str(), node),
            Request::DeletePod { uid, .. } => self.delete(number(&uid.to_string())),
            Request::CreateRevision(_) => {
                let version = self.version();
                let revision: Revision = decode(&named(body(request, owner), version));
                self.queue.push_back(News::Other(Input::RevisionApplied(revision.clone())));
                Answer::Revision(Box::new(revision))
            }
            Request::WriteStatus { .. } => {
                self.daemonset["status"] = body(request, owner)["status"].take();
                self.say_daemonset();
                Answer::DaemonSet(Box::new(decode(&self.daemonset)))
            }
            other => unreachable!("nothing else is asked for: {other:?}"),
        };
        self.queue.push_back(News::Other(Input::Answered(id, answer)));
    }

    fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn say_daemonset(&mut self) {
        self.daemonset["metadata"]["resourceVersion"] = json!(self.version().to_string());
        let daemonset: DaemonSet = decode(&self.daemonset);
        self.queue.push_back(News::Other(Input::DaemonSetApplied(daemonset)));
    }

    fn create(&mut self, id: RequestId, owner: &Owner, request: &Request, name: &str, node: &NodeName) {
        self.work.creates += 1;
        let generation = self.generation;
        self.templates
            .learn(generation, || (body(request, owner).to_string(), name, node.as_str()));
        let version = self.version();
        let pod = Running {
            name: Arc::from(name),
            node: node.clone(),
            generation,
            version,
            stage: Stage::Created,
        };
        self.pods.insert(version, pod.clone());
        self.at_kubelets.push(version);
        self.queue
            .extend([News::Pod(version, pod.clone()), News::Created(id, version, pod)]);
    }

    fn delete(&mut self, uid: u64) -> Answer {
        self.work.deletes += 1;
        self.move_on(uid, Stage::Deleting);
        self.at_kubelets.push(uid);
        Answer::Done
    }

    fn move_on(&mut self, uid: u64, stage: Stage) {
        let version = self.version();
        let pod = &mut self.pods[&uid];
        (pod.version, pod.stage) = (version, stage);
        self.queue.push_back(News::Pod(uid, pod.clone()));
    }

    /// Each pod that changed is bound, then ready; or gone.
    fn run_kubelets(&mut self) {
        for uid in std::mem::take(&mut self.at_kubelets) {
            match self.pods[&uid].stage {
                Stage::Created => {
                    self.move_on(uid, Stage::Bound);
                    self.at_kubelets.push(uid);
                }
                Stage::Bound => self.move_on(uid, Stage::Ready),
                Stage::Ready => {}
                Stage::Deleting => {
                    let gone = self.pods.swap_remove(&uid).expect("it was there a moment ago");
                    self.queue.push_back(News::Gone(uid, gone));
                }
            }
        }
    }
}

/// News as they come over the wire.
enum Told {
    Pod(String),
    Gone(String),
    Created(RequestId, String),
    Other(Input),
}

fn tell(templates: &mut Templates, news: News) -> Told {
    match news {
        News::Pod(uid, pod) => Told::Pod(templates.text(uid, &pod)),
        News::Gone(uid, pod) => Told::Gone(templates.text(uid, &pod)),
        News::Created(id, uid, pod) => Told::Created(id, templates.text(uid, &pod)),
        News::Other(input) => Told::Other(input),
    }
}

/// News as the core takes them.
fn read(told: Told) -> Input {
    let pod = |text: &str| serde_json::from_str::<Pod>(text).expect("a valid pod");
    match told {
        Told::Pod(text) => Input::PodApplied {
            of: Scope::Namespace("ns".into()),
            pod: pod(&text),
        },
        Told::Gone(text) => Input::PodDeleted(pod(&text).uid),
        Told::Created(id, text) => {
            let Pod { name, uid, .. } = pod(&text);
            Input::Answered(id, Answer::Created { name, uid })
        }
        Told::Other(input) => input,
    }
}

/// What a request sends, as text.
fn text(request: &Request, owner: &Owner) -> String {
    match request.call(owner).expect("JSON") {
        Call::Create { body, .. } => body,
        Call::Strategic { body, .. } | Call::Merge { body, .. } => body.to_string(),
        Call::Get { path } => path,
        Call::Delete { uid, .. } => json!({"preconditions": {"uid": uid}}).to_string(),
    }
}

/// The number in a pod's uid.
fn number(uid: &str) -> u64 {
    let digits = uid.rsplit('-').next().and_then(|digits| digits.parse().ok());
    digits.expect("uids end with a number")
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
        uid: format!("node-{nth}").into(),
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
    serde_json::from_str(&text(request, owner)).expect("JSON")
}

/// An object as the API server keeps it.
fn named(mut object: Value, version: u64) -> Value {
    let meta = &mut object["metadata"];
    meta["namespace"] = json!("ns");
    meta["uid"] = json!(format!("uid-{version}"));
    meta["resourceVersion"] = json!(version.to_string());
    meta["creationTimestamp"] = json!("2023-11-14T22:13:20Z");
    object
}

fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    // Raw JSON members can only be taken from text.
    serde_json::from_str(&object.to_string()).expect("a valid object")
}
