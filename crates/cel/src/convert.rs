//! From one type to another.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::ast::{Expr, Node};
use crate::error::EvalError;
use crate::eval::Outcome;
use crate::meter::Meter;
use crate::value::{Value, from_int, int_of};

/// The value of a conversion, if it is one.
pub fn call(name: &str, args: &[Value], meter: &mut Meter) -> Option<Outcome> {
    let [value] = args else { return None };
    Some(match name {
        "dyn" => Ok(value.clone()),
        "type" => Ok(Value::Type(value.type_name().into())),
        "size" => size(value, meter),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_string(value),
        "bytes" => to_bytes(value),
        "timestamp" => to_timestamp(value),
        "duration" => to_duration(value),
        _ => return None,
    })
}

fn unfit(value: &Value, wanted: &str) -> EvalError {
    EvalError::value(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
}

fn foreign(value: &Value, function: &str) -> EvalError {
    EvalError::value(format!("no such overload: {function}({})", value.type_name()))
}

fn size(value: &Value, meter: &mut Meter) -> Outcome {
    let size = match value {
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.entries().len(),
        Value::Bytes(bytes) => bytes.len(),
        other => {
            let text = other.as_str().ok_or_else(|| foreign(value, "size"))?;
            meter.charge_text(text.len())?;
            text.chars().count()
        }
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn to_bool(value: &Value) -> Outcome {
    if let Value::Bool(value) = value {
        return Ok(Value::Bool(*value));
    }
    match value.as_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Value::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Value::Bool(false)),
        Some(_) => Err(unfit(value, "bool")),
        None => Err(foreign(value, "bool")),
    }
}

fn to_int(value: &Value) -> Outcome {
    let overflow = || EvalError::value("integer overflow");
    let int = match value {
        Value::Int(value) => *value,
        Value::Uint(value) => i64::try_from(*value).map_err(|_| overflow())?,
        Value::Double(value) => int_of(*value).ok_or_else(overflow)?,
        Value::Timestamp(moment) => moment.as_second(),
        Value::Duration(time) => i64::try_from(time.as_nanos()).map_err(|_| overflow())?,
        other => {
            let text = other.as_str().ok_or_else(|| foreign(value, "int"))?;
            text.parse().map_err(|_| unfit(value, "int"))?
        }
    };
    Ok(Value::Int(int))
}

fn to_uint(value: &Value) -> Outcome {
    let overflow = || EvalError::value("unsigned integer overflow");
    let uint = match value {
        Value::Uint(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| overflow())?,
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the guard holds it within bounds"
        )]
        Value::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_616.0 => *value as u64,
        Value::Double(_) => return Err(overflow()),
        other => {
            let text = other.as_str().ok_or_else(|| foreign(value, "uint"))?;
            text.parse().map_err(|_| unfit(value, "uint"))?
        }
    };
    Ok(Value::Uint(uint))
}

fn to_double(value: &Value) -> Outcome {
    let double = match value {
        Value::Double(value) => *value,
        Value::Int(value) => from_int(*value),
        #[allow(clippy::cast_precision_loss, reason = "what a conversion to double means")]
        Value::Uint(value) => *value as f64,
        other => {
            let text = other.as_str().ok_or_else(|| foreign(value, "double"))?;
            text.parse().map_err(|_| unfit(value, "double"))?
        }
    };
    Ok(Value::Double(double))
}

fn to_string(value: &Value) -> Outcome {
    Ok(match value {
        Value::String(_) => value.clone(),
        Value::Pattern(pattern) => Value::String(pattern.source.clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => return Err(EvalError::value("invalid UTF-8 in bytes, cannot convert to string")),
        },
        other => Value::String(shown(other).ok_or_else(|| foreign(value, "string"))?.into()),
    })
}

/// A value without parts as a text.
pub fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_shown(*value),
        Value::Timestamp(moment) => moment.to_string(),
        Value::Duration(time) => duration_shown(*time),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(range) => range.to_string(),
        other => other.as_str()?.to_owned(),
    })
}

/// The shortest form that reads back the same; with an exponent where `%g` has one.
fn double_shown(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.chars().filter(char::is_ascii_digit).count();
    let limit = i32::try_from(digits).unwrap_or(i32::MAX).max(21);
    if (-4..limit).contains(&exponent) {
        return double.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A time in seconds: `90s`, `1.5s`.
fn duration_shown(time: SignedDuration) -> String {
    let nanos = time.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

fn to_bytes(value: &Value) -> Outcome {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        other => {
            let text = other.as_str().ok_or_else(|| foreign(value, "bytes"))?;
            Ok(Value::Bytes(Arc::from(text.as_bytes())))
        }
    }
}

fn to_timestamp(value: &Value) -> Outcome {
    let moment = match value {
        Value::Timestamp(moment) => Some(*moment),
        Value::Int(seconds) => Timestamp::from_second(*seconds).ok(),
        other => timestamp_of(other.as_str().ok_or_else(|| foreign(value, "timestamp"))?),
    };
    moment
        .map(Value::Timestamp)
        .ok_or_else(|| unfit(value, "google.protobuf.Timestamp"))
}

fn to_duration(value: &Value) -> Outcome {
    let time = match value {
        Value::Duration(time) => Some(*time),
        Value::Int(nanos) => Some(SignedDuration::from_nanos(*nanos)),
        other => duration_of(other.as_str().ok_or_else(|| foreign(value, "duration"))?),
    };
    time.map(Value::Duration)
        .ok_or_else(|| unfit(value, "google.protobuf.Duration"))
}

/// A moment as RFC 3339 has it.
pub fn timestamp_of(text: &str) -> Option<Timestamp> {
    let plain = text.is_ascii() && text.get(10..11) == Some("T") && !text.contains('[');
    plain.then(|| text.parse().ok()).flatten()
}

/// A time such as `1h30m`, `1.5s`, `-10ms`.
pub fn duration_of(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(length);
        let units = [
            ("ns", 1_i128),
            ("us", 1_000),
            ("µs", 1_000),
            ("μs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        let (unit, size) = units.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, *size)?)?;
        rest = after.get(unit.len()..)?;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// A decimal number times a whole one.
fn scaled(number: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut sum = whole.checked_mul(size)?;
    let mut place = size;
    for digit in fraction.chars() {
        place /= 10;
        sum = sum.checked_add(i128::from(digit.to_digit(10)?) * place)?;
    }
    Some(sum)
}

/// Refuses conversions of constants that never succeed.
///
/// # Errors
/// What the conversion would say.
pub fn check_constants(expr: &Expr) -> Result<(), String> {
    let mut found = Ok(());
    expr.node.each(&mut |part| {
        if found.is_ok() {
            found = check_constants(part);
        }
    });
    found?;
    let Node::Call {
        function,
        target: None,
        args,
    } = &expr.node
    else {
        return Ok(());
    };
    let is_conversion = matches!(function.as_str(), "bool" | "int" | "uint" | "double" | "bytes" | "string");
    let [
        Expr {
            node: Node::Literal(value),
            ..
        },
    ] = args.as_slice()
    else {
        return Ok(());
    };
    if !is_conversion {
        return Ok(());
    }
    match call(function, std::slice::from_ref(value), &mut Meter::new(u64::MAX)) {
        Some(Err(error)) => Err(error.to_string()),
        _ => Ok(()),
    }
}
