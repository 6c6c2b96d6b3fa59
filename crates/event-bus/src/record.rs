//! What crosses the bus, in domain form: records, drafts of records, and the state of shards.
//!
//! The wire form is `proto/bailiff/v1/event_bus.proto`; conversion is in [`crate::wire`].

use std::fmt::{self, Write};
use std::time::Duration;

use bailiff_model::health::NodeHealth;
use bailiff_model::intent::Intent;
use bailiff_model::outcome::Outcome;
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{Incarnation, Mono, Origin, Revision, Topic, TraceContext, Wall};

/// What a record says; one variant per topic. A record is moved several times on its way, what it says is not: it lies in a box.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Topic `node-health`.
    NodeHealth(Box<NodeHealth>),
    /// Topic `eviction-intents`.
    Intent(Intent),
    /// Topic `eviction-outcomes`.
    Outcome(Outcome),
    /// Topic `daemon-rollouts`.
    DaemonSetSync(Box<DaemonSetSync>),
}

/// Why a key is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TombstoneReason {
    /// The producer withdrew it.
    Withdrawn,
    /// A replace session did not mention it.
    Replaced,
    /// A terminal outcome grew old.
    Expired,
    /// It left this subscriber's route filter; elsewhere it lives on.
    LeftFilter,
    /// The shard layout changed and no shard of the new layout mentioned it.
    LayoutChanged,
}

/// The latest record of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Topic.
    pub topic: Topic,
    /// Key within the topic.
    pub key: String,
    /// Route for subscription filters, or empty.
    pub route: String,
    /// The bus that gave the revision. Known on the client's side only; the bus itself has but one.
    pub incarnation: Incarnation,
    /// Position in the bus's one revision sequence.
    pub revision: Revision,
    /// The record this one was derived from, if any.
    pub derived_from: Origin,
    /// Epoch of the session that published it.
    pub epoch: u64,
    /// Shard that published it.
    pub shard: u32,
    /// Who published it.
    pub producer: String,
    /// When it was made, by the producer's clock: for people.
    pub produced_at: Wall,
    /// How old it was at `received_at`, by the monotonic clocks of producer and bus; `None`: unknown.
    pub age: Option<Duration>,
    /// When it came here, by the monotonic clock of who holds it, bus or subscriber.
    pub received_at: Mono,
    /// Trace it belongs to.
    pub trace: Option<TraceContext>,
    /// What it says; `None`: the key is gone.
    pub body: Option<Body>,
    /// Why the key is gone; set exactly where `body` is `None`.
    pub tombstone: Option<TombstoneReason>,
}

/// A record as its producer makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Key: [`Body::key`].
    pub key: String,
    /// Route: [`Body::route`].
    pub route: String,
    /// The record this one was derived from, if any.
    pub derived_from: Origin,
    /// Trace it belongs to.
    pub trace: Option<TraceContext>,
    /// What it says.
    pub body: Body,
}

/// A record as it reaches the bus: a draft with its time, or a removal.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Key.
    pub key: String,
    /// Route, or empty.
    pub route: String,
    /// The record this one was derived from, if any.
    pub derived_from: Origin,
    /// When it was made, by the producer's clock.
    pub produced_at: Wall,
    /// How long ago that was when it was sent, by the producer's monotonic clock.
    pub age: Duration,
    /// Trace it belongs to.
    pub trace: Option<TraceContext>,
    /// What it says; `None` removes the key.
    pub body: Option<Body>,
}

/// The state of one shard of a topic.
///
/// When the layout of a topic changes, all shards of the new layout are told at once; those with another shard count are void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// Topic.
    pub topic: Topic,
    /// Shard, from 0.
    pub shard: u32,
    /// How many shards the topic has. A topic that nobody ever published to has no [`ShardStatus`] at all.
    pub shard_count: u32,
    /// Epoch of the present or last session.
    pub epoch: u64,
    /// A missing key of this shard means something.
    pub complete: bool,
    /// The producer decides and its API watches are fresh, or it broke off less than the reconnect grace ago.
    pub live: bool,
    /// Age of the oldest of the producer's watches and decision ticks.
    pub lag: Duration,
    /// Producer of the present or last session.
    pub producer: String,
    /// One sentence why it is not live; empty while it is.
    pub detail: String,
}

// === impl Body ===

impl Body {
    /// The topic it belongs to.
    pub const fn topic(&self) -> Topic {
        match self {
            Self::NodeHealth(_) => Topic::NodeHealth,
            Self::Intent(_) => Topic::EvictionIntents,
            Self::Outcome(_) => Topic::EvictionOutcomes,
            Self::DaemonSetSync(_) => Topic::DaemonRollouts,
        }
    }

    /// The key it belongs under; the bus accepts no other.
    pub fn key(&self) -> String {
        text(|out| self.write_key(out))
    }

    /// True if that is the key it belongs under.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        Unmatched(key).is(|out| self.write_key(out))
    }

    fn write_key(&self, out: &mut impl Write) -> fmt::Result {
        match self {
            Self::NodeHealth(health) => write!(out, "{}", health.node.name),
            Self::Intent(Intent::Isolation(isolation)) => write!(out, "node/{}", isolation.node.name),
            Self::Intent(Intent::NodeEviction(eviction)) => write!(out, "node/{}", eviction.node.name),
            Self::Intent(Intent::Pod(eviction)) => write!(out, "pod/{}", eviction.pod.uid),
            Self::Outcome(Outcome::Zone(status)) => write!(out, "zone/{}", status.zone),
            Self::Outcome(Outcome::Node(outcome)) => write!(out, "node/{}", outcome.node.name),
            Self::Outcome(Outcome::Pod(outcome)) => write!(out, "pod/{}", outcome.pod.uid),
            Self::DaemonSetSync(sync) => write!(out, "{}/{}", sync.namespace, sync.name),
        }
    }

    /// The route that subscribers filter by: the zone's key; for rollouts, that know no zone, the namespace.
    pub fn route(&self) -> String {
        text(|out| self.write_route(out))
    }

    /// True if that is its route.
    pub(crate) fn has_route(&self, route: &str) -> bool {
        Unmatched(route).is(|out| self.write_route(out))
    }

    fn write_route(&self, out: &mut impl Write) -> fmt::Result {
        let zone = match self {
            Self::NodeHealth(health) => &health.zone,
            Self::Intent(Intent::Isolation(isolation)) => &isolation.zone,
            Self::Intent(Intent::NodeEviction(eviction)) => &eviction.zone,
            Self::Intent(Intent::Pod(eviction)) => &eviction.zone,
            Self::Outcome(Outcome::Zone(status)) => &status.zone,
            Self::Outcome(Outcome::Node(outcome)) => &outcome.zone,
            Self::Outcome(Outcome::Pod(outcome)) => &outcome.zone,
            Self::DaemonSetSync(sync) => return write!(out, "{}", sync.namespace),
        };
        write!(out, "{zone}")
    }

    /// True for a terminal pod outcome: exempt from replace, and expires on the bus.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Outcome(Outcome::Pod(outcome)) if outcome.state.is_terminal())
    }
}

fn text(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a text takes everything");
    text
}

/// What is left of a text once that was taken off its front which is written to it; anything else is not taken.
struct Unmatched<'a>(&'a str);

impl Unmatched<'_> {
    /// True if the whole text is what is written.
    fn is(mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> bool {
        write(&mut self).is_ok() && self.0.is_empty()
    }
}

impl Write for Unmatched<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
        Ok(())
    }
}

// === impl Record ===

impl Record {
    /// Its place in the bus, for what is derived from it.
    pub fn origin(&self) -> Origin {
        Origin::new(self.incarnation.clone(), self.revision)
    }

    /// How old it is at `now`, on the clock of who holds it; `None`: unknown. It may be older by what it took to get here.
    pub fn age_at(&self, now: Mono) -> Option<Duration> {
        let here = now.saturating_since(self.received_at);
        self.age.map(|age| age.saturating_add(here))
    }
}

impl From<&Record> for Origin {
    fn from(record: &Record) -> Self {
        record.origin()
    }
}

// === impl Draft ===

impl Draft {
    /// A draft of `body` under its own key and route.
    pub fn new(body: Body) -> Self {
        Self {
            key: body.key(),
            route: body.route(),
            derived_from: Origin::default(),
            trace: None,
            body,
        }
    }

    /// The draft, derived from this record: a [`Record`] as a subscription gave it, or its [`Record::origin`].
    pub fn derived_from(self, origin: impl Into<Origin>) -> Self {
        Self {
            derived_from: origin.into(),
            ..self
        }
    }

    /// The draft as part of a trace.
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }
}

// === impl ShardStatus ===

impl ShardStatus {
    /// True if every shard of `topic` is there and complete, so that a missing key means something.
    ///
    /// Statuses left over from an older layout do not count: shard 0 is in every layout, and tells how many shards there are.
    pub fn is_topic_complete<'a>(topic: Topic, statuses: impl IntoIterator<Item = &'a Self>) -> bool {
        let of_topic = statuses.into_iter().filter(|status| status.topic == topic);
        let of_topic: Vec<&Self> = of_topic.collect();
        let wanted = of_topic
            .iter()
            .find(|status| status.shard == 0)
            .map_or(0, |status| status.shard_count);
        let is_complete = |number| {
            let mut present = of_topic.iter().filter(|status| status.shard_count == wanted);
            present.any(|status| status.shard == number && status.complete)
        };
        wanted > 0 && (0..wanted).all(is_complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_status(shard: u32, shard_count: u32, complete: bool) -> ShardStatus {
        ShardStatus {
            topic: Topic::NodeHealth,
            shard,
            shard_count,
            epoch: 1,
            complete,
            live: true,
            lag: Duration::ZERO,
            producer: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn what_a_record_says_is_not_moved_with_it() {
        assert_eq!(size_of::<Body>(), 3 * size_of::<usize>());
        assert!(size_of::<Record>() <= 256, "{} bytes", size_of::<Record>());
    }

    #[test]
    fn a_topic_is_complete_when_all_shards_of_its_present_layout_are() {
        let cases = [
            (vec![], false),
            (vec![mk_status(0, 1, true)], true),
            (vec![mk_status(0, 1, false)], false),
            (vec![mk_status(0, 2, true)], false),
            (vec![mk_status(0, 2, true), mk_status(1, 2, true)], true),
            (vec![mk_status(0, 2, true), mk_status(1, 2, false)], false),
            // Shard 1 is left over from a layout of two.
            (vec![mk_status(0, 1, true), mk_status(1, 2, false)], true),
            (vec![mk_status(0, 1, false), mk_status(1, 2, true)], false),
        ];
        for (statuses, wanted) in cases {
            assert_eq!(
                ShardStatus::is_topic_complete(Topic::NodeHealth, &statuses),
                wanted,
                "{statuses:?}"
            );
            assert!(!ShardStatus::is_topic_complete(Topic::DaemonRollouts, &statuses));
        }
    }
}
