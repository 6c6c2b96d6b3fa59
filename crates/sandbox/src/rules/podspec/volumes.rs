//! Volumes of a pod, and where its containers mount them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::one_of;
use super::environment;
use crate::api::names;
use crate::rules::{items, text};
use crate::schema::quantity;
use crate::status::Cause;

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
/// Shortest life of a token in a volume, in seconds.
const SHORTEST_TOKEN: i64 = 600;

/// Rules for volumes and mounts.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        let name = text(volume, "/name");
        let at = format!("{path}.volumes[{index}]");
        let before = causes.len();
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !names::is_dns_label(name) {
            causes.push(Cause::invalid(
                format!("{at}.name"),
                &json!(name),
                names::dns_label_complaint(name),
            ));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
        }
        source(spec, volume, &at, causes);
        // Nothing can be mounted from a volume that is wrong.
        if causes.len() == before {
            seen.insert(name);
        }
    }
    for list in ["containers", "initContainers"] {
        for (index, one) in items(spec, &format!("/{list}")).iter().enumerate() {
            mounts(one, &format!("{path}.{list}[{index}].volumeMounts"), &seen, causes);
        }
    }
}

fn source(spec: &Value, volume: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut given = 0;
    let kinds = volume.as_object().into_iter().flatten().filter(|(field, _)| *field != "name");
    for (kind, source) in kinds.filter(|(_, source)| !source.is_null()) {
        given += 1;
        let at = format!("{at}.{kind}");
        if given > 1 {
            causes.push(Cause::forbidden(at, "may not specify more than 1 volume type"));
            continue;
        }
        match kind.as_str() {
            "emptyDir" => empty_dir(source, &at, causes),
            "hostPath" => host_path(source, &at, causes),
            "secret" => {
                needs(source, "secretName", &at, causes);
                keys(source, &at, causes);
            }
            "configMap" => {
                needs(source, "name", &at, causes);
                keys(source, &at, causes);
            }
            "persistentVolumeClaim" => needs(source, "claimName", &at, causes),
            "downwardAPI" => downward(source, &at, causes),
            "projected" => projected(spec, source, &at, causes),
            "nfs" => {
                needs(source, "server", &at, causes);
                needs(source, "path", &at, causes);
            }
            "csi" => needs(source, "driver", &at, causes),
            _ => {}
        }
    }
}

fn needs(source: &Value, field: &str, at: &str, causes: &mut Vec<Cause>) {
    if text(source, &format!("/{field}")).is_empty() {
        causes.push(Cause::required(format!("{at}.{field}"), ""));
    }
}

fn mode(source: &Value, field: &str, at: &str, causes: &mut Vec<Cause>) {
    if let Some(mode) = source.get(field).and_then(Value::as_i64)
        && !(0..=0o777).contains(&mode)
    {
        let complaint = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(Cause::invalid(format!("{at}.{field}"), &json!(mode), complaint));
    }
}

fn keys(source: &Value, at: &str, causes: &mut Vec<Cause>) {
    mode(source, "defaultMode", at, causes);
    for (index, item) in items(source, "/items").iter().enumerate() {
        let at = format!("{at}.items[{index}]");
        needs(item, "key", &at, causes);
        relative(item, &format!("{at}.path"), causes);
        mode(item, "mode", &at, causes);
    }
}

/// A path that stays below the volume.
fn relative(item: &Value, at: &str, causes: &mut Vec<Cause>) {
    let path = text(item, "/path");
    if path.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if path.starts_with('/') {
        causes.push(Cause::invalid(at, &json!(path), "must be a relative path"));
    }
    stays(path, at, causes);
}

fn stays(path: &str, at: &str, causes: &mut Vec<Cause>) {
    if path.split('/').any(|segment| segment == "..") {
        causes.push(Cause::invalid(at, &json!(path), "must not contain '..'"));
    }
}

fn empty_dir(source: &Value, at: &str, causes: &mut Vec<Cause>) {
    let limit = source.get("sizeLimit").and_then(Value::as_str).and_then(quantity::millis);
    if limit.is_some_and(|limit| limit < 0) {
        let why = "SizeLimit field must be a valid resource quantity";
        causes.push(Cause::forbidden(format!("{at}.sizeLimit"), why));
    }
}

fn host_path(source: &Value, at: &str, causes: &mut Vec<Cause>) {
    needs(source, "path", at, causes);
    stays(text(source, "/path"), &format!("{at}.path"), causes);
    one_of(source, "type", &format!("{at}.type"), &HOST_PATH_TYPES, causes);
}

fn downward(source: &Value, at: &str, causes: &mut Vec<Cause>) {
    mode(source, "defaultMode", at, causes);
    for item in items(source, "/items") {
        relative(item, &format!("{at}.path"), causes);
        match (item.get("fieldRef"), item.get("resourceFieldRef")) {
            (None, None) => causes.push(Cause::required(at, "one of fieldRef and resourceFieldRef is required")),
            (Some(_), Some(_)) => {
                let complaint = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.push(Cause::invalid(at, &json!("resource"), complaint));
            }
            (Some(field), None) => environment::field_ref(field, &format!("{at}.fieldRef"), causes),
            (None, Some(resource)) => environment::resource_ref(resource, &format!("{at}.resourceFieldRef"), causes),
        }
        mode(item, "mode", at, causes);
    }
}

fn projected(spec: &Value, source: &Value, at: &str, causes: &mut Vec<Cause>) {
    mode(source, "defaultMode", at, causes);
    for (index, one) in items(source, "/sources").iter().enumerate() {
        let at_source = format!("{at}.sources[{index}]");
        for (kind, inner) in one.as_object().into_iter().flatten() {
            let at_inner = format!("{at_source}.{kind}");
            match kind.as_str() {
                "secret" | "configMap" => {
                    needs(inner, "name", &at_inner, causes);
                    keys(inner, &at_inner, causes);
                }
                "downwardAPI" => downward(inner, &at_inner, causes),
                "serviceAccountToken" => token(spec, inner, at, &at_inner, causes),
                _ => {}
            }
        }
    }
}

fn token(spec: &Value, inner: &Value, at: &str, at_inner: &str, causes: &mut Vec<Cause>) {
    if let Some(seconds) = inner.get("expirationSeconds").and_then(Value::as_i64)
        && seconds < SHORTEST_TOKEN
    {
        let complaint = "may not specify a duration less than 10 minutes";
        causes.push(Cause::invalid(
            format!("{at_inner}.expirationSeconds"),
            &json!(seconds),
            complaint,
        ));
    }
    needs(inner, "path", at, causes);
    if text(spec, "/serviceAccountName").is_empty() && spec.get("nodeName").is_none_or(Value::is_null) {
        causes.push(Cause::forbidden(
            at_inner,
            "must not be specified when serviceAccountName is not set",
        ));
    }
}

fn mounts(one: &Value, at: &str, volumes: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    let mut paths = BTreeSet::new();
    for (index, mount) in items(one, "/volumeMounts").iter().enumerate() {
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        let at_mount = format!("{at}[{index}]");
        if name.is_empty() {
            causes.push(Cause::required(format!("{at_mount}.name"), ""));
        }
        if !volumes.contains(&name) {
            let message = format!("Not found: \"{name}\"");
            causes.push(Cause::new("FieldValueNotFound", format!("{at_mount}.name"), message));
        }
        if path.is_empty() {
            causes.push(Cause::required(format!("{at_mount}.mountPath"), ""));
        } else if paths.contains(&path) {
            causes.push(Cause::invalid(
                format!("{at_mount}.mountPath"),
                &json!(path),
                "must be unique",
            ));
        }
        paths.insert(path);
        let below = text(mount, "/subPath");
        if below.starts_with('/') {
            causes.push(Cause::invalid(
                format!("{at}.subPath"),
                &json!(below),
                "must be a relative path",
            ));
        }
        stays(below, &format!("{at}.subPath"), causes);
        let allowed = ["Bidirectional", "HostToContainer", "None"];
        one_of(mount, "mountPropagation", &format!("{at}.mountPropagation"), &allowed, causes);
    }
}
