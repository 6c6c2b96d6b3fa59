//! Questions and the break-glass: GetHistory, GetStatus, ResetEpoch.

use std::collections::BTreeSet;

use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use tonic::Status;

use super::gate::Caller;
use super::hub::{Hub, unexpected};
use crate::access::Action;
use crate::engine::{Answer, Command};
use crate::wire::envelope;

pub(super) fn history(hub: &Hub, caller: &Caller, request: &pb::GetHistoryRequest) -> Result<pb::GetHistoryResponse, Status> {
    let topic = envelope::topic("topic", &request.topic).map_err(|error| hub.refuse_invalid(&error))?;
    caller.check(&hub.metrics, Action::Read, topic)?;
    envelope::check_key(topic, &request.key).map_err(|error| hub.refuse_invalid(&error))?;
    let now = hub.time()?.mono;
    let (records, incarnation) = hub.read(|engine| (engine.history(topic, &request.key), engine.incarnation().to_owned()))?;
    Ok(pb::GetHistoryResponse {
        records: records.iter().map(|record| record.to_envelope(now)).collect(),
        incarnation,
    })
}

/// Of the topics that the caller may read; a caller that may read none is refused.
pub(super) fn status(hub: &Hub, caller: &Caller) -> Result<pb::GetStatusResponse, Status> {
    let mut readable = BTreeSet::new();
    let mut refusal = None;
    for topic in Topic::ALL {
        match caller.may(Action::Read, topic) {
            Ok(()) => drop(readable.insert(topic)),
            Err(denied) => refusal = Some(denied),
        }
    }
    match refusal {
        Some(denied) if readable.is_empty() => Err(caller.refuse(&hub.metrics, &denied)),
        _ => status_of(hub, &readable),
    }
}

fn status_of(hub: &Hub, topics: &BTreeSet<Topic>) -> Result<pb::GetStatusResponse, Status> {
    let now = hub.now();
    let (mut response, figures) = hub.read(|engine| {
        let response = pb::GetStatusResponse {
            incarnation: engine.incarnation().to_owned(),
            revision: engine.head().0,
            oldest_resumable_revision: engine.oldest_resumable().0,
            topics: Vec::new(),
        };
        let figures = engine
            .figures()
            .into_iter()
            .filter(|figures| topics.contains(&figures.topic))
            .map(|figures| {
                let shards = engine.shards(&BTreeSet::from([figures.topic]), now);
                (figures, shards)
            });
        (response, figures.collect::<Vec<_>>())
    })?;
    for (figures, shards) in figures {
        response.topics.push(pb::TopicStatus {
            topic: figures.topic.to_string(),
            keys: figures.keys as u64,
            tombstones: figures.tombstones as u64,
            subscribers: u32::try_from(hub.subscribers_of(figures.topic)).unwrap_or(u32::MAX),
            shards: shards.iter().map(envelope::to_shard_status).collect(),
        });
    }
    Ok(response)
}

pub(super) async fn reset_epoch(
    hub: &Hub,
    caller: &Caller,
    request: pb::ResetEpochRequest,
) -> Result<pb::ResetEpochResponse, Status> {
    let topic = envelope::topic("topic", &request.topic).map_err(|error| hub.refuse_invalid(&error))?;
    caller.check(&hub.metrics, Action::Reset, topic)?;
    let shard = request.shard;
    match hub.call(Command::ResetEpoch { topic, shard }).await? {
        Answer::EpochReset { previous } => {
            let (identity, address) = (caller.identity(), caller.address());
            tracing::warn!(target: "audit", %topic, shard, previous, identity, address, "Epoch was reset by request");
            Ok(pb::ResetEpochResponse {
                previous_epoch: previous,
            })
        }
        answer => Err(unexpected(&answer)),
    }
}
