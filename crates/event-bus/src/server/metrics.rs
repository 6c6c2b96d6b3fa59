//! Metrics of a bus, to be registered under the prefix `event_bus`: what was refused and published is counted, sizes are read at scrape
//! time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};

use bailiff_model::Topic;
use bailiff_runtime::metrics::at_zero;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Inner;
use crate::access::Action;
use crate::engine::Refusal;
use crate::record::ShardStatus;

/// Kind of a refused message that the contract does not allow.
pub(super) const INVALID: &str = "invalid";
/// Kind of the refusal of a message that finds no room.
pub(super) const MESSAGES: &str = "messages";
/// Kind of the end of whoever says nothing; what the engine has for sessions, for questions.
pub(super) const SILENT: &str = "silent";
/// Kind of the refusal of one subscriber too many.
pub(super) const SUBSCRIBERS: &str = "subscribers";
/// Kind of the end of a subscription that takes nothing of its set.
pub(super) const UNREAD: &str = "unread";

/// Label of refusals.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    /// `Refusal::kind`, [`INVALID`], [`MESSAGES`], [`SILENT`], [`SUBSCRIBERS`] or [`UNREAD`].
    kind: &'static str,
}

/// Label of topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabels {
    topic: &'static str,
}

/// Labels of shards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabels {
    topic: &'static str,
    shard: u32,
}

/// Label of callers that were refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeniedLabels {
    action: &'static str,
    topic: &'static str,
}

/// Counters; cloning gives the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    refusals: Family<RefusalLabels, Counter>,
    published: Family<TopicLabels, Counter>,
    delivered: Counter,
    denied: Family<DeniedLabels, Counter>,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let refusals = self.refusals.clone();
        registry.register("refusals", "Calls and sessions refused or ended, by kind", refusals);
        let published = self.published.clone();
        registry.register("published_records", "Records accepted, staged ones included", published);
        let delivered = self.delivered.clone();
        registry.register("delivered_records", "Records sent to subscribers", delivered);
        let denied = self.denied.clone();
        registry.register(
            "denied_calls",
            "Calls refused because the caller's role does not allow them",
            denied,
        );
        self.begin();
    }

    fn begin(&self) {
        let kinds = Refusal::KINDS.into_iter().chain([INVALID, MESSAGES, SUBSCRIBERS, UNREAD]);
        at_zero(&self.refusals, kinds.map(|kind| RefusalLabels { kind }));
        for topic in Topic::ALL.map(Topic::as_str) {
            at_zero(&self.published, [TopicLabels { topic }]);
            let actions = Action::ALL.map(Action::as_str);
            at_zero(&self.denied, actions.map(|action| DeniedLabels { action, topic }));
        }
    }

    /// A caller was refused for want of a role.
    pub(super) fn denied(&self, action: Action, topic: Topic) {
        let (action, topic) = (action.as_str(), topic.as_str());
        self.denied.get_or_create(&DeniedLabels { action, topic }).inc();
    }

    pub(super) fn refused(&self, kind: &'static str) {
        self.refusals.get_or_create(&RefusalLabels { kind }).inc();
    }

    pub(super) fn published(&self, topic: Topic, records: usize) {
        let labels = TopicLabels { topic: topic.as_str() };
        self.published.get_or_create(&labels).inc_by(records as u64);
    }

    pub(super) fn delivered(&self, records: usize) {
        self.delivered.inc_by(records as u64);
    }
}

/// Sizes of whatever bus runs when they are asked for; nothing while none does.
pub(super) struct Sizes(Weak<Inner>);

impl Sizes {
    pub(super) fn new(inner: &Arc<Inner>) -> Self {
        Self(Arc::downgrade(inner))
    }
}

impl fmt::Debug for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sizes")
    }
}

impl Collector for Sizes {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(hub) = self.0.upgrade().and_then(|inner| inner.hub()) else {
            return Ok(());
        };
        let (all, now) = (BTreeSet::from(Topic::ALL), hub.now());
        let read = hub.read(|engine| (engine.figures(), engine.shards(&all, now), engine.head().0));
        // It has ended since.
        let Ok((figures, shards, head)) = read else {
            return Ok(());
        };
        let gauge = |value: usize| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        type Read = fn(&crate::engine::TopicFigures) -> usize;
        let per_topic: [(&str, &str, Read); 5] = [
            ("keys", "Live keys", |figures| figures.keys),
            (
                "keys_allowed",
                "Live keys that the topic may have, by what the others have now",
                |figures| figures.most_keys,
            ),
            ("tombstones", "Tombstones kept", |figures| figures.tombstones),
            ("records", "Records kept, history included", |figures| figures.records),
            ("sessions", "Open sessions of producers", |figures| figures.sessions),
        ];
        for (name, help, read) in per_topic {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for figures in &figures {
                let labels = TopicLabels {
                    topic: figures.topic.as_str(),
                };
                gauge(read(figures)).encode(metric.encode_family(&labels)?)?;
            }
        }
        let subscribers = encoder.encode_descriptor("subscribers", "Open subscriptions", None, MetricType::Gauge)?;
        gauge(hub.subscriber_count()).encode(subscribers)?;
        encode_shards(&shards, &mut encoder)?;
        encode_revision(head, encoder)
    }
}

/// Whether producers are there and know what they should (design §9). A topic that nobody ever published to has no shards.
fn encode_shards(shards: &[ShardStatus], encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
    type Read = fn(&ShardStatus) -> f64;
    let per_shard: [(&str, &str, Read); 3] = [
        (
            "shard_live",
            "1 while the shard's producer decides and what it sees is fresh",
            |shard| f64::from(shard.live),
        ),
        (
            "shard_complete",
            "1 once the shard's first state is published whole, so that a missing key means something",
            |shard| f64::from(shard.complete),
        ),
        (
            "shard_lag_seconds",
            "How old the least fresh of what the shard's producer decides on is",
            |shard| shard.lag.as_secs_f64(),
        ),
    ];
    for (name, help, read) in per_shard {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for status in shards {
            let labels = ShardLabels {
                topic: status.topic.as_str(),
                shard: status.shard,
            };
            ConstGauge::new(read(status)).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_revision(head: u64, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
    let revision = ConstGauge::new(i64::try_from(head).unwrap_or(i64::MAX));
    revision.encode(encoder.encode_descriptor("revision", "Newest revision", None, MetricType::Gauge)?)
}
