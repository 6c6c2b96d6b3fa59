//! Questions about what somebody may do, put together call by call, and their answers.

use std::sync::Arc;

use crate::Host;
use crate::error::EvalError;
use crate::eval::Outcome;
use crate::meter::Meter;
use crate::value::Value;

/// What asking whether somebody may do something costs, in steps: it may look through all roles.
const QUESTION: u64 = 350_000;

/// What is asked: may somebody do something?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Namespace and name of the service account that is asked about; whoever makes the request if none.
    pub account: Option<(String, String)>,
    /// A path that is no resource.
    pub path: Option<String>,
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace, `""` for all.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
}

/// A question that is being put together, or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Somebody.
    Authorizer(Check),
    /// Somebody and a path.
    Path(Check),
    /// Somebody and an API group.
    Group(Check),
    /// Somebody and a resource.
    Resource(Check),
    /// The answer.
    Decision(Decision),
}

impl Authority {
    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(_) => "kubernetes.authorization.PathCheck",
            Self::Group(_) => "kubernetes.authorization.GroupCheck",
            Self::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

/// The value of a function of these, if it is one.
pub fn call(name: &str, args: &[Value], host: &dyn Host, meter: &mut Meter) -> Option<Outcome> {
    let Some(Value::Authority(authority)) = args.first() else {
        return None;
    };
    let word = |nth: usize| args.get(nth).and_then(Value::as_str).map(str::to_owned);
    let made = match (&**authority, name) {
        (Authority::Authorizer(check), "path") => {
            let path = word(1)?;
            if path.is_empty() {
                return Some(Err(EvalError::value("path must not be empty")));
            }
            Authority::Path(Check {
                path: Some(path),
                ..check.clone()
            })
        }
        (Authority::Authorizer(check), "group") => Authority::Group(Check {
            group: word(1)?,
            ..check.clone()
        }),
        (Authority::Authorizer(check), "serviceAccount") => Authority::Authorizer(Check {
            account: Some((word(1)?, word(2)?)),
            ..check.clone()
        }),
        (Authority::Group(check), "resource") => Authority::Resource(Check {
            resource: word(1)?,
            ..check.clone()
        }),
        (Authority::Resource(check), "subresource" | "namespace" | "name") => {
            let mut check = check.clone();
            match name {
                "subresource" => check.subresource = word(1)?,
                "namespace" => check.namespace = word(1)?,
                _ => check.name = word(1)?,
            }
            Authority::Resource(check)
        }
        (Authority::Path(check) | Authority::Resource(check), "check") => {
            if let Err(error) = meter.charge(QUESTION) {
                return Some(Err(error));
            }
            Authority::Decision(host.decide(&Check {
                verb: word(1)?,
                ..check.clone()
            }))
        }
        (Authority::Decision(decision), _) => return of_decision(name, decision),
        _ => return None,
    };
    Some(Ok(Value::Authority(Arc::new(made))))
}

fn of_decision(name: &str, decision: &Decision) -> Option<Outcome> {
    Some(Ok(match name {
        "allowed" => Value::Bool(decision.allowed),
        "reason" => Value::text(&decision.reason),
        // Nothing that could fail stands between the question and its answer.
        "errored" => Value::Bool(false),
        "error" => Value::text(""),
        _ => return None,
    }))
}
