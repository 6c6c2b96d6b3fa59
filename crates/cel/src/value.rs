//! Values. Lists and maps are shared, never copied, and know how deeply they are nested, so that whoever walks them may recurse.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;

use crate::authority::Authority;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::net::Cidr;
use crate::quantity::Quantity;
use crate::semver::Semver;
use crate::url::Url;

/// Levels of a value; objects of the API have a few dozen.
const MOST_LEVELS: u32 = 500;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is not negative.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Values in order.
    List(List),
    /// Values by key.
    Map(Map),
    /// A moment.
    Timestamp(Timestamp),
    /// A time.
    Duration(SignedDuration),
    /// A type, by name.
    Type(Arc<str>),
    /// A value, or none.
    Optional(Option<Arc<Value>>),
    /// A regular expression that a constant says.
    Pattern(Arc<Pattern>),
    /// An amount, as Kubernetes writes it.
    Quantity(Quantity),
    /// An IP address.
    Ip(IpAddr),
    /// A range of IP addresses.
    Cidr(Cidr),
    /// An address of the Web.
    Url(Arc<Url>),
    /// A version number.
    Semver(Arc<Semver>),
    /// A question about what somebody may do, or its answer.
    Authority(Arc<Authority>),
}

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As it was written.
    pub source: Arc<str>,
    /// Compiled.
    pub regex: Regex,
}

/// Values in order.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Arc<Vec<Value>>,
    levels: u32,
}

/// Values by key.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Arc<BTreeMap<Key, Value>>,
    levels: u32,
}

/// A key of a map. Whole numbers are [`Key::Int`] if they fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A boolean.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number that is too large for the other.
    Uint(u64),
    /// A text.
    String(Arc<str>),
}

// === impl List ===

impl List {
    /// A list of these.
    ///
    /// # Errors
    /// When they are nested too deeply.
    pub fn new(items: Vec<Value>) -> Result<Self, EvalError> {
        let levels = above(items.iter())?;
        Ok(Self {
            items: Arc::new(items),
            levels,
        })
    }

    /// The values.
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

// === impl Map ===

impl Map {
    /// A map of these.
    ///
    /// # Errors
    /// When they are nested too deeply.
    pub fn new(entries: BTreeMap<Key, Value>) -> Result<Self, EvalError> {
        let levels = above(entries.values())?;
        Ok(Self {
            entries: Arc::new(entries),
            levels,
        })
    }

    /// The values.
    pub fn entries(&self) -> &BTreeMap<Key, Value> {
        &self.entries
    }

    /// The value of a name.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.entries.get(&Key::String(name.into()))
    }
}

fn above<'a>(mut parts: impl Iterator<Item = &'a Value>) -> Result<u32, EvalError> {
    let levels = parts.try_fold(0, |most: u32, part| {
        let levels = part.levels();
        (levels < MOST_LEVELS).then_some(most.max(levels))
    });
    let levels = levels.ok_or_else(|| EvalError::value(format!("value is nested more than {MOST_LEVELS} levels deep")))?;
    Ok(levels + 1)
}

// === impl Key ===

impl Key {
    /// The key that a value is, if it can be one.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Uint(value) => Some(i64::try_from(*value).map_or(Self::Uint(*value), Self::Int)),
            // A number that is whole finds the same entry.
            Value::Double(value) => int_of(*value).filter(|int| from_int(*int) == *value).map(Self::Int),
            Value::String(value) => Some(Self::String(value.clone())),
            Value::Pattern(pattern) => Some(Self::String(pattern.source.clone())),
            _ => None,
        }
    }

    /// The key as a value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(value) => Value::String(value.clone()),
        }
    }
}

// === impl Value ===

impl Value {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    /// A list of values.
    ///
    /// # Errors
    /// When they are nested too deeply.
    pub fn list(items: Vec<Self>) -> Result<Self, EvalError> {
        List::new(items).map(Self::List)
    }

    /// A list of texts.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::List(List {
            items: Arc::new(texts.into_iter().map(Self::text).collect()),
            levels: 1,
        })
    }

    /// A value that may be missing.
    pub fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    /// What JSON says.
    ///
    /// # Errors
    /// When it is nested too deeply.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, EvalError> {
        Self::from_json_within(json, &mut Meter::new(u64::MAX))
    }

    /// The same where it must not cost more than a meter has left: a step for each value, and what its texts cost.
    ///
    /// # Errors
    /// When it costs more, or is nested too deeply.
    pub fn from_json_within(json: &serde_json::Value, meter: &mut Meter) -> Result<Self, EvalError> {
        meter.charge(1)?;
        Ok(match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => {
                meter.charge_text(text.len())?;
                Self::text(text)
            }
            serde_json::Value::Array(items) => {
                let items = items.iter().map(|item| Self::from_json_within(item, meter));
                Self::list(items.collect::<Result<_, _>>()?)?
            }
            serde_json::Value::Object(fields) => {
                let mut entries = BTreeMap::new();
                for (key, value) in fields {
                    meter.charge_text(key.len())?;
                    entries.insert(Key::String(key.as_str().into()), Self::from_json_within(value, meter)?);
                }
                Self::Map(Map::new(entries)?)
            }
        })
    }

    fn levels(&self) -> u32 {
        match self {
            Self::List(list) => list.levels,
            Self::Map(map) => map.levels,
            Self::Optional(Some(value)) => value.levels() + 1,
            _ => 0,
        }
    }

    /// The text it is, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Pattern(pattern) => Some(&pattern.source),
            _ => None,
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) | Self::Pattern(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Authority(authority) => authority.type_name(),
        }
    }

    /// Whether it is nothing, zero or empty.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.entries.is_empty(),
            Self::Duration(value) => value.is_zero(),
            Self::Optional(value) => value.is_none(),
            _ => false,
        }
    }

    /// Whether two values are the same. Numbers are compared whatever their type; other types never equal each other.
    ///
    /// # Errors
    /// When comparing costs too much.
    pub fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, EvalError> {
        meter.charge(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                compare_numbers(self, other) == Some(Ordering::Equal)
            }
            (Self::Bytes(one), Self::Bytes(other)) => {
                meter.charge_text(one.len().min(other.len()))?;
                one == other
            }
            (Self::List(one), Self::List(other)) => {
                if one.items.len() != other.items.len() {
                    return Ok(false);
                }
                for (one, other) in one.items.iter().zip(other.items.iter()) {
                    if !one.equals(other, meter)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Map(one), Self::Map(other)) => {
                if one.entries.len() != other.entries.len() {
                    return Ok(false);
                }
                for (key, value) in one.entries.iter() {
                    match other.entries.get(key) {
                        Some(other) if value.equals(other, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Self::Timestamp(one), Self::Timestamp(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Optional(Some(one)), Self::Optional(Some(other))) => one.equals(other, meter)?,
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one == other,
            (Self::Semver(one), Self::Semver(other)) => one.cmp(other) == Ordering::Equal,
            _ => match (self.as_str(), other.as_str()) {
                (Some(one), Some(other)) => {
                    meter.charge_text(one.len().min(other.len()))?;
                    one == other
                }
                _ => false,
            },
        })
    }

    /// Which of two values comes first, if they can be compared.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            (Self::Timestamp(one), Self::Timestamp(other)) => Some(one.cmp(other)),
            (Self::Duration(one), Self::Duration(other)) => Some(one.cmp(other)),
            _ => match (self.as_str(), other.as_str()) {
                (Some(one), Some(other)) => Some(one.cmp(other)),
                _ => compare_numbers(self, other),
            },
        }
    }
}

fn compare_numbers(one: &Value, other: &Value) -> Option<Ordering> {
    let wide = |value: &Value| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), whole) => compare_double(*one, wide(whole)?),
        (whole, Value::Double(other)) => compare_double(*other, wide(whole)?).map(Ordering::reverse),
        _ => Some(wide(one)?.cmp(&wide(other)?)),
    }
}

/// A number against a whole one, without losing digits of either.
fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond these, it is larger or smaller than every whole number there is.
    if double >= 18_446_744_073_709_551_616.0 {
        return Some(Ordering::Greater);
    }
    if double < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    #[allow(clippy::cast_possible_truncation, reason = "the bounds above hold it within 65 bits")]
    let floor = double.floor() as i128;
    match floor.cmp(&whole) {
        Ordering::Equal if double > double.floor() => Some(Ordering::Greater),
        order => Some(order),
    }
}

/// The whole part of a number, if there is such an integer.
pub fn int_of(double: f64) -> Option<i64> {
    let fits = double > -9_223_372_036_854_775_808.0 && double < 9_223_372_036_854_775_808.0;
    #[allow(clippy::cast_possible_truncation, reason = "just checked; the fraction is to go")]
    fits.then_some(double as i64)
}

/// A whole number as the nearest number there is.
#[allow(clippy::cast_precision_loss, reason = "what a conversion to double means")]
pub fn from_int(int: i64) -> f64 {
    int as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(one: &serde_json::Value, other: &serde_json::Value) -> bool {
        let read = |json| Value::from_json(json).expect("not deep");
        read(one).equals(&read(other), &mut Meter::new(1000)).expect("not costly")
    }

    #[test]
    fn json_keeps_its_meaning() {
        for (json, name) in [
            (json!(null), "null_type"),
            (json!(true), "bool"),
            (json!(-1), "int"),
            (json!(9_223_372_036_854_775_808_u64), "double"),
            (json!(1.5), "double"),
            (json!("a"), "string"),
            (json!([1]), "list"),
            (json!({"a": 1}), "map"),
        ] {
            assert_eq!(Value::from_json(&json).expect("not deep").type_name(), name, "{json}");
        }
    }

    #[test]
    fn what_is_read_costs_what_it_is_long() {
        let many = json!({"list": vec![0; 100], "text": "a".repeat(100)});
        // The map, the list and its items, the text; a step for each ten bytes of text and each name.
        let cost = 1 + 101 + 1 + 10 + 2;
        let mut meter = Meter::new(cost);
        assert!(Value::from_json_within(&many, &mut meter).is_ok());
        assert_eq!(meter.left(), 0);
        let mut meter = Meter::new(cost - 1);
        assert_eq!(Value::from_json_within(&many, &mut meter).err(), Some(EvalError::Cost));
    }

    #[test]
    fn values_are_the_same_whatever_the_order_of_fields_and_the_type_of_numbers() {
        assert!(same(&json!({"a": 1, "b": [1, 2]}), &json!({"b": [1.0, 2], "a": 1})));
        assert!(!same(&json!({"a": 1}), &json!({"a": 1, "b": null})));
        assert!(!same(&json!([1, 2]), &json!([2, 1])));
        assert!(!same(&json!("1"), &json!(1)));
        assert!(!same(&json!(null), &json!(0)));
        assert!(!same(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)));
    }

    #[test]
    fn what_is_nested_too_deeply_is_no_value() {
        let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(Value::from_json(&deep(100)).is_ok());
        assert!(Value::from_json(&deep(600)).is_err());
    }
}
