//! Envelopes: whether topic, key, route and payload agree, and the states of shards.

use bailiff_model::intent::Intent;
use bailiff_model::outcome::Outcome;
use bailiff_model::{Incarnation, Mono, Revision, Topic, Zone};
use bailiff_proto::v1 as pb;
use bytes::Bytes;
use prost::Message as _;

use super::{Error, Twin, Wire, scalar, twins};
use crate::record::{Body, Incoming, Record, ShardStatus, TombstoneReason};

/// Largest record, in bytes on the wire. The largest that a stage makes, a rollout with reasons for 100 nodes, is below 40 kB.
pub const RECORD_MAX: usize = 64 * 1024;

twins!(
    pb::TombstoneReason,
    TombstoneReason,
    [Withdrawn, Replaced, Expired, LeftFilter, LayoutChanged]
);

/// A record as it comes from a producer whose session is on `topic`.
///
/// # Errors
/// What the contract forbids; revision, epoch, producer and shard are the bus's to set.
pub fn incoming(topic: Topic, envelope: pb::Envelope) -> Result<Incoming, Error> {
    if envelope.topic != topic.as_str() {
        let allowed = format!("the session's topic {:?}", topic.as_str());
        return Err(Error::new("topic", envelope.topic, allowed));
    }
    set_by_the_bus(&envelope)?;
    let bytes = envelope.encoded_len();
    if bytes > RECORD_MAX {
        return Err(Error::new(
            "record",
            format_args!("{bytes} bytes"),
            format!("at most {RECORD_MAX} bytes"),
        ));
    }
    check_key(topic, &envelope.key)?;
    let incoming = accepted(envelope)?;
    if let Some(body) = &incoming.body {
        agree(topic, &incoming.key, &incoming.route, body)?;
    }
    Ok(incoming)
}

/// A record that [`incoming`] accepted before.
///
/// # Errors
/// What the contract forbids of single values.
pub fn accepted(envelope: pb::Envelope) -> Result<Incoming, Error> {
    let (body, tombstone) = body(envelope.body)?;
    if !matches!(tombstone, None | Some(TombstoneReason::Withdrawn)) {
        let allowed = pb::TombstoneReason::Withdrawn.as_str_name();
        return Err(Error::new("tombstone.reason", tombstone, allowed));
    }
    Ok(Incoming {
        key: envelope.key,
        route: scalar::token("route", envelope.route, 0, scalar::NAME_MAX)?,
        derived_from: scalar::origin(envelope.derived_from, envelope.derived_from_incarnation)?,
        produced_at: scalar::time("produced_at", envelope.produced_at)?,
        age: scalar::duration_if_any("age", envelope.age)?.unwrap_or_default(),
        trace: scalar::trace("traceparent", &envelope.traceparent)?,
        body,
    })
}

impl TryFrom<Wire<pb::Envelope>> for Record {
    type Error = Error;

    fn try_from(Wire(envelope): Wire<pb::Envelope>) -> Result<Self, Error> {
        let topic = topic("topic", &envelope.topic)?;
        check_key(topic, &envelope.key)?;
        let key = envelope.key;
        let route = scalar::token("route", envelope.route, 0, scalar::NAME_MAX)?;
        let (body, tombstone) = body(envelope.body.map(understood))?;
        if let Some(body) = &body {
            agree(topic, &key, &route, body)?;
        }
        Ok(Self {
            topic,
            key,
            route,
            incarnation: Incarnation::default(),
            revision: Revision(envelope.revision),
            derived_from: scalar::origin(envelope.derived_from, envelope.derived_from_incarnation)?,
            epoch: envelope.epoch,
            shard: envelope.shard,
            producer: scalar::identity("producer", envelope.producer)?,
            produced_at: scalar::time("produced_at", envelope.produced_at)?,
            age: scalar::duration_if_any("age", envelope.age)?,
            received_at: Mono::ORIGIN,
            trace: scalar::trace("traceparent", &envelope.traceparent)?,
            body,
            tombstone,
        })
    }
}

impl TryFrom<Wire<pb::ShardStatus>> for ShardStatus {
    type Error = Error;

    fn try_from(Wire(status): Wire<pb::ShardStatus>) -> Result<Self, Error> {
        if status.shard >= status.shard_count {
            let allowed = format!("below the shard count {}", status.shard_count);
            return Err(Error::new("shard", status.shard, allowed));
        }
        Ok(Self {
            topic: topic("topic", &status.topic)?,
            shard: status.shard,
            shard_count: status.shard_count,
            epoch: status.epoch,
            complete: status.complete,
            live: status.live,
            lag: scalar::duration("lag", status.lag)?,
            producer: status.producer,
            detail: scalar::sentence("detail", status.detail)?,
        })
    }
}

/// The topic of this name.
///
/// # Errors
/// There is none.
pub fn topic(field: &str, text: &str) -> Result<Topic, Error> {
    Topic::parse(text).ok_or_else(|| {
        let allowed = Topic::ALL.map(Topic::as_str).join(", ");
        Error::new(field, text, allowed)
    })
}

/// A key of `topic`, checked for the form that the topic's payloads give it.
///
/// # Errors
/// Too long, or not of that form.
pub fn check_key(topic: Topic, key: &str) -> Result<(), Error> {
    scalar::check_token("key", key, 1, scalar::KEY_MAX)?;
    let (has_form, allowed) = match topic {
        Topic::NodeHealth => (is_segment(key, scalar::NAME_MAX), "<node name>"),
        Topic::EvictionIntents => (is_node_or_pod(key), "node/<name> or pod/<uid>"),
        Topic::EvictionOutcomes => {
            let is_zone = key.strip_prefix("zone/").is_some_and(|zone| zone.parse::<Zone>().is_ok());
            (
                is_zone || is_node_or_pod(key),
                "zone/<region>:<zone>, node/<name> or pod/<uid>",
            )
        }
        Topic::DaemonRollouts => {
            let parts = key.split_once('/');
            let is_pair = parts.is_some_and(|(ns, name)| is_segment(ns, scalar::NAME_MAX) && is_segment(name, scalar::NAME_MAX));
            (is_pair, "<namespace>/<name>")
        }
    };
    if has_form {
        return Ok(());
    }
    Err(Error::new("key", key, allowed))
}

fn is_node_or_pod(key: &str) -> bool {
    match key.split_once('/') {
        Some(("node", name)) => is_segment(name, scalar::NAME_MAX),
        Some(("pod", uid)) => is_segment(uid, scalar::UID_MAX),
        _ => false,
    }
}

fn is_segment(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.contains('/')
}

fn set_by_the_bus(envelope: &pb::Envelope) -> Result<(), Error> {
    let numbers = [
        ("revision", envelope.revision),
        ("epoch", envelope.epoch),
        ("shard", u64::from(envelope.shard)),
    ];
    if let Some((field, number)) = numbers.into_iter().find(|(_, number)| *number != 0) {
        return Err(Error::new(field, number, "0: the bus sets it"));
    }
    if !envelope.producer.is_empty() {
        return Err(Error::new("producer", &envelope.producer, "empty: the bus sets it"));
    }
    Ok(())
}

/// Topic, key and route must be those of the payload; a route may be left out.
fn agree(topic: Topic, key: &str, route: &str, body: &Body) -> Result<(), Error> {
    if body.topic() != topic {
        let found = body.topic().as_str();
        return Err(Error::new("body", found, format!("a payload of topic {:?}", topic.as_str())));
    }
    if !body.has_key(key) {
        return Err(Error::new("key", key, format!("{:?}, as the payload says", body.key())));
    }
    if !route.is_empty() && !body.has_route(route) {
        let allowed = format!("{:?}, as the payload says, or empty", body.route());
        return Err(Error::new("route", route, allowed));
    }
    Ok(())
}

/// A tombstone whose reason a reader does not know is a tombstone all the same.
fn understood(body: pb::envelope::Body) -> pb::envelope::Body {
    match body {
        pb::envelope::Body::Tombstone(tombstone) if pb::TombstoneReason::try_from(tombstone.reason).is_err() => {
            pb::envelope::Body::Tombstone(pb::Tombstone::default())
        }
        body => body,
    }
}

fn body(body: Option<pb::envelope::Body>) -> Result<(Option<Body>, Option<TombstoneReason>), Error> {
    use pb::envelope::Body as W;
    fn under<W, T: TryFrom<Wire<W>, Error = Error>>(field: &'static str, payload: W) -> Result<Box<T>, Error> {
        Wire(payload)
            .try_into()
            .map(Box::new)
            .map_err(|error: Error| error.under(field))
    }
    let body = match body.ok_or_else(|| Error::absent("body"))? {
        W::Tombstone(tombstone) => {
            let unset = tombstone.reason == i32::from(pb::TombstoneReason::Unspecified);
            let reason = if unset {
                TombstoneReason::Withdrawn
            } else {
                TombstoneReason::from_wire("tombstone.reason", tombstone.reason)?
            };
            return Ok((None, Some(reason)));
        }
        W::NodeHealth(health) => Body::NodeHealth(under("node_health", health)?),
        W::NodeIsolation(isolation) => Body::Intent(Intent::Isolation(under("node_isolation", isolation)?)),
        W::NodeEviction(eviction) => Body::Intent(Intent::NodeEviction(under("node_eviction", eviction)?)),
        W::PodEviction(eviction) => Body::Intent(Intent::Pod(under("pod_eviction", eviction)?)),
        W::ZoneStatus(status) => Body::Outcome(Outcome::Zone(under("zone_status", status)?)),
        W::NodeOutcome(outcome) => Body::Outcome(Outcome::Node(under("node_outcome", outcome)?)),
        W::PodOutcome(outcome) => Body::Outcome(Outcome::Pod(under("pod_outcome", outcome)?)),
        W::DaemonSetSync(sync) => Body::DaemonSetSync(under("daemon_set_sync", sync)?),
    };
    Ok((Some(body), None))
}

/// The wire form of what a key that is gone says.
pub(crate) fn to_tombstone(reason: TombstoneReason) -> pb::envelope::Body {
    pb::envelope::Body::Tombstone(pb::Tombstone {
        reason: reason.to_wire(),
    })
}

/// The wire form of a record that is delivered at `now`.
pub fn to_envelope(record: &Record, now: Mono) -> pb::Envelope {
    pb::Envelope {
        topic: record.topic.to_string(),
        key: record.key.clone(),
        route: record.route.clone(),
        revision: record.revision.0,
        derived_from: record.derived_from.revision.0,
        derived_from_incarnation: record.derived_from.incarnation.to_string(),
        epoch: record.epoch,
        producer: record.producer.clone(),
        produced_at: Some(scalar::to_time(record.produced_at)),
        age: record.age_at(now).map(scalar::to_duration),
        traceparent: scalar::to_trace(record.trace),
        shard: record.shard,
        body: Some(match &record.body {
            Some(body) => to_body(body),
            None => to_tombstone(record.tombstone.unwrap_or(TombstoneReason::Withdrawn)),
        }),
    }
}

/// The wire form of what a producer publishes to `topic`.
pub fn to_incoming(topic: Topic, incoming: &Incoming) -> pb::Envelope {
    let said = to_said(incoming);
    pb::Envelope {
        topic: topic.to_string(),
        key: incoming.key.clone(),
        route: incoming.route.clone(),
        produced_at: Some(scalar::to_time(incoming.produced_at)),
        age: Some(scalar::to_duration(incoming.age)),
        body: said.body.or_else(|| Some(to_tombstone(TombstoneReason::Withdrawn))),
        ..said
    }
}

/// Of the same its origin, its trace and its body, if it is no removal.
pub(crate) fn to_said(incoming: &Incoming) -> pb::Envelope {
    pb::Envelope {
        derived_from: incoming.derived_from.revision.0,
        derived_from_incarnation: incoming.derived_from.incarnation.to_string(),
        traceparent: scalar::to_trace(incoming.trace),
        body: incoming.body.as_ref().map(to_body),
        ..pb::Envelope::default()
    }
}

/// An envelope of two, of which neither has what the other one has: one that is encoded already, and the rest of it. A message that is
/// encoded in two parts is one (Protocol Buffers, "Encoding", "Last One Wins").
pub(crate) fn joined(mut encoded: Vec<u8>, rest: &pb::Envelope) -> Bytes {
    rest.encode(&mut encoded).expect("a vector has room for everything");
    Bytes::from(encoded)
}

/// The envelope in `encoded`.
///
/// # Errors
/// It is none.
pub(crate) fn decoded(encoded: &[u8]) -> Result<pb::Envelope, Error> {
    pb::Envelope::decode(encoded).map_err(|error| Error::new("record", format_args!("{error}"), "an Envelope"))
}

fn to_body(body: &Body) -> pb::envelope::Body {
    use pb::envelope::Body as W;
    match body {
        Body::NodeHealth(health) => W::NodeHealth(super::to_node_health(health)),
        Body::Intent(Intent::Isolation(isolation)) => W::NodeIsolation(super::to_node_isolation(isolation)),
        Body::Intent(Intent::NodeEviction(eviction)) => W::NodeEviction(super::to_node_eviction(eviction)),
        Body::Intent(Intent::Pod(eviction)) => W::PodEviction(super::to_pod_eviction(eviction)),
        Body::Outcome(Outcome::Zone(status)) => W::ZoneStatus(super::to_zone_status(status)),
        Body::Outcome(Outcome::Node(outcome)) => W::NodeOutcome(super::to_node_outcome(outcome)),
        Body::Outcome(Outcome::Pod(outcome)) => W::PodOutcome(super::to_pod_outcome(outcome)),
        Body::DaemonSetSync(sync) => W::DaemonSetSync(super::to_daemon_set_sync(sync)),
    }
}

/// The wire form of a shard's state.
pub fn to_shard_status(status: &ShardStatus) -> pb::ShardStatus {
    pb::ShardStatus {
        topic: status.topic.to_string(),
        shard: status.shard,
        shard_count: status.shard_count,
        epoch: status.epoch,
        complete: status.complete,
        live: status.live,
        lag: Some(scalar::to_duration(status.lag)),
        producer: status.producer.clone(),
        detail: scalar::to_sentence(&status.detail),
    }
}
