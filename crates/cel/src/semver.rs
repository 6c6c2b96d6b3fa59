//! Version numbers as semver.org defines them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::Value;

/// A version number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    numbers: [u64; 3],
    before: Vec<String>,
}

impl Semver {
    fn parse(text: &str, lenient: bool) -> Option<Self> {
        let text = if lenient {
            text.strip_prefix('v').unwrap_or(text)
        } else {
            text
        };
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, before) = text
            .split_once('-')
            .map_or((text, None), |(core, before)| (core, Some(before)));
        let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if build.is_some_and(|build| !build.split('.').all(is_word)) {
            return None;
        }
        let mut parts: Vec<&str> = core.split('.').collect();
        while lenient && parts.len() < 3 {
            parts.push("0");
        }
        let number = |part: &str| {
            let part = if lenient { part.trim_start_matches('0') } else { part };
            let part = if part.is_empty() && lenient { "0" } else { part };
            let is_number = part.chars().all(|c| c.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            is_number.then(|| part.parse().ok()).flatten()
        };
        let [major, minor, patch] = parts.as_slice() else {
            return None;
        };
        let numbers = [number(major)?, number(minor)?, number(patch)?];
        let before: Vec<String> = before
            .into_iter()
            .flat_map(|before| before.split('.'))
            .map(str::to_owned)
            .collect();
        before.iter().all(|word| is_word(word)).then_some(Self { numbers, before })
    }

    /// Which of two versions comes first.
    pub fn cmp(&self, other: &Self) -> Ordering {
        let release = |version: &Self| version.before.is_empty();
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then(release(self).cmp(&release(other))).then_with(|| {
            let words = self.before.iter().zip(&other.before).map(|(one, other)| word(one, other));
            let differ = words.into_iter().find(|order| order.is_ne());
            differ.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
        })
    }
}

fn word(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    }
}

/// What texts become here.
pub fn of_text(name: &str, args: &[Value]) -> Option<Outcome> {
    let text = args.first()?.as_str()?;
    let lenient = matches!(args.get(1), Some(Value::Bool(true)));
    let version = Semver::parse(text, lenient);
    match name {
        "semver" => Some(
            version
                .map(|version| Value::Semver(Arc::new(version)))
                .ok_or_else(|| EvalError::value(format!("invalid semantic version: {text}"))),
        ),
        "isSemver" => Some(Ok(Value::Bool(version.is_some()))),
        _ => None,
    }
}

/// The value of a function of a version, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    let number = |number: u64| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    Some(match (name, args) {
        ("isGreaterThan", [Value::Semver(one), Value::Semver(other)]) => Ok(Value::Bool(one.cmp(other).is_gt())),
        ("isLessThan", [Value::Semver(one), Value::Semver(other)]) => Ok(Value::Bool(one.cmp(other).is_lt())),
        ("compareTo", [Value::Semver(one), Value::Semver(other)]) => Ok(Value::Int(match one.cmp(other) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })),
        ("major", [Value::Semver(version)]) => number(version.numbers[0]),
        ("minor", [Value::Semver(version)]) => number(version.numbers[1]),
        ("patch", [Value::Semver(version)]) => number(version.numbers[2]),
        _ => return None,
    })
}
