//! Label selectors of DaemonSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::facts::Labels;
use crate::facts::decode::nullable;

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// The label has one of these values.
    In(Arc<str>, Vec<Arc<str>>),
    /// The label is absent or has none of these values.
    NotIn(Arc<str>, Vec<Arc<str>>),
    /// The label is there.
    Exists(Arc<str>),
    /// The label is absent.
    DoesNotExist(Arc<str>),
    /// The label is an integer above this.
    Gt(Arc<str>, i64),
    /// The label is an integer below this.
    Lt(Arc<str>, i64),
}

impl Requirement {
    /// The requirement, or `None` if it is none that labels can be judged by.
    pub(crate) fn new(key: &str, operator: &str, values: &[Arc<str>]) -> Option<Self> {
        let key = Arc::from(key);
        let bound = || match values {
            [value] => value.parse().ok(),
            _ => None,
        };
        match operator {
            "In" if !values.is_empty() => Some(Self::In(key, values.to_vec())),
            "NotIn" if !values.is_empty() => Some(Self::NotIn(key, values.to_vec())),
            "Exists" if values.is_empty() => Some(Self::Exists(key)),
            "DoesNotExist" if values.is_empty() => Some(Self::DoesNotExist(key)),
            "Gt" => Some(Self::Gt(key, bound()?)),
            "Lt" => Some(Self::Lt(key, bound()?)),
            _ => None,
        }
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        let number = |key: &Arc<str>| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
            Self::Gt(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Lt(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

/// `spec.selector` of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// Absent, or not valid: matches nothing, and nothing is done for it.
    #[default]
    Nothing,
    /// These requirements, all of them. None at all selects everything (DS-040).
    All(Vec<Req>),
}

/// A requirement whose kind is of no concern outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Req(Requirement);

impl Selector {
    /// True if it selects every pod: it is there, and empty.
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// True if nothing is done for it: it is not there or not valid, or selects every pod (DS-040).
    pub fn is_idle(&self) -> bool {
        *self == Self::Nothing || self.is_everything()
    }

    /// True if an object with `labels` is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.0.matches(labels)),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    #[serde(deserialize_with = "nullable")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) values: Vec<Arc<str>>,
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(object) = Option::<Object>::deserialize(deserializer)? else {
            return Ok(Self::Nothing);
        };
        let equal = object.match_labels.iter().map(|(key, value)| {
            let requirement = Requirement::In(Arc::from(key.as_str()), vec![Arc::from(value.as_str())]);
            Some(Req(requirement))
        });
        let expressions = object
            .match_expressions
            .iter()
            .map(|expression| match expression.operator.as_str() {
                // Bounds exist for nodes only.
                "Gt" | "Lt" => None,
                operator => Requirement::new(&expression.key, operator, &expression.values).map(Req),
            });
        let requirements: Option<Vec<Req>> = equal.chain(expressions).collect();
        Ok(requirements.map_or(Self::Nothing, Self::All))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(key, value)| (Arc::from(*key), Arc::from(*value)))
            .collect()
    }

    /// DS-024, DS-040, DS-062
    #[test]
    fn selectors_match_labels() {
        let pod = mk_labels(&[("app", "ds"), ("tier", "a")]);
        let cases = [
            ("null", false, false),
            ("{}", true, true),
            (r#"{"matchLabels":{"app":"ds"}}"#, true, false),
            (r#"{"matchLabels":{"app":"other"}}"#, false, false),
            (
                r#"{"matchExpressions":[{"key":"app","operator":"In","values":["x","ds"]}]}"#,
                true,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["ds"]}]}"#,
                false,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"no","operator":"NotIn","values":["ds"]}]}"#,
                true,
                false,
            ),
            (r#"{"matchExpressions":[{"key":"tier","operator":"Exists"}]}"#, true, false),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}"#,
                false,
                false,
            ),
            (
                r#"{"matchLabels":{"app":"ds"},"matchExpressions":[{"key":"tier","operator":"In","values":["b"]}]}"#,
                false,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"In","values":[]}]}"#,
                false,
                false,
            ),
            (
                r#"{"matchExpressions":[{"key":"tier","operator":"Gt","values":["1"]}]}"#,
                false,
                false,
            ),
        ];
        for (text, matches, everything) in cases {
            let selector: Selector = serde_json::from_str(text).expect("decodes");
            assert_eq!(selector.matches(&pod), matches, "{text}");
            assert_eq!(selector.is_everything(), everything, "{text}");
        }
    }
}
