//! Evaluation of one policy about one request, with one set of parameters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_cel::{Authority, Check, Decision, EvalError, Host, Meter, Value as Cel};

use super::Form;
use super::policy::{Expression, Policy};
use super::sight::Sight;
use crate::Object;

/// What one expression may cost.
const PER_EXPRESSION: u64 = 1_000_000;
/// What the validations of a policy may cost together.
const BUDGET: u64 = 10_000_000;
/// What the conditions of a policy may cost together.
const CONDITIONS_BUDGET: u64 = 2_500_000;
/// What an evaluation costs beside its expressions.
const ONCE: u64 = 100;
/// Bytes of a message that an expression gives.
const MOST_MESSAGE_BYTES: usize = 5 * 1024;

/// What a policy finds fault with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The object is not as it must be, or it could not be found out.
    Refused {
        /// What is told.
        message: String,
        /// The reason of the Status.
        reason: &'static str,
    },
    /// What was to be written to the audit log could not be found out.
    Unannotated(String),
}

/// What a policy finds fault with.
pub fn evaluate(policy: &Policy, sight: &Sight<'_>, form: &Form, params: Option<&Object>) -> Vec<Finding> {
    let scene = Scene {
        policy,
        sight,
        form,
        params,
        known: RefCell::default(),
    };
    sight.spend(ONCE);
    match scene.conditions() {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(why) if policy.fails => return vec![invalid(why)],
        Err(_) => return Vec::new(),
    }
    let mut budget = BUDGET;
    let mut findings = Vec::new();
    for validation in &policy.validations {
        match scene.outcome(&validation.expression, &mut budget) {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let told = validation
                    .message_expression
                    .as_ref()
                    .and_then(|expression| scene.message(expression, &mut budget));
                let own = || Some(validation.message.clone()).filter(|message| !message.is_empty());
                let message = told.or_else(own);
                let message = message.unwrap_or_else(|| format!("failed expression: {}", validation.expression.text.trim()));
                sight.spend(message.len() as u64 / 10);
                findings.push(Finding::Refused {
                    message,
                    reason: validation.reason,
                });
            }
            Err(Fault::Spent) if policy.fails => return vec![spent()],
            Err(Fault::Spent) => return Vec::new(),
            Err(Fault::Failed(why)) if policy.fails => findings.push(invalid(why)),
            Err(Fault::Failed(_)) => {}
        }
    }
    let mut budget = BUDGET;
    for annotation in &policy.annotations {
        match scene.outcome(annotation, &mut budget) {
            Err(Fault::Spent) if policy.fails => return vec![spent()],
            Err(Fault::Spent) => return Vec::new(),
            Err(Fault::Failed(why)) if policy.fails => findings.push(Finding::Unannotated(why)),
            Ok(_) | Err(Fault::Failed(_)) => {}
        }
    }
    findings
}

fn invalid(message: String) -> Finding {
    Finding::Refused {
        message,
        reason: "Invalid",
    }
}

/// The budget is spent.
pub fn spent() -> Finding {
    invalid(SPENT.to_owned())
}

/// Of the budget of the policy, or of the request.
pub const SPENT: &str = "validation failed due to running out of cost budget, no further validation rules will be run";

/// Why an expression has no value.
enum Fault {
    /// The budget of the whole, or of the request, is spent.
    Spent,
    /// This one has none.
    Failed(String),
}

/// What expressions see.
struct Scene<'a> {
    policy: &'a Policy,
    sight: &'a Sight<'a>,
    form: &'a Form,
    params: Option<&'a Object>,
    /// What was asked for before.
    known: RefCell<BTreeMap<String, Result<Cel, EvalError>>>,
}

impl Scene<'_> {
    fn outcome(&self, expression: &Expression, budget: &mut u64) -> Result<Cel, Fault> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Err(Fault::Failed(format!("compilation error: {why}"))),
        };
        let allowed = PER_EXPRESSION.min(*budget).min(self.sight.left());
        let mut meter = Meter::new(allowed);
        let outcome = program.evaluate(self, &mut meter);
        let spent = allowed - meter.left();
        *budget = budget.saturating_sub(spent);
        if !self.sight.spend(spent) || *budget == 0 {
            return Err(Fault::Spent);
        }
        outcome.map_err(|error| Fault::Failed(format!("expression '{}' resulted in error: {error}", expression.text)))
    }

    /// Whether the policy's conditions hold. One that does not decides although another cannot be evaluated.
    fn conditions(&self) -> Result<bool, String> {
        let mut budget = CONDITIONS_BUDGET;
        let mut failed = Vec::new();
        for condition in &self.policy.conditions {
            match self.outcome(condition, &mut budget) {
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(Fault::Spent) => return Err(SPENT.to_owned()),
                Err(Fault::Failed(why)) => failed.push(why),
            }
        }
        match failed.as_slice() {
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// What an expression says is told, if it is fit to be told.
    fn message(&self, expression: &Expression, budget: &mut u64) -> Option<String> {
        let value = self.outcome(expression, budget).ok()?;
        let message = value.as_str()?.trim();
        let fit = !message.is_empty() && message.len() <= MOST_MESSAGE_BYTES && !message.contains('\n');
        fit.then(|| message.to_owned())
    }

    fn found(&self, name: &str, meter: &mut Meter) -> Result<Cel, EvalError> {
        let authority = |authority| Ok(Cel::Authority(Arc::new(authority)));
        if let Some(variable) = name.strip_prefix("variables.") {
            return self.variable_of(variable, meter);
        }
        match name {
            "params" => self.read_params(meter),
            "authorizer" => authority(Authority::Authorizer(Check::default())),
            "authorizer.requestResource" => authority(Authority::Resource(self.sight.own_check())),
            _ => self.sight.value(self.form, name),
        }
    }

    /// Each set of parameters is read for each binding that uses it, so whoever uses it pays: to parse it, and for what it holds.
    fn read_params(&self, meter: &mut Meter) -> Result<Cel, EvalError> {
        let (Some(kind), Some(object)) = (&self.policy.param_kind, self.params) else {
            return Ok(Cel::Null);
        };
        meter.charge_text(object.json().len())?;
        Cel::from_json_within(&self.sight.world.read(kind, object), meter)
    }

    fn variable_of(&self, name: &str, meter: &mut Meter) -> Result<Cel, EvalError> {
        let fails = |why: &str, what: &str| EvalError::value(format!("composited variable \"{name}\" fails to {what}: {why}"));
        // Of two with one name, the later.
        let found = self.policy.variables.iter().rev().find(|(one, _)| one == name);
        let Some((_, expression)) = found else {
            return Err(EvalError::value(format!("no such key: {name}")));
        };
        match &expression.program {
            Err(why) => Err(fails(why, "compile")),
            Ok(program) => program.evaluate(self, meter).map_err(|error| match error {
                EvalError::Cost => EvalError::Cost,
                EvalError::Value(why) => fails(&why, "evaluate"),
            }),
        }
    }
}

impl Host for Scene<'_> {
    fn variable(&self, name: &str, meter: &mut Meter) -> Result<Cel, EvalError> {
        let known = self.known.borrow().get(name).cloned();
        if let Some(value) = known {
            return value;
        }
        let value = self.found(name, meter);
        if !matches!(value, Err(EvalError::Cost)) {
            self.known.borrow_mut().insert(name.to_owned(), value.clone());
        }
        value
    }

    fn decide(&self, check: &Check) -> Decision {
        self.sight.world.decide(check)
    }
}
