//! The resources that are served, and what is particular to each. Those built in never change; CustomResourceDefinitions add theirs.

use std::cmp::Reverse;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::scale::Paths;
use super::table::custom::Column;
use crate::rules::{self, Rules};
use crate::store::Fields;

mod built_in;

pub use built_in::SCALE;

/// One resource in one API version.
#[derive(Debug)]
pub struct Kind {
    /// API group, `""` for the core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Singular name.
    pub singular: String,
    /// Kind of its objects.
    pub kind: String,
    /// Its type in the schema, `""` for objects without one.
    pub schema: &'static str,
    /// Name of the table that holds its objects.
    pub storage: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Short names.
    pub short: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Subresources beside `status`, each with group/version/kind of what it takes.
    pub subresources: &'static [Sub],
    /// Whether it has the subresource `status`.
    pub status: bool,
    /// Whether objects are stored at all, or only answered.
    pub virtual_: bool,
    /// Whether collections can be deleted.
    pub delete_collection: bool,
    /// What is particular to it.
    pub rules: Particular,
    /// What is known of it if a CustomResourceDefinition brought it.
    pub custom: Option<Custom>,
}

/// The rules of a kind, wherever they are.
#[derive(Debug)]
pub enum Particular {
    /// In the program.
    BuiltIn(&'static dyn Rules),
    /// With the kind.
    Own(Box<dyn Rules + Send>),
}

/// What is known of a kind that a CustomResourceDefinition brought.
#[derive(Debug)]
pub struct Custom {
    /// Name of the definition.
    pub definition: String,
    /// Whether the definition is on its way out, and takes its objects with it.
    pub terminating: bool,
    /// What tables show after the name.
    pub columns: Vec<Column>,
    /// Where its scale is kept, if it has that subresource.
    pub scale: Option<Paths>,
}

/// A subresource.
#[derive(Debug)]
pub struct Sub {
    /// Its name.
    pub name: &'static str,
    /// Group, version and kind of what it takes, if not the resource's own.
    pub takes: (&'static str, &'static str, &'static str),
    /// Verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
}

/// All resources that are served at a time.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// In the order of discovery.
    order: Vec<Arc<Kind>>,
    /// By group, version and plural name.
    sorted: Vec<Arc<Kind>>,
}

/// Groups in the order that discovery lists them, which is the order kubectl prefers them in.
pub const GROUPS: [&str; 12] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
];

impl Kind {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The verbs that discovery lists.
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.custom.is_some() {
            &[
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ]
        } else if self.virtual_ {
            &["create"]
        } else if self.delete_collection {
            &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    /// What every answer about it warns of.
    pub fn deprecation(&self) -> Option<&'static str> {
        match (self.group.as_str(), self.kind.as_str()) {
            ("", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        }
    }

    /// What field selectors of its objects can ask for.
    pub fn fields(&self) -> fn(&Value) -> Fields {
        rules::fields_of(&self.storage)
    }

    fn place(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.resource)
    }
}

impl Deref for Particular {
    type Target = dyn Rules;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(rules) => *rules,
            Self::Own(rules) => &**rules,
        }
    }
}

impl Kinds {
    /// The built-in resources.
    pub fn built_in() -> Self {
        Self::of(built_in::kinds().map(Arc::new).collect())
    }

    fn of(order: Vec<Arc<Kind>>) -> Self {
        let mut sorted = order.clone();
        sorted.sort_by(|one, other| one.place().cmp(&other.place()));
        Self { order, sorted }
    }

    /// The same with these in place of what a CustomResourceDefinition brought before.
    #[must_use]
    pub fn with(&self, definition: &str, kinds: Vec<Kind>) -> Self {
        let is_older = |kind: &&Arc<Kind>| kind.custom.as_ref().is_none_or(|custom| custom.definition != definition);
        let others = self.order.iter().filter(is_older).cloned();
        Self::of(others.chain(kinds.into_iter().map(Arc::new)).collect())
    }

    /// The resource of this name.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Kind>> {
        let found = self
            .sorted
            .binary_search_by(|kind| kind.place().cmp(&(group, version, resource)));
        self.sorted.get(found.ok()?)
    }

    /// The kind of this name.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.order
            .iter()
            .find(|one| one.kind == kind && one.api_version() == api_version)
    }

    /// All of them, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.order.iter()
    }

    /// Whether the group and version exist.
    pub fn has(&self, group: &str, version: &str) -> bool {
        self.of_version(group, version).next().is_some()
    }

    /// The resources of a group and version.
    pub fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Kind>> {
        self.order
            .iter()
            .filter(move |kind| kind.group == group && kind.version == version)
    }

    /// The named groups, in the order of discovery: those built in, then others by name.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.sorted.iter().map(|kind| kind.group.as_str()).collect();
        groups.dedup();
        groups.retain(|group| !group.is_empty());
        groups.sort_by_key(|group| GROUPS.iter().position(|known| known == group).unwrap_or(GROUPS.len()));
        groups
    }

    /// The versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> Vec<&str> {
        let of_group = self.sorted.iter().filter(|kind| kind.group == group);
        let mut versions: Vec<&str> = of_group.map(|kind| kind.version.as_str()).collect();
        versions.dedup();
        versions.sort_by_key(|version| rank(version));
        versions
    }
}

/// Where a version stands among others: `v2`, `v1`, `v1beta1`, `v1alpha2`, then what is no version number.
fn rank(version: &str) -> (u8, Reverse<u64>, Reverse<u64>) {
    let last = (3, Reverse(0), Reverse(0));
    let Some(rest) = version.strip_prefix('v') else { return last };
    let (major, class, minor) = match rest.split_once("beta") {
        Some((major, minor)) => (major, 1, minor),
        None => match rest.split_once("alpha") {
            Some((major, minor)) => (major, 2, minor),
            None => (rest, 0, "1"),
        },
    };
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (class, Reverse(major), Reverse(minor)),
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_how_settled_they_are() {
        let mut versions = ["v1alpha1", "v1beta2", "v1", "v10", "foo", "v2", "v1beta10", "v3alpha1"];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v3alpha1", "v1alpha1", "foo"]
        );
    }
}
