//! The cells of a pod's row: how many containers are ready, and what it is doing.

use bailiff_model::Wall;
use serde_json::{Value, json};

use super::cells::{age as shown_age, or_none};
use crate::rules::{items, text};

const NONE: &str = "<none>";

/// Restarts, and when the last one was.
#[derive(Default)]
struct Restarts<'a> {
    count: i64,
    last: &'a str,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, status: &'a Value) {
        self.count += status["restartCount"].as_i64().unwrap_or(0);
        self.last = self.last.max(text(status, "/lastState/terminated/finishedAt"));
    }
}

/// The cells of a pod.
pub fn cells(object: &Value, name: Value, age: Value, now: Wall) -> Vec<Value> {
    let sidecars: Vec<&str> = items(object, "/spec/initContainers")
        .iter()
        .filter(|one| text(one, "/restartPolicy") == "Always")
        .map(|one| text(one, "/name"))
        .collect();
    let total = items(object, "/spec/containers").len() + sidecars.len();
    let (mut all, mut side) = (Restarts::default(), Restarts::default());
    let mut ready = 0;
    let mut shown = start(object);
    let initializing = initializing(object, &sidecars, &mut all, &mut side, &mut ready, &mut shown);
    if !initializing || condition(object, "Initialized") {
        let mut own = side;
        running(object, &mut own, &mut ready, &mut shown);
        all = own;
    }
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        let phase = text(object, "/status/phase");
        if text(object, "/status/reason") == "NodeLost" {
            shown = "Unknown".to_owned();
        } else if !matches!(phase, "Failed" | "Succeeded") {
            shown = "Terminating".to_owned();
        }
    }
    let restarts = if all.count > 0 && !all.last.is_empty() {
        format!("{} ({} ago)", all.count, shown_age(all.last, now))
    } else {
        all.count.to_string()
    };
    vec![
        name,
        format!("{ready}/{total}").into(),
        shown.into(),
        restarts.into(),
        age,
        or_none(text(object, "/status/podIPs/0/ip")),
        or_none(text(object, "/spec/nodeName")),
        or_none(text(object, "/status/nominatedNodeName")),
        gates(object),
    ]
}

fn start(object: &Value) -> String {
    let gated = items(object, "/status/conditions")
        .iter()
        .any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    let reason = text(object, "/status/reason");
    match (reason.is_empty(), gated) {
        (false, _) => reason,
        (true, true) => "SchedulingGated",
        (true, false) => text(object, "/status/phase"),
    }
    .to_owned()
}

fn condition(object: &Value, kind: &str) -> bool {
    items(object, "/status/conditions")
        .iter()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

/// Looks at the containers that run first; says whether one of them is still at it.
fn initializing<'a>(
    object: &'a Value,
    sidecars: &[&str],
    all: &mut Restarts<'a>,
    side: &mut Restarts<'a>,
    ready: &mut usize,
    shown: &mut String,
) -> bool {
    let total = items(object, "/spec/initContainers").len();
    for (index, status) in items(object, "/status/initContainerStatuses").iter().enumerate() {
        all.add(status);
        let sidecar = sidecars.contains(&text(status, "/name"));
        if sidecar {
            side.add(status);
        }
        let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let ended = status.pointer("/state/terminated").is_some();
        if ended && number("/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && status["started"] == true {
            *ready += usize::from(status["ready"] == true);
            continue;
        }
        let waiting = text(status, "/state/waiting/reason");
        *shown = if ended {
            format!("Init:{}", end(status))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{total}")
        };
        return true;
    }
    false
}

/// Why a container ended.
fn end(status: &Value) -> String {
    let reason = text(status, "/state/terminated/reason");
    let number = |field: &str| {
        status
            .pointer(&format!("/state/terminated/{field}"))
            .and_then(Value::as_i64)
            .unwrap_or(0)
    };
    match (reason.is_empty(), number("signal")) {
        (false, _) => reason.to_owned(),
        (true, 0) => format!("ExitCode:{}", number("exitCode")),
        (true, signal) => format!("Signal:{signal}"),
    }
}

fn running<'a>(object: &'a Value, restarts: &mut Restarts<'a>, ready: &mut usize, shown: &mut String) {
    let mut any = false;
    for status in items(object, "/status/containerStatuses").iter().rev() {
        restarts.add(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(shown);
        } else if status.pointer("/state/terminated").is_some() {
            *shown = end(status);
        } else if status["ready"] == true && status.pointer("/state/running").is_some() {
            any = true;
            *ready += 1;
        }
    }
    if shown == "Completed" && any {
        let is_ready = condition(object, "Ready");
        *shown = if is_ready { "Running" } else { "NotReady" }.to_owned();
    }
}

fn gates(object: &Value) -> Value {
    let gates = items(object, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let open = gates
        .iter()
        .filter(|gate| condition(object, text(gate, "/conditionType")))
        .count();
    format!("{open}/{}", gates.len()).into()
}

/// What a row says about a pod that has ended.
pub fn conditions(object: &Value) -> Option<Value> {
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}
