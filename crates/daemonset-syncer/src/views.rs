//! The core's facts as views of watched objects.

use bailiff_cluster::View;
use bailiff_cluster::views::Meta;
use bailiff_daemonset_core::{DaemonSet, Node, Pod, Revision};
use serde::{Deserialize, Deserializer};

/// Facts, with the metadata that a watch asks for.
#[derive(Debug)]
pub(crate) struct Viewed<T> {
    meta: Meta,
    pub(crate) facts: T,
}

/// Facts that know what object they are of.
pub(crate) trait Identified {
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

impl<T: serde::de::DeserializeOwned + Identified + Send + 'static> View for Viewed<T> {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

impl Identified for Node {
    fn meta(&self) -> Meta {
        Meta {
            name: self.name.to_string(),
            uid: self.uid.to_string(),
            ..Meta::default()
        }
    }
}

impl Identified for Pod {
    fn meta(&self) -> Meta {
        Meta {
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            uid: self.uid.to_string(),
            ..Meta::default()
        }
    }
}

impl Identified for DaemonSet {
    fn meta(&self) -> Meta {
        Meta {
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            uid: self.uid.to_string(),
            ..Meta::default()
        }
    }
}

impl Identified for Revision {
    fn meta(&self) -> Meta {
        Meta {
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            uid: self.uid.to_string(),
            ..Meta::default()
        }
    }
}
