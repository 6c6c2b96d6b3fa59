//! Evaluation of a checked tree.

use std::collections::BTreeMap;

use crate::Host;
use crate::ast::{Expr, Node, Opt};
use crate::error::EvalError;
use crate::functions;
use crate::meter::Meter;
use crate::value::{Key, Map, Value};

/// What every step of an evaluation gives.
pub type Outcome = Result<Value, EvalError>;

/// The value of an expression.
pub fn evaluate(expr: &Expr, host: &dyn Host, meter: &mut Meter) -> Outcome {
    let mut eval = Eval {
        host,
        meter,
        locals: Vec::new(),
    };
    eval.expr(expr)
}

/// An evaluation.
pub struct Eval<'a> {
    host: &'a dyn Host,
    /// What it may still cost.
    pub meter: &'a mut Meter,
    /// Values of the variables of macros, outermost first.
    pub locals: Vec<Value>,
}

impl Eval<'_> {
    /// The value of a part.
    pub fn expr(&mut self, expr: &Expr) -> Outcome {
        if let Node::Literal(value) = &expr.node {
            return Ok(value.clone());
        }
        self.meter.enter()?;
        let value = self.node(&expr.node);
        self.meter.leave();
        value
    }

    fn node(&mut self, node: &Node) -> Outcome {
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Global(name) => self.host.variable(name, self.meter),
            Node::Local(place) => self.locals.get(*place).cloned().ok_or_else(EvalError::overload),
            Node::Select { of, field, optional } => {
                let whole = self.expr(of)?;
                if *optional {
                    return select_optional(&whole, &Value::text(field));
                }
                select(&whole, field)
            }
            Node::Has { of, field } => {
                let whole = self.expr(of)?;
                has(&whole, field).map(Value::Bool)
            }
            Node::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Node::Logic { any, terms } => self.logic(*any, terms),
            Node::If(parts) => self.branch(parts),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
            Node::Opt(opt) => self.opt(opt),
            Node::Name(name) | Node::Message(name) => Err(EvalError::value(format!("no such attribute: {name}"))),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Outcome {
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.expr(arg)?);
        }
        match (function, values.as_slice()) {
            ("_[_]", [whole, key]) => index(whole, key),
            ("_[?_]", [whole, key]) => select_optional(whole, key),
            _ => functions::call(function, &values, self.host, self.meter),
        }
    }

    /// One operand may decide although another has no value.
    fn logic(&mut self, any: bool, terms: &[(usize, Expr)]) -> Outcome {
        let mut failed = None;
        for (_, term) in terms {
            match self.expr(term) {
                Ok(Value::Bool(value)) if value == any => return Ok(Value::Bool(any)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(EvalError::overload())),
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!any)),
        }
    }

    fn branch(&mut self, parts: &[Expr; 3]) -> Outcome {
        let [test, yes, no] = parts;
        match self.expr(test)? {
            Value::Bool(true) => self.expr(yes),
            Value::Bool(false) => self.expr(no),
            _ => Err(EvalError::overload()),
        }
    }

    fn list(&mut self, items: &[(bool, Expr)]) -> Outcome {
        let mut values = Vec::with_capacity(items.len());
        for (optional, item) in items {
            let value = self.expr(item)?;
            values.extend(if *optional { unwrapped(value)? } else { Some(value) });
        }
        Value::list(values)
    }

    fn map(&mut self, entries: &[(bool, Expr, Expr)]) -> Outcome {
        let mut values = BTreeMap::new();
        for (optional, key, value) in entries {
            let key = self.expr(key)?;
            let key = Key::of(&key).ok_or_else(|| EvalError::value("unsupported key type"))?;
            let value = self.expr(value)?;
            if let Some(value) = if *optional { unwrapped(value)? } else { Some(value) } {
                values.insert(key, value);
            }
        }
        Map::new(values).map(Value::Map)
    }

    fn opt(&mut self, opt: &Opt) -> Outcome {
        let Value::Optional(of) = self.expr(&opt.of)? else {
            return Err(EvalError::overload());
        };
        let Some(value) = of else { return Ok(Value::Optional(None)) };
        self.locals.push(Value::clone(&value));
        let body = self.expr(&opt.body);
        self.locals.pop();
        let body = body?;
        Ok(if opt.flat { body } else { Value::optional(Some(body)) })
    }
}

fn unwrapped(value: Value) -> Result<Option<Value>, EvalError> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| Value::clone(&inner))),
        _ => Err(EvalError::value("expected an optional value")),
    }
}

fn no_such_key(key: &Value) -> EvalError {
    let shown = match key {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        other => other.as_str().unwrap_or(other.type_name()).to_owned(),
    };
    EvalError::value(format!("no such key: {shown}"))
}

fn select(whole: &Value, field: &str) -> Outcome {
    match whole {
        Value::Map(map) => map.field(field).cloned().ok_or_else(|| no_such_key(&Value::text(field))),
        Value::Optional(_) => select_optional(whole, &Value::text(field)),
        _ => Err(no_such_key(&Value::text(field))),
    }
}

fn has(whole: &Value, field: &str) -> Result<bool, EvalError> {
    match whole {
        Value::Map(map) => Ok(map.field(field).is_some()),
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inner)) => has(inner, field),
        _ => Err(no_such_key(&Value::text(field))),
    }
}

fn index(whole: &Value, key: &Value) -> Outcome {
    match whole {
        Value::Optional(_) => select_optional(whole, key),
        Value::List(_) => {
            let place = list_place(key)?;
            element(whole, key)?.ok_or_else(|| EvalError::value(format!("index out of bounds: {place}")))
        }
        _ => element(whole, key)?.ok_or_else(|| no_such_key(key)),
    }
}

fn select_optional(whole: &Value, key: &Value) -> Outcome {
    match whole {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => element(inner, key).map(Value::optional),
        _ => element(whole, key).map(Value::optional),
    }
}

fn list_place(key: &Value) -> Result<i64, EvalError> {
    match Key::of(key) {
        Some(Key::Int(place)) => Ok(place),
        _ => Err(EvalError::value(format!(
            "unsupported index type '{}' in list",
            key.type_name()
        ))),
    }
}

fn element(whole: &Value, key: &Value) -> Result<Option<Value>, EvalError> {
    match whole {
        Value::Map(map) => Ok(Key::of(key).and_then(|key| map.entries().get(&key).cloned())),
        Value::List(list) => {
            let place = usize::try_from(list_place(key)?).ok();
            Ok(place.and_then(|place| list.items().get(place).cloned()))
        }
        _ => Err(no_such_key(key)),
    }
}
