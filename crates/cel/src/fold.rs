//! Macros that go through a list or a map.

use std::collections::BTreeMap;

use crate::ast::{Expr, Fold, Shape};
use crate::error::EvalError;
use crate::eval::{Eval, Outcome};
use crate::lists;
use crate::value::{Key, Map, Value};

/// What each step has found so far.
#[derive(Default)]
struct Found {
    items: Vec<Value>,
    entries: BTreeMap<Key, Value>,
    count: u64,
    failed: Option<EvalError>,
    decided: bool,
}

impl Eval<'_> {
    /// What a macro makes of its range.
    pub fn fold(&mut self, fold: &Fold) -> Outcome {
        let range = self.expr(&fold.range)?;
        let before = self.locals.len();
        let found = self.steps(fold, &range);
        self.locals.truncate(before);
        let mut found = found?;
        match (fold.shape, found.failed.take()) {
            (Shape::All, _) if found.decided => Ok(Value::Bool(false)),
            (Shape::Exists, _) if found.decided => Ok(Value::Bool(true)),
            (_, Some(error)) => Err(error),
            (Shape::All, None) => Ok(Value::Bool(true)),
            (Shape::Exists, None) => Ok(Value::Bool(false)),
            (Shape::ExistsOne, None) => Ok(Value::Bool(found.count == 1)),
            (Shape::Filter | Shape::Map, None) => Value::list(found.items),
            (Shape::TransformMap | Shape::TransformEntry, None) => Map::new(found.entries).map(Value::Map),
            (Shape::SortBy, None) => lists::sorted_by(&range, &found.items, self.meter),
        }
    }

    fn steps(&mut self, fold: &Fold, range: &Value) -> Result<Found, EvalError> {
        let mut found = Found::default();
        let pairs = fold.names.len() > 1;
        match range {
            Value::List(list) => {
                for (nth, item) in list.items().iter().enumerate() {
                    let place = Value::Int(i64::try_from(nth).unwrap_or(i64::MAX));
                    let shown = if pairs { &place } else { item };
                    self.step(fold, shown, pairs.then_some(item), &mut found)?;
                    if found.decided {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    self.step(fold, &key.to_value(), pairs.then_some(value), &mut found)?;
                    if found.decided {
                        break;
                    }
                }
            }
            other => {
                let why = format!("got '{}', expected iterable type", foreign_name(other));
                return Err(EvalError::value(why));
            }
        }
        Ok(found)
    }

    fn step(&mut self, fold: &Fold, first: &Value, second: Option<&Value>, found: &mut Found) -> Result<(), EvalError> {
        let scope = self.locals.len();
        self.locals.push(first.clone());
        self.locals.extend(second.cloned());
        let outcome = self.body(fold, first, found);
        self.locals.truncate(scope);
        outcome
    }

    fn body(&mut self, fold: &Fold, first: &Value, found: &mut Found) -> Result<(), EvalError> {
        self.meter.charge(1)?;
        if let Some(filter) = &fold.filter
            && !self.test(filter)?
        {
            return Ok(());
        }
        match fold.shape {
            Shape::All | Shape::Exists => match self.test(&fold.body) {
                Ok(holds) => found.decided = holds == (fold.shape == Shape::Exists),
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                Err(error) => found.failed = found.failed.take().or(Some(error)),
            },
            Shape::ExistsOne => found.count += u64::from(self.test(&fold.body)?),
            Shape::Filter => {
                if self.test(&fold.body)? {
                    found.items.push(first.clone());
                }
            }
            Shape::Map | Shape::SortBy => {
                let value = self.expr(&fold.body)?;
                found.items.push(value);
            }
            Shape::TransformMap => {
                let key = Key::of(first).ok_or_else(EvalError::overload)?;
                let value = self.expr(&fold.body)?;
                found.entries.insert(key, value);
            }
            Shape::TransformEntry => self.entries(&fold.body, found)?,
        }
        Ok(())
    }

    fn entries(&mut self, body: &Expr, found: &mut Found) -> Result<(), EvalError> {
        let Value::Map(map) = self.expr(body)? else {
            return Err(EvalError::overload());
        };
        self.meter.charge_items(map.entries().len())?;
        for (key, value) in map.entries() {
            if found.entries.insert(key.clone(), value.clone()).is_some() {
                return Err(EvalError::value("insert failed: key already exists"));
            }
        }
        Ok(())
    }

    fn test(&mut self, expr: &Expr) -> Result<bool, EvalError> {
        match self.expr(expr)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err(EvalError::overload()),
        }
    }
}

/// What the reference implementation calls the type of a value in this one message.
fn foreign_name(value: &Value) -> String {
    let name = match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Int(_) => "Int",
        Value::Uint(_) => "Uint",
        Value::Double(_) => "Double",
        Value::String(_) | Value::Pattern(_) => "String",
        Value::Bytes(_) => "Bytes",
        other => other.type_name(),
    };
    format!("types.{name}")
}
