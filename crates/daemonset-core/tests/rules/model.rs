//! A tiny cluster: an API server that keeps JSON objects, watches that may lag, and kubelets that do what they are told.
//!
//! Objects go through the same decoding and requests through the same HTTP form as in production.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::facts::NodeLabels;
use bailiff_daemonset_core::{
    DaemonSet, Effect, FailureKind, Input, Node, Options, Pod, Profile, Request, RequestId, Revision, Scope, Syncer, Urgency,
};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{About, Listed, Mono, NodeName, Now, PodUid, Wall};
use serde_json::{Value, json};

mod server;

/// Streams that keep their order each, and none between each other.
const STREAMS: usize = 5;
pub const NODES: usize = 0;
pub const PODS: usize = 1;
pub const DAEMONSETS: usize = 2;
pub const REVISIONS: usize = 3;
pub const ANSWERS: usize = 4;

/// When pods are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// As soon as they are asked for.
    AtOnce,
    /// With the other news of pods, in two parts.
    InTurn,
    /// The test does it.
    ByHand,
}

pub struct Cluster {
    pub core: Syncer,
    pub now: Now,
    /// Objects by path.
    pub objects: BTreeMap<String, Value>,
    streams: [VecDeque<Input>; STREAMS],
    /// Everything written, as `verb name`.
    pub writes: Vec<String>,
    /// Every request and when it came, reads too.
    pub requests: Vec<(Mono, String)>,
    /// Every Event, as `reason message`.
    pub events: Vec<String>,
    /// What each of them names.
    pub abouts: Vec<About>,
    pub published: Option<DaemonSetSync>,
    pub wake: Option<Mono>,
    /// Requests that fail instead of being done, by a prefix of how they are written down.
    pub failures: Vec<(&'static str, FailureKind)>,
    /// The pause that whoever refuses asks for.
    pub retry_after: Option<Duration>,
    /// Urgency of every request to create a pod.
    pub urgencies: Vec<Urgency>,
    /// Answers to requests that begin like this are lost on their way: what was done looks as if nobody knew.
    pub loses: Option<&'static str>,
    /// Whose pods the core watches.
    pub watched: BTreeSet<Scope>,
    /// When those are listed that it did not watch before.
    pub lists: Lists,
    /// Deletes of pods wait for their turn until [`Cluster::send`].
    pub is_slow: bool,
    unsent: VecDeque<(RequestId, Arc<Owner>, Request)>,
    /// Deletes that were called off before they were sent.
    pub called_off: usize,
    /// Inputs the core was given.
    pub inputs: usize,
    counter: u64,
}

impl Cluster {
    pub fn new(profile: Profile) -> Self {
        let mut cluster = Self {
            core: Syncer::new(Options {
                profile,
                ..Options::default()
            }),
            now: Now {
                mono: Mono::from_origin(Duration::from_secs(1000)),
                wall: Wall::from_second(1_700_000_000).expect("in range"),
            },
            objects: BTreeMap::new(),
            streams: Default::default(),
            writes: Vec::new(),
            requests: Vec::new(),
            events: Vec::new(),
            abouts: Vec::new(),
            published: None,
            wake: None,
            failures: Vec::new(),
            retry_after: None,
            urgencies: Vec::new(),
            loses: None,
            watched: BTreeSet::new(),
            lists: Lists::AtOnce,
            is_slow: false,
            unsent: VecDeque::new(),
            called_off: 0,
            inputs: 0,
            counter: 0,
        };
        for input in [
            Input::Nodes(Vec::new().into()),
            Input::DaemonSets(Vec::new().into()),
            Input::Revisions(Vec::new().into()),
        ] {
            cluster.feed(input);
        }
        cluster
    }

    /// A cluster of nodes n0, n1, … with a DaemonSet `ds`.
    pub fn with(nodes: usize, spec: Value) -> Self {
        let mut cluster = Self::new(Profile::Bailiff);
        for index in 0..nodes {
            cluster.add_node(&format!("n{index}"), json!({}), json!([]));
        }
        cluster.add_daemonset("ds", spec);
        cluster
    }

    /// The same at rest, with nothing noted yet.
    pub fn at_rest(nodes: usize, spec: Value) -> Self {
        let mut cluster = Self::with(nodes, spec);
        cluster.rest();
        cluster.writes.clear();
        cluster.requests.clear();
        cluster
    }

    /// A core that starts on this cluster as it is.
    pub fn restart(&mut self, profile: Profile) {
        self.restart_with(Options {
            profile,
            ..Options::default()
        });
    }

    /// A core with these options that starts on this cluster as it is.
    pub fn restart_with(&mut self, options: Options) {
        self.core = Syncer::new(options);
        self.wake = None;
        self.watched.clear();
        self.relist();
    }

    /// All watches break, and begin anew with what there is now.
    pub fn relist(&mut self) {
        let pods = self.pods();
        self.relist_as(vec![all_pods(pods)]);
    }

    /// The same, with this as the list of pods; without one they are listed when they are asked for.
    pub fn relist_as(&mut self, pods: Vec<Input>) {
        self.streams = Default::default();
        let lists = self.lists;
        if !pods.is_empty() {
            self.lists = Lists::ByHand;
        }
        let all = |prefix: &str| -> Vec<Value> {
            self.objects
                .iter()
                .filter(|(path, _)| path.starts_with(prefix))
                .map(|(_, object)| object.clone())
                .collect()
        };
        let (nodes, sets, revisions) = (all("nodes/"), all("daemonsets/"), all("controllerrevisions/"));
        self.feed(Input::DaemonSets(sets.iter().map(decode).collect()));
        for input in pods {
            self.feed(input);
        }
        self.lists = lists;
        self.feed(Input::Revisions(revisions.iter().map(decode).collect()));
        let mut nodes: Vec<Node> = nodes.iter().map(decode).collect();
        // As they come: in parts, after a list that broke off.
        for middle in [nodes.len().min(1), nodes.len() / 2] {
            let nodes = nodes[..middle].to_vec();
            self.feed(Input::SomeNodes { first: true, nodes });
        }
        self.feed(Input::Nodes(nodes.split_off(nodes.len() / 2).into()));
    }

    // === objects ===

    /// How many changes there were; removals do not count.
    pub fn changes(&self) -> u64 {
        self.counter
    }

    fn fresh(&mut self) -> String {
        self.counter += 1;
        self.counter.to_string()
    }

    pub fn add_node(&mut self, name: &str, labels: Value, taints: Value) {
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.put(&format!("nodes/{name}"), node);
    }

    pub fn add_daemonset(&mut self, name: &str, spec: Value) {
        self.add_daemonset_in("ns", name, spec);
    }

    pub fn add_daemonset_in(&mut self, namespace: &str, name: &str, spec: Value) {
        let mut ds = json!({
            "metadata": {"name": name, "namespace": namespace, "generation": 1,
                "annotations": {"deprecated.daemonset.template.generation": "1"}},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "v1"}]}},
                "revisionHistoryLimit": 10,
            },
            "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
        });
        merge(&mut ds["spec"], &spec);
        self.put(&format!("daemonsets/{name}"), ds);
    }

    /// Changes the spec of `ds`, as the API server counts generations (DS-171).
    pub fn edit(&mut self, patch: Value) {
        self.edit_one("daemonsets/ds", patch);
    }

    /// The same of another DaemonSet.
    pub fn edit_one(&mut self, path: &str, patch: Value) {
        let mut ds = self.objects[path].clone();
        let before = ds["spec"].clone();
        merge(&mut ds["spec"], &patch);
        if before != ds["spec"] {
            let generation = ds["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            ds["metadata"]["generation"] = json!(generation);
        }
        if before["template"] != ds["spec"]["template"] {
            let annotation = &mut ds["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
            *annotation = json!((annotation.as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0) + 1).to_string());
        }
        self.put(path, ds);
    }

    pub fn set_image(&mut self, image: &str) {
        self.edit(json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}));
    }

    /// Stores an object and lets the watches say so. Gives it a uid and a creation time if it has none.
    pub fn put(&mut self, path: &str, mut object: Value) {
        let version = self.fresh();
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{version}"));
            meta["creationTimestamp"] = json!(self.now.wall.to_string());
        }
        meta["resourceVersion"] = json!(version);
        self.objects.insert(path.to_owned(), object.clone());
        let (stream, input) = match path.split('/').next() {
            Some("nodes") => (0, Input::NodeApplied(decode(&object))),
            Some("pods") => (1, Input::PodApplied(decode(&object))),
            Some("daemonsets") => (2, Input::DaemonSetApplied(decode(&object))),
            _ => (3, Input::RevisionApplied(decode(&object))),
        };
        self.streams[stream].push_back(input);
    }

    pub fn change(&mut self, path: &str, patch: Value) {
        let mut object = self.objects[path].clone();
        merge(&mut object, &patch);
        self.put(path, object);
    }

    pub fn remove(&mut self, path: &str) {
        let Some(object) = self.objects.remove(path) else { return };
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (stream, input) = match path.split('/').next() {
            Some("nodes") => (0, Input::NodeDeleted(NodeName::from(text("name")))),
            Some("pods") => (1, Input::PodDeleted(PodUid::from(text("uid")))),
            Some("daemonsets") => {
                let ds: DaemonSet = decode(&object);
                (
                    2,
                    Input::DaemonSetDeleted {
                        namespace: ds.namespace,
                        name: ds.name,
                        uid: ds.uid,
                    },
                )
            }
            _ => {
                let revision: Revision = decode(&object);
                (
                    3,
                    Input::RevisionDeleted {
                        namespace: revision.namespace,
                        name: revision.name,
                        uid: revision.uid,
                    },
                )
            }
        };
        self.streams[stream].push_back(input);
    }

    /// Facts of all pods, by name.
    pub fn pods(&self) -> Vec<Pod> {
        let pods = self.objects.iter().filter(|(path, _)| path.starts_with("pods/"));
        pods.map(|(_, object)| decode(object)).collect()
    }

    pub fn revisions(&self) -> Vec<Revision> {
        let revisions = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with("controllerrevisions/"));
        revisions.map(|(_, object)| decode(object)).collect()
    }

    pub fn daemonset(&self) -> DaemonSet {
        decode(&self.objects["daemonsets/ds"])
    }

    /// Names of the pods on a node.
    pub fn on(&self, node: &str) -> Vec<Pod> {
        let is_there = |pod: &Pod| pod.target.as_ref().is_some_and(|target| target.as_str() == node);
        self.pods().into_iter().filter(is_there).collect()
    }

    // === kubelets ===

    pub fn bind(&mut self, pod: &Pod) {
        let node = pod.target.clone().unwrap_or_default();
        if self.objects.contains_key(&format!("nodes/{node}")) {
            self.change(&path_of(pod), json!({"spec": {"nodeName": node.as_str()}}));
        }
    }

    pub fn set_phase(&mut self, pod: &Pod, phase: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let since = self.now.wall.to_string();
        let condition = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
        self.change(&path_of(pod), json!({"status": {"phase": phase, "conditions": condition}}));
    }

    /// Binds what is unbound, runs what is bound, and finishes what is being deleted.
    pub fn kubelets(&mut self) {
        for pod in self.pods() {
            if pod.deleting {
                self.remove(&path_of(&pod));
            } else if !pod.bound {
                self.bind(&pod);
            } else if !pod.ready && !pod.is_terminal() {
                self.set_phase(&pod, "Running", true);
            }
        }
    }

    // === the core ===

    pub fn feed(&mut self, input: Input) {
        self.inputs += 1;
        for effect in self.core.apply(input, self.now) {
            if let Effect::Send {
                urgency,
                request: Request::CreatePod { .. },
                ..
            } = &effect
            {
                self.urgencies.push(*urgency);
            }
            match effect {
                Effect::Send { id, owner, request, .. } if self.is_slow && matches!(request, Request::DeletePod { .. }) => {
                    self.unsent.push_back((id, owner, request));
                }
                Effect::Send { id, owner, request, .. } => self.serve(id, &owner, &request),
                Effect::CallOff(id) => self.call_off(id),
                Effect::Event {
                    reason, message, about, ..
                } => {
                    self.events.push(format!("{reason} {message}"));
                    self.abouts.push(about);
                }
                Effect::Publish(sync) => self.published = Some(*sync),
                Effect::Withdraw(_) => self.published = None,
                Effect::WatchPods(scopes) => self.watch_pods(scopes),
                Effect::WakeAt(at) => self.wake = at,
            }
        }
    }

    /// What is not watched yet is listed, as it is now.
    fn watch_pods(&mut self, scopes: BTreeSet<Scope>) {
        let before = std::mem::replace(&mut self.watched, scopes);
        // Of a watch that ends nothing more is heard.
        let is_heard = |input: &Input| match input {
            Input::SomePods { of, .. } | Input::Pods { of, .. } => self.watched.contains(of),
            _ => true,
        };
        self.streams[PODS].retain(is_heard);
        let more: Vec<Scope> = self.watched.difference(&before).cloned().collect();
        for of in more {
            let mut pods: Vec<Pod> = self.pods().into_iter().filter(|pod| of.has(&pod.namespace)).collect();
            match self.lists {
                Lists::AtOnce => self.feed(Input::Pods { of, pods: pods.into() }),
                Lists::InTurn => {
                    let rest = pods.split_off(pods.len() / 2).into();
                    self.streams[PODS].push_back(Input::SomePods {
                        of: of.clone(),
                        first: true,
                        pods,
                    });
                    self.streams[PODS].push_back(Input::Pods { of, pods: rest });
                }
                Lists::ByHand => {}
            }
        }
    }

    /// Streams with something to deliver.
    pub fn pending(&self) -> Vec<usize> {
        (0..STREAMS).filter(|stream| !self.streams[*stream].is_empty()).collect()
    }

    /// What a stream has to deliver, taken out of it.
    pub fn hold_back(&mut self, stream: usize) -> VecDeque<Input> {
        std::mem::take(&mut self.streams[stream])
    }

    /// The opposite.
    pub fn give_back(&mut self, stream: usize, late: VecDeque<Input>) {
        self.streams[stream] = late;
    }

    pub fn deliver(&mut self, stream: usize) {
        if let Some(input) = self.streams[stream].pop_front() {
            self.feed(input);
        }
    }

    /// Delivers everything there is, watches before answers.
    pub fn settle(&mut self) {
        let mut steps = 0;
        while let Some(stream) = self.pending().first().copied() {
            self.deliver(stream);
            steps += 1;
            let last = &self.requests[self.requests.len().saturating_sub(12)..];
            assert!(steps < 20_000, "the cluster does not come to rest: {last:#?}");
        }
    }

    /// Lets time pass, waking the core when it asks for it.
    pub fn pass(&mut self, seconds: u64) {
        let end = self.now.mono + Duration::from_secs(seconds);
        self.settle();
        for _ in 0..100_000 {
            let next = self
                .wake
                .filter(|wake| *wake <= end)
                .map_or(end, |wake| wake.max(self.now.mono));
            let by = next.saturating_since(self.now.mono);
            self.now = Now {
                mono: next,
                wall: self.now.wall + by,
            };
            if next == end && self.wake.is_none_or(|wake| wake > end) {
                return;
            }
            self.feed(Input::Tick);
            self.settle();
        }
        unreachable!("the core wakes without end");
    }

    /// Plays kubelets and time until nothing changes.
    pub fn rest(&mut self) {
        for _ in 0..200 {
            let before = self.counter;
            self.settle();
            self.kubelets();
            self.pass(2);
            if self.counter == before {
                return;
            }
        }
        unreachable!("the cluster does not come to rest: {:#?}", self.writes);
    }

    /// Lets a second pass and nothing else happen.
    pub fn pass_one_second(&mut self) {
        self.pass_some(Duration::from_secs(1));
    }

    /// Lets some time pass and nothing else happen.
    pub fn pass_some(&mut self, by: Duration) {
        self.now = Now {
            mono: self.now.mono + by,
            wall: self.now.wall + by,
        };
        self.feed(Input::Tick);
    }

    /// Like [`Cluster::rest`], after every backoff has had time to end.
    pub fn rest_longer(&mut self) {
        for _ in 0..20 {
            self.settle();
            self.kubelets();
            self.pass(120);
        }
        self.rest();
    }
}

/// Where everything is, if it is not said.
pub fn scope() -> Scope {
    Scope::Namespace("ns".into())
}

/// A whole list of pods, or the end of one.
pub fn all_pods(pods: impl Into<Listed<Pod, PodUid>>) -> Input {
    Input::Pods {
        of: scope(),
        pods: pods.into(),
    }
}

/// Some of one.
pub fn some_pods(first: bool, pods: Vec<Pod>) -> Input {
    Input::SomePods {
        of: scope(),
        first,
        pods,
    }
}

pub fn path_of(pod: &Pod) -> String {
    format!("pods/{}", pod.name)
}

fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    // Raw JSON members can only be taken from text.
    serde_json::from_str(&object.to_string()).expect("a valid object")
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("made an object").shift_remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

/// Facts of a node, for tests that feed the core by hand.
pub fn mk_node(name: &str) -> Node {
    Node {
        name: NodeName::from(name),
        labels: NodeLabels::default(),
        ..Node::default()
    }
}
