//! The HTTP form of requests: path, method, body. Every write carries the uid as its precondition.

use bailiff_model::rollout::Counts;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::effect::{ConditionChange, Owner, Request, RevisionChange, RevisionDraft};
use crate::facts::{CONDITION_COMPLETE, LABEL_HASH};

/// What to send.
#[derive(Clone, Debug)]
pub enum Call {
    /// GET.
    Get {
        /// Path of the object.
        path: String,
    },
    /// POST of raw JSON.
    Create {
        /// Path of the collection.
        path: String,
        /// The object, byte for byte.
        body: String,
    },
    /// PATCH, `application/strategic-merge-patch+json`.
    Strategic {
        /// Path of the object.
        path: String,
        /// The patch.
        body: Value,
    },
    /// PATCH, `application/merge-patch+json`.
    Merge {
        /// Path of the object.
        path: String,
        /// The patch.
        body: Value,
    },
    /// DELETE with a precondition.
    Delete {
        /// Path of the object.
        path: String,
        /// The object must have this uid.
        uid: String,
    },
}

/// A body that is no JSON: the bytes of a revision's data were none.
#[derive(Debug, thiserror::Error)]
#[error("body is not JSON")]
pub struct Error(#[from] serde_json::Error);

impl Request {
    /// Its HTTP form, on behalf of `owner`.
    pub fn call(&self, owner: &Owner) -> Result<Call, Error> {
        let namespace = owner.namespace.as_str();
        let pod = |name: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let revisions = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions");
        let daemonset = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{}", owner.name);
        Ok(match self {
            Self::CreatePod { blueprint, name, node } => Call::Create {
                path: format!("/api/v1/namespaces/{namespace}/pods"),
                body: blueprint.render(name.as_str(), node.as_str()),
            },
            Self::DeletePod { name, uid } => Call::Delete {
                path: pod(name.as_str()),
                uid: uid.to_string(),
            },
            Self::AdoptPod { name, uid } => Call::Strategic {
                path: pod(name.as_str()),
                body: adopt(owner, &uid.to_string()),
            },
            Self::ReleasePod { name, uid } => Call::Strategic {
                path: pod(name.as_str()),
                body: release(owner, &uid.to_string()),
            },
            Self::RelabelPod { name, uid, hash } => Call::Merge {
                path: pod(name.as_str()),
                body: json!({"metadata": {"uid": uid.to_string(), "labels": {LABEL_HASH: &**hash}}}),
            },
            Self::ReadDaemonSet => Call::Get { path: daemonset },
            Self::CreateRevision(draft) => Call::Create {
                path: revisions,
                body: create_revision(owner, draft)?,
            },
            Self::ReadRevision { name } => Call::Get {
                path: format!("{revisions}/{name}"),
            },
            Self::ChangeRevision { name, uid, change } => change_revision(owner, format!("{revisions}/{name}"), uid, change),
            Self::DeleteRevision { name, uid } => Call::Delete {
                path: format!("{revisions}/{name}"),
                uid: uid.to_string(),
            },
            Self::WriteStatus {
                counts,
                observed_generation,
                condition,
            } => {
                let body = status(owner, counts, *observed_generation);
                write_status(format!("{daemonset}/status"), body, condition.as_ref())
            }
            Self::RaiseCollisionCount { version, to } => Call::Merge {
                path: format!("{daemonset}/status"),
                body: json!({
                    "metadata": {"uid": &*owner.uid, "resourceVersion": version.to_string()},
                    "status": {"collisionCount": to},
                }),
            },
        })
    }

    /// The kind of answer that is wanted.
    pub fn wanted(&self) -> Wanted {
        match self {
            Self::DeletePod { .. } | Self::DeleteRevision { .. } => Wanted::Nothing,
            Self::CreatePod { .. } => Wanted::Created,
            Self::AdoptPod { .. } | Self::ReleasePod { .. } | Self::RelabelPod { .. } => Wanted::Pod,
            Self::CreateRevision(_) | Self::ReadRevision { .. } | Self::ChangeRevision { .. } => Wanted::Revision,
            Self::ReadDaemonSet | Self::WriteStatus { .. } | Self::RaiseCollisionCount { .. } => Wanted::DaemonSet,
        }
    }
}

/// What a successful answer's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Of no interest.
    Nothing,
    /// What was created: name and uid of a Pod. What else it is the watch says.
    Created,
    /// A Pod.
    Pod,
    /// A ControllerRevision.
    Revision,
    /// A DaemonSet.
    DaemonSet,
}

/// DS-142
fn status(owner: &Owner, counts: &Counts, observed_generation: i64) -> Value {
    json!({"metadata": {"uid": &*owner.uid}, "status": {
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "desiredNumberScheduled": counts.desired,
        "numberReady": counts.ready,
        "observedGeneration": observed_generation,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.unavailable,
    }})
}

/// A condition is merged by its type, so that others stay (DS-144); without one upstream's fields are all there is.
fn write_status(path: String, mut body: Value, condition: Option<&ConditionChange>) -> Call {
    let Some(change) = condition else {
        return Call::Merge { path, body };
    };
    let condition = match change {
        ConditionChange::Set(condition) => json!({
            "type": CONDITION_COMPLETE,
            "status": if condition.complete { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": condition.since.map(|since| format!("{since:.0}")),
        }),
        ConditionChange::Remove => json!({"type": CONDITION_COMPLETE, "$patch": "delete"}),
    };
    body["status"]["conditions"] = json!([condition]);
    Call::Strategic { path, body }
}

/// DS-064
fn adopt(owner: &Owner, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [owner.reference()], "uid": uid}})
}

/// DS-065
fn release(owner: &Owner, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": &*owner.uid}], "uid": uid}})
}

/// DS-157. The data is copied byte for byte: what is stored is what was posted (DS-208).
fn create_revision(owner: &Owner, draft: &RevisionDraft) -> Result<String, Error> {
    let metadata = json!({
        "name": &draft.name,
        "namespace": owner.namespace.as_str(),
        "labels": draft.labels,
        "annotations": draft.annotations,
        "ownerReferences": [owner.reference()],
    });
    let data: &RawValue = serde_json::from_slice(&draft.data)?;
    Ok(format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"data":{},"revision":{}}}"#,
        data.get(),
        draft.number,
    ))
}

/// Patches leave `data` out, so that its bytes stay (DS-209).
fn change_revision(owner: &Owner, path: String, uid: &str, change: &RevisionChange) -> Call {
    match change {
        RevisionChange::Adopt => Call::Strategic {
            path,
            body: adopt(owner, uid),
        },
        RevisionChange::Release => Call::Strategic {
            path,
            body: release(owner, uid),
        },
        RevisionChange::Label(hash) => Call::Merge {
            path,
            body: json!({"metadata": {"uid": uid, "labels": {LABEL_HASH: &**hash}}}),
        },
        RevisionChange::Renumber(number) => Call::Merge {
            path,
            body: json!({"metadata": {"uid": uid}, "revision": number}),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bailiff_model::{Namespace, PodName, PodUid, ResourceVersion};

    use super::*;
    use crate::facts::Condition;

    fn mk_owner() -> Owner {
        Owner {
            namespace: Namespace::from("ns"),
            name: Arc::from("ds"),
            uid: Arc::from("u"),
        }
    }

    fn check(request: &Request, wanted: &str) {
        let text = match request.call(&mk_owner()).expect("a call") {
            Call::Get { path } => format!("GET {path}"),
            Call::Create { path, body } => format!("POST {path} {body}"),
            Call::Strategic { path, body } => format!("STRATEGIC {path} {body}"),
            Call::Merge { path, body } => format!("MERGE {path} {body}"),
            Call::Delete { path, uid } => format!("DELETE {path} {uid}"),
        };
        assert_eq!(text, wanted);
    }

    /// DS-064, DS-065, DS-069, DS-160, DS-229; upstream's TestGeneratePatchBytesForDelete
    #[test]
    fn pods_are_patched_and_deleted_by_uid() {
        let (name, uid) = (PodName::from("p"), PodUid::from("pu"));
        let (n, u) = (|| name.clone(), || uid.clone());
        check(
            &Request::AdoptPod { name: n(), uid: u() },
            r#"STRATEGIC /api/v1/namespaces/ns/pods/p {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"ds","uid":"u","controller":true,"blockOwnerDeletion":true}],"uid":"pu"}}"#,
        );
        check(
            &Request::ReleasePod { name: n(), uid: u() },
            r#"STRATEGIC /api/v1/namespaces/ns/pods/p {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"u"}],"uid":"pu"}}"#,
        );
        let hash = Arc::from("h");
        check(
            &Request::RelabelPod {
                name: n(),
                uid: u(),
                hash,
            },
            r#"MERGE /api/v1/namespaces/ns/pods/p {"metadata":{"uid":"pu","labels":{"controller-revision-hash":"h"}}}"#,
        );
        check(
            &Request::DeletePod { name: n(), uid: u() },
            "DELETE /api/v1/namespaces/ns/pods/p pu",
        );
    }

    /// DS-154, DS-155, DS-157, DS-207, DS-208, DS-209: what is posted is the canonical bytes, escapes and all.
    #[test]
    fn revisions_keep_their_bytes() {
        let draft = RevisionDraft {
            name: "ds-h".to_owned(),
            labels: json!({"a": "b"}),
            annotations: json!({"c": "d"}),
            number: 3,
            data: Arc::from(&br#"{"a":"\u003c","b":1.50}"#[..]),
        };
        check(
            &Request::CreateRevision(Arc::new(draft)),
            r#"POST /apis/apps/v1/namespaces/ns/controllerrevisions {"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"ds-h","namespace":"ns","labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"ds","uid":"u","controller":true,"blockOwnerDeletion":true}]},"data":{"a":"\u003c","b":1.50},"revision":3}"#,
        );
        let change = |change| Request::ChangeRevision {
            name: Arc::from("r"),
            uid: Arc::from("ru"),
            change,
        };
        check(
            &change(RevisionChange::Renumber(4)),
            r#"MERGE /apis/apps/v1/namespaces/ns/controllerrevisions/r {"metadata":{"uid":"ru"},"revision":4}"#,
        );
        check(
            &change(RevisionChange::Label(Arc::from("r"))),
            r#"MERGE /apis/apps/v1/namespaces/ns/controllerrevisions/r {"metadata":{"uid":"ru","labels":{"controller-revision-hash":"r"}}}"#,
        );
    }

    /// DS-144, DS-158, DS-238: conditions and collisionCount survive a status write, and a recreated DaemonSet gets none.
    #[test]
    fn status_writes_name_their_fields_and_the_uid() {
        let counts = Counts {
            desired: 1,
            ..Counts::default()
        };
        check(
            &Request::WriteStatus {
                counts,
                observed_generation: 2,
                condition: None,
            },
            r#"MERGE /apis/apps/v1/namespaces/ns/daemonsets/ds/status {"metadata":{"uid":"u"},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":1,"numberReady":0,"observedGeneration":2,"updatedNumberScheduled":0,"numberAvailable":0,"numberUnavailable":0}}"#,
        );
        let write = |change| Request::WriteStatus {
            counts: Counts::default(),
            observed_generation: 2,
            condition: Some(change),
        };
        let condition = Condition {
            complete: false,
            reason: "Image".to_owned(),
            message: "m".to_owned(),
            since: Some(bailiff_model::Wall::UNIX_EPOCH),
        };
        let begin = r#"STRATEGIC /apis/apps/v1/namespaces/ns/daemonsets/ds/status {"metadata":{"uid":"u"},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0,"observedGeneration":2,"updatedNumberScheduled":0,"numberAvailable":0,"numberUnavailable":0,"conditions":[{"type":"bailiff.dev/RolloutComplete","#;
        let set = r#""status":"False","reason":"Image","message":"m","lastTransitionTime":"1970-01-01T00:00:00Z"}]}}"#;
        check(&write(ConditionChange::Set(condition)), &format!("{begin}{set}"));
        check(
            &write(ConditionChange::Remove),
            &format!(r#"{begin}"$patch":"delete"}}]}}}}"#),
        );
        let version = ResourceVersion::from("9");
        check(
            &Request::RaiseCollisionCount { version, to: 1 },
            r#"MERGE /apis/apps/v1/namespaces/ns/daemonsets/ds/status {"metadata":{"uid":"u","resourceVersion":"9"},"status":{"collisionCount":1}}"#,
        );
    }
}
