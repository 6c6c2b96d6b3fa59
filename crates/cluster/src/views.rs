//! Serde building blocks of trimmed views, and their way into the model.
//!
//! A stage composes its own view of a kind from these, with the fields it reads and no others. Decoding is lenient where the API is:
//! absent and null are the same, unknown fields are skipped. Each is read from JSON and from protobuf alike ([`crate::scan`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::{Effect, Operator, ReadyStatus, Selector, Taint, Toleration, Wall};
pub use compact_str::CompactString;
use serde::de::Error as _;
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TolerationView {
    /// Key.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// Operator.
    #[serde(deserialize_with = "or_default")]
    pub operator: CompactString,
    /// Value.
    #[serde(deserialize_with = "or_default")]
    pub value: CompactString,
    /// Effect.
    #[serde(deserialize_with = "or_default")]
    pub effect: CompactString,
    /// `tolerationSeconds`.
    pub toleration_seconds: Option<i64>,
}

impl TolerationView {
    /// The toleration. One with an unknown effect matches nothing.
    pub fn to_model(&self) -> Toleration {
        let effect = Effect::parse(&self.effect);
        let operator = if effect.is_none() && !self.effect.is_empty() {
            Operator::Never
        } else {
            Operator::parse(&self.operator)
        };
        Toleration {
            key: Arc::from(self.key.as_str()),
            operator,
            value: Arc::from(self.value.as_str()),
            effect,
            seconds: self.toleration_seconds,
        }
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

/// Decodes null like an absent field.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Decodes a time: the text that JSON has, or the numbers of protobuf, which cost less. Null is an absent one.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Wall>, D::Error> {
    struct Time(Wall);

    impl<'de> Deserialize<'de> for Time {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if deserializer.is_human_readable() {
                return Wall::deserialize(deserializer).map(Self);
            }
            let (seconds, nanos) = <(i64, i32)>::deserialize(deserializer)?;
            Wall::new(seconds, nanos).map(Self).map_err(D::Error::custom)
        }
    }

    Ok(Option::<Time>::deserialize(deserializer)?.map(|Time(wall)| wall))
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
        let view: TolerationView = serde_json::from_str(r#"{"operator":"Exists","effect":"Later"}"#).expect("decodes");
        assert!(!view.to_model().matches(&Taint::new("k", Effect::NoExecute)));
    }
}
