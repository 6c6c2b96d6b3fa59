//! One request of the core to the API server, and its answer in the core's terms.

use std::sync::Arc;

use bailiff_cluster::{Api, Decode, Encoded, Error, Kind, Patch, Precondition};
use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::wire::{Call, Wanted};
use bailiff_daemonset_core::{Answer, DaemonSet, Failure, FailureKind, Pod, Request};
use serde::de::IgnoredAny;

use crate::views::{Created, Kept, Viewed};

/// Sends a request and waits for its answer; the API's deadline bounds it.
pub(crate) async fn perform(api: Api, owner: Arc<Owner>, request: Request) -> Answer {
    let call = match request.call(&owner) {
        Ok(call) => call,
        Err(error) => {
            return Answer::Failed(Failure {
                kind: FailureKind::Invalid,
                message: error.to_string(),
                retry_after: None,
            });
        }
    };
    let answer = match request.wanted() {
        Wanted::Nothing => exchange::<IgnoredAny>(&api, call).await.map(|_| Answer::Done),
        Wanted::Created => exchange::<Created>(&api, call)
            .await
            .map(|Created { metadata }| Answer::Created {
                name: metadata.name.as_str().into(),
                uid: metadata.uid.into(),
            }),
        Wanted::Pod => exchange::<Viewed<Pod>>(&api, call)
            .await
            .map(|pod| Answer::Pod(Box::new(pod.facts))),
        Wanted::Revision => exchange::<Kept>(&api, call)
            .await
            .map(|revision| Answer::Revision(Box::new(revision.facts))),
        Wanted::DaemonSet => exchange::<Viewed<DaemonSet>>(&api, call)
            .await
            .map(|ds| Answer::DaemonSet(Box::new(ds.facts))),
    };
    answer.unwrap_or_else(|error| Answer::Failed(failure(error)))
}

async fn exchange<T: Decode>(api: &Api, call: Call) -> Result<T, Error> {
    match call {
        Call::Get { path } => api.get(&path).await,
        Call::Create { path, body } => api.create_text(&path, body).await,
        Call::Strategic { path, body } => api.patch(&path, &Patch::Strategic(body)).await,
        Call::Merge { path, body } => api.patch(&path, &Patch::Merge(body)).await,
        Call::Delete { path, uid } => {
            let precondition = Precondition {
                uid: Some(uid),
                ..Precondition::default()
            };
            api.delete(&path, &precondition).await?;
            // Whatever was answered to a delete is of no interest; null stands for it.
            T::decode(&Encoded::Json("null")).map_err(|error| Error::new(Kind::Unavailable, error.to_string()))
        }
    }
}

fn failure(error: Error) -> Failure {
    let kind = match error.kind {
        Kind::NotFound => FailureKind::NotFound,
        Kind::AlreadyExists => FailureKind::AlreadyExists,
        Kind::Conflict => FailureKind::Conflict,
        Kind::Invalid => FailureKind::Invalid,
        Kind::NamespaceTerminating => FailureKind::NamespaceTerminating,
        // No server was found: nobody can have done it.
        Kind::Timeout | Kind::Unavailable if error.is_unconnected => FailureKind::NotSent,
        Kind::Timeout | Kind::Unavailable => FailureKind::Unknown,
        Kind::NotLeading | Kind::NotSent | Kind::Observing => FailureKind::NotSent,
        Kind::CalledOff => FailureKind::CalledOff,
        Kind::Expired | Kind::Forbidden | Kind::TooManyRequests => FailureKind::Other,
    };
    Failure {
        kind,
        message: error.message,
        retry_after: error.retry_after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_server_was_done_by_nobody() {
        for kind in [Kind::Timeout, Kind::Unavailable] {
            for (is_unconnected, wanted) in [(false, FailureKind::Unknown), (true, FailureKind::NotSent)] {
                let error = Error {
                    is_unconnected,
                    ..Error::new(kind, "")
                };
                assert_eq!(failure(error).kind, wanted, "{kind:?}");
            }
        }
    }
}
