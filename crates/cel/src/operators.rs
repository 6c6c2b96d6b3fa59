//! Arithmetic, comparison, membership.

use std::cmp::Ordering;

use jiff::SignedDuration;

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::meter::Meter;
use crate::value::{Key, Value};

/// The value of an operator, if it is one.
pub fn call(sign: &str, args: &[Value], meter: &mut Meter) -> Option<Outcome> {
    Some(match (sign, args) {
        ("_==_", [one, other]) => one.equals(other, meter).map(Value::Bool),
        ("_!=_", [one, other]) => one.equals(other, meter).map(|same| Value::Bool(!same)),
        ("@in", [item, of]) => contains(item, of, meter).map(Value::Bool),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => order(sign, one, other, meter),
        ("_+_", [one, other]) => add(one, other, meter),
        ("_-_", [one, other]) => subtract(one, other),
        ("_*_", [one, other]) => multiply(one, other),
        ("_/_" | "_%_", [one, other]) => divide(sign == "_%_", one, other),
        ("!_", [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        ("-_", [Value::Int(value)]) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(value)]) => Ok(Value::Double(-value)),
        ("!_" | "-_", _) => Err(EvalError::overload()),
        _ => return None,
    })
}

fn overflow() -> EvalError {
    EvalError::value("integer overflow")
}

fn overflow_unsigned() -> EvalError {
    EvalError::value("unsigned integer overflow")
}

fn contains(item: &Value, of: &Value, meter: &mut Meter) -> Result<bool, EvalError> {
    match of {
        Value::List(list) => {
            for one in list.items() {
                if item.equals(one, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(Key::of(item).is_some_and(|key| map.entries().contains_key(&key))),
        _ => Err(EvalError::overload()),
    }
}

fn order(sign: &str, one: &Value, other: &Value, meter: &mut Meter) -> Outcome {
    if let (Some(one), Some(other)) = (one.as_str(), other.as_str()) {
        meter.charge_text(one.len().min(other.len()))?;
    }
    let Some(order) = one.compare(other) else {
        let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
        if is_number(one) && is_number(other) {
            // NaN: neither before, nor after, nor the same.
            return Ok(Value::Bool(false));
        }
        if matches!(one, Value::Null) {
            return Err(EvalError::value(format!("no such overload: {sign}")));
        }
        return Err(EvalError::overload());
    };
    Ok(Value::Bool(match sign {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn add(one: &Value, other: &Value, meter: &mut Meter) -> Outcome {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.checked_add(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => one.checked_add(*other).map(Value::Uint).ok_or_else(overflow_unsigned),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::Bytes(one), Value::Bytes(other)) => {
            meter.charge_text(one.len() + other.len())?;
            Ok(Value::Bytes([&**one, &**other].concat().into()))
        }
        (Value::List(one), Value::List(other)) => {
            meter.charge_text(one.items().len() + other.items().len())?;
            Value::list([one.items(), other.items()].concat())
        }
        (Value::Timestamp(moment), Value::Duration(time)) | (Value::Duration(time), Value::Timestamp(moment)) => {
            let sum = moment.checked_add(*time);
            sum.map(Value::Timestamp).map_err(|_| EvalError::value("timestamp overflow"))
        }
        (Value::Duration(one), Value::Duration(other)) => time(one.checked_add(*other)),
        _ => {
            let (Some(one), Some(other)) = (one.as_str(), other.as_str()) else {
                return Err(EvalError::overload());
            };
            meter.charge_text(one.len() + other.len())?;
            Ok(Value::String([one, other].concat().into()))
        }
    }
}

fn time(sum: Option<SignedDuration>) -> Outcome {
    sum.map(Value::Duration).ok_or_else(|| EvalError::value("duration overflow"))
}

fn subtract(one: &Value, other: &Value) -> Outcome {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.checked_sub(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => one.checked_sub(*other).map(Value::Uint).ok_or_else(overflow_unsigned),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one - other)),
        (Value::Timestamp(moment), Value::Duration(time)) => {
            let difference = moment.checked_sub(*time);
            difference
                .map(Value::Timestamp)
                .map_err(|_| EvalError::value("timestamp overflow"))
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => Ok(Value::Duration(one.duration_since(*other))),
        (Value::Duration(one), Value::Duration(other)) => time(one.checked_sub(*other)),
        _ => Err(EvalError::overload()),
    }
}

fn multiply(one: &Value, other: &Value) -> Outcome {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.checked_mul(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => one.checked_mul(*other).map(Value::Uint).ok_or_else(overflow_unsigned),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one * other)),
        _ => Err(EvalError::overload()),
    }
}

fn divide(rest: bool, one: &Value, other: &Value) -> Outcome {
    let by_zero = || EvalError::value(if rest { "modulus by zero" } else { "division by zero" });
    match (one, other) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(by_zero()),
        (Value::Int(one), Value::Int(other)) => {
            let value = if rest {
                one.checked_rem(*other)
            } else {
                one.checked_div(*other)
            };
            value.map(Value::Int).ok_or_else(overflow)
        }
        (Value::Uint(one), Value::Uint(other)) => {
            let value = if rest {
                one.checked_rem(*other)
            } else {
                one.checked_div(*other)
            };
            value.map(Value::Uint).ok_or_else(overflow_unsigned)
        }
        (Value::Double(one), Value::Double(other)) if !rest => Ok(Value::Double(one / other)),
        _ => Err(EvalError::overload()),
    }
}
