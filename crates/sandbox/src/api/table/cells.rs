//! The cells of a table's row.

use bailiff_model::Wall;
use serde_json::{Value, json};

use crate::rules::{items, text};

const NONE: &str = "<none>";
/// Of lists that may be long, so many are shown.
const MOST_SHOWN: usize = 3;

/// The cells of an object of a kind, in the order of its columns.
pub fn of(object: &Value, kind: &str, now: Wall) -> Vec<Value> {
    let name: Value = text(object, "/metadata/name").into();
    let age: Value = age(text(object, "/metadata/creationTimestamp"), now).into();
    match kind {
        "Pod" => super::pods::cells(object, name, age, now),
        "Node" => node(object, name, age),
        "DaemonSet" => daemon_set(object, name, age),
        "Lease" => vec![name, text(object, "/spec/holderIdentity").into(), age],
        "Event" => event(object, name, now),
        "Namespace" => vec![name, text(object, "/status/phase").into(), age],
        "PodDisruptionBudget" => vec![
            name,
            amount(object, "/spec/minAvailable"),
            amount(object, "/spec/maxUnavailable"),
            number(object, "/status/disruptionsAllowed"),
            age,
        ],
        "ControllerRevision" => vec![name, controller(object), number(object, "/revision"), age],
        "ServiceAccount" => vec![name, age],
        "RoleBinding" | "ClusterRoleBinding" => binding(object, name, age),
        "StatefulSet" => {
            let ready = format!(
                "{}/{}",
                number(object, "/status/readyReplicas"),
                number(object, "/spec/replicas")
            );
            let mut cells = vec![name, ready.into(), age];
            cells.extend(template(object).into_iter().take(2));
            cells
        }
        "ValidatingAdmissionPolicy" => {
            let param = object.pointer("/spec/paramKind");
            let shown = param.map_or("<unset>".to_owned(), |param| {
                format!("{}/{}", text(param, "/apiVersion"), text(param, "/kind"))
            });
            vec![name, items(object, "/spec/validations").len().into(), shown.into(), age]
        }
        "ValidatingAdmissionPolicyBinding" => {
            let param = object.pointer("/spec/paramRef").map_or("<unset>".to_owned(), |param| {
                let (namespace, name) = (text(param, "/namespace"), text(param, "/name"));
                if namespace.is_empty() {
                    name.to_owned()
                } else {
                    format!("{namespace}/{name}")
                }
            });
            vec![name, text(object, "/spec/policyName").into(), param.into(), age]
        }
        "ConfigMap" => vec![name, count(object, &["/data", "/binaryData"]), age],
        "Secret" => vec![name, text(object, "/type").into(), count(object, &["/data"]), age],
        "Service" => service(object, name, age),
        "Deployment" => {
            let wanted = number(object, "/spec/replicas");
            let ready = format!("{}/{wanted}", number(object, "/status/readyReplicas"));
            let mut cells = vec![name, ready.into(), number(object, "/status/updatedReplicas")];
            cells.extend([number(object, "/status/availableReplicas"), age]);
            cells.extend(template(object));
            cells
        }
        "ReplicaSet" => {
            let mut cells = vec![name, number(object, "/spec/replicas"), number(object, "/status/replicas")];
            cells.extend([number(object, "/status/readyReplicas"), age]);
            cells.extend(template(object));
            cells
        }
        "Endpoints" => vec![name, endpoints(object), age],
        "EndpointSlice" => {
            let ports = items(object, "/ports").iter().map(|port| match port.get("port") {
                Some(number) => number.to_string(),
                None => text(port, "/name").to_owned(),
            });
            let addresses = items(object, "/endpoints").iter().flat_map(|one| items(one, "/addresses"));
            let addresses = addresses.map(|one| one.as_str().unwrap_or_default().to_owned());
            let shown = [few(ports, "<unset>"), few(addresses, "<unset>")];
            let mut cells = vec![name, text(object, "/addressType").into()];
            cells.extend(shown.map(Value::from));
            cells.push(age);
            cells
        }
        "PodTemplate" => {
            let list = |field: &str| {
                let containers = items(object, "/template/spec/containers").iter();
                containers.map(|one| text(one, field)).collect::<Vec<&str>>().join(",")
            };
            let labels = labels(object.pointer("/template/metadata/labels"));
            vec![name, list("/name").into(), list("/image").into(), or_none(&labels)]
        }
        "Scale" => vec![
            name,
            number(object, "/spec/replicas"),
            number(object, "/status/replicas"),
            age,
        ],
        "PriorityClass" => {
            let global = object.get("globalDefault") == Some(&Value::Bool(true));
            vec![
                name,
                number(object, "/value"),
                global.into(),
                age,
                text(object, "/preemptionPolicy").into(),
            ]
        }
        _ => vec![name, text(object, "/metadata/creationTimestamp").into()],
    }
}

/// The first three, and how many more there are.
fn few(all: impl Iterator<Item = String>, none: &str) -> String {
    let all: Vec<String> = all.collect();
    let shown = all
        .iter()
        .take(MOST_SHOWN)
        .map(String::as_str)
        .collect::<Vec<&str>>()
        .join(",");
    match all.len() {
        0 => none.to_owned(),
        count if count > MOST_SHOWN => format!("{shown} + {} more...", count - MOST_SHOWN),
        _ => shown,
    }
}

/// Where the endpoints of a service are.
fn endpoints(object: &Value) -> Value {
    let mut all = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|one| text(one, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let number = number(port, "/port");
            all.extend(addresses().map(|address| match address.contains(':') {
                true => format!("[{address}]:{number}"),
                false => format!("{address}:{number}"),
            }));
        }
    }
    few(all.into_iter(), NONE).into()
}

/// Whom a binding gives what.
fn binding(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let mut cells = vec![name, role.into(), age];
    for kind in ["User", "Group", "ServiceAccount"] {
        let named = items(object, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == kind);
        let names: Vec<String> = named
            .map(|subject| match (kind, text(subject, "/name")) {
                ("ServiceAccount", name) => format!("{}/{name}", text(subject, "/namespace")),
                (_, name) => name.to_owned(),
            })
            .collect();
        cells.push(names.join(", ").into());
    }
    cells
}

fn number(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).into()
}

fn amount(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".into(),
    }
}

fn count(object: &Value, pointers: &[&str]) -> Value {
    let entries = |pointer: &&str| {
        object
            .pointer(pointer)
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
    };
    pointers.iter().map(entries).sum::<usize>().into()
}

/// The text, or that there is none.
pub fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

fn controller(object: &Value) -> Value {
    let owner = items(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true);
    owner.map_or(NONE.into(), |owner| {
        let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let kind = text(owner, "/kind").to_lowercase();
        format!("{}/{}", crate::status::qualified(group, &kind), text(owner, "/name")).into()
    })
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = items(object, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()) {
            roles.push(role);
        } else if key == "kubernetes.io/role" {
            roles.extend(value.as_str());
        }
    }
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let found = items(object, "/status/addresses")
            .iter()
            .find(|address| address["type"] == kind);
        or_none(found.map_or("", |address| text(address, "/address")))
    };
    let info = |field: &str| text(object, &format!("/status/nodeInfo/{field}"));
    let kernel = match (info("kernelVersion"), info("architecture")) {
        (kernel, architecture) if kernel.is_empty() || architecture.is_empty() => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    let unknown = |text: &str| -> Value { if text.is_empty() { "<unknown>".into() } else { text.into() } };
    vec![
        name,
        status.into(),
        or_none(&roles.join(",")),
        age,
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        unknown(info("osImage")),
        unknown(&kernel),
        unknown(info("containerRuntimeVersion")),
    ]
}

fn daemon_set(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let status = |field: &str| number(object, &format!("/status/{field}"));
    let selector = labels(object.pointer("/spec/template/spec/nodeSelector"));
    let mut cells = vec![
        name,
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        or_none(&selector),
        age,
    ];
    cells.extend(template(object));
    cells
}

/// Containers, images and selector of a workload.
fn template(object: &Value) -> Vec<Value> {
    let list = |field: &str| {
        let containers = items(object, "/spec/template/spec/containers").iter();
        containers.map(|one| text(one, field)).collect::<Vec<&str>>().join(",")
    };
    let mut selector = labels(object.pointer("/spec/selector/matchLabels"));
    for expression in items(object, "/spec/selector/matchExpressions") {
        let key = text(expression, "/key");
        let values: Vec<&str> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
        let shown = match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        selector = if selector.is_empty() {
            shown
        } else {
            format!("{selector},{shown}")
        };
    }
    vec![list("/name").into(), list("/image").into(), or_none(&selector)]
}

fn labels(labels: Option<&Value>) -> String {
    let mut pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    pairs.join(",")
}

fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports: Vec<String> = items(object, "/spec/ports")
        .iter()
        .map(|port| format!("{}/{}", number(port, "/port"), text(port, "/protocol")))
        .collect();
    vec![
        name,
        text(object, "/spec/type").into(),
        or_none(text(object, "/spec/clusterIP")),
        NONE.into(),
        or_none(&ports.join(",")),
        age,
        or_none(&labels(object.pointer("/spec/selector"))),
    ]
}

fn event(object: &Value, name: Value, now: Wall) -> Vec<Value> {
    let time = text(object, "/eventTime");
    let or_time = |pointer: &str| {
        let found = text(object, pointer);
        if found.is_empty() { time } else { found }
    };
    let first = or_time("/firstTimestamp");
    let last = match text(object, "/series/lastObservedTime") {
        "" => or_time("/lastTimestamp"),
        observed => observed,
    };
    let count = object
        .pointer("/series/count")
        .or_else(|| object.get("count"))
        .and_then(Value::as_i64)
        .unwrap_or(1);
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let about = format!("{kind}/{}", text(object, "/involvedObject/name"));
    let mut source = text(object, "/source/component").to_owned();
    if source.is_empty() {
        text(object, "/reportingComponent").clone_into(&mut source);
    }
    let host = match text(object, "/source/host") {
        "" => text(object, "/reportingInstance"),
        host => host,
    };
    if !host.is_empty() {
        source = format!("{source}, {host}");
    }
    vec![
        age(last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        about.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        json!(text(object, "/message").trim()),
        age(first, now).into(),
        json!(count),
        name,
    ]
}

/// The time since `since` in the words of kubectl: `45s`, `3m12s`, `5h`, `2d4h`, `400d`.
pub fn age(since: &str, now: Wall) -> String {
    let Ok(since) = since.parse::<Wall>() else {
        return "<unknown>".to_owned();
    };
    let seconds = now.duration_since(since).as_secs();
    let with = |whole: i64, unit: &str, rest: i64, rest_unit: &str| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{rest_unit}")
        }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let now: Wall = "2026-01-10T00:00:00Z".parse().expect("a time");
        for (since, expected) in [
            ("2026-01-10T00:00:00Z", "0s"),
            ("2026-01-09T23:58:01Z", "119s"),
            ("2026-01-09T23:57:00Z", "3m"),
            ("2026-01-09T23:56:30Z", "3m30s"),
            ("2026-01-09T23:00:00Z", "60m"),
            ("2026-01-09T19:30:00Z", "4h30m"),
            ("2026-01-07T20:00:00Z", "2d4h"),
            ("2025-12-01T00:00:00Z", "40d"),
            ("", "<unknown>"),
        ] {
            assert_eq!(age(since, now), expected, "{since}");
        }
    }
}
