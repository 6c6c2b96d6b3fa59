//! DaemonSets out of the API server's JSON, with the API's defaults (DS-170).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::decode::{or_default, time};
use bailiff_model::rollout::Counts;
use bailiff_model::{Namespace, ResourceVersion, Wall};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Meta, ensure_named};
use crate::facts::{ANNOTATION_GENERATION, Amount, CONDITION_COMPLETE, Condition, DaemonSet, Status, Strategy};
use crate::selector::{self, Selector};
use crate::template::Template;

/// `revisionHistoryLimit` where the API server left it out (DS-161, DS-170).
const DEFAULT_HISTORY_LIMIT: usize = 10;

#[derive(Deserialize)]
struct DaemonSetObject {
    #[serde(default)]
    metadata: Meta<BTreeMap<String, String>>,
    spec: DaemonSetSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: StatusObject,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DaemonSetSpec {
    #[serde(default, deserialize_with = "selector::decode")]
    selector: Selector,
    template: Box<RawValue>,
    #[serde(default, deserialize_with = "or_default")]
    update_strategy: StrategyObject,
    #[serde(default, deserialize_with = "or_default")]
    min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StrategyObject {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    rolling_update: RollingObject,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RollingObject {
    max_unavailable: Option<Amount>,
    max_surge: Option<Amount>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusObject {
    desired_number_scheduled: u32,
    current_number_scheduled: u32,
    number_ready: u32,
    number_available: u32,
    number_unavailable: u32,
    updated_number_scheduled: u32,
    number_misscheduled: u32,
    observed_generation: i64,
    collision_count: Option<i32>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<ConditionObject>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ConditionObject {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    message: String,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Wall>,
}

impl StatusObject {
    fn condition(&self) -> Option<Arc<Condition>> {
        let ours = self
            .conditions
            .iter()
            .find(|condition| condition.kind == CONDITION_COMPLETE)?;
        Some(Arc::new(Condition {
            complete: ours.status == "True",
            reason: ours.reason.clone(),
            message: ours.message.clone(),
            since: ours.last_transition_time,
        }))
    }

    fn to_facts(&self) -> Status {
        Status {
            counts: Counts {
                desired: self.desired_number_scheduled,
                current: self.current_number_scheduled,
                ready: self.number_ready,
                available: self.number_available,
                unavailable: self.number_unavailable,
                updated: self.updated_number_scheduled,
                misscheduled: self.number_misscheduled,
            },
            observed_generation: self.observed_generation,
            collision_count: self.collision_count,
        }
    }
}

impl StrategyObject {
    /// DS-170
    fn to_facts(&self) -> Strategy {
        if self.kind == "OnDelete" {
            return Strategy::OnDelete;
        }
        Strategy::RollingUpdate {
            max_unavailable: self.rolling_update.max_unavailable.unwrap_or(Amount::Absolute(1)),
            max_surge: self.rolling_update.max_surge.unwrap_or(Amount::Absolute(0)),
        }
    }
}

impl<'de> Deserialize<'de> for DaemonSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let DaemonSetObject {
            metadata: meta,
            spec,
            status,
        } = DaemonSetObject::deserialize(deserializer)?;
        ensure_named(&meta)?;
        let template = Template::parse(&spec.template).map_err(|error| D::Error::custom(format!("spec.template: {error}")))?;
        let template_generation = meta.annotations.get(ANNOTATION_GENERATION).and_then(|text| text.parse().ok());
        Ok(Self {
            namespace: Namespace::from(meta.namespace.as_str()),
            name: Arc::from(meta.name.as_str()),
            uid: Arc::from(meta.uid.as_str()),
            version: ResourceVersion::from(meta.resource_version.as_str()),
            generation: meta.generation,
            template_generation,
            deleting: meta.deletion_timestamp.is_some(),
            annotations: Arc::new(meta.annotations),
            selector: spec.selector,
            template: Arc::new(template),
            strategy: spec.update_strategy.to_facts(),
            min_ready: Duration::from_secs(u64::try_from(spec.min_ready_seconds).unwrap_or(0)),
            history_limit: spec
                .revision_history_limit
                .map_or(DEFAULT_HISTORY_LIMIT, |limit| usize::try_from(limit).unwrap_or(0)),
            condition: status.condition(),
            status: status.to_facts(),
        })
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wanted;

        impl Visitor<'_> for Wanted {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage such as \"10%\"")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Amount, E> {
                Ok(Amount::Absolute(u32::try_from(value).unwrap_or(u32::MAX)))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Amount, E> {
                Ok(Amount::Absolute(u32::try_from(value.max(0)).unwrap_or(u32::MAX)))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Amount, E> {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse().ok());
                percent
                    .map(Amount::Percent)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Wanted)
    }
}
