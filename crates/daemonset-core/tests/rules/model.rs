//! A tiny cluster: an API server that keeps JSON objects, watches that may lag, and kubelets that do what they are told.
//!
//! Objects go through the same decoding and requests through the same HTTP form as in production.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::facts::NodeLabels;
use bailiff_daemonset_core::{
    DaemonSet, FailureKind, Input, Node, Options, Pod, Profile, Request, RequestId, Revision, Scope, Syncer, Urgency,
};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{About, Listed, Mono, NodeName, Now, PodUid, Wall};
use serde_json::{Value, json};

mod driver;
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
    /// Requests that begin like this are answered as if they were done, and are not.
    pub pretends: Option<&'static str>,
    /// Whose pods the core watches.
    pub watched: BTreeSet<Scope>,
    /// When those are listed that it did not watch before.
    pub lists: Lists,
    /// Deletes, and adoptions of pods, wait for their turn until [`Cluster::send`].
    pub is_slow: bool,
    /// Creates of pods do so too, whatever the others do.
    pub creates_wait: bool,
    unsent: VecDeque<(RequestId, Arc<Owner>, Request)>,
    /// Those that were called off before they were sent.
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
            pretends: None,
            watched: BTreeSet::new(),
            lists: Lists::AtOnce,
            is_slow: false,
            creates_wait: false,
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
        match path.split('/').next() {
            Some("nodes") => self.streams[NODES].push_back(Input::NodeApplied(decode(&object))),
            Some("pods") => self.tell_of_pod(&decode(&object)),
            Some("daemonsets") => self.streams[DAEMONSETS].push_back(Input::DaemonSetApplied(decode(&object))),
            _ => self.streams[REVISIONS].push_back(Input::RevisionApplied(decode(&object))),
        }
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
            self.kubelet(&pod);
        }
    }

    /// The next of these things for one pod.
    pub fn kubelet(&mut self, pod: &Pod) {
        if pod.deleting {
            self.remove(&path_of(pod));
        } else if !pod.bound {
            self.bind(pod);
        } else if !pod.ready && !pod.is_terminal() {
            self.set_phase(pod, "Running", true);
        }
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

/// A pod as it is now.
pub fn shown(pod: Pod) -> Input {
    Input::PodApplied { of: scope(), pod }
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
