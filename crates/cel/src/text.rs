//! Functions of texts. Places are counted in characters.

use crate::convert;
use crate::error::EvalError;
use crate::eval::Outcome;
use crate::meter::Meter;
use crate::value::Value;

/// The value of a function of a text, if it is one of these.
pub fn call(name: &str, args: &[Value], meter: &mut Meter) -> Option<Outcome> {
    let text = args.first()?.as_str()?;
    if let Err(error) = meter.charge_text(text.len()) {
        return Some(Err(error));
    }
    let second = args.get(1).and_then(Value::as_str);
    let bool = |value: bool| Ok(Value::Bool(value));
    Some(match (name, args, second) {
        ("contains", _, Some(other)) => bool(text.contains(other)),
        ("startsWith", _, Some(other)) => bool(text.starts_with(other)),
        ("endsWith", _, Some(other)) => bool(text.ends_with(other)),
        ("matches" | "find" | "findAll", [_, pattern, rest @ ..], _) => search(name, text, pattern, rest.first(), meter),
        ("charAt", [_, Value::Int(place)], _) => char_at(text, *place),
        ("indexOf" | "lastIndexOf", [_, _, rest @ ..], Some(wanted)) => index_of(name, text, wanted, rest.first()),
        ("lowerAscii", ..) => Ok(Value::String(text.to_ascii_lowercase().into())),
        ("upperAscii", ..) => Ok(Value::String(text.to_ascii_uppercase().into())),
        ("trim", ..) => Ok(Value::text(text.trim())),
        ("replace", [_, _, new, rest @ ..], Some(old)) => replace(text, old, new, rest.first(), meter),
        ("split", [_, _, rest @ ..], Some(by)) => split(text, by, rest.first(), meter),
        ("substring", [_, Value::Int(from)], _) => substring(text, *from, None),
        ("substring", [_, Value::Int(from), Value::Int(to)], _) => substring(text, *from, Some(*to)),
        ("format", [_, Value::List(values)], _) => format(text, values.items(), meter),
        ("strings.quote", ..) => Ok(Value::String(quote(text).into())),
        _ => return None,
    })
}

fn search(name: &str, text: &str, pattern: &Value, most: Option<&Value>, meter: &mut Meter) -> Outcome {
    let pattern = meter.pattern(pattern)?;
    let steps = pattern.source.len().div_ceil(4).saturating_mul(text.len().div_ceil(10));
    meter.charge_items(steps)?;
    match name {
        "matches" => Ok(Value::Bool(pattern.regex.is_match(text))),
        "find" => Ok(Value::text(pattern.regex.find(text).map_or("", |found| found.as_str()))),
        _ => {
            let most = match most {
                Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let found = pattern.regex.find_iter(text).take(most).map(|found| found.as_str());
            Ok(Value::texts(found))
        }
    }
}

fn out_of_range(place: i64) -> EvalError {
    EvalError::value(format!("index out of range: {place}"))
}

fn char_at(text: &str, place: i64) -> Outcome {
    let nth = usize::try_from(place).map_err(|_| out_of_range(place))?;
    match text.chars().nth(nth) {
        Some(character) => Ok(Value::text(character.encode_utf8(&mut [0; 4]))),
        None if nth == text.chars().count() => Ok(Value::text("")),
        None => Err(out_of_range(place)),
    }
}

/// Byte of a place in characters; the end is one, too.
fn byte_of(text: &str, place: i64) -> Result<usize, EvalError> {
    let nth = usize::try_from(place).map_err(|_| out_of_range(place))?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    starts.nth(nth).ok_or_else(|| out_of_range(place))
}

fn index_of(name: &str, text: &str, wanted: &str, offset: Option<&Value>) -> Outcome {
    let last = name == "lastIndexOf";
    let bound = match offset {
        Some(Value::Int(place)) => byte_of(text, *place)?,
        _ if last => text.len(),
        _ => 0,
    };
    let found = if last {
        // Found are places at the bound or before it.
        let until = bound.saturating_add(wanted.len()).min(text.len());
        text.get(..until).unwrap_or(text).rfind(wanted)
    } else {
        text.get(bound..).and_then(|rest| rest.find(wanted)).map(|at| at + bound)
    };
    let place = found.map(|at| text.get(..at).unwrap_or_default().chars().count());
    Ok(Value::Int(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)))
}

fn limit(most: Option<&Value>) -> usize {
    match most {
        // Less than nothing means all.
        Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

fn replace(text: &str, old: &str, new: &Value, most: Option<&Value>, meter: &mut Meter) -> Outcome {
    let new = new.as_str().ok_or_else(EvalError::overload)?;
    let most = limit(most);
    let count = text.matches(old).take(most).count();
    meter.charge_text(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Value::String(text.replacen(old, new, most).into()))
}

fn split(text: &str, by: &str, most: Option<&Value>, meter: &mut Meter) -> Outcome {
    meter.charge_items(text.len())?;
    let most = limit(most);
    if most == 0 {
        return Ok(Value::texts([]));
    }
    if !by.is_empty() {
        return Ok(Value::texts(text.splitn(most, by)));
    }
    // Every character, and what is left of them.
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == most {
            break;
        }
        let (one, after) = rest.split_at(first.len_utf8());
        parts.push(one);
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    Ok(Value::texts(parts))
}

fn substring(text: &str, from: i64, to: Option<i64>) -> Outcome {
    let start = byte_of(text, from)?;
    let Some(to) = to else {
        return Ok(Value::text(text.get(start..).unwrap_or_default()));
    };
    let end = byte_of(text, to)?;
    match text.get(start..end) {
        Some(part) => Ok(Value::text(part)),
        None => Err(EvalError::value(format!("invalid substring range. start: {from}, end: {to}"))),
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn format(pattern: &str, values: &[Value], meter: &mut Meter) -> Outcome {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let length = after.find(|c: char| c.is_ascii_alphabetic() || c == '%');
        let Some((precision, verb, tail)) =
            length.and_then(|at| Some((after.get(..at)?, after.get(at..=at)?, after.get(at + 1..)?)))
        else {
            return Err(EvalError::value("unexpected end of string"));
        };
        rest = tail;
        if verb == "%" {
            out.push('%');
            continue;
        }
        let value = values
            .next()
            .ok_or_else(|| EvalError::value(format!("index {} out of range", out.len())))?;
        let digits = match precision.strip_prefix('.') {
            Some(digits) => Some(
                digits
                    .parse::<usize>()
                    .map_err(|_| EvalError::value("error while formatting precision"))?,
            ),
            None => None,
        };
        let length = out.len();
        one(verb, digits, value, &mut out, meter)?;
        meter.charge_text(out.len() - length)?;
    }
    out.push_str(rest);
    Ok(Value::String(out.into()))
}

/// Digits behind the point that anybody can want.
const MOST_DIGITS: usize = 100;

fn one(verb: &str, digits: Option<usize>, value: &Value, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    let digits = digits.unwrap_or(6);
    if digits > MOST_DIGITS {
        return Err(EvalError::value(format!("precision of more than {MOST_DIGITS} digits")));
    }
    let text = match (verb, value) {
        ("s", value) => return list_shown(value, out, meter),
        ("d", Value::Int(number)) => number.to_string(),
        ("d", Value::Uint(number)) => number.to_string(),
        ("f", Value::Double(number)) => format!("{number:.digits$}"),
        ("e", Value::Double(number)) => exponent(&format!("{number:.digits$e}")),
        ("x", Value::Int(number)) => signed(*number, |number| format!("{number:x}")),
        ("X", Value::Int(number)) => signed(*number, |number| format!("{number:X}")),
        ("o", Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        ("b", Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        ("x", Value::Uint(number)) => format!("{number:x}"),
        ("X", Value::Uint(number)) => format!("{number:X}"),
        ("o", Value::Uint(number)) => format!("{number:o}"),
        ("b", Value::Uint(number)) => format!("{number:b}"),
        ("b", Value::Bool(value)) => u8::from(*value).to_string(),
        ("d" | "f" | "e" | "x" | "X" | "o" | "b", other) => {
            let why = format!("error during formatting: %{verb} cannot be used on {}", other.type_name());
            return Err(EvalError::value(why));
        }
        _ => {
            let why = format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\"");
            return Err(EvalError::value(why));
        }
    };
    out.push_str(&text);
    Ok(())
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

/// With a sign and two digits, as C has it.
fn exponent(text: &str) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text.to_owned(),
    }
}

/// A value with all its parts. Each is charged, since parts may be shared many times.
fn list_shown(value: &Value, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    meter.charge(1)?;
    match value {
        Value::Null => out.push_str("null"),
        Value::List(list) => {
            out.push('[');
            for (nth, item) in list.items().iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                list_shown(item, out, meter)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (nth, (key, item)) in map.entries().iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                list_shown(&key.to_value(), out, meter)?;
                out.push_str(": ");
                list_shown(item, out, meter)?;
            }
            out.push('}');
        }
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Type(name) => out.push_str(name),
        other => {
            let text = convert::shown(other)
                .ok_or_else(|| EvalError::value(format!("could not convert argument {} to string", other.type_name())))?;
            meter.charge_text(text.len())?;
            out.push_str(&text);
        }
    }
    Ok(())
}
