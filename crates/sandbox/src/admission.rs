//! Admission by policies: what ValidatingAdmissionPolicies and their bindings say about a request.
//!
//! [`judge`] is all of it. It is pure: what it may look at beside the request is behind [`World`]. Policies are compiled once, when
//! one of them or a binding changes; a server that has no binding never gets here.

use serde_json::Value;

use crate::api::selector::Selector;
use crate::{Status, User};

pub mod evaluate;
pub mod matching;
pub mod names;
pub mod params;
pub mod policy;

use bailiff_cel::{Check, Decision};
use evaluate::Finding;
use policy::{Action, Binding, ParamKind, Policy};

/// A request, as policies see it.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// The object under each of the names that its resource has; the first is that of the request.
    pub forms: Vec<Form>,
    /// The subresource, `""` for none.
    pub subresource: String,
    /// The namespace; a Namespace is in itself.
    pub namespace: String,
    /// The object's name, `""` if it is not known.
    pub name: String,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// The options of the request, null if it has none.
    pub options: Value,
}

/// An object in one of the versions that it can be had in.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Group, version and kind of the object.
    pub kind: (String, String, String),
    /// The object, null if there will be none.
    pub object: Value,
    /// The object before, null if there was none.
    pub old: Value,
}

/// What a judgement may look at.
pub trait World {
    /// Whether objects of a kind live in namespaces; nothing if there is no such kind.
    fn scope(&self, kind: &ParamKind) -> Option<bool>;

    /// The object of this name.
    fn object(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value>;

    /// The objects of a namespace that are meant.
    fn objects(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value>;

    /// A Namespace.
    fn namespace(&self, name: &str) -> Option<Value>;

    /// Whether whoever asks, or the service account in the question, may do something.
    fn decide(&self, check: &Check) -> Decision;
}

/// All policies, and what binds them.
#[derive(Debug, Default)]
pub struct Policies {
    /// By name, each with its bindings by name.
    pub list: Vec<(Policy, Vec<Binding>)>,
}

/// What came of a judgement.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Why it is refused, if it is.
    pub denial: Option<Denial>,
    /// What the answer warns about.
    pub warnings: Vec<String>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What is told.
    pub message: String,
    /// The reason of the Status.
    pub reason: &'static str,
}

impl Policies {
    /// Compiles what is stored. Policies that nothing binds are left out.
    pub fn of(policies: &[Value], bindings: &[Value]) -> Self {
        let bindings: Vec<Binding> = bindings.iter().map(Binding::of).collect();
        let mut list = Vec::new();
        for object in policies {
            let name = crate::rules::text(object, "/metadata/name");
            let own: Vec<Binding> = bindings.iter().filter(|binding| binding.policy == name).cloned().collect();
            if !own.is_empty() {
                list.push((Policy::read(object, &mut Vec::new()), own));
            }
        }
        Self { list }
    }
}

impl Attributes<'_> {
    /// The object in the version of the request.
    pub fn own(&self) -> &Form {
        const NONE: &Form = &Form {
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            kind: (String::new(), String::new(), String::new()),
            object: Value::Null,
            old: Value::Null,
        };
        self.forms.first().unwrap_or(NONE)
    }

    /// Whether it is about a Namespace itself.
    pub fn about_namespace(&self) -> bool {
        let own = self.own();
        own.group.is_empty() && own.resource == "namespaces"
    }

    /// The refusal as it is answered.
    pub fn refuse(&self, denial: Denial) -> Status {
        let own = self.own();
        let named = |pointer| crate::rules::text(&own.object, pointer);
        let names = [self.name.as_str(), named("/metadata/name"), named("/metadata/generateName")];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        let cause = crate::status::Cause::new("", "", denial.message.clone());
        let mut status = Status::forbidden(&own.group, &own.resource, name, &denial.message).because(vec![cause]);
        status.reason = denial.reason;
        status.code = match denial.reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status
    }
}

/// What the policies say about a request.
pub fn judge(policies: &Policies, attributes: &Attributes<'_>, world: &dyn World) -> Verdict {
    let mut verdict = Verdict::default();
    for (policy, bindings) in &policies.list {
        let Some(form) = matching::form(&policy.constraints, attributes, world) else {
            continue;
        };
        if let Some(why) = policy.unusable(world) {
            if policy.fails {
                verdict.deny(policy, None, &format!("failed to configure policy: {why}"), "Invalid");
            }
            continue;
        }
        for binding in bindings {
            let is_meant = binding
                .resources
                .as_ref()
                .is_none_or(|resources| matching::form(resources, attributes, world).is_some());
            if is_meant {
                bound(policy, binding, (attributes, form), world, &mut verdict);
            }
        }
    }
    verdict
}

/// What one policy says, by one of its bindings.
fn bound(policy: &Policy, binding: &Binding, about: (&Attributes<'_>, &Form), world: &dyn World, verdict: &mut Verdict) {
    let params = match params::collect(policy, binding, &about.0.namespace, world) {
        Ok(params) => params,
        Err(why) if policy.fails => {
            let why = format!("failed to configure binding: {why}");
            return verdict.deny(policy, Some(binding), &why, "Invalid");
        }
        Err(_) => return,
    };
    for params in params {
        for finding in evaluate::evaluate(policy, about, params, world) {
            verdict.note(policy, binding, finding);
        }
    }
}

impl Verdict {
    /// Of several refusals the first is told.
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str, reason: &'static str) {
        let by = match binding {
            Some(binding) => format!("'{}' with binding '{}'", policy.name, binding.name),
            None => format!("'{}'", policy.name),
        };
        let message = format!("ValidatingAdmissionPolicy {by} denied request: {why}");
        self.denial.get_or_insert(Denial { message, reason });
    }

    fn note(&mut self, policy: &Policy, binding: &Binding, finding: Finding) {
        match finding {
            Finding::Refused { message, reason } => {
                for action in &binding.actions {
                    match action {
                        Action::Deny => self.deny(policy, Some(binding), &message, reason),
                        Action::Warn => self.warnings.push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                            policy.name, binding.name
                        )),
                        // There is no audit log to write it to.
                        Action::Audit => {}
                    }
                }
            }
            Finding::Unannotated(message) => self.deny(policy, Some(binding), &message, "Invalid"),
        }
    }
}
