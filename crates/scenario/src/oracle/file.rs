//! A scenario file, as people and recorders write it.
//!
//! Reading is strict: an unknown field or setting is an error that names it, because a scenario that is half understood proves nothing.

mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiff_sandbox::kubelet::Change;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::differences::Profile;
use super::lines::{EventLine, Fields, Line};
use crate::StageName;

pub use steps::{Action, Copy, PodStatus, Request, Step, Sut};

/// Why a file is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It does not say what a scenario says.
    #[error("{} is no scenario", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Field and place.
        source: serde_json::Error,
    },
}

/// A recorded scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name.
    pub id: String,
    /// What happens, in one sentence.
    #[serde(default)]
    pub title: String,
    /// Further explanation.
    #[serde(default)]
    pub about: String,
    /// Rules of the behaviour specification that it was written for.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The controllers that run.
    pub controllers: Vec<Controller>,
    /// How pods leave a bad node.
    #[serde(default)]
    pub eviction_mode: EvictionMode,
    /// kube-controller-manager flags, without dashes.
    #[serde(default)]
    pub flags: BTreeMap<String, Flag>,
    /// What marks time zero.
    #[serde(default)]
    pub activation: Vec<Activation>,
    /// The simulated kubelets.
    #[serde(default)]
    pub kubelet: Kubelets,
    /// Objects created before the controllers start.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// What is done later.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// From time zero to the end, in seconds.
    pub duration: Seconds,
    /// By how much a time may lie outside its recorded span, in seconds.
    pub tolerance_s: Seconds,
    /// Sets of nodes whose order of treatment is free.
    #[serde(default)]
    pub interchangeable: Vec<Interchangeable>,
    /// Transitions made by the controllers, by object; without it they are not judged.
    #[serde(default)]
    pub observed: Option<BTreeMap<String, Vec<Line>>>,
    /// Events emitted; without it they are not judged.
    #[serde(default)]
    pub events: Option<Vec<EventLine>>,
    /// The state at the end; without it it is not judged.
    #[serde(default, rename = "final")]
    pub finals: Option<BTreeMap<String, Fields>>,
    /// What differs between recordings.
    #[serde(default)]
    pub unstable: Vec<Unstable>,
    /// How it was recorded; of no consequence.
    #[serde(default)]
    pub recorded: Value,
}

/// A number of seconds that is finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "f64")]
pub struct Seconds(f64);

/// A controller, by its kube-controller-manager name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// Health, taints, labels, readiness of pods.
    NodeLifecycleController,
    /// Deletion of pods that do not tolerate a taint.
    TaintEvictionController,
    /// Daemon pods.
    DaemonsetController,
}

/// How pods leave a bad node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionMode {
    /// By taints.
    #[default]
    Taint,
    /// All together, after a timeout.
    Node,
}

/// A value of a flag, as text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Flag(String);

/// Something that becomes visible when the controllers work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// The canary DaemonSet was observed.
    Daemonset,
    /// Every node of the objects has its beta label for the operating system.
    NodeLabel,
}

/// The simulated kubelets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubelets {
    /// Settings of all.
    #[serde(default)]
    pub defaults: Settings,
    /// Settings of some, by node.
    #[serde(default)]
    pub nodes: BTreeMap<String, Settings>,
}

/// Changes of kubelet settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Settings(pub Change);

/// A set of nodes whose order of treatment is free.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interchangeable {
    /// The nodes.
    pub nodes: Vec<String>,
    /// What they are called instead, with a letter appended.
    pub name: String,
    /// Only transitions from then on count for their order.
    #[serde(default = "beginning")]
    pub rank_after: f64,
    /// Only transitions with these fields count for their order.
    #[serde(default)]
    pub rank_by: Fields,
}

/// Something that is neither required nor forbidden.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Fields")]
pub enum Unstable {
    /// A transition of an object that has these fields.
    Transition(String, Fields),
    /// An Event that has these fields.
    Event(Fields),
    /// A field of an object at the end, or the whole object.
    Final(String, Option<String>),
}

fn beginning() -> f64 {
    f64::NEG_INFINITY
}

// === impl Scenario ===

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no scenario.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| Error::Parse {
            path: path.to_owned(),
            source,
        })
    }

    /// Whether a controller runs.
    pub fn runs(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// The stages that do the work of its controllers, in pipeline order.
    pub fn stages(&self) -> Vec<StageName> {
        let health = self.runs(Controller::NodeLifecycleController);
        let pods = health || self.runs(Controller::TaintEvictionController);
        let wanted = |stage: &StageName| match stage {
            StageName::NodeHealthMonitor => health,
            StageName::TaintManager | StageName::ZoneEvictor => pods,
            StageName::DaemonsetSyncer => self.runs(Controller::DaemonsetController),
        };
        StageName::ALL.into_iter().filter(wanted).collect()
    }

    /// The command line of the stages: the recorded flags under the names they have here.
    pub fn stage_flags(&self, profile: Profile) -> Vec<String> {
        let controllers: Vec<&str> = self.controllers.iter().map(|one| one.as_str()).collect();
        let mut flags = vec![
            format!("--profile={}", profile.as_str()),
            format!("--controllers={}", controllers.join(",")),
        ];
        if self.eviction_mode == EvictionMode::Node && !self.flags.contains_key("eviction-mode") {
            flags.push("--eviction-mode=node".to_owned());
        }
        flags.extend(self.flags.iter().map(|(name, Flag(value))| format!("--{name}={value}")));
        flags
    }

    /// Whether there is anything to compare with.
    pub fn is_judged(&self) -> bool {
        self.observed.is_some() || self.events.is_some() || self.finals.is_some()
    }
}

// === impl Seconds ===

impl Seconds {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        /// A day: what lasts longer is a mistake.
        const LONGEST: f64 = 86_400.0;
        if (0.0..=LONGEST).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(format!("{seconds} is no number of seconds: wanted 0 to {LONGEST}"))
        }
    }
}

// === impl Controller ===

impl Controller {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeLifecycleController => "node-lifecycle-controller",
            Self::TaintEvictionController => "taint-eviction-controller",
            Self::DaemonsetController => "daemonset-controller",
        }
    }
}

// === impl Flag ===

impl TryFrom<Value> for Flag {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Bool(_) | Value::Number(_) => Ok(Self(value.to_string())),
            other => Err(format!(
                "{other} is no value of a flag: wanted a text, a number, true or false"
            )),
        }
    }
}

// === impl Settings ===

impl TryFrom<Map<String, Value>> for Settings {
    type Error = bailiff_sandbox::kubelet::Error;

    fn try_from(map: Map<String, Value>) -> Result<Self, Self::Error> {
        Change::from_json(map.iter().map(|(key, value)| (key.as_str(), value))).map(Self)
    }
}

// === impl Unstable ===

impl TryFrom<Fields> for Unstable {
    type Error = String;

    fn try_from(mut fields: Fields) -> Result<Self, String> {
        match (
            fields.shift_remove("obj"),
            fields.shift_remove("event"),
            fields.shift_remove("final"),
        ) {
            (Some(Value::String(object)), None, None) => Ok(Self::Transition(object, fields)),
            (None, Some(Value::Object(event)), None) => Ok(Self::Event(event)),
            (None, None, Some(Value::String(object))) => {
                let field = fields.get("field").and_then(Value::as_str).map(str::to_owned);
                Ok(Self::Final(object, field))
            }
            _ => Err("an unstable entry has one of obj, event, final".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(change: impl FnOnce(&mut Value)) -> Result<Scenario, serde_json::Error> {
        let mut file = json!({
            "id": "x", "controllers": ["node-lifecycle-controller"], "duration": 3, "tolerance_s": 1.5,
            "flags": {"node-eviction-rate": "0.5", "enable-taint-manager": false},
            "kubelet": {"defaults": {"lease_interval": null}, "nodes": {"n1": {"alive": false}}},
            "steps": [{"at": 1, "kubelet": {"node": "*", "ready": "False"}}],
        });
        change(&mut file);
        serde_json::from_value(file)
    }

    #[test]
    fn a_file_says_which_stages_run_with_which_flags() {
        let read = scenario(|file| file["eviction_mode"] = "node".into()).expect("allowed");
        let stages = [StageName::NodeHealthMonitor, StageName::TaintManager, StageName::ZoneEvictor];
        assert_eq!(read.stages(), stages);
        let wanted = [
            "--profile=upstream",
            "--controllers=node-lifecycle-controller",
            "--eviction-mode=node",
            "--enable-taint-manager=false",
            "--node-eviction-rate=0.5",
        ];
        assert_eq!(read.stage_flags(Profile::Upstream), wanted);
        let daemons = scenario(|file| file["controllers"] = json!(["daemonset-controller"])).expect("allowed");
        assert_eq!(daemons.stages(), [StageName::DaemonsetSyncer]);
        let timers = scenario(|file| file["controllers"] = json!(["taint-eviction-controller"])).expect("allowed");
        assert_eq!(timers.stages(), [StageName::TaintManager, StageName::ZoneEvictor]);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        type Case<'a> = (fn(&mut Value), &'a [&'a str]);
        let cases: [Case<'_>; 9] = [
            (|file| file["colour"] = 1.into(), &["unknown field `colour`"]),
            (
                |file| file["controllers"] = json!(["job-controller"]),
                &["job-controller", "daemonset-controller"],
            ),
            (|file| file["steps"][0]["at"] = (-1).into(), &["-1", "0 to 86400"]),
            (|file| file["steps"][0]["sut"] = "kill".into(), &["one of request, kubelet"]),
            (
                |file| file["steps"][0]["kubelet"]["lives"] = 9.into(),
                &["\"lives\"", "alive"],
            ),
            (
                |file| file["kubelet"]["defaults"]["alive"] = "maybe".into(),
                &["maybe", "true or false"],
            ),
            (|file| file["flags"]["x"] = json!([1]), &["[1]", "flag"]),
            (|file| file["duration"] = json!(1e9), &["1000000000"]),
            (|file| file["unstable"] = json!([{"pod": "x"}]), &["obj, event, final"]),
        ];
        for (change, parts) in cases {
            let error = scenario(change).expect_err("not allowed").to_string();
            for part in parts {
                assert!(error.contains(part), "{error} lacks {part}");
            }
        }
    }
}
