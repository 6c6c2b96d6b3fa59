//! Ways into a table other than by name: by node, and as of an earlier revision.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::object::{Fields, Key, Object};
use super::table::{Event, Table};

/// The field that the index is by: every kubelet asks for the pods of its node.
pub const NODE: &str = "spec.nodeName";

/// The objects of a table by the node they are on.
#[derive(Debug, Default)]
pub struct Index(BTreeMap<Box<str>, BTreeMap<Key, Arc<Object>>>);

/// A table as it was: the present, but for what happened since.
///
/// What is there now leads back to what was there then by the events that made it, one by one, and only for what is asked for: a list of
/// many pages, while thousands of other objects change every second, costs what is on its pages.
#[derive(Debug)]
pub struct Past<'a> {
    table: &'a Table,
    revision: u64,
    /// What was there then and has been deleted since, whether it is there again or not.
    deleted: BTreeMap<&'a Key, &'a Arc<Object>>,
}

// === impl Index ===

impl Index {
    /// An index, if objects with these fields are on nodes.
    pub fn wanted(fields: fn(&Value) -> Fields) -> Option<Self> {
        let is_on_nodes = fields(&Value::Null).iter().any(|(field, _)| *field == NODE);
        is_on_nodes.then(Self::default)
    }

    /// The objects of a node.
    pub fn of<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        self.0.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// An object changed from one state to the next.
    pub fn change(&mut self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) {
        let node = |object: &Arc<Object>| object.field(NODE).unwrap_or_default().to_owned();
        let (left, entered) = (before.map(node), after.map(node));
        if let (Some(before), Some(left)) = (before, &left)
            && entered.as_ref() != Some(left)
            && let Some(objects) = self.0.get_mut(left.as_str())
        {
            objects.remove(before.key());
            if objects.is_empty() {
                self.0.remove(left.as_str());
            }
        }
        if let (Some(after), Some(entered)) = (after, entered) {
            let objects = self.0.entry(entered.into()).or_default();
            match objects.get_mut(after.key()) {
                Some(known) => known.clone_from(after),
                None => {
                    objects.insert(after.key().clone(), after.clone());
                }
            }
        }
    }
}

// === impl Past ===

impl<'a> Past<'a> {
    /// The table as of a revision that it remembers, and what was deleted since.
    pub fn new(table: &'a Table, revision: u64, deletions: impl Iterator<Item = &'a Arc<Event>>) -> Self {
        let deleted = deletions.filter_map(|event| Some((event.object.key(), table.before(event, revision)?)));
        Self {
            table,
            revision,
            deleted: deleted.collect(),
        }
    }

    /// The objects after a key, by namespace and name.
    pub fn beyond<'s>(&'s self, key: Option<&Key>) -> impl Iterator<Item = &'s Arc<Object>> + 's {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        let mut deleted = self
            .deleted
            .range::<Key, _>((start, Bound::Unbounded))
            .map(|(_, object)| *object)
            .peekable();
        let then = |object| self.table.then(object, self.revision);
        let mut present = self.table.beyond(key).filter_map(then).peekable();
        std::iter::from_fn(move || match (deleted.peek(), present.peek()) {
            (Some(one), Some(other)) if one.key() < other.key() => deleted.next(),
            (Some(_), None) => deleted.next(),
            _ => present.next(),
        })
    }
}
