//! Amounts as Kubernetes writes them: `100m`, `1.5Gi`, `2e3`. Exact to a billionth.

use std::cmp::Ordering;

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::{Value, from_int};

/// Parts of one.
const NANO: i128 = 1_000_000_000;

/// An amount, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads an amount; what is smaller than a billionth is rounded up.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(length);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, power) = scale(suffix)?;
        let mut digits: i128 = 0;
        for digit in whole.chars().chain(fraction.chars()) {
            digits = digits.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
        }
        let mut nanos = digits.checked_mul(base)?;
        let shift = power + 9 - i32::try_from(fraction.len()).ok()?;
        for _ in 0..shift.max(0) {
            nanos = nanos.checked_mul(10)?;
        }
        for _ in 0..(-shift).clamp(0, 40) {
            nanos = (nanos + 9) / 10;
        }
        Some(Self(if negative { -nanos } else { nanos }))
    }

    fn integer(self) -> Option<i64> {
        (self.0 % NANO == 0).then(|| i64::try_from(self.0 / NANO).ok()).flatten()
    }
}

/// What a suffix multiplies by: a power of two, and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let decimal = |power| Some((1, power));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some((1 << 10, 0)),
        "Mi" => Some((1 << 20, 0)),
        "Gi" => Some((1 << 30, 0)),
        "Ti" => Some((1 << 40, 0)),
        "Pi" => Some((1 << 50, 0)),
        "Ei" => Some((1 << 60, 0)),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-30..=30).contains(&power).then_some((1, power))
        }
    }
}

fn of_int(int: i64) -> Quantity {
    Quantity(i128::from(int) * NANO)
}

/// What texts become here.
pub fn of_text(name: &str, args: &[Value]) -> Option<Outcome> {
    let text = args.first()?.as_str()?;
    match name {
        "quantity" => Some(Quantity::parse(text).map(Value::Quantity).ok_or_else(|| {
            EvalError::value("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
        })),
        "isQuantity" => Some(Ok(Value::Bool(Quantity::parse(text).is_some()))),
        _ => None,
    }
}

/// The value of a function of an amount, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    let Some(Value::Quantity(one)) = args.first() else {
        return None;
    };
    let other = match args.get(1) {
        Some(Value::Quantity(other)) => Some(*other),
        Some(Value::Int(int)) => Some(of_int(*int)),
        _ => None,
    };
    let overflow = || EvalError::value("quantity overflow");
    let sum = |sum: Option<i128>| sum.map(|nanos| Value::Quantity(Quantity(nanos))).ok_or_else(overflow);
    Some(match (name, other) {
        ("isGreaterThan", Some(other)) => Ok(Value::Bool(*one > other)),
        ("isLessThan", Some(other)) => Ok(Value::Bool(*one < other)),
        ("compareTo", Some(other)) => Ok(Value::Int(sign(one.cmp(&other)))),
        ("add", Some(other)) => sum(one.0.checked_add(other.0)),
        ("sub", Some(other)) => sum(one.0.checked_sub(other.0)),
        ("sign", None) => Ok(Value::Int(sign(one.0.cmp(&0)))),
        ("isInteger", None) => Ok(Value::Bool(one.integer().is_some())),
        ("asInteger", None) => one
            .integer()
            .map(Value::Int)
            .ok_or_else(|| EvalError::value("cannot convert value to integer")),
        ("asApproximateFloat", None) => Ok(Value::Double(approximate(one.0))),
        _ => return None,
    })
}

fn sign(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

fn approximate(nanos: i128) -> f64 {
    let part = |part: i128| i64::try_from(part).map_or(f64::INFINITY, from_int);
    part(nanos / NANO) + part(nanos % NANO) / 1e9
}
