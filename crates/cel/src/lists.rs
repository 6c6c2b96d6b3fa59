//! Functions of lists and sets.

use std::cmp::Ordering;

use jiff::SignedDuration;

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::meter::Meter;
use crate::operators;
use crate::value::Value;

/// The value of a function of a list, if it is one of these.
pub fn call(name: &str, args: &[Value], meter: &mut Meter) -> Option<Outcome> {
    let Some(Value::List(list)) = args.first() else { return None };
    let items = list.items();
    if let Err(error) = meter.charge_items(items.len()) {
        return Some(Err(error));
    }
    Some(match (name, args) {
        ("isSorted", _) => {
            Ok(Value::Bool(items.windows(2).all(
                |pair| matches!(pair, [one, other] if one.compare(other) != Some(Ordering::Greater)),
            )))
        }
        ("sum", _) => sum(items, meter),
        ("min" | "max", _) => extreme(name, items),
        ("indexOf", [_, wanted]) => find(items.iter().enumerate(), wanted, meter),
        ("lastIndexOf", [_, wanted]) => find(items.iter().enumerate().rev(), wanted, meter),
        ("slice", [_, Value::Int(from), Value::Int(to)]) => slice(items, *from, *to),
        ("flatten", [_]) => flatten(items, 1, meter).and_then(Value::list),
        ("flatten", [_, Value::Int(levels)]) => flatten(items, *levels, meter).and_then(Value::list),
        ("distinct", _) => distinct(items, meter).and_then(Value::list),
        ("reverse", _) => Value::list(items.iter().rev().cloned().collect()),
        ("sort", [whole]) => sorted_by(whole, items, meter),
        ("first", _) => Ok(Value::optional(items.first().cloned())),
        ("last", _) => Ok(Value::optional(items.last().cloned())),
        ("join", [_, rest @ ..]) => join(items, rest.first().and_then(Value::as_str).unwrap_or_default(), meter),
        ("sets.contains", [_, Value::List(others)]) => every(others.items(), items, meter).map(Value::Bool),
        ("sets.intersects", [_, Value::List(others)]) => some(others.items(), items, meter).map(Value::Bool),
        ("sets.equivalent", [_, Value::List(others)]) => every(others.items(), items, meter)
            .and_then(|all| Ok(all && every(items, others.items(), meter)?))
            .map(Value::Bool),
        _ => return None,
    })
}

/// Functions that make a list of something else.
pub fn make(name: &str, args: &[Value], meter: &mut Meter) -> Option<Outcome> {
    match (name, args) {
        ("lists.range", [Value::Int(count)]) => {
            let count = (*count).max(0);
            let charged = meter.charge(count.unsigned_abs());
            Some(charged.and_then(|()| Value::list((0..count).map(Value::Int).collect())))
        }
        _ => None,
    }
}

fn sum(items: &[Value], meter: &mut Meter) -> Outcome {
    let zero = match items.first() {
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(SignedDuration::ZERO),
        _ => Value::Int(0),
    };
    items.iter().try_fold(zero, |sum, item| {
        operators::call("_+_", &[sum, item.clone()], meter).unwrap_or_else(|| Err(EvalError::overload()))
    })
}

fn extreme(name: &str, items: &[Value]) -> Outcome {
    let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
    let mut rest = items.iter();
    let Some(first) = rest.next() else {
        return Err(EvalError::value(format!("{name} called on empty list")));
    };
    rest.try_fold(first, |best, item| {
        let order = item.compare(best).ok_or_else(EvalError::overload)?;
        Ok(if order == wanted { item } else { best })
    })
    .cloned()
}

fn find<'a>(mut items: impl Iterator<Item = (usize, &'a Value)>, wanted: &Value, meter: &mut Meter) -> Outcome {
    let found = items.try_fold(None, |found: Option<usize>, (place, item)| match found {
        Some(place) => Ok(Some(place)),
        None => Ok(item.equals(wanted, meter)?.then_some(place)),
    });
    let place = found?.and_then(|place| i64::try_from(place).ok());
    Ok(Value::Int(place.unwrap_or(-1)))
}

fn slice(items: &[Value], from: i64, to: i64) -> Outcome {
    if from < 0 || to < 0 {
        return Err(EvalError::value(format!(
            "cannot slice({from}, {to}), negative indexes not supported"
        )));
    }
    if from > to {
        return Err(EvalError::value(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        )));
    }
    let (start, end) = (
        usize::try_from(from).unwrap_or(usize::MAX),
        usize::try_from(to).unwrap_or(usize::MAX),
    );
    match items.get(start..end) {
        Some(part) => Value::list(part.to_vec()),
        None => Err(EvalError::value(format!(
            "cannot slice({from}, {to}), list is length {}",
            items.len()
        ))),
    }
}

fn flatten(items: &[Value], levels: i64, meter: &mut Meter) -> Result<Vec<Value>, EvalError> {
    if levels < 0 {
        return Err(EvalError::value("level must be non-negative"));
    }
    let mut flat = Vec::new();
    for item in items {
        meter.charge(1)?;
        match item {
            // Lists are nested no deeper than values may be, whatever `levels` says.
            Value::List(inner) if levels > 0 => flat.extend(flatten(inner.items(), levels - 1, meter)?),
            other => flat.push(other.clone()),
        }
    }
    Ok(flat)
}

fn distinct(items: &[Value], meter: &mut Meter) -> Result<Vec<Value>, EvalError> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !is_among(item, &kept, meter)? {
            kept.push(item.clone());
        }
    }
    Ok(kept)
}

fn is_among(item: &Value, items: &[Value], meter: &mut Meter) -> Result<bool, EvalError> {
    for one in items {
        if item.equals(one, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn every(wanted: &[Value], items: &[Value], meter: &mut Meter) -> Result<bool, EvalError> {
    for one in wanted {
        if !is_among(one, items, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn some(wanted: &[Value], items: &[Value], meter: &mut Meter) -> Result<bool, EvalError> {
    for one in wanted {
        if is_among(one, items, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The elements of a list in the order of their keys.
pub fn sorted_by(whole: &Value, keys: &[Value], meter: &mut Meter) -> Outcome {
    let Value::List(list) = whole else {
        return Err(EvalError::overload());
    };
    // About n log n comparisons, of which each may be of texts.
    let bytes: usize = keys.iter().filter_map(Value::as_str).map(str::len).sum();
    for _ in 0..=keys.len().checked_ilog2().unwrap_or(0) {
        meter.charge_items(keys.len())?;
        meter.charge_text(bytes)?;
    }
    let Some(first) = keys.first() else { return Ok(whole.clone()) };
    if keys
        .iter()
        .any(|key| key.type_name() != first.type_name() || key.compare(first).is_none())
    {
        return Err(EvalError::value("list elements must have the same type"));
    }
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(list.items()).collect();
    pairs.sort_by(|(one, _), (other, _)| one.compare(other).unwrap_or(Ordering::Equal));
    Value::list(pairs.into_iter().map(|(_, item)| item.clone()).collect())
}

fn join(items: &[Value], between: &str, meter: &mut Meter) -> Outcome {
    let mut joined = String::new();
    for (nth, item) in items.iter().enumerate() {
        let text = item.as_str().ok_or_else(EvalError::overload)?;
        if nth > 0 {
            meter.charge_text(between.len())?;
            joined.push_str(between);
        }
        meter.charge_text(text.len())?;
        joined.push_str(text);
    }
    Ok(Value::String(joined.into()))
}
