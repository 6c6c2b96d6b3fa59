//! Services, as plain objects with defaults and an address; nothing is routed.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::podspec::{port_name, port_number};
use super::{Context, Rules, default, items, keep, meta, section, text};
use crate::Status;
use crate::status::Cause;
use crate::store::Fields;

/// Rules for services.
#[derive(Debug)]
pub struct Services;

impl Rules for Services {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        default(spec, "sessionAffinity", "None");
        if spec.get("sessionAffinity").is_some_and(|affinity| affinity == "ClientIP") {
            default(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        default(spec, "type", "ClusterIP");
        let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "ExternalName" {
            default(spec, "internalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            default(spec, "externalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            default(spec, "allocateLoadBalancerNodePorts", true);
        }
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            let target = port.get("port").cloned().unwrap_or(json!(0));
            if let Value::Object(port) = port {
                default(port, "protocol", "TCP");
                if port.get("targetPort").is_none_or(|value| value == 0 || value == "") {
                    port.insert("targetPort".to_owned(), target);
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) -> Result<(), Status> {
        object["status"] = json!({"loadBalancer": {}});
        address(section(object, "spec"), context);
        Ok(())
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, context: &Context<'_>) -> Result<(), Status> {
        keep(object, old, "status");
        // An address is kept by whoever does not speak of it.
        let before = old.get("spec").cloned().unwrap_or_default();
        let spec = section(object, "spec");
        if text(&before, "/type") != "ExternalName" {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if let Some(value) = before.get(field) {
                    default(spec, field, value.clone());
                }
            }
        }
        address(spec, context);
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        ports(spec, causes);
        let affinity = text(spec, "/sessionAffinity");
        if !matches!(affinity, "ClientIP" | "None") {
            causes.push(Cause::unsupported(
                "spec.sessionAffinity",
                &json!(affinity),
                &["ClientIP", "None"],
            ));
        }
        let kind = text(spec, "/type");
        let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        if !kinds.contains(&kind) {
            causes.push(Cause::unsupported("spec.type", &json!(kind), &kinds));
        }
        if kind == "ExternalName" && text(spec, "/externalName").is_empty() {
            causes.push(Cause::required("spec.externalName", ""));
        }
        meta::labels(spec.get("selector"), "spec.selector", causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        let before = text(old, "/spec/clusterIP");
        let external = |object: &Value| text(object, "/spec/type") == "ExternalName";
        if !before.is_empty() && !external(object) && !external(old) && text(object, "/spec/clusterIP") != before {
            let list = object.pointer("/spec/clusterIPs").cloned().unwrap_or_default();
            causes.push(Cause::invalid("spec.clusterIPs[0]", &list, "may not change once set"));
        }
        self.validate(object, causes);
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// Gives a service an address, if it is to have one, and lists it.
fn address(spec: &mut Map<String, Value>, context: &Context<'_>) {
    if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
        return;
    }
    let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let given = if given.is_empty() {
        let text = format!(
            "10.{}.{}.{}",
            context.seed.below(256),
            context.seed.below(256),
            1 + context.seed.below(254)
        );
        spec.insert("clusterIP".to_owned(), text.as_str().into());
        text
    } else {
        given
    };
    spec.insert("clusterIPs".to_owned(), json!([given]));
    let family = if given.contains(':') { "IPv6" } else { "IPv4" };
    default(spec, "ipFamilies", json!([family]));
    default(spec, "ipFamilyPolicy", "SingleStack");
}

fn ports(spec: &Value, causes: &mut Vec<Cause>) {
    let ports = items(spec, "/ports");
    let headless = text(spec, "/clusterIP") == "None";
    if ports.is_empty() && !headless && text(spec, "/type") != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !name.is_empty() {
            if let Some(complaint) = meta::label(name) {
                causes.push(Cause::invalid(format!("{at}.name"), &json!(name), complaint));
            } else if names.contains(&name) {
                causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
            }
            names.insert(name);
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        port_number(number, format!("{at}.port"), causes);
        let protocol = text(port, "/protocol");
        if !matches!(protocol, "SCTP" | "TCP" | "UDP") {
            let allowed = ["SCTP", "TCP", "UDP"];
            causes.push(Cause::unsupported(format!("{at}.protocol"), &json!(protocol), &allowed));
        }
        match port.get("targetPort") {
            Some(Value::String(name)) => port_name(name, &format!("{at}.targetPort"), causes),
            other => port_number(other.and_then(Value::as_i64).unwrap_or(0), format!("{at}.targetPort"), causes),
        }
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    vec![
        ("spec.clusterIP", text(object, "/spec/clusterIP").into()),
        ("spec.type", text(object, "/spec/type").into()),
    ]
}
