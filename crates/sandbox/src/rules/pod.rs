//! Pods: admission, what an update may change, QoS, grace.

use serde_json::{Map, Value, json};

use super::{Context, Rules, default, items, keep, meta, podspec, section, text};
use crate::Status;
use crate::status::Cause;
use crate::store::{Fields, Key};

/// Seconds that pods tolerate a node that is not ready or unreachable, unless they say otherwise.
const TOLERATED: i64 = 300;
const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
    (allow it to be set to 1 if it was previously negative)";
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Rules for pods.
#[derive(Debug)]
pub struct Pods;

impl Rules for Pods {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        podspec::defaults(spec);
        default(spec, "enableServiceLinks", true);
        normalize_addresses(object);
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
        priority(object, context)?;
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
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": null,
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
        if object.get("spec") != old.get("spec") {
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
        podspec::validate(object.get("spec").unwrap_or(&Value::Null), "spec", causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
        validate_change(object, old, causes);
    }

    fn validate_status(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        meta::immutable(object, old, "/status/qosClass", causes);
        let nominated = text(object, "/status/nominatedNodeName");
        if !nominated.is_empty() && !crate::api::names::is_subdomain(nominated) {
            let complaint = crate::api::names::SUBDOMAIN_COMPLAINT;
            causes.push(Cause::invalid("status.nominatedNodeName", &json!(nominated), complaint));
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
    let class = text(object, "/spec/priorityClassName").to_owned();
    let found = if class.is_empty() {
        None
    } else {
        match context.store.get("priorityclasses.scheduling.k8s.io", &Key::new("", &class)) {
            Some(found) => Some(found.value()),
            None => {
                let name = text(object, "/metadata/name");
                return Err(Status::forbidden(
                    "",
                    "pods",
                    name,
                    &format!("no PriorityClass with name {class} was found"),
                ));
            }
        }
    };
    let spec = section(object, "spec");
    let value = found
        .as_ref()
        .and_then(|class| class.get("value"))
        .cloned()
        .unwrap_or(json!(0));
    if spec.get("priority").is_some_and(|given| *given != value) {
        let name = text(object, "/metadata/name");
        let why = "the integer value of priority must not be provided in pod spec; priority admission controller computed 0 from \
                   the given PriorityClass name";
        return Err(Status::forbidden("", "pods", name, why));
    }
    spec.insert("priority".to_owned(), value);
    let policy = found.as_ref().and_then(|class| class.get("preemptionPolicy")).cloned();
    default(spec, "preemptionPolicy", policy.unwrap_or(json!("PreemptLowerPriority")));
    Ok(())
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

fn validate_change(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let count = |object: &Value, list: &str| items(object, &format!("/spec/{list}")).len();
    for list in ["containers", "initContainers"] {
        if count(object, list) != count(old, list) {
            let complaint = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(format!("spec.{list}"), complaint));
            return;
        }
    }
    for list in ["containers", "initContainers"] {
        for (index, one) in items(object, &format!("/spec/{list}")).iter().enumerate() {
            if text(one, "/image").is_empty() {
                causes.push(Cause::required(format!("spec.{list}[{index}].image"), ""));
            }
        }
    }
    validate_deadline(object, old, causes);
    validate_tolerations(object, old, causes);
    let mut expected = object.clone();
    if let (Some(Value::Object(spec)), Some(before)) = (expected.get_mut("spec"), old.get("spec")) {
        forget_changeable(spec, before);
    }
    if expected.get("spec") != old.get("spec") {
        causes.push(Cause::forbidden("spec", CHANGEABLE));
    }
}

/// Puts back what may change, so that what is left shows what may not.
fn forget_changeable(spec: &mut Map<String, Value>, old: &Value) {
    for list in ["containers", "initContainers"] {
        let before = old.get(list).and_then(Value::as_array);
        let now = spec.get_mut(list).and_then(Value::as_array_mut);
        for (one, before) in now.into_iter().flatten().zip(before.into_iter().flatten()) {
            if let Some(image) = before.get("image") {
                one["image"] = image.clone();
            }
        }
    }
    let mut allowed = vec!["activeDeadlineSeconds", "tolerations"];
    let grace = |value: Option<&Value>| value.and_then(Value::as_i64);
    if grace(old.get("terminationGracePeriodSeconds")).is_some_and(|seconds| seconds < 0)
        && grace(spec.get("terminationGracePeriodSeconds")) == Some(1)
    {
        allowed.push("terminationGracePeriodSeconds");
    }
    for field in allowed {
        match old.get(field) {
            Some(value) => {
                spec.insert(field.to_owned(), value.clone());
            }
            None => {
                spec.shift_remove(field);
            }
        }
    }
}

fn validate_deadline(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let deadline = |object: &Value| object.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    match (deadline(object), deadline(old)) {
        (Some(now), Some(before)) if now > before => {
            let complaint = "must be less than or equal to previous value";
            causes.push(Cause::invalid("spec.activeDeadlineSeconds", &json!(now), complaint));
        }
        (None, Some(_)) => {
            causes.push(Cause::invalid(
                "spec.activeDeadlineSeconds",
                &Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        _ => {}
    }
}

fn validate_tolerations(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let without_seconds = |toleration: &Value| {
        let mut bare = toleration.clone();
        if let Value::Object(fields) = &mut bare {
            fields.shift_remove("tolerationSeconds");
        }
        bare
    };
    let now: Vec<Value> = items(object, "/spec/tolerations").iter().map(without_seconds).collect();
    let kept = items(old, "/spec/tolerations")
        .iter()
        .all(|one| now.contains(&without_seconds(one)));
    if !kept {
        let complaint = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", complaint));
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    let host_network = object.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
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
