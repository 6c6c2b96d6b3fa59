//! Pods: admission, what an update may change, QoS, grace.

use serde_json::{Value, json};

use super::{Context, Rules, default, equal_field, find, items, keep, meta, podspec, section, text};
use crate::Status;
use crate::schema::time;
use crate::status::Cause;
use crate::store::{Fields, Key};

mod change;
pub mod part;

/// Seconds that pods tolerate a node that is not ready or unreachable, unless they say otherwise.
const TOLERATED: i64 = 300;
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Marks what a kubelet runs on its own account.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Rules for pods.
#[derive(Debug)]
pub struct Pods;

impl Rules for Pods {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        podspec::defaults(spec);
        podspec::pod_defaults(spec);
        default(spec, "enableServiceLinks", true);
        normalize_addresses(object);
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
        priority(object, context)?;
        runtime_class(object)?;
        default_tolerations(object);
        let spec = section(object, "spec");
        if spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        let qos = podspec::qos(&object["spec"]);
        object["status"] = json!({"phase": "Pending", "qosClass": qos});
        let gated = !items(object, "/spec/schedulingGates").is_empty();
        if gated {
            let condition = json!({
                "type": "PodScheduled", "status": "False", "lastProbeTime": null,
                "lastTransitionTime": time::seconds(context.now.wall),
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            });
            object["status"]["conditions"] = json!([condition]);
        }
        let node = text(object, "/spec/nodeName").to_owned();
        copy_topology(object, &node, context);
        Ok(())
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        default_tolerations(object);
        keep(object, old, "status");
        if !equal_field(object, old, "spec") {
            meta::grow_generation(object, old);
        }
        Ok(())
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        keep_metadata(object, old, "ownerReferences");
        // The class is the server's own; leaving it out changes nothing.
        let class = text(old, "/status/qosClass").to_owned();
        if !class.is_empty() {
            default(section(object, "status"), "qosClass", class);
        }
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        validate_always(object, causes);
        if !items(object, "/spec/ephemeralContainers").is_empty() {
            causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        validate_always(object, causes);
        change::validate(object, old, causes);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(complaint) = hostname_complaint(text(object, "/metadata/name")) {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
                 recommended: [{complaint}]"
            ));
        }
        podspec::warnings(object.get("spec").unwrap_or(&Value::Null), "spec", &mut warnings);
        warnings
    }

    fn validate_status(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        meta::immutable(object, old, "/status/qosClass", causes);
        let nominated = text(object, "/status/nominatedNodeName");
        if !nominated.is_empty() && !crate::api::names::is_subdomain(nominated) {
            let complaint = crate::api::names::SUBDOMAIN_COMPLAINT;
            causes.push(Cause::invalid("status.nominatedNodeName", &json!(nominated), complaint));
        } else if nominated != text(old, "/status/nominatedNodeName")
            && !nominated.is_empty()
            && !text(object, "/spec/nodeName").is_empty()
        {
            let why = "may not be set on pods that are already bound to a node";
            causes.push(Cause::forbidden("status.nominatedNodeName", why));
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn grace(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        let own = object
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let phase = text(object, "/status/phase");
        // Nobody will stop a pod that runs nowhere, or has stopped.
        let idle = text(object, "/spec/nodeName").is_empty() || matches!(phase, "Failed" | "Succeeded");
        let seconds = if idle { 0 } else { asked.unwrap_or(own) };
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

/// Copies zone and region of a node to a pod that gets it.
pub fn copy_topology(pod: &mut Value, node: &str, context: &Context<'_>) {
    let Some(node) = context.store.get("nodes", &Key::new("", node)) else {
        return;
    };
    for key in TOPOLOGY {
        if let Some(value) = node.label(key) {
            section(section_value(pod), "labels").insert(key.to_owned(), value.into());
        }
    }
    if let Some(Value::Object(labels)) = pod.pointer_mut("/metadata/labels") {
        labels.sort_keys();
    }
}

fn section_value(pod: &mut Value) -> &mut Value {
    section(pod, "metadata");
    &mut pod["metadata"]
}

fn priority(object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
    let name = name_so_far(object).to_owned();
    let refuse = |why: String| Err(Status::forbidden("", "pods", &name, &why));
    let class = text(object, "/spec/priorityClassName").to_owned();
    let found = if class.is_empty() {
        super::priority::default_class(context.store)
    } else {
        match context.store.get("priorityclasses.scheduling.k8s.io", &Key::new("", &class)) {
            Some(found) => Some(found.value()),
            None => return refuse(format!("no PriorityClass with name {class} was found")),
        }
    };
    let class = found.as_ref().map_or("", |class| text(class, "/metadata/name"));
    let value = found
        .as_ref()
        .and_then(|class| class.get("value"))
        .cloned()
        .unwrap_or(json!(0));
    let policy = found.as_ref().and_then(|class| class.get("preemptionPolicy")).cloned();
    let policy = policy.unwrap_or(json!("PreemptLowerPriority"));
    let spec = section(object, "spec");
    if spec.get("priority").is_some_and(|given| *given != value) {
        return refuse(format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} \
             from the given PriorityClass name",
            spec["priority"]
        ));
    }
    if let Some(given) = spec.get("preemptionPolicy").filter(|given| **given != policy) {
        return refuse(format!(
            "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller computed {} \
             from the given PriorityClass name",
            given.as_str().unwrap_or_default(),
            policy.as_str().unwrap_or_default()
        ));
    }
    if !class.is_empty() {
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    spec.insert("priority".to_owned(), value);
    spec.insert("preemptionPolicy".to_owned(), policy);
    Ok(())
}

/// Runtime classes are not served, so a pod can name none.
fn runtime_class(object: &Value) -> Result<(), Status> {
    let class = text(object, "/spec/runtimeClassName");
    let why = if !class.is_empty() {
        format!("pod rejected: RuntimeClass \"{class}\" not found")
    } else if object
        .pointer("/spec/overhead")
        .and_then(Value::as_object)
        .is_some_and(|overhead| !overhead.is_empty())
    {
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned()
    } else {
        return Ok(());
    };
    Err(Status::forbidden("", "pods", name_so_far(object), &why))
}

/// What a pod is called by those who are asked before a name is made of its `generateName`.
fn name_so_far(object: &Value) -> &str {
    match text(object, "/metadata/name") {
        "" => text(object, "/metadata/generateName"),
        name => name,
    }
}

/// A pod's name becomes its host's name.
fn hostname_complaint(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        Some("must be no more than 63 characters")
    } else if name.contains('.') {
        Some("must not contain dots")
    } else {
        None
    }
}

/// Rules that hold from the start and for ever.
fn validate_always(object: &Value, causes: &mut Vec<Cause>) {
    podspec::validate(object.get("spec").unwrap_or(&Value::Null), "spec", causes);
    let annotation = |key: &str| find(object, "/metadata/annotations").and_then(|all| all.get(key));
    if let Some(mark) = annotation(MIRROR)
        && text(object, "/spec/nodeName").is_empty()
    {
        let complaint = "must set spec.nodeName if mirror pod annotation is set";
        causes.push(Cause::invalid(format!("metadata.annotations[{MIRROR}]"), mark, complaint));
    }
    if let Some(cost) = annotation(DELETION_COST)
        && cost.as_str().is_none_or(|cost| cost.parse::<i32>().is_err())
    {
        let at = format!("metadata.annotations[{DELETION_COST}]");
        causes.push(Cause::invalid(at, cost, "must be a 32bit integer"));
    }
}

fn default_tolerations(object: &mut Value) {
    let tolerated = |key: &str| {
        items(object, "/spec/tolerations").iter().any(|toleration| {
            let (own, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
            (own.is_empty() || own == key) && (effect.is_empty() || effect == "NoExecute")
        })
    };
    let missing: Vec<&str> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .into_iter()
        .filter(|key| !tolerated(key))
        .collect();
    let tolerations = section(object, "spec").entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(tolerations) = tolerations {
        for key in missing {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED}));
        }
    }
}

fn keep_metadata(object: &mut Value, old: &Value, field: &str) {
    if let (Some(metadata), Some(old)) = (object.get_mut("metadata"), old.get("metadata")) {
        keep(metadata, old, field);
    }
}

/// `podIP` is the first of `podIPs`; where they differ, `podIP` counts.
fn normalize_addresses(object: &mut Value) {
    let single = text(object, "/status/podIP").to_owned();
    let first = text(object, "/status/podIPs/0/ip").to_owned();
    if single == first {
        return;
    }
    let status = section(object, "status");
    if single.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    } else {
        status.insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    let host_network = find(object, "/spec/hostNetwork") == Some(&Value::Bool(true));
    vec![
        ("spec.nodeName", text(object, "/spec/nodeName").into()),
        ("spec.restartPolicy", text(object, "/spec/restartPolicy").into()),
        ("spec.schedulerName", text(object, "/spec/schedulerName").into()),
        ("spec.serviceAccountName", text(object, "/spec/serviceAccountName").into()),
        ("spec.hostNetwork", if host_network { "true" } else { "false" }.into()),
        ("status.phase", text(object, "/status/phase").into()),
        ("status.podIP", text(object, "/status/podIP").into()),
        ("status.podIPs", text(object, "/status/podIPs/0/ip").into()),
        ("status.nominatedNodeName", text(object, "/status/nominatedNodeName").into()),
    ]
}
