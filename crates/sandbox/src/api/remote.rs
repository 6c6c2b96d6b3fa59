//! What only kubelets and pods could answer: logs, processes, proxies. There are none behind this server; what can be told without
//! them is what a server tells that cannot reach them.

use serde_json::{Value, json};

use super::Call;
use super::reply::{Content, Reply};
use crate::Status;
use crate::rules::{items, text};
use crate::status::Cause;
use crate::store::Key;

/// Serves logs, and streams to processes of a pod.
///
/// # Errors
/// The refusal.
pub fn process(call: &Call<'_>, what: &str) -> Result<Reply, Status> {
    if what == "log" {
        check_log(call)?;
    }
    if what == "portforward" {
        check_ports(call)?;
    }
    let store = if what == "log" { call.store() } else { call.judged_store() };
    if what != "log" {
        call.admit_other(&store, "CONNECT", &connection(call, what), &Value::Null)?;
    }
    let pod = call.current(&store)?.value();
    let name = call.target.name.as_str();
    let node = text(&pod, "/spec/nodeName");
    let containers: Vec<&str> = items(&pod, "/spec/containers").iter().map(|one| text(one, "/name")).collect();
    let wanted = call.request.query.get("container");
    if what != "portforward" && wanted.is_empty() && containers.len() > 1 {
        let list = containers.join(" ");
        let why = format!("a container name must be specified for pod {name}, choose one of: [{list}]");
        return Err(Status::bad_request(why));
    }
    let mut known = ["initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| items(&pod, &format!("/spec/{list}")));
    if what != "portforward"
        && !wanted.is_empty()
        && !containers.contains(&wanted)
        && !known.any(|one| text(one, "/name") == wanted)
    {
        return Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")));
    }
    if node.is_empty() {
        return match what {
            "log" => Ok(Reply {
                status: 204,
                headers: Vec::new(),
                body: Content::Full(bytes::Bytes::new()),
            }),
            _ => Err(Status::bad_request(format!("pod {name} does not have a host assigned"))),
        };
    }
    if store.get("nodes", &Key::new("", node)).is_none() {
        return Err(Status::not_found("", "pods", node));
    }
    Err(unreachable(call))
}

/// The options of a connection, as policies see them.
fn connection(call: &Call<'_>, what: &str) -> Value {
    let query = &call.request.query;
    let kind = match what {
        "exec" => "PodExecOptions",
        "attach" => "PodAttachOptions",
        _ => "PodPortForwardOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options[flag] = true.into();
        }
    }
    if let Some(container) = query.find("container") {
        options["container"] = container.into();
    }
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    let ports: Vec<i64> = query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    options
}

fn unreachable(call: &Call<'_>) -> Status {
    let why = format!(
        "no kubelet serves the logs and processes of {} {}",
        call.kind.resource, call.target.name
    );
    let cause = Cause::new("", "", why.as_str());
    Status::new(500, "InternalError", format!("Internal error occurred: {why}")).because(vec![cause])
}

fn check_log(call: &Call<'_>) -> Result<(), Status> {
    let query = &call.request.query;
    let mut causes = Vec::new();
    for (field, least, complaint) in [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ] {
        if let Some(number) = query.number(field)?.filter(|number| *number < least) {
            causes.push(Cause::invalid(field, &json!(number), complaint));
        }
    }
    if query.find("sinceSeconds").is_some() && query.find("sinceTime").is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        causes.push(Cause::forbidden("[]", why));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("", "PodLogOptions", &call.target.name, causes))
}

fn check_ports(call: &Call<'_>) -> Result<(), Status> {
    let mut ports = call.request.query.all("ports").flat_map(|ports| ports.split(','));
    match ports.find(|port| port.parse::<u16>().is_err()) {
        None => Ok(()),
        Some(port) => {
            let why = format!("cannot convert to []int32: strconv.ParseUint: parsing \"{port}\": invalid syntax");
            Err(Status::bad_request(why))
        }
    }
}

/// Serves what would be passed on to a pod, a node or a service.
///
/// # Errors
/// Always: nothing listens.
pub fn proxy(call: &Call<'_>) -> Result<Reply, Status> {
    let store = call.store();
    // `[scheme:]name[:port]`
    let mut parts: Vec<&str> = call.target.name.split(':').collect();
    if parts.len() > 1 && matches!(parts.first(), Some(&("" | "http" | "https"))) {
        parts.remove(0);
    }
    let name = parts.first().copied().unwrap_or_default();
    let missing = || Status::not_found("", &call.kind.resource, name);
    let object: Value = store
        .get(&call.kind.storage, &Key::new(call.key().namespace.as_ref(), name))
        .ok_or_else(missing)?
        .value();
    match call.kind.storage.as_str() {
        "pods" if text(&object, "/status/podIP").is_empty() => Err(Status::bad_request("address not allowed")),
        // Without endpoints there is no service, whatever it is called.
        "services" => Err(missing()),
        _ => {
            let why = "error trying to reach service: connection refused";
            Err(Status::new(503, "ServiceUnavailable", why))
        }
    }
}
