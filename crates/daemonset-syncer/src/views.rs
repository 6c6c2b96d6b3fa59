//! The core's facts as views of watched objects.
//!
//! Nodes and pods are read from either encoding. DaemonSets are read from JSON only: their template is kept as it came, fields that
//! nobody here knows included. Of revisions the bytes matter: JSON shows them compacted and escaped anew, so that foreign bytes look
//! like our own. Protobuf shows them as they are kept (DS-206, DS-207).

use bailiff_cluster::decode::{METADATA, PROTOBUF};
use bailiff_cluster::protobuf::{ObjectMeta, RawExtension};
use bailiff_cluster::scan::{self, schema};
use bailiff_cluster::views::{CompactString, Meta};
use bailiff_cluster::{Decode, DecodeError, Encoded, View};
use bailiff_daemonset_core::{DaemonSet, Node, Pod, Revision};
use prost::Message;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Facts, with the metadata that a watch asks for.
#[derive(Debug)]
pub(crate) struct Viewed<T> {
    meta: Meta,
    pub(crate) facts: T,
}

/// Facts that know what object they are of.
pub(crate) trait Identified {
    /// The table of their message, if they are read from protobuf.
    const MESSAGE: Option<&'static scan::Message> = None;

    fn meta(&self) -> Meta;
}

impl<'de, T: Deserialize<'de> + Identified> Deserialize<'de> for Viewed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let facts = T::deserialize(deserializer)?;
        Ok(Self {
            meta: facts.meta(),
            facts,
        })
    }
}

impl<T: DeserializeOwned + Identified> Decode for Viewed<T> {
    const MESSAGE: Option<&'static scan::Message> = T::MESSAGE;
}

impl<T: DeserializeOwned + Identified + Send + 'static> View for Viewed<T> {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Identified for Node {
    const MESSAGE: Option<&'static scan::Message> = Some(&schema::NODE);

    fn meta(&self) -> Meta {
        Meta {
            name: self.name.as_str().into(),
            ..Meta::default()
        }
    }
}

impl Identified for Pod {
    const MESSAGE: Option<&'static scan::Message> = Some(&schema::POD);

    fn meta(&self) -> Meta {
        Meta {
            name: self.name.as_str().into(),
            namespace: self.namespace.as_str().into(),
            ..Meta::default()
        }
    }
}

impl Identified for DaemonSet {
    fn meta(&self) -> Meta {
        Meta {
            name: (*self.name).into(),
            namespace: self.namespace.as_str().into(),
            resource_version: self.version.to_string().into(),
            ..Meta::default()
        }
    }
}

/// A revision with its bytes.
#[derive(Debug)]
pub(crate) struct Kept {
    meta: Meta,
    pub(crate) facts: Revision,
}

/// `apps.v1.ControllerRevision`
#[derive(Clone, PartialEq, Message)]
struct ControllerRevision {
    #[prost(message, required, tag = "1")]
    metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    data: RawExtension,
    #[prost(int64, tag = "3")]
    revision: i64,
}

impl ControllerRevision {
    /// The revision of the same object in JSON, with the bytes of its data as they are.
    fn facts(&self) -> Result<Revision, DecodeError> {
        #[derive(Serialize)]
        struct Object<'a> {
            metadata: serde_json::Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            data: Option<&'a RawValue>,
            revision: i64,
        }
        let data = &self.data.raw;
        let data = (!data.is_empty()).then(|| serde_json::from_slice(data)).transpose()?;
        let object = Object {
            metadata: self.metadata.to_json(),
            data,
            revision: self.revision,
        };
        Ok(serde_json::from_str(&serde_json::to_string(&object)?)?)
    }
}

/// What was created: its metadata, of whichever form the answer is.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Created {
    pub(crate) metadata: Known,
}

/// What an object is known by: an answer without it is none.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Known {
    pub(crate) name: CompactString,
    pub(crate) uid: String,
}

impl Decode for Created {
    /// `meta.v1.PartialObjectMetadata` has its metadata where a Pod has it.
    const MESSAGE: Option<&'static scan::Message> = Some(&schema::POD);
    const ACCEPT: &'static str = METADATA;
}

impl Decode for Kept {
    const ACCEPT: &'static str = PROTOBUF;

    fn decode(encoded: &Encoded<'_>) -> Result<Self, DecodeError> {
        let facts: Revision = match encoded {
            Encoded::Json(text) => serde_json::from_str(text)?,
            Encoded::Protobuf(message) => ControllerRevision::decode(message.clone())?.facts()?,
        };
        Ok(Self::of(facts))
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Revision::deserialize(deserializer).map(Self::of)
    }
}

impl Kept {
    fn of(facts: Revision) -> Self {
        let meta = Meta {
            name: (*facts.name).into(),
            namespace: facts.namespace.as_str().into(),
            resource_version: facts.version.to_string().into(),
            ..Meta::default()
        };
        Self { meta, facts }
    }
}

impl View for Kept {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;
    use bailiff_runtime::{Clock, Seed};
    use bailiff_sandbox::{Config, Sandbox, protobuf};
    use serde_json::json;

    use super::*;

    fn mk(data: &'static [u8]) -> ControllerRevision {
        ControllerRevision {
            metadata: ObjectMeta::default(),
            data: RawExtension { raw: data.into() },
            revision: 3,
        }
    }

    /// The same is read of the metadata alone and of a whole pod, which a server answers that knows no other form.
    #[test]
    fn what_was_created_is_known_by_its_name_and_uid() {
        let metadata = json!({"name": "d-1", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generateName": "d-"});
        let partial = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}});
        let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"});
        let wanted = Created {
            metadata: Known {
                name: "d-1".into(),
                uid: "u".to_owned(),
            },
        };
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let kinds = Sandbox::new(Config::default(), clock, &Seed::new(1)).kinds();
        for (object, wanted) in [(&partial, Some(&wanted)), (&pod, Some(&wanted)), (&status, None)] {
            let protobuf = protobuf::document(object, &kinds).expect("it has a form in protobuf");
            for answer in [protobuf, object.to_string().into_bytes()] {
                let answer = answer.into();
                let read = Encoded::of_answer(&answer).and_then(|answer| Created::decode(&answer));
                assert_eq!(read.ok().as_ref(), wanted, "{object}");
            }
        }
    }

    /// DS-022, DS-070: a pod is the same in both encodings, whoever controls it.
    #[test]
    fn a_pod_is_the_same_in_both_encodings() {
        let pod = |owners: serde_json::Value| {
            let object = serde_json::json!({
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"},
                    "annotations": {"a": "b"}, "ownerReferences": owners},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Failed"},
            });
            let json = Viewed::<Pod>::decode(&Encoded::Json(&object.to_string()))
                .expect("a pod")
                .facts;
            let message = bailiff_sandbox::protobuf::message(&object, schema::POD.name);
            let protobuf = Viewed::<Pod>::decode(&Encoded::Protobuf(message.into())).expect("a pod");
            assert_eq!(protobuf.facts, json);
            json
        };
        let owner = |kind: &str| serde_json::json!([{"kind": kind, "name": "o", "uid": "v", "controller": true}]);
        for ours in [pod(serde_json::json!([])), pod(owner("DaemonSet"))] {
            assert!(ours.bound && ours.is_terminal() && ours.target == Some("n1".into()));
        }
        let other = pod(owner("ReplicaSet"));
        assert!(!other.bound && other.controller == bailiff_daemonset_core::facts::Controller::Other);
    }

    /// DS-206, DS-207, DS-208
    #[test]
    fn the_bytes_of_a_revision_are_those_that_are_kept() {
        for data in [r#"{"a":1}"#, r#"{ "b" : "<", "a": "\u003c" }"#, "{\n\t\"a\": 1.0}"] {
            let object = mk(data.as_bytes());
            // An object without a name is malformed; a name in the envelope's numbers is field 1 of field 1.
            assert!(Kept::decode(&Encoded::Protobuf(object.encode_to_vec().into())).is_err());
            let mut named = b"\x0a\x03\x0a\x01r".to_vec();
            named.extend(object.encode_to_vec());
            let kept = Kept::decode(&Encoded::Protobuf(named.into())).expect("a revision");
            assert_eq!((&*kept.facts.name, kept.facts.number), ("r", 3));
            assert_eq!(&*kept.facts.data, data.as_bytes());
        }
        let mut broken = b"\x0a\x03\x0a\x01r".to_vec();
        broken.extend(mk(b"{").encode_to_vec());
        assert!(Kept::decode(&Encoded::Protobuf(broken.into())).is_err());
    }

    #[test]
    fn a_server_that_answers_json_is_understood() {
        let text = r#"{"metadata":{"name":"r","resourceVersion":"7"},"data":{"a":1},"revision":2}"#;
        let kept = Kept::decode(&Encoded::Json(text)).expect("a revision");
        assert_eq!((&*kept.meta.resource_version, kept.facts.number), ("7", 2));
    }
}
