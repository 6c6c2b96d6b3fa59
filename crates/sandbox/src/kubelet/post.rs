//! Bodies of status posts. Only shape: what is to be said is decided elsewhere.

use bailiff_model::{ReadyStatus, Wall};
use serde_json::{Map, Value, json};

use super::machine::{CONDITIONS, Machine};
use super::pod::{Pod, Report, Waiting};
use crate::effect::seconds;
use crate::facts::{Container, Phase};
use crate::resources::Allocatable;

/// What a Node that says nothing about itself offers: a machine of ordinary size, `maxPods` as by default.
const DEFAULT_OFFER: Allocatable = Allocatable {
    pods: Some(110),
    milli_cpu: Some(16_000),
    memory: Some(64 << 30),
};

/// A post of the machine's Node status, as a strategic merge patch. The uid is its precondition.
pub fn node_status(machine: &Machine, at: Wall) -> Value {
    let at = seconds(at);
    let Some(object) = &machine.object else { return Value::Null };
    let wanted = machine.wanted();
    let conditions: Vec<Value> = (0..CONDITIONS.len())
        .map(|nth| {
            let (reason, message) = explain(nth, wanted[nth]);
            let mut condition = json!({
                "type": CONDITIONS[nth], "status": wanted[nth].as_str(), "reason": reason, "message": message,
                "lastHeartbeatTime": at,
            });
            if object.conditions[nth] != wanted[nth] {
                condition["lastTransitionTime"] = at.as_str().into();
            }
            condition
        })
        .collect();
    let mut status = json!({ "conditions": conditions });
    if machine.settings.is_full() {
        describe(machine, &mut status);
    }
    json!({"metadata": {"uid": object.uid.to_string()}, "status": status})
}

/// What a kubelet adds when the Node does not say it yet: capacity, address, what machine it is.
fn describe(machine: &Machine, status: &mut Value) {
    let Some(object) = &machine.object else { return };
    if object.allocatable.is_empty() {
        let offer = quantities(machine.offer.unwrap_or(DEFAULT_OFFER));
        status["capacity"] = offer.clone();
        status["allocatable"] = offer;
    }
    if object.ip.is_none() {
        status["addresses"] = json!([{"type": "InternalIP", "address": machine.host_ip()}]);
    }
    if object.boot_id != machine.boot_id {
        status["nodeInfo"] = json!({
            "machineID": "sandbox", "systemUUID": "sandbox", "bootID": machine.boot_id, "kernelVersion": "sandbox",
            "osImage": "Bailiff sandbox", "containerRuntimeVersion": "sandbox://1", "kubeletVersion": "v1.36.2",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        });
    }
}

fn quantities(offer: Allocatable) -> Value {
    let mut map = Map::new();
    if let Some(milli) = offer.milli_cpu {
        map.insert("cpu".into(), format!("{milli}m").into());
    }
    if let Some(bytes) = offer.memory {
        map.insert("memory".into(), bytes.to_string().into());
    }
    if let Some(pods) = offer.pods {
        map.insert("pods".into(), pods.to_string().into());
    }
    map.into()
}

/// Reason and message of a node condition, in the words of a kubelet.
fn explain(nth: usize, status: ReadyStatus) -> (&'static str, &'static str) {
    match (nth, status) {
        (0, ReadyStatus::True) => ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        (0, _) => ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        (1, ReadyStatus::True) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        (1, _) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (2, ReadyStatus::True) => ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        (2, _) => ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        (_, ReadyStatus::True) => ("KubeletReady", "kubelet is posting ready status"),
        _ => ("KubeletNotReady", "container runtime is down"),
    }
}

/// A post of a pod's status: `report` is what is true now, the pod knows what was said before.
pub fn pod_status(pod: &Pod, report: &Report, addresses: &Addresses, has_reasons: bool, at: Wall) -> Value {
    let at = seconds(at);
    let mut status = Map::new();
    status.insert("phase".into(), report.phase.as_str().into());
    status.insert("conditions".into(), conditions(pod, report, has_reasons, &at));
    let containers = pod.containers.iter();
    let statuses: Vec<Value> = containers
        .map(|container| container_status(pod, container, report, &at))
        .collect();
    status.insert("containerStatuses".into(), statuses.into());
    if let Some((reason, message)) = &report.rejected {
        status.insert("reason".into(), (*reason).into());
        status.insert("message".into(), message.as_str().into());
    }
    if !pod.has_started {
        status.insert("startTime".into(), at.as_str().into());
        status.insert("hostIP".into(), addresses.host.as_str().into());
        status.insert("hostIPs".into(), json!([{"ip": addresses.host}]));
        if let Some(ip) = &addresses.pod {
            status.insert("podIP".into(), ip.as_str().into());
            status.insert("podIPs".into(), json!([{"ip": ip}]));
        }
    }
    status.into()
}

/// Where a pod can be reached.
#[derive(Debug)]
pub struct Addresses {
    /// Of the machine.
    pub host: String,
    /// Of the pod; none for one that never ran.
    pub pod: Option<String>,
}

/// The conditions that have something new to say.
fn conditions(pod: &Pod, report: &Report, has_reasons: bool, at: &str) -> Value {
    let (reason, message) = if has_reasons {
        unready(pod, report)
    } else {
        ("", String::new())
    };
    let is = |kind: &str, is_true: bool, was: ReadyStatus| {
        let status = if is_true { ReadyStatus::True } else { ReadyStatus::False };
        let mut condition = json!({"type": kind, "status": status.as_str()});
        if status != was {
            condition["lastTransitionTime"] = at.into();
        }
        // A merge patch keeps what it does not name, so a reason that holds no more has to be taken away.
        let keep = !is_true && !reason.is_empty();
        condition["reason"] = if keep { reason.into() } else { Value::Null };
        condition["message"] = if keep && !message.is_empty() {
            message.as_str().into()
        } else {
            Value::Null
        };
        condition
    };
    let mut list = Vec::new();
    if !pod.has_started && report.rejected.is_none() {
        list.push(is("Initialized", true, ReadyStatus::Absent));
    }
    list.push(is("Ready", report.is_ready, pod.ready));
    list.push(is("ContainersReady", report.is_ready, pod.containers_ready));
    if pod.scheduled != ReadyStatus::True {
        list.push(is("PodScheduled", true, pod.scheduled));
    }
    list.into()
}

fn unready(pod: &Pod, report: &Report) -> (&'static str, String) {
    match report.phase {
        Phase::Succeeded => ("PodCompleted", String::new()),
        Phase::Failed => ("PodFailed", String::new()),
        Phase::Pending | Phase::Running => {
            let names: Vec<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
            (
                "ContainersNotReady",
                format!("containers with unready status: [{}]", names.join(" ")),
            )
        }
    }
}

fn container_status(pod: &Pod, container: &Container, report: &Report, at: &str) -> Value {
    let id = format!("sandbox://{}-{}-{}", pod.uid, container.name, report.restarts);
    let ended = |code: u8| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at, "containerID": id}})
    };
    let waiting = |reason: &str, message: String| json!({"waiting": {"reason": reason, "message": message}});
    let state = match (report.phase, report.waiting) {
        (Phase::Succeeded, _) => ended(0),
        (Phase::Failed, _) => ended(1),
        (_, Waiting::No) => json!({"running": {"startedAt": at}}),
        (_, Waiting::Creating) => json!({"waiting": {"reason": "ContainerCreating"}}),
        (_, Waiting::PullError) => waiting(
            "ErrImagePull",
            format!("failed to pull image {:?}: not found", container.image),
        ),
        (_, Waiting::PullBackOff) => waiting("ImagePullBackOff", format!("Back-off pulling image {:?}", container.image)),
        (_, Waiting::CrashLoop) => waiting(
            "CrashLoopBackOff",
            format!("back-off restarting failed container={} pod={}", container.name, pod.key),
        ),
    };
    let last = if report.restarts > 0 { ended(1) } else { json!({}) };
    json!({
        "name": container.name, "image": container.image, "imageID": container.image, "containerID": id,
        "ready": report.is_ready, "started": matches!(report.phase, Phase::Running) && report.waiting == Waiting::No,
        "restartCount": report.restarts, "state": state, "lastState": last,
    })
}
