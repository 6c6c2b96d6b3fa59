//! In which order nodes get a new revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::NodeName;
use bailiff_model::names::{is_label_value, is_qualified_name};

use crate::facts::Node;

/// Most digits of a value that is ordered as a number: what surely fits.
const DIGITS: usize = 18;

/// An order of nodes by one of their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    key: String,
    /// Values that come first, with their place.
    listed: BTreeMap<String, u32>,
}

/// A node's place by its label; ties go by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// One of the values listed; of all nodes if there is no order.
    Listed(u32),
    /// A number.
    Number(u64),
    /// Some other value.
    Text(Arc<str>),
    /// The node has no such label, or does not exist.
    Last,
}

impl Default for Rank {
    fn default() -> Self {
        Self::Listed(0)
    }
}

/// A node in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) rank: Rank,
    pub(crate) node: NodeName,
}

impl Order {
    /// Reads `<label key>` or `<label key>=<value>,<value>…`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (key, values) = match text.split_once('=') {
            Some((key, values)) => (key, Some(values)),
            None => (text, None),
        };
        if !is_qualified_name(key) {
            return None;
        }
        let mut listed = BTreeMap::new();
        for (place, value) in (0..).zip(values.into_iter().flat_map(|values| values.split(','))) {
            if value.is_empty() || !is_label_value(value) || listed.insert(value.to_owned(), place).is_some() {
                return None;
            }
        }
        let key = key.to_owned();
        Some(Self { key, listed })
    }

    /// The rank of a node; `None` if it does not exist.
    pub(crate) fn rank(&self, node: Option<&Node>) -> Rank {
        let Some(value) = node.and_then(|node| node.labels.get(&self.key).cloned()) else {
            return Rank::Last;
        };
        if let Some(place) = self.listed.get(&*value) {
            return Rank::Listed(*place);
        }
        let is_number = value.len() <= DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
        match value.parse() {
            Ok(number) if is_number => Rank::Number(number),
            _ => Rank::Text(value),
        }
    }
}
