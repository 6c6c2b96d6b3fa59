//! ValidatingAdmissionPolicies and their bindings: defaults and validation. Expressions are compiled by [`crate::admission::policy`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Context, Rules, default, items, meta, text};
use crate::Status;
use crate::admission::policy::Policy;
use crate::api::{names, selector};
use crate::status::Cause;

/// Rules for policies.
#[derive(Debug)]
pub struct Policies;

/// Rules for bindings.
#[derive(Debug)]
pub struct PolicyBindings;

impl Rules for Policies {
    fn defaults(&self, object: &mut Value) {
        let Some(Value::Object(spec)) = object.get_mut("spec") else {
            return;
        };
        default(spec, "failurePolicy", "Fail");
        if let Some(Value::Object(constraints)) = spec.get_mut("matchConstraints") {
            match_defaults(constraints);
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), Status> {
        if let Value::Object(fields) = object {
            fields.shift_remove("status");
        }
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        Policy::read(object, causes);
    }

    fn has_generation(&self) -> bool {
        true
    }
}

impl Rules for PolicyBindings {
    fn defaults(&self, object: &mut Value) {
        if let Some(Value::Object(resources)) = object.pointer_mut("/spec/matchResources") {
            match_defaults(resources);
        }
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let policy = text(object, "/spec/policyName");
        if policy.is_empty() {
            causes.push(Cause::required("spec.policyName", ""));
        } else if !names::is_subdomain(policy) {
            causes.push(Cause::invalid("spec.policyName", &policy.into(), names::SUBDOMAIN_COMPLAINT));
        }
        if let Some(reference) = object.pointer("/spec/paramRef").filter(|reference| !reference.is_null()) {
            param_ref(reference, causes);
        }
        if let Some(resources) = object.pointer("/spec/matchResources").filter(|one| !one.is_null()) {
            match_resources(resources, "spec.matchResources", causes);
        }
        actions(items(object, "/spec/validationActions"), causes);
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn match_defaults(resources: &mut Map<String, Value>) {
    default(resources, "matchPolicy", "Equivalent");
    default(resources, "namespaceSelector", json!({}));
    default(resources, "objectSelector", json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(rule) = rule {
                default(rule, "scope", "*");
            }
        }
    }
}

/// Whether what cannot be evaluated is refused.
pub fn failure_policy(spec: &Value, causes: &mut Vec<Cause>) -> bool {
    let policy = text(spec, "/failurePolicy");
    match policy {
        "Fail" | "Ignore" => {}
        "" => causes.push(Cause::required("spec.failurePolicy", "")),
        _ => causes.push(Cause::unsupported("spec.failurePolicy", &policy.into(), &["Fail", "Ignore"])),
    }
    policy != "Ignore"
}

/// Checks `spec.paramKind`.
pub fn param_kind(kind: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(kind) = kind else { return };
    let at = "spec.paramKind.apiVersion";
    let given = text(kind, "/apiVersion");
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    if given.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if version.contains('/') {
        let why = format!("unexpected GroupVersion string: {given}");
        causes.push(Cause::invalid(at, &given.into(), &why));
    } else {
        if !group.is_empty() && !names::is_subdomain(group) {
            causes.push(Cause::invalid(at, &group.into(), names::SUBDOMAIN_COMPLAINT));
        }
        if version.is_empty() {
            causes.push(Cause::invalid(at, &given.into(), "version must be specified"));
        } else if !is_label_1035(version) {
            causes.push(Cause::invalid(at, &version.into(), LABEL_1035));
        }
    }
    let name = text(kind, "/kind");
    if name.is_empty() {
        causes.push(Cause::required("spec.paramKind.kind", ""));
    } else if !is_label_1035(&name.to_lowercase()) {
        let why = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
        causes.push(Cause::invalid("spec.paramKind.kind", &name.into(), &why));
    }
}

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                          character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
                          is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_label_1035(text: &str) -> bool {
    names::is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Checks `spec.matchConstraints`.
pub fn constraints(value: &Value, causes: &mut Vec<Cause>) {
    if value.is_null() {
        causes.push(Cause::required("spec.matchConstraints", ""));
        return;
    }
    match_resources(value, "spec.matchConstraints", causes);
    if items(value, "/resourceRules").is_empty() {
        causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
    }
}

fn match_resources(value: &Value, at: &str, causes: &mut Vec<Cause>) {
    let policy = text(value, "/matchPolicy");
    if !matches!(policy, "Exact" | "Equivalent") {
        let field = format!("{at}.matchPolicy");
        causes.push(match policy {
            "" => Cause::required(field, ""),
            other => Cause::unsupported(field, &other.into(), &["Equivalent", "Exact"]),
        });
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let at = format!("{at}.{field}");
        match value.get(field) {
            Some(selector) if !selector.is_null() => selector::check_object(selector, &at, causes),
            _ => causes.push(Cause::required(at, "")),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (nth, rule) in items(value, &format!("/{field}")).iter().enumerate() {
            check_rule(rule, &format!("{at}.{field}[{nth}]"), causes);
        }
    }
}

fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    items(value, field).iter().filter_map(Value::as_str).collect()
}

fn check_rule(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (nth, name) in texts(rule, "/resourceNames").into_iter().enumerate() {
        let field = format!("{at}.resourceNames[{nth}]");
        if let Some(why) = meta::segment(name) {
            causes.push(Cause::invalid(&field, &name.into(), why));
        }
        if !seen.insert(name) {
            causes.push(Cause::duplicate(&field, &name.into()));
        }
    }
    let operations = texts(rule, "/operations");
    alone(&operations, &format!("{at}.operations"), "operations", causes);
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (nth, operation) in operations.iter().enumerate() {
        if !known.contains(operation) {
            causes.push(Cause::unsupported(
                format!("{at}.operations[{nth}]"),
                &(*operation).into(),
                &known,
            ));
        }
    }
    alone(&texts(rule, "/apiGroups"), &format!("{at}.apiGroups"), "API groups", causes);
    let versions = texts(rule, "/apiVersions");
    alone(&versions, &format!("{at}.apiVersions"), "API versions", causes);
    for (nth, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
        causes.push(Cause::required(format!("{at}.apiVersions[{nth}]"), ""));
    }
    resources(&texts(rule, "/resources"), &format!("{at}.resources"), causes);
    let scope = text(rule, "/scope");
    if !matches!(scope, "" | "*" | "Cluster" | "Namespaced") {
        let allowed = ["*", "Cluster", "Namespaced"];
        causes.push(Cause::unsupported(format!("{at}.scope"), &scope.into(), &allowed));
    }
}

/// `*` stands alone, and something has to stand.
fn alone(list: &[&str], at: &str, what: &str, causes: &mut Vec<Cause>) {
    if list.is_empty() {
        causes.push(Cause::required(at, ""));
    }
    if list.len() > 1 && list.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {what}");
        causes.push(Cause::invalid(at, &json!(list), &why));
    }
}

fn resources(list: &[&str], at: &str, causes: &mut Vec<Cause>) {
    if list.is_empty() {
        causes.push(Cause::required(at, ""));
    }
    let (mut all_of, mut of_all) = (BTreeSet::new(), BTreeSet::new());
    for (nth, entry) in list.iter().enumerate() {
        let field = format!("{at}[{nth}]");
        if entry.is_empty() {
            causes.push(Cause::required(field, ""));
            continue;
        }
        let Some((resource, sub)) = entry.split_once('/') else {
            continue;
        };
        if all_of.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {entry}");
            causes.push(Cause::invalid(&field, &(*entry).into(), &why));
        }
        if of_all.contains(sub) {
            let why = format!("if '*/{sub}' is present, must not specify {entry}");
            causes.push(Cause::invalid(&field, &(*entry).into(), &why));
        }
        if sub == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            of_all.insert(sub);
        }
    }
    if list.len() > 1 && list.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        causes.push(Cause::invalid(at, &json!(list), why));
    }
    // The last one without a subresource decides, as on the real server.
    let last = list.iter().rfind(|entry| !entry.contains('/') && !entry.is_empty());
    if list.contains(&"*") && last.is_some_and(|last| *last != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.push(Cause::invalid(at, &json!(list), why));
    }
}

/// Checks what is told of an object that is not as it must be.
pub fn message(at: &str, message: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.message");
    if !message.is_empty() && message.trim().is_empty() {
        causes.push(Cause::invalid(field, &message.into(), "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        causes.push(Cause::invalid(field, &message.into(), "must not contain line breaks"));
    }
}

/// The reason of refusals.
pub fn reason(at: &str, given: Option<&Value>, causes: &mut Vec<Cause>) -> &'static str {
    const KNOWN: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
    let Some(given) = given.filter(|given| !given.is_null()) else {
        return "Invalid";
    };
    let known = KNOWN.into_iter().find(|known| given == known);
    if known.is_none() {
        causes.push(Cause::unsupported(format!("{at}.reason"), given, &KNOWN));
    }
    known.unwrap_or("Invalid")
}

fn param_ref(reference: &Value, causes: &mut Vec<Cause>) {
    let at = "spec.paramRef";
    let name = text(reference, "/name");
    let selector = reference.get("selector").filter(|selector| !selector.is_null());
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        if let Some(why) = meta::segment(name) {
            causes.push(Cause::invalid(format!("{at}.name"), &name.into(), why));
        }
        if selector.is_some() {
            causes.push(Cause::forbidden(format!("{at}.name"), exclusive));
        }
    }
    if let Some(selector) = selector {
        selector::check_object(selector, &format!("{at}.selector"), causes);
        if !name.is_empty() {
            causes.push(Cause::forbidden(format!("{at}.selector"), exclusive));
        }
    } else if name.is_empty() {
        causes.push(Cause::required(at, "one of name or selector must be specified"));
    }
    let field = format!("{at}.parameterNotFoundAction");
    match text(reference, "/parameterNotFoundAction") {
        "Deny" | "Allow" => {}
        "" => causes.push(Cause::required(field, "")),
        other => causes.push(Cause::unsupported(field, &other.into(), &["Deny", "Allow"])),
    }
}

fn actions(actions: &[Value], causes: &mut Vec<Cause>) {
    let at = "spec.validationActions";
    for (nth, action) in actions.iter().enumerate() {
        let field = format!("{at}[{nth}]");
        if !["Audit", "Deny", "Warn"].iter().any(|known| action == known) {
            causes.push(Cause::unsupported(&field, action, &["Audit", "Deny", "Warn"]));
        }
        if actions.iter().take(nth).any(|before| before == action) {
            causes.push(Cause::duplicate(&field, action));
        }
    }
    if actions.iter().any(|one| one == "Deny") && actions.iter().any(|one| one == "Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and \
                   headers serves no purpose)";
        causes.push(Cause::invalid(at, &json!(actions), why));
    }
    if actions.is_empty() {
        causes.push(Cause::required(at, "at least one validation action is required"));
    }
}
