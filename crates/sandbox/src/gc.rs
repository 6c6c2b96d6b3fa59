//! Removes what belongs to something that is gone.
//!
//! Three duties, each a state machine of its own: [`Owners`] follows ownerReferences (background, foreground and orphaning deletion),
//! [`Namespaces`] empties terminating namespaces, [`LostPods`] removes pods of nodes that were deleted. All work on the facts of a
//! change feed that is ordered over all resources, so that an owner is always seen before what it owns; cost follows change.
//!
//! Admission of `blockOwnerDeletion` and the marks of propagation policies (finalizers, deletionTimestamp) are the API server's.

mod lost_pods;
mod namespaces;
mod owners;

use std::sync::Arc;

use serde::Deserialize;

use crate::Object;
use crate::api::kinds::Kinds;
use crate::facts::Malformed;
use crate::facts::view::{Meta, OwnerReference};

pub use lost_pods::LostPods;
pub use namespaces::Namespaces;
pub use owners::Owners;

/// Finalizer of foreground deletion.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub const FINALIZER_ORPHAN: &str = "orphan";

/// A resource that can be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Name in the store: `pods`, `daemonsets.apps`.
    pub storage: Arc<str>,
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// API group, empty for the core.
    pub group: Arc<str>,
    /// Version that requests use.
    pub version: Arc<str>,
    /// Name in paths.
    pub plural: Arc<str>,
    /// Its objects live in namespaces.
    pub is_namespaced: bool,
}

/// The facts of an object that collection depends on.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// Uid.
    pub uid: Box<str>,
    /// Namespace, or empty.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// resourceVersion as a number.
    pub revision: u64,
    /// Owners.
    pub owners: Vec<OwnerReference>,
    /// Finalizers of the metadata.
    pub finalizers: Vec<String>,
    /// Deletion was asked for.
    pub is_terminating: bool,
}

// === impl Resource ===

impl Resource {
    /// The resources of all objects that are stored, each once: some are served in several groups.
    pub fn stored(kinds: &Kinds) -> Vec<Arc<Self>> {
        let mut stored: Vec<Arc<Self>> = Vec::new();
        for kind in kinds.iter().filter(|kind| !kind.virtual_) {
            if !stored.iter().any(|known| *known.storage == *kind.storage) {
                stored.push(Arc::new(Self {
                    storage: kind.storage.as_str().into(),
                    kind: kind.kind.as_str().into(),
                    group: kind.group.as_str().into(),
                    version: kind.version.as_str().into(),
                    plural: kind.resource.as_str().into(),
                    is_namespaced: kind.namespaced,
                }));
            }
        }
        stored
    }

    /// Path of its objects in a namespace, which is empty for cluster-scoped ones.
    pub fn collection(&self, namespace: &str) -> String {
        let root = match &*self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            "" => format!("{root}/{}", self.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// Group and kind, as ownerReferences name them; versions do not matter.
    fn is_kind_of(&self, owner: &OwnerReference) -> bool {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        *self.kind == *owner.kind && *self.group == *group
    }
}

// === impl Item ===

impl Item {
    /// Reads a stored object of a resource.
    ///
    /// # Errors
    /// When its metadata does not have the shape of metadata.
    pub fn read(resource: &Arc<Resource>, object: &Object) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct View {
            metadata: Meta,
        }
        let View { metadata } = object.decode().map_err(|source| Malformed {
            kind: "metadata",
            name: format!("{}/{}", object.namespace(), object.name()),
            source,
        })?;
        Ok(Self {
            resource: Arc::clone(resource),
            uid: object.uid().into(),
            namespace: object.namespace().into(),
            name: object.name().into(),
            revision: object.revision(),
            owners: metadata.owner_references,
            finalizers: metadata.finalizers,
            is_terminating: metadata.deletion_timestamp.is_some(),
        })
    }

    /// Path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.resource.collection(&self.namespace), self.name)
    }

    /// Nothing changed that collection depends on: most writes are of this sort.
    fn is_same(&self, later: &Self) -> bool {
        self.owners == later.owners && self.finalizers == later.finalizers && self.is_terminating == later.is_terminating
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }

    /// It is going, and waits for its dependents to go first.
    fn waits_for_dependents(&self) -> bool {
        self.is_terminating && self.has_finalizer(FINALIZER_FOREGROUND)
    }

    /// It is going, and its dependents are to be let go.
    fn orphans_dependents(&self) -> bool {
        self.is_terminating && self.has_finalizer(FINALIZER_ORPHAN)
    }
}

#[cfg(test)]
mod tests;
