//! Values that may be missing.

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::Value;

/// The value of a function, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (name, args) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(Value::optional(Some(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::optional((!value.is_zero()).then(|| value.clone()))),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let inner = |item: &Value| match item {
                Value::Optional(Some(inner)) => Some(Value::clone(inner)),
                _ => None,
            };
            Value::list(list.items().iter().filter_map(inner).collect())
        }
        ("hasValue", [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        ("value", [Value::Optional(Some(value))]) => Ok(Value::clone(value)),
        ("value", [Value::Optional(None)]) => Err(EvalError::value("optional.none() dereference")),
        ("or", [one @ Value::Optional(Some(_)), _]) => Ok(one.clone()),
        ("or", [Value::Optional(None), other @ Value::Optional(_)]) => Ok(other.clone()),
        ("orValue", [Value::Optional(Some(value)), _]) => Ok(Value::clone(value)),
        ("orValue", [Value::Optional(None), other]) => Ok(other.clone()),
        _ => return None,
    })
}
