//! From template to pod (DS-090 to DS-096).
//!
//! A [`Template`] is what a DaemonSet's raw `spec.template` compiles to; a [`Blueprint`] is a pod of one revision that only lacks
//! the node. Both work on JSON, so that fields this program does not know are copied like the others.

use std::sync::Arc;

use bailiff_model::PodName;
use bailiff_model::names::is_subdomain;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::canonical;
use crate::effect::{Owner, Urgency};
use crate::facts::{LABEL_GENERATION, LABEL_HASH};
use crate::placement::Placement;

/// Tolerations that every daemon pod has: key and effect, in this order (DS-091).
const TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The toleration that daemon pods on the host's network have too.
const TOLERATION_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The urgency of missing pods by priority class.
fn urgency(class: Option<&str>) -> Urgency {
    match class {
        Some("system-node-critical") => Urgency::NodeCritical,
        Some("system-cluster-critical") => Urgency::ClusterCritical,
        _ => Urgency::Missing,
    }
}

/// What a pod body begins with before the pod's name.
const START: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#;

/// Longest part of a name before its suffix: as the API server cuts it (DS-095).
const PREFIX_MAX: usize = 58;

/// What a pod body ends in after the node's name. The pinned term is its last member, all the way up.
const PIN_END: &str = "]}]}]}}}}}";

/// Why a template or a pod cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The template has no canonical form.
    #[error("cannot be brought into canonical form")]
    Canonical(#[from] canonical::Error),
    /// The template cannot be read.
    #[error("unreadable JSON")]
    Unreadable(#[from] serde_json::Error),
    /// A pod without any label would belong to nobody (DS-096).
    #[error("unable to create pods, no labels")]
    NoLabels,
}

/// A compiled pod template.
#[derive(Clone, Debug)]
pub struct Template {
    data: Arc<[u8]>,
    placement: Placement,
    urgency: Urgency,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        // The placement follows from the bytes.
        self.data == other.data
    }
}

impl Eq for Template {}

impl Template {
    /// Compiles a raw `spec.template`.
    pub fn parse(raw: &RawValue) -> Result<Self, Error> {
        let data = canonical::data_of_template(raw)?;
        let mut value: Value = serde_json::from_str(raw.get())?;
        tolerate(&mut value["spec"]);
        Ok(Self {
            data: Arc::from(data),
            placement: Placement::compile(&value["spec"]),
            urgency: urgency(value["spec"]["priorityClassName"].as_str()),
        })
    }

    /// The canonical bytes that a revision of this template holds (DS-151).
    pub fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// Which nodes it belongs on.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// How urgent a pod of it is that a node lacks.
    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// Labels of the template, for a revision of it (DS-157).
    pub(crate) fn labels(&self) -> Map<String, Value> {
        match self.value()["metadata"]["labels"].take() {
            Value::Object(labels) => labels,
            _ => Map::new(),
        }
    }

    fn value(&self) -> Value {
        let mut data: Value = serde_json::from_slice(&self.data).unwrap_or_default();
        data["spec"]["template"].take()
    }
}

/// A pod of one revision of one DaemonSet, complete but for its name and its node.
#[derive(Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// The JSON of the pod from behind its name up to the node's name; [`START`] comes before, [`PIN_END`] follows.
    body: String,
    /// What its name begins with.
    prefix: String,
}

impl std::fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blueprint").field("bytes", &self.body.len()).finish()
    }
}

impl Blueprint {
    /// The pod of `template` for the revision of this `hash`.
    pub fn new(owner: &Owner, template: &Template, generation: Option<i64>, hash: &str) -> Result<Self, Error> {
        let mut template = template.value();
        let mut spec = template["spec"].take();
        let spec_members = tolerate(&mut spec);
        pin(spec_members);
        let metadata = metadata(owner, template["metadata"].take(), generation, hash)?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let mut body = serde_json::to_string(&pod)?.split_off(START.len());
        body.truncate(body.len() - PIN_END.len());
        let mut prefix = generate_name(&owner.name);
        // Names are ASCII: the API server saw to that.
        prefix.truncate(prefix.floor_char_boundary(PREFIX_MAX));
        Ok(Self { body, prefix })
    }

    /// The name of a pod of it with this suffix: what the API server would make of `generateName` (DS-095).
    ///
    /// Who names a pod can ask for the same one again when nobody knows whether it was created.
    pub fn name(&self, suffix: &str) -> PodName {
        PodName::from(format!("{}{suffix}", self.prefix))
    }

    /// The JSON of the pod of this name for `node`.
    pub fn render(&self, name: &str, node: &str) -> String {
        let mut pod = String::with_capacity(START.len() + self.body.len() + name.len() + node.len() + PIN_END.len() + 16);
        pod.push_str(START);
        pod.push_str("\"name\":");
        pod.push_str(&Value::from(name).to_string());
        pod.push(',');
        pod.push_str(&self.body);
        pod.push_str(&Value::from(node).to_string());
        pod.push_str(PIN_END);
        pod
    }
}

/// DS-090, DS-095, DS-096
fn metadata(owner: &Owner, template: Value, generation: Option<i64>, hash: &str) -> Result<Value, Error> {
    let mut labels = match &template["labels"] {
        Value::Object(labels) => labels.clone(),
        _ => Map::new(),
    };
    if let Some(generation) = generation {
        labels.insert(LABEL_GENERATION.to_owned(), json!(generation.to_string()));
    }
    if !hash.is_empty() {
        labels.insert(LABEL_HASH.to_owned(), json!(hash));
    }
    if labels.is_empty() {
        return Err(Error::NoLabels);
    }
    let mut metadata = json!({
        "generateName": generate_name(&owner.name),
        "namespace": owner.namespace.as_str(),
        "labels": labels,
        "ownerReferences": [owner.reference()],
    });
    for field in ["annotations", "finalizers"] {
        if !template[field].is_null() {
            metadata[field] = template[field].clone();
        }
    }
    Ok(metadata)
}

/// `<name>-`, or `<name>` where the dashed form begins no valid pod name (DS-095).
fn generate_name(name: &str) -> String {
    let dashed = format!("{name}-");
    // As the API server checks a prefix: what follows the dash is unknown, so its end is taken as a letter.
    let mut masked: String = dashed.chars().take(dashed.chars().count().saturating_sub(2)).collect();
    masked.push('a');
    if is_subdomain(&masked) { dashed } else { name.to_owned() }
}

/// Adds the automatic tolerations to a pod spec (DS-091, DS-092); what is no object becomes one.
fn tolerate(spec: &mut Value) -> &mut Map<String, Value> {
    let spec = object(spec);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let mut tolerations = match spec.get_mut("tolerations").map(Value::take) {
        Some(Value::Array(tolerations)) => tolerations,
        _ => Vec::new(),
    };
    for (key, effect) in TOLERATIONS.into_iter().chain(on_host.then_some(TOLERATION_HOST_NETWORK)) {
        let automatic = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_equal = |toleration: &&mut Value| {
            let same = |field: &str, wanted: &str| toleration[field].as_str().unwrap_or_default() == wanted;
            same("key", key) && same("effect", effect) && same("operator", "Exists") && same("value", "")
        };
        let mut replaced = false;
        for toleration in tolerations.iter_mut().filter(is_equal) {
            *toleration = automatic.clone();
            replaced = true;
        }
        if !replaced {
            tolerations.push(automatic);
        }
    }
    spec.insert("tolerations".to_owned(), Value::Array(tolerations));
    spec
}

/// Pins a pod spec to a node of empty name, and makes the pin its last member (DS-093).
fn pin(spec: &mut Map<String, Value>) {
    let mut affinity = spec.shift_remove("affinity").unwrap_or_default();
    let affinity_members = object(&mut affinity);
    let mut node_affinity = affinity_members.shift_remove("nodeAffinity").unwrap_or_default();
    let required = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": []}]}]});
    let node_affinity_members = object(&mut node_affinity);
    node_affinity_members.shift_remove("requiredDuringSchedulingIgnoredDuringExecution");
    node_affinity_members.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), required);
    affinity_members.insert("nodeAffinity".to_owned(), node_affinity);
    spec.insert("affinity".to_owned(), affinity);
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object right above")
}

#[cfg(test)]
mod tests;
