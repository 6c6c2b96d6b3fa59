//! Questions and the break-glass: GetHistory, GetStatus, ResetEpoch.

use std::collections::BTreeSet;

use bailiff_proto::v1 as pb;
use tonic::Status;

use super::hub::{Hub, unexpected};
use crate::engine::{Answer, Command};
use crate::wire::envelope;

pub(super) fn history(hub: &Hub, request: &pb::GetHistoryRequest) -> Result<pb::GetHistoryResponse, Status> {
    let topic = envelope::topic("topic", &request.topic).map_err(|error| hub.refuse_invalid(&error))?;
    let key = envelope::key(topic, &request.key).map_err(|error| hub.refuse_invalid(&error))?;
    let now = hub.now().mono;
    let (records, incarnation) = hub.read(|engine| (engine.history(topic, &key), engine.incarnation().to_owned()));
    Ok(pb::GetHistoryResponse {
        records: records.iter().map(|record| envelope::to_envelope(record, now)).collect(),
        incarnation,
    })
}

pub(super) fn status(hub: &Hub) -> pb::GetStatusResponse {
    let now = hub.now();
    let (mut response, figures) = hub.read(|engine| {
        let response = pb::GetStatusResponse {
            incarnation: engine.incarnation().to_owned(),
            revision: engine.head().0,
            oldest_resumable_revision: engine.oldest_resumable().0,
            topics: Vec::new(),
        };
        let figures = engine.figures().into_iter().map(|figures| {
            let shards = engine.shards(&BTreeSet::from([figures.topic]), now);
            (figures, shards)
        });
        (response, figures.collect::<Vec<_>>())
    });
    for (figures, shards) in figures {
        response.topics.push(pb::TopicStatus {
            topic: figures.topic.to_string(),
            keys: figures.keys as u64,
            tombstones: figures.tombstones as u64,
            subscribers: u32::try_from(hub.subscribers_of(figures.topic)).unwrap_or(u32::MAX),
            shards: shards.iter().map(envelope::to_shard_status).collect(),
        });
    }
    response
}

pub(super) async fn reset_epoch(hub: &Hub, request: pb::ResetEpochRequest) -> Result<pb::ResetEpochResponse, Status> {
    let topic = envelope::topic("topic", &request.topic).map_err(|error| hub.refuse_invalid(&error))?;
    let shard = request.shard;
    match hub.call(Command::ResetEpoch { topic, shard }).await? {
        Answer::EpochReset { previous } => {
            tracing::warn!(%topic, shard, previous, "Epoch was reset by request");
            Ok(pb::ResetEpochResponse {
                previous_epoch: previous,
            })
        }
        answer => Err(unexpected(&answer)),
    }
}
