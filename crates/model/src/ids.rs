//! Names and uids as types, so that they cannot be mixed up. Cloning one copies some bytes.

use std::fmt;
use std::sync::Arc;

use crate::uid::Uid;
use crate::version::ResourceVersion;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// True if the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self(Arc::from(""))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

identity!(
    /// `metadata.name` of a Node.
    NodeName
);
identity!(
    /// `metadata.namespace` of a namespaced object.
    Namespace
);
identity!(
    /// `metadata.name` of a Pod.
    PodName
);
identity!(
    /// One memory of a bus: a bus that lost its memory has another.
    Incarnation
);

/// [`Uid`]s of one kind of object.
macro_rules! uid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uid);

        impl $name {
            /// True if the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// The same as that of an object of any kind.
            pub fn as_uid(&self) -> &Uid {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Uid::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

uid!(
    /// `metadata.uid` of a Node: one incarnation of it.
    NodeUid
);
uid!(
    /// `metadata.uid` of a Pod: one incarnation of it.
    PodUid
);

/// One incarnation of a Node, as it was when something was decided about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: NodeUid,
    /// `metadata.resourceVersion`, or empty where no read stands behind the reference.
    pub resource_version: ResourceVersion,
}

/// One incarnation of a Pod, as it was when something was decided about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: PodUid,
    /// `metadata.resourceVersion`, or empty.
    pub resource_version: ResourceVersion,
    /// The pod carried condition `DisruptionTarget=True`.
    pub disruption_target: bool,
    /// `metadata.generation`, for `observedGeneration` of conditions (TE-072); 0 where it is not known.
    pub generation: i64,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
