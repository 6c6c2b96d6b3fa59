//! Kubelets, in virtual time, without an API server: a table of inputs and what they lead to.

mod nodes;
mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Now, ReadyStatus, Wall, wellknown};
use serde_json::{Value, json};

use super::settings::{Change, KubeletSettings};
use super::{Core, Input, Target};
use crate::Verb;
use crate::effect::{Answer, Effect};
use crate::facts::{Container, NodeFacts, Phase, PodFacts, PodKey};
use crate::resources::{Allocatable, Resources};

/// Drives a core through virtual time and keeps what it wanted done, with the time in milliseconds.
struct Bench {
    core: Core,
    millis: u64,
    revision: u64,
    log: Vec<(u64, Effect)>,
}

impl Bench {
    fn new(settings: KubeletSettings) -> Self {
        Self {
            core: Core::new(settings, 7),
            millis: 0,
            revision: 100,
            log: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        let since = Duration::from_millis(self.millis);
        Now {
            mono: Mono::from_origin(since),
            wall: Wall::UNIX_EPOCH + since,
        }
    }

    fn apply(&mut self, input: impl Into<Input>) {
        let effects = self.core.apply(input.into(), self.now());
        for effect in effects {
            self.log.push((self.millis, effect.clone()));
            self.answer(effect);
        }
    }

    /// Every request is granted.
    fn answer(&mut self, effect: Effect) {
        let Effect::Send(request) = effect else { return };
        self.revision += 1;
        match request.answer {
            Answer::NodePosted(node) => self.apply(Input::NodePosted(node, Some(self.revision))),
            Answer::PodPosted(key) => self.apply(Input::PodPosted(key, Some(self.revision))),
            _ => {}
        }
    }

    /// Lets time pass up to `seconds`, stopping at each deadline.
    fn until(&mut self, seconds: f64) {
        let end = (seconds * 1000.0) as u64;
        while let Some(next) = self.core.next_deadline() {
            let next = u64::try_from(next.since_origin().as_nanos().div_ceil(1_000_000)).unwrap();
            if next > end {
                break;
            }
            self.millis = next.max(self.millis);
            self.apply(Input::Wake);
        }
        self.millis = end;
    }

    fn set(&mut self, name: &str, text: &str) {
        let change = Change::new().with(name, text).unwrap();
        self.apply(Input::Change {
            target: Target::All,
            change,
        });
    }

    /// What happened since the last call, in short.
    fn said(&mut self) -> Vec<(u64, String)> {
        self.log.drain(..).map(|(at, effect)| (at, brief(&effect))).collect()
    }

    fn texts(&mut self) -> Vec<String> {
        self.said()
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| !text.starts_with("binding"))
            .collect()
    }
}

fn brief(effect: &Effect) -> String {
    match effect {
        Effect::Renew { node, ensure, .. } => format!("lease {node}{}", if *ensure { " ensured" } else { "" }),
        Effect::Binding { node, delay } => format!("binding {node} {delay:?}"),
        Effect::Send(request) => match (request.verb, request.path.as_str()) {
            (Verb::StrategicMergePatch, path) if path.starts_with("/api/v1/nodes") => format!("node {}", conditions(&request.body)),
            (Verb::StrategicMergePatch, _) => pod_brief(&request.body["status"]),
            (Verb::Delete, path) => format!("delete {path}"),
            (Verb::Create, _) => format!("event {} {}", request.body["reason"], request.body["message"]),
            (verb, path) => format!("{verb:?} {path}"),
        },
    }
}

fn conditions(body: &Value) -> String {
    let list = body["status"]["conditions"].as_array().unwrap().iter();
    let texts: Vec<String> = list
        .filter(|condition| condition["type"] != "Ready" && condition["status"] == "True" || condition["type"] == "Ready")
        .map(|condition| {
            format!(
                "{}={}",
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap()
            )
        })
        .collect();
    texts.join(" ")
}

fn pod_brief(status: &Value) -> String {
    let list = status["conditions"].as_array().unwrap();
    let ready = list.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let container = &status["containerStatuses"][0];
    let waiting = container["state"]["waiting"]["reason"].as_str().unwrap_or("-");
    format!(
        "{} ready={} restarts={} {waiting}",
        status["phase"].as_str().unwrap(),
        ready["status"].as_str().unwrap(),
        container["restartCount"]
    )
}

fn mk_node(revision: u64, uid: &str) -> NodeFacts {
    NodeFacts {
        name: NodeName::from("n1"),
        uid: uid.into(),
        revision,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: BTreeMap::from([(Arc::from("Ready"), ReadyStatus::True)]),
        allocatable: Allocatable::default(),
        internal_ip: None,
        boot_id: "first".to_owned(),
        is_terminating: false,
    }
}

fn mk_annotated(revision: u64, annotations: &[(&str, &str)]) -> NodeFacts {
    let annotations = annotations
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    NodeFacts {
        annotations: annotations.collect(),
        ..mk_node(revision, "u1")
    }
}

fn mk_pod(name: &str, revision: u64) -> PodFacts {
    PodFacts {
        key: PodKey::new("default", name),
        uid: format!("uid-{name}").into(),
        revision,
        node: Some(NodeName::from("n1")),
        phase: Phase::Pending,
        ready: ReadyStatus::Absent,
        scheduled: ReadyStatus::True,
        terminating: None,
        annotations: BTreeMap::new(),
        containers: Arc::from([Container {
            name: "main".to_owned(),
            image: "example.org/app:1".to_owned(),
        }]),
        restarts_always: true,
        host_network: false,
        requests: Resources::of_pod(100, 0),
        controller: None,
        has_started: false,
        placement: None,
    }
}

fn mk_running(name: &str, revision: u64, ready: ReadyStatus) -> PodFacts {
    PodFacts {
        phase: Phase::Running,
        ready,
        has_started: true,
        ..mk_pod(name, revision)
    }
}
