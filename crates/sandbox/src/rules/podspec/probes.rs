//! Probes and lifecycle hooks of containers.

use serde_json::{Value, json};

use super::containers::{one_of, port_name, port_number};
use crate::rules::{find, items, text};
use crate::status::Cause;

/// Rules for the probes and hooks of a container.
pub fn validate(spec: &Value, one: &Value, at: &str, causes: &mut Vec<Cause>) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(given) = one.get(name) {
            probe(given, name, &format!("{at}.{name}"), causes);
        }
    }
    for phase in ["postStart", "preStop"] {
        if let Some(hook) = find(one, &format!("/lifecycle/{phase}")) {
            let at = format!("{at}.lifecycle.{phase}");
            handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], &at, causes);
            pause(spec, hook, &at, causes);
        }
    }
}

fn probe(probe: &Value, name: &str, at: &str, causes: &mut Vec<Cause>) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], at, causes);
    let number = |field: &str| probe.get(field).and_then(Value::as_i64);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        if let Some(seconds) = number(field).filter(|seconds| *seconds < 0) {
            causes.push(Cause::invalid(
                format!("{at}.{field}"),
                &json!(seconds),
                "must be greater than or equal to 0",
            ));
        }
    }
    let grace = number("terminationGracePeriodSeconds");
    let at_grace = format!("{at}.terminationGracePeriodSeconds");
    if name == "readinessProbe" {
        if let Some(grace) = grace {
            causes.push(Cause::invalid(at_grace, &json!(grace), "must not be set for readinessProbes"));
        }
        return;
    }
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        causes.push(Cause::invalid(at_grace, &json!(grace), "must be greater than 0"));
    }
    if let Some(successes) = number("successThreshold").filter(|successes| *successes != 1) {
        causes.push(Cause::invalid(
            format!("{at}.successThreshold"),
            &json!(successes),
            "must be 1",
        ));
    }
}

fn handler(given: &Value, kinds: &[&str], at: &str, causes: &mut Vec<Cause>) {
    let mut count = 0;
    for kind in kinds {
        let Some(action) = given.get(*kind).filter(|action| !action.is_null()) else {
            continue;
        };
        count += 1;
        if count > 1 {
            causes.push(Cause::forbidden(
                format!("{at}.{kind}"),
                "may not specify more than 1 handler type",
            ));
            continue;
        }
        let at = format!("{at}.{kind}");
        match *kind {
            "exec" if items(action, "/command").is_empty() => causes.push(Cause::required(format!("{at}.command"), "")),
            "httpGet" => http_get(action, &at, causes),
            "tcpSocket" => port(action.get("port"), format!("{at}.port"), causes),
            "grpc" => port_number(
                action.get("port").and_then(Value::as_i64).unwrap_or(0),
                format!("{at}.port"),
                causes,
            ),
            _ => {}
        }
    }
    if count == 0 {
        causes.push(Cause::required(at, "must specify a handler type"));
    }
}

fn http_get(action: &Value, at: &str, causes: &mut Vec<Cause>) {
    if text(action, "/path").is_empty() {
        causes.push(Cause::required(format!("{at}.path"), ""));
    }
    port(action.get("port"), format!("{at}.port"), causes);
    one_of(action, "scheme", &format!("{at}.scheme"), &["HTTP", "HTTPS"], causes);
    for header in items(action, "/httpHeaders") {
        let name = text(header, "/name");
        let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !fits {
            let complaint = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                             for validation is '[-A-Za-z0-9]+')";
            causes.push(Cause::invalid(format!("{at}.httpHeaders"), &json!(name), complaint));
        }
    }
}

/// A port by number or by name.
fn port(given: Option<&Value>, at: String, causes: &mut Vec<Cause>) {
    match given {
        Some(Value::String(name)) => port_name(name, &at, causes),
        other => port_number(other.and_then(Value::as_i64).unwrap_or(0), at, causes),
    }
}

fn pause(spec: &Value, hook: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(seconds) = hook.pointer("/sleep/seconds").and_then(Value::as_i64) else {
        return;
    };
    let grace = spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(30);
    if !(0..=grace).contains(&seconds) {
        let complaint = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        causes.push(Cause::invalid(format!("{at}.sleep"), &json!(seconds), &complaint));
    }
}
