//! Steps of a scenario: what is done, and when.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Seconds, Settings};
use crate::oracle::lines::Fields;

/// Something done at a time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "RawStep")]
pub struct Step {
    /// When, in seconds since time zero.
    pub at: f64,
    /// What.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A request to the API.
    Request(Request),
    /// A change of kubelet settings; of all existing nodes without a name.
    Kubelet(Option<String>, Settings),
    /// A write of a pod's status.
    PodStatus(PodStatus),
    /// Texts resolved now and kept.
    Capture(BTreeMap<String, String>),
    /// A copy of an object.
    Copy(Copy),
    /// Something that happens to the controllers.
    Sut(Sut),
}

/// A request, sent as is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// HTTP method, or `CREATE`: create `body` like one of the objects.
    pub verb: String,
    /// Path, not for `CREATE`.
    #[serde(default)]
    pub path: String,
    /// Content type of the body.
    #[serde(default)]
    pub content_type: Option<String>,
    /// Body.
    #[serde(default)]
    pub body: Option<Value>,
    /// HTTP status wanted; any success without it.
    #[serde(default)]
    pub expect: Option<u16>,
}

/// A pod's phase and readiness.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodStatus {
    /// `NS/NAME`.
    pub pod: String,
    /// Phase.
    pub phase: String,
    /// Whether it is ready.
    pub ready: bool,
}

/// A copy of an object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// `RESOURCE/NS/NAME`.
    pub of: String,
    /// Top-level fields that are replaced.
    #[serde(default)]
    pub set: Fields,
    /// A blank after each colon and comma of the JSON that is sent.
    #[serde(default)]
    pub spaced: bool,
}

/// Something that happens to the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sut {
    /// They end without notice.
    Kill,
    /// They are asked to end.
    Stop,
    /// They are started again.
    Start,
    /// A second instance is started beside the first.
    Second,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    at: f64,
    request: Option<Request>,
    kubelet: Option<Map<String, Value>>,
    pod_status: Option<PodStatus>,
    capture: Option<BTreeMap<String, String>>,
    copy: Option<Copy>,
    sut: Option<Sut>,
}

// === impl Step ===

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let RawStep {
            at,
            request,
            kubelet,
            pod_status,
            capture,
            copy,
            sut,
        } = raw;
        Seconds::try_from(at)?;
        let kubelet = kubelet.map(kubelet_step).transpose()?;
        let actions = [
            request.map(Action::Request),
            kubelet,
            pod_status.map(Action::PodStatus),
            capture.map(Action::Capture),
            copy.map(Action::Copy),
            sut.map(Action::Sut),
        ];
        let mut actions = actions.into_iter().flatten();
        match (actions.next(), actions.next()) {
            (Some(action), None) => Ok(Self { at, action }),
            _ => Err("a step has one of request, kubelet, pod_status, capture, copy, sut".to_owned()),
        }
    }
}

fn kubelet_step(mut map: Map<String, Value>) -> Result<Action, String> {
    let node = match map.shift_remove("node") {
        Some(Value::String(node)) if node == "*" => None,
        Some(Value::String(node)) => Some(node),
        _ => return Err("a kubelet step needs the name of a node, or *".to_owned()),
    };
    let settings = Settings::try_from(map).map_err(|error| error.to_string())?;
    Ok(Action::Kubelet(node, settings))
}
