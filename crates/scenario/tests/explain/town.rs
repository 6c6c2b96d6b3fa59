//! A world to ask questions in: two zones, pods, and what people do to them.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Topic, Wall, wellknown};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::{Change, KubeletSettings, Target};
use bailiff_sandbox::{Change as Kind, Observation, User, Verb};
use bailiff_scenario::answers::{Answer, Subject, ask};
use bailiff_scenario::chaos::{Faults, Method, Story, Terms};
use bailiff_scenario::{Fixture, StageName, StageOptions, Transport, world};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const PAUSES: &str = "/api/v1/namespaces/kube-system/configmaps";

/// Who deleted a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    By(StageName),
    ByOthers,
}

pub struct Town {
    pub faults: Faults,
    fixture: Fixture,
    began: Mono,
    pods: BTreeMap<String, Subject>,
}

/// Tolerations of one taint.
pub fn tolerating(key: &str, seconds: Option<u64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    json!([toleration])
}

// === impl Town ===

impl Town {
    /// Zone z0 of four nodes and z1 of two; one node is isolated in 20 s, evictions ask budgets.
    pub fn run(play: impl AsyncFnOnce(&mut Self)) {
        world::run(async |clock| {
            let mut town = Self::found(clock).await;
            play(&mut town).await;
            assert_eq!(town.fixture.ended(), [], "no stage ends by itself");
        });
    }

    async fn found(clock: Clock) -> Self {
        let cluster = ClusterOptions {
            kubelets: Some(KubeletSettings {
                lease_interval: Some(Duration::from_secs(2)),
                ..KubeletSettings::cluster()
            }),
            ..ClusterOptions::cluster()
        };
        let terms = Terms {
            rate: 0.05,
            method: Method::Evict,
            ..Terms::default()
        };
        let options = StageOptions::parse(terms.flags()).expect("flags");
        let seed = Seed::new(1);
        let began = clock.now().mono;
        let mut fixture = Fixture::start(Transport::InProcess, &cluster, options, clock, seed)
            .await
            .expect("a world");
        let (faults, _) = Faults::new(&fixture.seed);
        fixture.inject(faults.clone());
        let town = |fixture| Self {
            faults,
            fixture,
            began,
            pods: BTreeMap::new(),
        };
        let mut town = town(fixture);
        for (zone, count) in [("z0", 4), ("z1", 2)] {
            (0..count).for_each(|nth| town.node(&format!("{zone}-n{nth}"), zone));
        }
        town.create("/apis/apps/v1/namespaces/default/daemonsets", &Story::daemon_set(1, (1, 0)));
        town.fixture.start_stages().await.expect("stages start");
        town.until(3).await;
        town
    }

    fn node(&self, name: &str, zone: &str) {
        let labels = json!({(wellknown::LABEL_REGION): "r", (wellknown::LABEL_ZONE): zone});
        self.create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}));
    }

    /// Lets the world go on until so many seconds after its beginning.
    pub async fn until(&self, second: u64) {
        let then = self.began + Duration::from_secs(second);
        assert!(then >= self.fixture.clock.now().mono, "it is later than {second} s");
        tokio::time::sleep_until(self.fixture.clock.instant_of(then)).await;
    }

    // === what people do ===

    fn create(&self, path: &str, object: &Value) {
        self.fixture.create(path, object).expect("created");
    }

    fn request(&self, verb: Verb, path: &str, body: &Value) {
        let answer = self.fixture.sandbox.request(&User::admin(), verb, path, body);
        answer.expect("allowed");
    }

    pub fn pod(&mut self, name: &str, node: &str, tolerations: &Value) {
        let spec = json!({
            "nodeName": node, "tolerations": tolerations, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "registry.example/app:v1"}],
        });
        self.create(
            PODS,
            &json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}),
        );
        self.know(name, node);
    }

    fn know(&mut self, name: &str, node: &str) {
        let pod = self.fixture.sandbox.get("pods", "default", name).expect("it is there");
        let subject = Subject {
            name: format!("default/{name}"),
            uid: pod.uid().to_owned(),
            node: node.to_owned(),
        };
        self.pods.insert(name.to_owned(), subject);
    }

    /// Nobody takes it away, whoever deletes it.
    pub fn keep(&self, name: &str) {
        let finalizers = json!({"metadata": {"finalizers": ["example.com/keep"]}});
        self.request(Verb::MergePatch, &format!("{PODS}/{name}"), &finalizers);
    }

    pub fn delete_pod(&self, name: &str) {
        self.request(Verb::Delete, &format!("{PODS}/{name}"), &Value::Null);
    }

    /// Puts a NoExecute taint on a node, or takes it off.
    pub fn taint(&self, node: &str, key: &str, value: Option<&str>) {
        let added = self.fixture.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let changed = self.fixture.sandbox.modify("nodes", ("", node, ""), |object| {
            let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.retain(|taint| taint["key"] != key);
            taints.extend(value.map(|value| json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": added})));
            object["spec"]["taints"] = taints.into();
            true
        });
        changed.expect("the node is there");
    }

    pub async fn silence(&self, nodes: &[&str], is_silent: bool) {
        for node in nodes {
            let text = if is_silent { "false" } else { "true" };
            let change = Change::default().with("alive", text).expect("a setting");
            let target = Target::Node(NodeName::from(*node));
            self.fixture.driver.change(target, change).await.expect("the kubelets run");
        }
    }

    /// Everything, for so many seconds.
    pub fn pause(&self, seconds: u64) {
        let now = self.fixture.clock.wall();
        let until = now.checked_add(Duration::from_secs(seconds)).expect("in range");
        let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "as the test wanted"});
        let object = json!({"metadata": {"name": "bailiff-pauses"}, "data": {"entry": entry.to_string()}});
        self.create(PAUSES, &object);
    }

    /// Of the pods of one name, so many must be healthy.
    pub fn budget(&self, name: &str, least: usize) {
        let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": name}}});
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        self.create(path, &json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// A node is deleted, and another of its name is there.
    pub fn replace_node(&self, name: &str) {
        self.request(Verb::Delete, &format!("/api/v1/nodes/{name}"), &Value::Null);
        self.node(name, &name[..2]);
    }

    // === what is answered ===

    pub async fn explain(&self, name: &str) -> Answer {
        let subject = self.pods.get(name).expect("a pod of this test");
        let Fixture { bus, sandbox, clock, .. } = &self.fixture;
        ask(bus, sandbox, clock, subject).await.expect("the bus answers")
    }

    /// The same of the daemon pod of a node.
    pub async fn explain_daemon(&mut self, node: &str) -> Answer {
        let (_, pods) = self.fixture.sandbox.list("pods");
        let is_it = |value: &Value| value["metadata"]["labels"]["app"] == "agent" && value["spec"]["nodeName"] == *node;
        let found = pods.iter().find(|pod| is_it(&pod.value())).expect("a daemon pod");
        let name = found.name().to_owned();
        self.know(&name, node);
        self.explain(&name).await
    }

    /// Seconds from the beginning to a time in a record.
    pub fn second_of(&self, time: &Value) -> f64 {
        let wall: Wall = time.as_str().expect("a time").parse().expect("a time");
        let now = self.fixture.clock.now();
        now.mono_of(wall).saturating_since(self.began).as_secs_f64()
    }

    pub fn is_taken_back(&self, answer: &Answer, topic: Topic, name: &str) -> bool {
        answer.is_taken_back(topic, &self.pods[name].uid)
    }

    // === what the API's history says ===

    /// Who deleted the pod, and when, in seconds from the beginning.
    pub fn deleted(&self, name: &str) -> Option<(Deleted, f64)> {
        let uid = &self.pods.get(name).expect("a pod of this test").uid;
        let is_going = |seen: &&Observation| {
            let object = &seen.event.object;
            let is_its = &*seen.resource == "pods" && object.uid() == uid;
            is_its && (seen.event.change == Kind::Deleted || !object.value()["metadata"]["deletionTimestamp"].is_null())
        };
        let history = self.fixture.sandbox.history();
        let seen = history.iter().find(is_going)?;
        let stage = StageName::ALL.into_iter().find(|stage| *seen.actor == *stage.as_str());
        Some((stage.map_or(Deleted::ByOthers, Deleted::By), self.since_beginning(seen)))
    }

    /// When the NoExecute taint came that the node has.
    pub fn tainted_at(&self, node: &str, key: &str) -> Option<f64> {
        let history = self.fixture.sandbox.history();
        let mut of_node = history
            .iter()
            .filter(|seen| &*seen.resource == "nodes" && seen.event.object.name() == node);
        let has = |seen: &&Observation| no_execute(&seen.event.object.value()).contains(&format!("{key}:NoExecute"));
        of_node.find(has).map(|seen| self.since_beginning(seen))
    }

    /// As `key:effect`.
    pub fn taints_of(&self, node: &str) -> Vec<String> {
        let object = self.fixture.sandbox.get("nodes", "", node).expect("the node is there");
        no_execute(&object.value())
    }

    fn since_beginning(&self, seen: &Observation) -> f64 {
        seen.at.mono.saturating_since(self.began).as_secs_f64()
    }
}

fn no_execute(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value| {
        format!(
            "{}:{}",
            taint["key"].as_str().unwrap_or_default(),
            taint["effect"].as_str().unwrap_or_default()
        )
    };
    taints.iter().map(text).collect()
}
