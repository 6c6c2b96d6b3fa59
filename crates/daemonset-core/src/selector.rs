//! Label selectors of DaemonSets, as the API has them.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use bailiff_model::selector::Requirement;
pub use bailiff_model::selector::Selector;
use serde::{Deserialize, Deserializer};

use bailiff_model::decode::or_default;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    #[serde(deserialize_with = "or_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<Expression>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) values: Vec<Arc<str>>,
}

/// Decodes a selector; null is an absent one.
pub(crate) fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
    let Some(object) = Option::<Object>::deserialize(deserializer)? else {
        return Ok(Selector::Nothing);
    };
    let labels = object.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let expressions = object.match_expressions.iter();
    let expressions = expressions.map(|one| (one.key.as_str(), one.operator.as_str(), one.values.as_slice()));
    Ok(Selector::new(labels, expressions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Labels;

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
            let selector = decode(&mut serde_json::Deserializer::from_str(text)).expect("decodes");
            assert_eq!(selector.matches(&pod), matches, "{text}");
            assert_eq!(selector.is_everything(), everything, "{text}");
        }
    }
}
