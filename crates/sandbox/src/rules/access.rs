//! Roles and their bindings.

use serde_json::{Value, json};

use super::{Context, Rules, default, items, meta, text};
use crate::Status;
use crate::api::names;
use crate::status::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rules for roles, in a namespace or not.
#[derive(Debug)]
pub struct Roles {
    /// Whether they are of one namespace.
    pub namespaced: bool,
}

/// Rules for bindings, in a namespace or not.
#[derive(Debug)]
pub struct Bindings {
    /// Whether they are of one namespace.
    pub namespaced: bool,
}

impl Rules for Roles {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        for (index, rule) in items(object, "/rules").iter().enumerate() {
            self.rule(rule, &format!("rules[{index}]"), causes);
        }
    }

    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::segment(name)
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

impl Roles {
    fn rule(&self, rule: &Value, at: &str, causes: &mut Vec<Cause>) {
        if items(rule, "/verbs").is_empty() {
            causes.push(Cause::required(
                format!("{at}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        let paths = items(rule, "/nonResourceURLs");
        let (groups, resources) = (items(rule, "/apiGroups"), items(rule, "/resources"));
        if !paths.is_empty() {
            let at = format!("{at}.nonResourceURLs");
            if self.namespaced {
                let complaint = "namespaced rules cannot apply to non-resource URLs";
                causes.push(Cause::invalid(&at, &json!(paths), complaint));
            }
            if !groups.is_empty() || !resources.is_empty() || !items(rule, "/resourceNames").is_empty() {
                let complaint = "rules cannot apply to both regular resources and non-resource URLs";
                causes.push(Cause::invalid(&at, &json!(paths), complaint));
            }
            return;
        }
        if groups.is_empty() {
            causes.push(Cause::required(
                format!("{at}.apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if resources.is_empty() {
            causes.push(Cause::required(
                format!("{at}.resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

impl Rules for Bindings {
    fn defaults(&self, object: &mut Value) {
        if let Some(Value::Object(role)) = object.get_mut("roleRef") {
            filled(role, "apiGroup");
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            let person = matches!(text(subject, "/kind"), "User" | "Group");
            if let (true, Value::Object(subject)) = (person, subject) {
                filled(subject, "apiGroup");
            }
        }
    }

    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let role = object.get("roleRef").cloned().unwrap_or_default();
        if text(&role, "/apiGroup") != GROUP {
            causes.push(Cause::unsupported(
                "roleRef.apiGroup",
                &json!(text(&role, "/apiGroup")),
                &[GROUP],
            ));
        }
        let kinds: &[&str] = if self.namespaced {
            &["Role", "ClusterRole"]
        } else {
            &["ClusterRole"]
        };
        if !kinds.contains(&text(&role, "/kind")) {
            causes.push(Cause::unsupported("roleRef.kind", &json!(text(&role, "/kind")), kinds));
        }
        match text(&role, "/name") {
            "" => causes.push(Cause::required("roleRef.name", "")),
            name => {
                if let Some(complaint) = meta::segment(name) {
                    causes.push(Cause::invalid("roleRef.name", &json!(name), complaint));
                }
            }
        }
        for (index, subject) in items(object, "/subjects").iter().enumerate() {
            self.subject(subject, &format!("subjects[{index}]"), causes);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        self.validate(object, causes);
        if object.get("roleRef") != old.get("roleRef") {
            let role = object.get("roleRef").cloned().unwrap_or_default();
            causes.push(Cause::invalid("roleRef", &role, "cannot change roleRef"));
        }
    }

    fn validate_name(&self, name: &str) -> Option<&'static str> {
        meta::segment(name)
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

fn filled(fields: &mut serde_json::Map<String, Value>, field: &str) {
    if fields.get(field).is_some_and(|value| value == "") {
        fields.shift_remove(field);
    }
    default(fields, field, GROUP);
}

impl Bindings {
    fn subject(&self, subject: &Value, at: &str, causes: &mut Vec<Cause>) {
        let (kind, name, group) = (text(subject, "/kind"), text(subject, "/name"), text(subject, "/apiGroup"));
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let wanted = match kind {
            "ServiceAccount" => {
                if !name.is_empty() && !names::is_subdomain(name) {
                    causes.push(Cause::invalid(format!("{at}.name"), &json!(name), names::SUBDOMAIN_COMPLAINT));
                }
                if !self.namespaced && text(subject, "/namespace").is_empty() {
                    causes.push(Cause::required(format!("{at}.namespace"), ""));
                }
                ""
            }
            "User" | "Group" => GROUP,
            other => {
                let kinds = ["ServiceAccount", "User", "Group"];
                causes.push(Cause::unsupported(format!("{at}.kind"), &json!(other), &kinds));
                return;
            }
        };
        if group != wanted {
            causes.push(Cause::unsupported(format!("{at}.apiGroup"), &json!(group), &[wanted]));
        }
    }
}
