//! The options of requests, and their rules.

use serde_json::{Value, json};

use super::request::Query;
use crate::Status;
use crate::status::Cause;

/// Longest name of a field manager.
const MANAGER_BYTES: usize = 128;

/// Checks the options of a write. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
///
/// # Errors
/// 422 that names the option.
pub fn check_write(query: &Query, kind: &str, apply: bool) -> Result<(), Status> {
    let mut causes = Vec::new();
    if kind == "PatchOptions" {
        if apply && query.get("fieldManager").is_empty() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
        if !apply && query.find("force").is_some() {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
    }
    let manager = query.get("fieldManager");
    if manager.len() > MANAGER_BYTES {
        let complaint = format!("Too long: may not be more than {MANAGER_BYTES} bytes");
        causes.push(Cause::new("FieldValueTooLong", "fieldManager", complaint));
    }
    if let Some((at, found)) = manager.char_indices().find(|(_, found)| found.is_control()) {
        let complaint = format!("invalid character U+{:04X} (at position {at})", u32::from(found));
        causes.push(Cause::invalid("fieldManager", &json!(manager), &complaint));
    }
    check_dry_run(query.all("dryRun"), &mut causes);
    let validation = query.get("fieldValidation");
    if !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
        causes.push(Cause::unsupported(
            "fieldValidation",
            &json!(validation),
            &["", "Ignore", "Strict", "Warn"],
        ));
    }
    refuse(kind, causes)
}

/// `dryRun` is a list whose only sensible element is `All`.
pub fn check_dry_run<'a>(values: impl Iterator<Item = &'a str>, causes: &mut Vec<Cause>) {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|&value| value != "All") {
        causes.push(Cause::unsupported("dryRun", &json!(values), &["All"]));
    }
}

/// 422 about options, if there are causes.
///
/// # Errors
/// When there are.
pub fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", kind, "", causes))
    }
}

/// The options of a delete as an object, however they were given.
pub fn delete_object(request: &super::request::Request) -> Value {
    let mut options = match &request.body {
        super::request::Body::Value(value) => value.clone(),
        super::request::Body::Bytes(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
    };
    if !options.is_object() {
        options = json!({});
    }
    options["kind"] = "DeleteOptions".into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    let query = &request.query;
    if let Ok(Some(seconds)) = query.number("gracePeriodSeconds") {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = query.find("propagationPolicy") {
        options["propagationPolicy"] = policy.into();
    }
    options
}

/// The options of a delete, from its body or its query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds of grace that are asked for.
    pub grace: Option<i64>,
    /// Uid that the object must have.
    pub uid: Option<String>,
    /// resourceVersion that the object must have.
    pub resource_version: Option<String>,
    /// `Orphan`, `Background` or `Foreground`.
    pub propagation: Option<String>,
    /// The older form of `Orphan`.
    pub orphan: Option<bool>,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads them from a body.
    ///
    /// # Errors
    /// 422 that names the option.
    pub fn of_body(body: &Value) -> Result<Self, Status> {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let dry_run: Vec<&str> = crate::rules::items(body, "/dryRun")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let options = Self {
            grace: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation: text("/propagationPolicy"),
            orphan: body.get("orphanDependents").and_then(Value::as_bool),
            dry_run: !dry_run.is_empty(),
        };
        let mut causes = Vec::new();
        check_dry_run(dry_run.into_iter(), &mut causes);
        options.check(causes)
    }

    /// Reads them from a query.
    ///
    /// # Errors
    /// 400 or 422 that names the option.
    pub fn of_query(query: &Query) -> Result<Self, Status> {
        let options = Self {
            grace: query.number("gracePeriodSeconds")?,
            uid: None,
            resource_version: None,
            propagation: query.find("propagationPolicy").map(str::to_owned),
            orphan: query.find("orphanDependents").map(|_| query.flag("orphanDependents")),
            dry_run: query.find("dryRun").is_some(),
        };
        let mut causes = Vec::new();
        check_dry_run(query.all("dryRun"), &mut causes);
        options.check(causes)
    }

    fn check(self, mut causes: Vec<Cause>) -> Result<Self, Status> {
        if let Some(policy) = &self.propagation {
            if self.orphan.is_some() {
                let complaint = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid("propagationPolicy", &json!(policy), complaint));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                let allowed = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::unsupported("propagationPolicy", &json!(policy), &allowed));
            }
        }
        refuse("DeleteOptions", causes)?;
        Ok(self)
    }
}
