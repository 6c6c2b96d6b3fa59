//! Policies and bindings as they are evaluated: read once, expressions compiled.

use bailiff_cel::{CompileError, Env, Program, Type};
use serde_json::{Value, json};

use super::World;
use super::matching::Matches;
use super::names::{self, Names, VARIABLES};
use crate::api::names::{QUALIFIED_NAME_COMPLAINT, is_qualified_name};
use crate::rules::admission as shape;
use crate::rules::{items, text};
use crate::status::Cause;

/// Bytes of an expression for an audit annotation.
const MOST_ANNOTATION_BYTES: usize = 5 * 1024;
/// Audit annotations of a policy.
const MOST_ANNOTATIONS: usize = 20;
/// Match conditions of a policy.
const MOST_CONDITIONS: usize = 64;
/// Variables of a policy. The real server has no such bound; each may use those before it.
const MOST_VARIABLES: usize = 1000;
/// Levels of a variable's type that are looked at: each variable may nest those before it, and every use of one is compared with the
/// others in all its levels. What is nested deeper is checked when it is evaluated.
const DEEPEST_TYPE: usize = 16;

/// An expression of a policy.
#[derive(Clone, Debug)]
pub struct Expression {
    /// As it was written.
    pub text: String,
    /// Compiled, or why it is not.
    pub program: Result<Program, String>,
}

/// What objects must be like.
#[derive(Clone, Debug)]
pub struct Validation {
    /// What must be true.
    pub expression: Expression,
    /// What is told otherwise.
    pub message: String,
    /// What gives what is told otherwise.
    pub message_expression: Option<Expression>,
    /// The reason of the Status.
    pub reason: &'static str,
}

/// A kind of objects that parametrise policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    /// Its API version, with the group.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
}

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Whether what cannot be evaluated is refused.
    pub fails: bool,
    /// What requests it is about.
    pub constraints: Matches,
    /// What else must be true of them.
    pub conditions: Vec<Expression>,
    /// Values with names.
    pub variables: Vec<(String, Expression)>,
    /// What objects must be like.
    pub validations: Vec<Validation>,
    /// What would be written to an audit log.
    pub annotations: Vec<Expression>,
    /// What its parameters are.
    pub param_kind: Option<ParamKind>,
}

/// What is done about an object that is not as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The request is refused.
    Deny,
    /// The answer warns.
    Warn,
    /// It is written to the audit log.
    Audit,
}

/// What makes a policy hold.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The policy.
    pub policy: String,
    /// What is done about what it refuses.
    pub actions: Vec<Action>,
    /// What requests it is about, of those that the policy is about.
    pub resources: Option<Matches>,
    /// Which parameters it uses.
    pub param_ref: Option<Value>,
}

impl Binding {
    /// Reads a binding.
    pub fn of(object: &Value) -> Self {
        let given = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
        let actions = items(object, "/spec/validationActions").iter();
        Self {
            name: text(object, "/metadata/name").to_owned(),
            policy: text(object, "/spec/policyName").to_owned(),
            actions: actions
                .filter_map(|action| match action.as_str() {
                    Some("Deny") => Some(Action::Deny),
                    Some("Warn") => Some(Action::Warn),
                    Some("Audit") => Some(Action::Audit),
                    _ => None,
                })
                .collect(),
            resources: given("/spec/matchResources").map(Matches::of),
            param_ref: given("/spec/paramRef").cloned(),
        }
    }
}

impl Policy {
    /// Reads a policy. What is wrong with it is told in the order of the real server; what can be is compiled all the same.
    pub fn read(object: &Value, causes: &mut Vec<Cause>) -> Self {
        let name = text(object, "/metadata/name").to_owned();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null());
        let fails = shape::failure_policy(spec, causes);
        shape::param_kind(param_kind, causes);
        let constraints = spec.get("matchConstraints").unwrap_or(&Value::Null);
        shape::constraints(constraints, causes);
        let mut reader = Reader {
            params: param_kind.is_some(),
            variables: Vec::new(),
            has_variables: !items(spec, "/variables").is_empty(),
            causes,
        };
        let conditions = reader.conditions(items(spec, "/matchConditions"));
        let variables = reader.variables(items(spec, "/variables"));
        let (validations, annotations) = (items(spec, "/validations"), items(spec, "/auditAnnotations"));
        if validations.is_empty() && annotations.is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            for field in ["spec.validations", "spec.auditAnnotations"] {
                reader.causes.push(Cause::required(field, why));
            }
        }
        let validations = reader.validations(validations);
        let annotations = reader.annotations(&name, annotations);
        Self {
            name,
            fails,
            constraints: Matches::of(constraints),
            conditions,
            variables,
            validations,
            annotations,
            param_kind: param_kind.map(|kind| ParamKind {
                api_version: text(kind, "/apiVersion").to_owned(),
                kind: text(kind, "/kind").to_owned(),
            }),
        }
    }

    /// Why it cannot be evaluated at all.
    pub fn unusable(&self, world: &dyn World) -> Option<String> {
        let kind = self.param_kind.as_ref()?;
        if world.scope(kind).is_some() {
            return None;
        }
        let (version, kind) = (&kind.api_version, &kind.kind);
        Some(format!(
            "failed to find resource referenced by paramKind: '{version}, Kind={kind}'"
        ))
    }
}

/// Whether a type has no more than so many levels.
fn is_shallow(of: &Type, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match of {
        Type::List(one) | Type::Optional(one) | Type::Kind(one) => is_shallow(one, below),
        Type::Map(key, value) => is_shallow(key, below) && is_shallow(value, below),
        Type::Dyn | Type::Plain(_) | Type::Object(_) | Type::Param(_) => true,
    }
}

/// Reads expressions in turn, since later ones see the variables before them.
struct Reader<'a> {
    params: bool,
    variables: Vec<(String, Type)>,
    has_variables: bool,
    causes: &'a mut Vec<Cause>,
}

impl Reader<'_> {
    fn env(&self, authorizer: bool, variables: bool) -> Env {
        let variables = variables && self.has_variables;
        let mut env = names::env(Names {
            params: self.params,
            authorizer,
            variables,
        });
        if variables {
            for (name, of) in &self.variables {
                env.declare_field(VARIABLES, name, of.clone());
                env.declare(&format!("variables.{name}"), of.clone());
            }
        }
        env
    }

    fn compile(&mut self, at: &str, text: &str, env: &Env, wanted: &[&str]) -> Expression {
        let compiled = Program::compile(text, env);
        let why = match &compiled {
            Ok(program) => {
                let given = program.result().formal();
                let fits = wanted.is_empty() || wanted.contains(&given.as_str());
                let one = match wanted {
                    [only] => (*only).to_owned(),
                    several => format!("one of [{}]", several.join(" ")),
                };
                (!fits).then(|| format!("must evaluate to {one} but got {given}"))
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = &why {
            self.causes.push(match &compiled {
                Err(CompileError::Constant(_)) => Cause::new("InternalError", at, format!("Internal error: {why}")),
                _ => Cause::invalid(at, &text.into(), why),
            });
        }
        let program = match (compiled, why) {
            (Ok(program), None) => Ok(program),
            (_, why) => Err(why.unwrap_or_default()),
        };
        Expression {
            text: text.to_owned(),
            program,
        }
    }

    fn conditions(&mut self, conditions: &[Value]) -> Vec<Expression> {
        if conditions.len() > MOST_CONDITIONS {
            let why = format!("Too many: {}: must have at most {MOST_CONDITIONS} items", conditions.len());
            self.causes.push(Cause::new("FieldValueTooMany", "spec.matchConditions", why));
        }
        let env = self.env(true, false);
        let mut seen = Vec::new();
        let mut read = Vec::new();
        for (nth, condition) in conditions.iter().enumerate() {
            let at = format!("spec.matchConditions[{nth}]");
            let expression = text(condition, "/expression").trim();
            if expression.is_empty() {
                self.causes.push(Cause::required(format!("{at}.expression"), ""));
            } else {
                read.push(self.compile(&format!("{at}.expression"), expression, &env, &["bool"]));
            }
            let name = text(condition, "/name");
            if name.is_empty() {
                self.causes.push(Cause::required(format!("{at}.name"), ""));
            } else if !is_qualified_name(name) {
                self.causes
                    .push(Cause::invalid(format!("{at}.name"), &name.into(), QUALIFIED_NAME_COMPLAINT));
            }
            if !name.is_empty() && seen.contains(&name) {
                self.causes.push(Cause::duplicate(format!("{at}.name"), &name.into()));
            }
            seen.push(name);
        }
        read
    }

    fn variables(&mut self, variables: &[Value]) -> Vec<(String, Expression)> {
        if variables.len() > MOST_VARIABLES {
            let why = format!("Too many: {}: must have at most {MOST_VARIABLES} items", variables.len());
            self.causes.push(Cause::new("FieldValueTooMany", "spec.variables", why));
            return Vec::new();
        }
        let mut env = self.env(true, true);
        let mut read = Vec::new();
        for (nth, variable) in variables.iter().enumerate() {
            let at = format!("spec.variables[{nth}]");
            let (name, expression) = (text(variable, "/name"), text(variable, "/expression"));
            if name.trim().is_empty() {
                self.causes
                    .push(Cause::required(format!("{at}.name"), "name is not specified"));
            } else if !bailiff_cel::is_identifier(name) {
                let why = "must be a valid CEL identifier";
                self.causes.push(Cause::invalid(format!("{at}.name"), &name.into(), why));
            }
            if expression.trim().is_empty() {
                let why = "expression is not specified";
                self.causes.push(Cause::required(format!("{at}.expression"), why));
                continue;
            }
            let expression = self.compile(&format!("{at}.expression"), expression, &env, &[]);
            let of = expression
                .program
                .as_ref()
                .map_or(Type::Dyn, |program| program.result().clone());
            let of = if is_shallow(&of, DEEPEST_TYPE) { of } else { Type::Dyn };
            env.declare_field(VARIABLES, name, of.clone());
            env.declare(&format!("variables.{name}"), of.clone());
            self.variables.push((name.to_owned(), of));
            read.push((name.to_owned(), expression));
        }
        read
    }

    fn validations(&mut self, validations: &[Value]) -> Vec<Validation> {
        let (env, message_env) = (self.env(true, true), self.env(false, true));
        let mut read = Vec::new();
        for (nth, validation) in validations.iter().enumerate() {
            let at = format!("spec.validations[{nth}]");
            let given = text(validation, "/expression");
            let expression = if given.trim().is_empty() {
                let why = "expression is not specified";
                self.causes.push(Cause::required(format!("{at}.expression"), why));
                None
            } else {
                Some(self.compile(&format!("{at}.expression"), given, &env, &["bool"]))
            };
            let message_expression = self.message_expression(&at, text(validation, "/messageExpression"), &message_env);
            shape::message(&at, text(validation, "/message"), self.causes);
            let reason = shape::reason(&at, validation.get("reason"), self.causes);
            read.extend(expression.map(|expression| Validation {
                expression,
                message: text(validation, "/message").trim().to_owned(),
                message_expression,
                reason,
            }));
        }
        read
    }

    fn message_expression(&mut self, at: &str, given: &str, env: &Env) -> Option<Expression> {
        let at = format!("{at}.messageExpression");
        if given.is_empty() {
            return None;
        }
        if given.trim().is_empty() {
            let why = "must be non-empty if specified";
            self.causes.push(Cause::invalid(at, &given.into(), why));
            return None;
        }
        Some(self.compile(&at, given, env, &["string"]))
    }

    fn annotations(&mut self, policy: &str, annotations: &[Value]) -> Vec<Expression> {
        if annotations.len() > MOST_ANNOTATIONS {
            let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
            self.causes
                .push(Cause::invalid("spec.auditAnnotations", &json!(annotations), &why));
        }
        let env = self.env(true, true);
        let mut seen = Vec::new();
        let mut read = Vec::new();
        for (nth, annotation) in annotations.iter().enumerate() {
            let at = format!("spec.auditAnnotations[{nth}]");
            let (key, given) = (text(annotation, "/key"), text(annotation, "/valueExpression"));
            let whole = format!("{policy}/{key}");
            if !is_qualified_name(&whole) {
                self.causes
                    .push(Cause::invalid(format!("{at}.key"), &whole.into(), QUALIFIED_NAME_COMPLAINT));
            }
            let at_value = format!("{at}.valueExpression");
            if given.trim().is_empty() {
                self.causes
                    .push(Cause::required(at_value, "valueExpression is not specified"));
            } else if given.trim().len() > MOST_ANNOTATION_BYTES {
                let why = format!("must not exceed {MOST_ANNOTATION_BYTES} bytes in length");
                self.causes.push(Cause::required(at_value, &why));
            } else {
                read.push(self.compile(&at_value, given.trim(), &env, &["string", "null_type"]));
            }
            if seen.contains(&key) {
                self.causes.push(Cause::duplicate(format!("{at}.key"), &key.into()));
            }
            seen.push(key);
        }
        read
    }
}
