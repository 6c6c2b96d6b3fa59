//! The cluster of a scenario: API server, kubelets, controllers, and what was captured.

use std::collections::BTreeMap;

use bailiff_model::Wall;
use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::driver::{Driver, Options};
use bailiff_sandbox::kubelet::{Change as Settings, KubeletSettings, Target};
use bailiff_sandbox::{Change, Config, Sandbox};
use serde_json::{Value, json};

use super::Error;
use crate::oracle::file::{Controller, Kubelets, Scenario};
use crate::oracle::observe::{CANARY, meta, target};
use crate::oracle::placeholders::{Lookup, resolve_all};
use crate::oracle::sut::Controllers;

/// Name of the DaemonSet that shows that the controllers work. It matches no node.
const CANARY_SET: &str = "canary";
/// Label that the node lifecycle controller copies, and its copy.
const OS: &str = "/metadata/labels/kubernetes.io~1os";
const BETA_OS: &str = "/metadata/labels/beta.kubernetes.io~1os";

/// The cluster of a scenario. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Rig {
    /// The clock of everything.
    pub clock: Clock,
    /// The API server.
    pub sandbox: Sandbox,
    /// The instances that run.
    pub controllers: Vec<Controllers>,
    /// How many instances were started.
    pub started: u32,
    /// Texts that were kept.
    pub captured: BTreeMap<String, String>,
    driver: Option<Driver>,
    shutdown: Shutdown,
    /// Nobody but us takes the taint of new nodes away.
    untaints: bool,
    has_canary: bool,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shutdown.trigger();
        self.controllers.iter().for_each(Controllers::kill);
    }
}

// === impl Rig ===

impl Rig {
    /// An empty cluster.
    pub fn new(scenario: &Scenario, clock: &Clock, seed: &Seed) -> Self {
        let config = Config {
            // Scenarios last for minutes, with some writes per second: nothing is forgotten.
            history: 1 << 20,
            ..Config::default()
        };
        Self {
            clock: clock.clone(),
            sandbox: Sandbox::new(config, clock.clone(), seed),
            controllers: Vec::new(),
            started: 1,
            captured: BTreeMap::new(),
            driver: None,
            shutdown: Shutdown::new(),
            untaints: !scenario.runs(Controller::NodeLifecycleController),
            has_canary: scenario.runs(Controller::DaemonsetController),
        }
    }

    /// Creates the objects.
    pub async fn fill(&mut self, scenario: &Scenario) -> Result<(), Error> {
        if self.has_canary {
            for object in canary() {
                self.create(object, None).await?;
            }
        }
        for object in &scenario.objects {
            self.create(object.clone(), None).await?;
        }
        Ok(())
    }

    /// Creates an object as scenarios do: with its status, and without the taint of new nodes if nobody would take it away.
    pub async fn create(&self, mut object: Value, expect: Option<u16>) -> Result<(), Error> {
        resolve_all(&mut object, self)?;
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let collection = self.collection_of(api_version, kind, meta(&object, "namespace"))?;
        let path = format!("{collection}/{}", meta(&object, "name"));
        let (is_node, is_pod) = (kind == "Node", kind == "Pod");
        let status = match &mut object {
            Value::Object(fields) if is_pod => fields.shift_remove("status"),
            _ => None,
        };
        self.send("POST", &collection, None, Some(&object), expect).await?;
        if let Some(status) = status {
            self.patch(&format!("{path}/status"), "strategic-merge-patch", &json!({"status": status}))
                .await?;
        }
        if is_node && self.untaints {
            let taints = object.pointer("/spec/taints").cloned().unwrap_or_default();
            self.patch(&path, "merge-patch", &json!({"spec": {"taints": taints}})).await?;
        }
        Ok(())
    }

    /// Starts the simulated kubelets.
    pub async fn start_kubelets(&mut self, kubelets: &Kubelets) -> Result<(), Error> {
        let mut defaults = KubeletSettings::oracle();
        kubelets.defaults.0.apply_to(&mut defaults);
        let options = Options {
            kubelets: Some(defaults),
            ..Options::oracle()
        };
        // It ends with the shutdown, and with the runtime at the latest.
        let (driver, _ended) = Driver::start(&self.sandbox, &options, &self.shutdown);
        self.driver = Some(driver);
        for (node, settings) in &kubelets.nodes {
            self.change_kubelets(Target::Node(node.as_str().into()), settings.0.clone())
                .await?;
        }
        Ok(())
    }

    /// Changes settings of kubelets.
    pub async fn change_kubelets(&self, target: Target, change: Settings) -> Result<(), Error> {
        match &self.driver {
            Some(driver) => Ok(driver.change(target, change).await?),
            None => Ok(()),
        }
    }

    /// What is missing until the daemonset controller is seen to work.
    pub fn canary_missing(&self) -> Option<String> {
        let canary = self.sandbox.get("daemonsets.apps", CANARY, CANARY_SET)?.value();
        let is_observed = canary.pointer("/status/observedGeneration").and_then(Value::as_i64) == Some(1);
        (!is_observed).then(|| "the canary DaemonSet was not observed".to_owned())
    }

    /// What is missing until the node lifecycle controller is seen to work.
    pub fn label_missing(&self, objects: &[Value]) -> Option<String> {
        let lacks = |object: &Value| object.pointer(OS).is_some() && object.pointer(BETA_OS).is_none();
        let waiting = objects.iter().filter(|object| object["kind"] == "Node" && lacks(object));
        let unlabelled = waiting.map(|object| meta(object, "name")).find(|name| {
            let node = self.sandbox.get("nodes", "", name);
            node.is_some_and(|node| lacks(&node.value()))
        });
        unlabelled.map(|name| format!("node {name} lacks label beta.kubernetes.io/os"))
    }
}

impl Lookup for Rig {
    fn now(&self) -> Wall {
        self.clock.wall()
    }

    fn pod(&self, namespace: &str, set: &str, node: &str) -> Option<String> {
        let is_wanted = |pod: &Value| {
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let is_owned = owners
                .into_iter()
                .flatten()
                .any(|owner| owner["kind"] == "DaemonSet" && owner["name"] == set);
            is_owned && target(pod) == node && pod.pointer("/metadata/deletionTimestamp").is_none()
        };
        // The history knows the order of creations that fall into one second.
        let history = self.sandbox.history();
        let made = history
            .iter()
            .rev()
            .filter(|seen| &*seen.resource == "pods" && seen.event.change == Change::Added);
        let pods = made.map(|seen| &seen.event.object).filter(|pod| pod.namespace() == namespace);
        let existing = pods.filter_map(|made| {
            let pod = self.sandbox.get("pods", made.namespace(), made.name())?;
            (pod.uid() == made.uid()).then_some(pod)
        });
        let mut wanted = existing.filter(|pod| is_wanted(&pod.value()));
        wanted.next().map(|pod| pod.name().to_owned())
    }

    fn revision(&self, namespace: &str, set: &str, number: i64) -> Option<String> {
        let (_, revisions) = self.sandbox.list("controllerrevisions.apps");
        let found = revisions
            .into_iter()
            .filter(|revision| revision.namespace() == namespace)
            .find(|revision| {
                let revision = revision.value();
                let owners = revision.pointer("/metadata/ownerReferences").and_then(Value::as_array);
                let is_owned = owners
                    .into_iter()
                    .flatten()
                    .any(|owner| owner["kind"] == "DaemonSet" && owner["name"] == set);
                is_owned && revision["revision"].as_i64() == Some(number)
            });
        found.map(|revision| revision.name().to_owned())
    }

    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
        let kinds = self.sandbox.kinds();
        let kind = kinds.iter().find(|kind| kind.resource == resource && !kind.virtual_)?;
        let object = self.sandbox.get(&kind.storage, namespace, name)?;
        Some(object.uid().to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.captured.get(name).cloned()
    }
}

/// Objects that nobody but the daemonset controller cares about.
fn canary() -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CANARY}}),
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": CANARY_SET, "namespace": CANARY},
            "spec": {
                "selector": {"matchLabels": {"app": CANARY_SET}},
                "template": {
                    "metadata": {"labels": {"app": CANARY_SET}},
                    "spec": {
                        "nodeSelector": {"oracle.bailiff.dev/none": "none"},
                        "containers": [{"name": "c", "image": "registry.example/app:v1"}],
                    },
                },
            },
        }),
    ]
}
