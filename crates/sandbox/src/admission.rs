//! Admission by policies: what ValidatingAdmissionPolicies and their bindings say about a request.
//!
//! [`judge`] is all of it. It is pure: what it may look at beside the request is behind [`World`]. A policy is compiled when its
//! state is first needed, and kept while something binds it: by each of the requests that come together then, before they take the store.
//! A server that has no binding never gets here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Object, Status, User};

pub mod evaluate;
pub mod matching;
pub mod names;
pub mod params;
pub mod policy;
pub mod sight;
#[cfg(test)]
mod tests;

use bailiff_cel::{Check, Decision};
use evaluate::Finding;
use policy::{Action, Binding, ParamKind, Policy};
use sight::Sight;

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
    fn object(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Arc<Object>>;

    /// The objects of a namespace.
    fn objects(&self, kind: &ParamKind, namespace: &str) -> Vec<Arc<Object>>;

    /// What an object says, as one of this kind. Costs a parse.
    fn read(&self, kind: &ParamKind, object: &Object) -> Value;

    /// A Namespace.
    fn namespace(&self, name: &str) -> Option<Value>;

    /// Whether whoever asks, or the service account in the question, may do something.
    fn decide(&self, check: &Check) -> Decision;
}

/// All policies, and what binds them.
#[derive(Debug, Default)]
pub struct Policies {
    /// By name.
    pub list: Vec<Bound>,
}

/// A policy that something binds.
#[derive(Debug)]
pub struct Bound {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Its bindings, by name.
    pub bindings: Vec<Binding>,
    /// The revision of its state.
    revision: u64,
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
    /// Compiles what is stored, but for policies whose state is that of before. Policies that nothing binds are left out.
    pub fn of(policies: &[Arc<Object>], bindings: &[Arc<Object>], before: &Self) -> Self {
        let known = before
            .list
            .iter()
            .map(|bound| ((bound.policy.name.as_str(), bound.revision), &bound.policy));
        let known: BTreeMap<(&str, u64), &Arc<Policy>> = known.collect();
        let mut bound: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for binding in bindings.iter().map(|object| Binding::of(&object.value())) {
            bound.entry(binding.policy.clone()).or_default().push(binding);
        }
        let mut list = Vec::new();
        for object in policies {
            let Some(bindings) = bound.remove(object.name()) else {
                continue;
            };
            let revision = object.revision();
            let policy = match known.get(&(object.name(), revision)) {
                Some(policy) => Arc::clone(policy),
                None => Arc::new(Policy::read(&object.value(), &mut Vec::new())),
            };
            list.push(Bound {
                policy,
                bindings,
                revision,
            });
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

/// What all policies together may cost one judgement, of which a request has one for each object that it is about: twice what one policy
/// may. The real server bounds each evaluation alone, but has no lock: here all others wait meanwhile, and a step takes some 70 ns.
const PER_JUDGEMENT: u64 = 20_000_000;

/// What the policies say about a request.
pub fn judge(policies: &Policies, attributes: &Attributes<'_>, world: &dyn World) -> Verdict {
    judge_within(PER_JUDGEMENT, policies, attributes, world)
}

fn judge_within(budget: u64, policies: &Policies, attributes: &Attributes<'_>, world: &dyn World) -> Verdict {
    let sight = Sight::new(attributes, world, budget);
    let mut verdict = Verdict::default();
    for Bound { policy, bindings, .. } in &policies.list {
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
            // That is found out when nothing is left too: what is not meant is not refused.
            sight.spend(params::LOOK);
            let is_meant = binding
                .resources
                .as_ref()
                .is_none_or(|resources| matching::form(resources, attributes, world).is_some());
            if is_meant {
                bound(policy, binding, &sight, form, &mut verdict);
            }
        }
    }
    verdict
}

/// What one policy says, by one of its bindings.
fn bound(policy: &Policy, binding: &Binding, sight: &Sight<'_>, form: &Form, verdict: &mut Verdict) {
    // What cannot be found out any more is no reason to admit anything.
    let is_spent = |verdict: &mut Verdict| {
        let is_spent = sight.left() == 0;
        if is_spent && policy.fails {
            verdict.note(policy, binding, evaluate::spent());
        }
        is_spent
    };
    if is_spent(verdict) {
        return;
    }
    let params = match params::collect(policy, binding, sight) {
        Ok(params) => params,
        Err(why) if policy.fails => {
            let why = format!("failed to configure binding: {why}");
            return verdict.deny(policy, Some(binding), &why, "Invalid");
        }
        Err(_) => return,
    };
    for params in params {
        if is_spent(verdict) {
            return;
        }
        for finding in evaluate::evaluate(policy, sight, form, params.as_deref()) {
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

    /// The same about several parameters is said once.
    fn warn(&mut self, warning: String) {
        if self.warnings.last() != Some(&warning) {
            self.warnings.push(warning);
        }
    }

    fn note(&mut self, policy: &Policy, binding: &Binding, finding: Finding) {
        match finding {
            Finding::Refused { message, reason } => {
                for action in &binding.actions {
                    match action {
                        Action::Deny => self.deny(policy, Some(binding), &message, reason),
                        Action::Warn => self.warn(format!(
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
