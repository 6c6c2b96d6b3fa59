//! Identities and privileges of a pod, and what does not go together with them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::one_of;
use crate::rules::{items, text};
use crate::status::Cause;

/// Rules for a pod's security context and the namespaces of the node that it shares.
pub fn validate(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let at = format!("{path}.securityContext");
    let is = |field: &str| spec.get(field) == Some(&Value::Bool(true));
    if is("shareProcessNamespace") && is("hostPID") {
        let complaint = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.push(Cause::invalid(format!("{at}.shareProcessNamespace"), &json!(true), complaint));
    }
    if spec.get("hostUsers") == Some(&Value::Bool(false)) {
        for field in ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| is(field)) {
            causes.push(Cause::forbidden(format!("{path}.{field}"), "when `hostUsers` is false"));
        }
    }
    if let Some(system) = spec.get("os") {
        one_of(system, "name", &format!("{path}.os"), &["linux", "windows"], causes);
        if text(system, "/name") == "windows" {
            for field in ["hostPID", "hostIPC", "shareProcessNamespace"]
                .into_iter()
                .filter(|field| is(field))
            {
                causes.push(Cause::forbidden(format!("{path}.{field}"), "cannot be set for a windows pod"));
            }
        }
    }
    claims(spec, path, causes);
    if let Some(context) = spec.get("securityContext") {
        pod_context(context, &at, causes);
    }
}

fn claims(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, claim) in items(spec, "/resourceClaims").iter().enumerate() {
        if claim.get("resourceClaimName").is_none() && claim.get("resourceClaimTemplateName").is_none() {
            let complaint = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            causes.push(Cause::invalid(format!("{path}.resourceClaims[{index}]"), claim, complaint));
        }
    }
}

fn id(value: Option<&Value>, at: String, causes: &mut Vec<Cause>) {
    if let Some(id) = value.and_then(Value::as_i64)
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        causes.push(Cause::invalid(at, &json!(id), "must be between 0 and 2147483647, inclusive"));
    }
}

fn pod_context(context: &Value, at: &str, causes: &mut Vec<Cause>) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(context.get(field), format!("{at}.{field}"), causes);
    }
    for (index, group) in items(context, "/supplementalGroups").iter().enumerate() {
        id(Some(group), format!("{at}.supplementalGroups[{index}]"), causes);
    }
    let policies = ["Always", "OnRootMismatch"];
    one_of(
        context,
        "fsGroupChangePolicy",
        &format!("{at}.fsGroupChangePolicy"),
        &policies,
        causes,
    );
    seccomp(context, at, causes);
    sysctls(context, at, causes);
}

fn seccomp(context: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(profile) = context.get("seccompProfile") else {
        return;
    };
    let at = format!("{at}.seccompProfile");
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    one_of(profile, "type", &format!("{at}.type"), &kinds, causes);
    if text(profile, "/type") == "Localhost" && text(profile, "/localhostProfile").is_empty() {
        let why = "must be set when seccomp type is Localhost";
        causes.push(Cause::required(format!("{at}.localhostProfile"), why));
    }
}

fn sysctls(context: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in items(context, "/sysctls").iter().enumerate() {
        let (name, at) = (text(sysctl, "/name"), format!("{at}.sysctls[{index}].name"));
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_./".contains(&byte);
        if name.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if name.len() > 253 || !name.bytes().all(known) {
            let complaint = "must have at most 253 characters and match regex \
                             ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.push(Cause::invalid(at, &json!(name), complaint));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(at, &json!(name)));
        }
        seen.insert(name);
    }
}

/// Rules for the security context of a container. Privilege is not refused: agents that need it are what clusters are run for.
pub fn validate_container(one: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(context) = one.get("securityContext") else { return };
    for field in ["runAsUser", "runAsGroup"] {
        id(context.get(field), format!("{at}.{field}"), causes);
    }
    one_of(
        context,
        "procMount",
        &format!("{at}.procMount"),
        &["Default", "Unmasked"],
        causes,
    );
    seccomp(context, at, causes);
    let escalation = context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false));
    if escalation && context.get("privileged") == Some(&Value::Bool(true)) {
        let complaint = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        causes.push(Cause::invalid(at, context, complaint));
    }
}
