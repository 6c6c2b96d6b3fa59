//! Serde building blocks of trimmed views, and their way into the model.
//!
//! A stage composes its own view of a kind from these, with the fields it reads and no others. Decoding is lenient where the API is:
//! absent and null are the same, unknown fields are skipped. Each is read from JSON and from protobuf alike ([`crate::scan`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use bailiff_model::decode::{named, or_default, time};
use bailiff_model::{Effect, Operator, ReadyStatus, Selector, Taint, Toleration, Wall};
pub use compact_str::CompactString;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The metadata that every view has. Texts of up to 24 bytes are in it; longer ones are memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// `metadata.name`.
    pub name: CompactString,
    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[serde(deserialize_with = "or_default")]
    pub namespace: CompactString,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: CompactString,
    /// `metadata.creationTimestamp`.
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Wall>,
    /// `metadata.deletionTimestamp`.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Wall>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// This owner is the managing controller.
    #[serde(deserialize_with = "or_default")]
    pub controller: bool,
}

/// One entry of a node's or pod's `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub kind: CompactString,
    /// Status, as the API has it.
    pub status: CompactString,
    /// Reason.
    #[serde(deserialize_with = "or_default")]
    pub reason: CompactString,
    /// `lastTransitionTime`.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Wall>,
    /// `lastHeartbeatTime` (nodes).
    #[serde(deserialize_with = "time")]
    pub last_heartbeat_time: Option<Wall>,
}

impl Condition {
    /// Its status as the model has it.
    pub fn ready_status(&self) -> ReadyStatus {
        ReadyStatus::parse(&self.status)
    }
}

/// `status` of an object, of which the conditions are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// `status.conditions`.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// The condition of type `kind`, if there is one.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// One entry of `spec.taints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaintView {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "or_default")]
    pub value: CompactString,
    /// Effect, as the API has it.
    pub effect: CompactString,
    /// `timeAdded`.
    #[serde(deserialize_with = "time")]
    pub time_added: Option<Wall>,
}

impl TaintView {
    /// The taint; `None` if its effect is none we know, which no pod can be judged by.
    pub fn to_model(&self) -> Option<Taint> {
        Some(Taint {
            key: Arc::from(self.key.as_str()),
            value: Arc::from(self.value.as_str()),
            effect: Effect::parse(&self.effect)?,
            time_added: self.time_added,
        })
    }
}

/// `spec` of a node, of which the taints are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taints {
    /// `spec.taints`.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<TaintView>,
}

/// One entry of `spec.tolerations`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TolerationView<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
    toleration_seconds: Option<i64>,
}

impl TolerationView<'_> {
    /// The toleration. One with an unknown effect matches nothing.
    fn to_model(&self) -> Toleration {
        let effect = Effect::parse(&self.effect.0);
        let operator = if effect.is_none() && !self.effect.0.is_empty() {
            Operator::Never
        } else {
            Operator::parse(&self.operator.0)
        };
        Toleration {
            key: self.key.shared(),
            operator,
            value: self.value.shared(),
            effect,
            seconds: self.toleration_seconds,
        }
    }
}

/// Decodes `spec.tolerations`, null like none.
pub fn tolerations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Toleration>, D::Error> {
    let list = Option::<Vec<TolerationView<'de>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(list.iter().map(TolerationView::to_model).collect())
}

/// A text as it came, where that can be lent; null is an empty one.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    /// An empty one takes no memory.
    fn shared(&self) -> Arc<str> {
        if self.0.is_empty() {
            Arc::default()
        } else {
            Arc::from(&*self.0)
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_none<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text<'de>, D::Error> {
                deserializer.deserialize_str(self)
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_option(Read)
    }
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorView {
    #[serde(deserialize_with = "or_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<ExpressionView>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ExpressionView {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<Arc<str>>,
}

impl SelectorView {
    /// The selector. One that is not valid selects nothing.
    pub fn to_model(&self) -> Selector {
        let labels = self.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let expressions = self.match_expressions.iter();
        let expressions = expressions.map(|one| (one.key.as_str(), one.operator.as_str(), one.values.as_slice()));
        Selector::new(labels, expressions)
    }
}

/// JSON as it came, within JSON or within protobuf.
#[derive(Clone, Copy, Debug)]
pub struct JsonText<'a>(pub &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()));
        }
        <&str>::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_absent_are_the_same() {
        let meta: Meta =
            serde_json::from_str(r#"{"name":"n","namespace":null,"labels":{"a":"b"},"creationTimestamp":null}"#).expect("lenient");
        assert_eq!(
            meta,
            Meta {
                name: "n".into(),
                ..Meta::default()
            }
        );
    }

    #[test]
    fn a_selector_is_decoded() {
        let pod = BTreeMap::from([(Arc::from("app"), Arc::from("ds"))]);
        let cases = [
            (r#"{"matchLabels":{"app":"ds"},"matchExpressions":null}"#, true),
            (
                r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["ds"]}]}"#,
                false,
            ),
            (r#"{"matchExpressions":[{"key":"app","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"Later"}]}"#, false),
            ("{}", true),
        ];
        for (text, selects) in cases {
            let view: SelectorView = serde_json::from_str(text).expect("decodes");
            assert_eq!(view.to_model().matches(&pod), selects, "{text}");
        }
    }

    #[test]
    fn an_unknown_effect_tolerates_nothing() {
        let read = |text| tolerations(&mut serde_json::Deserializer::from_str(text)).expect("decodes");
        let taint = Taint::new("k", Effect::NoExecute);
        assert!(!read(r#"[{"operator":"Exists","effect":"Later"}]"#)[0].matches(&taint));
        let escaped = read(r#"[{"key":null,"operator":"Exists","value":null},{"key":"\u006b","operator":"Exists"}]"#);
        assert!(escaped.iter().all(|toleration| toleration.matches(&taint)));
        assert!(read("null").is_empty());
    }
}
