//! Labels of nodes, which most nodes have in common.

use std::sync::Arc;

use bailiff_model::{NodeName, Shared};

use super::Labels;

/// The one label that every node has a value of its own for: as a rule its name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// `metadata.labels` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabels {
    hostname: Option<Arc<str>>,
    /// All others: the same on many nodes.
    others: Arc<Labels>,
}

impl NodeLabels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        if key == HOSTNAME {
            self.hostname.as_ref()
        } else {
            self.others.get(key)
        }
    }

    /// The same, in the memory that other nodes and the node's name have.
    pub(crate) fn share(&mut self, with: &mut Shared<Labels>, name: &NodeName) {
        self.others = with.share(self.others.clone());
        if self.hostname.as_deref() == Some(name.as_str()) {
            self.hostname = Some(name.clone().into());
        }
    }
}

impl From<Labels> for NodeLabels {
    fn from(mut labels: Labels) -> Self {
        Self {
            hostname: labels.remove(HOSTNAME),
            others: Arc::new(labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_found_and_most_are_shared() {
        let mk = |name: &str| {
            let labels = [(HOSTNAME, name), ("zone", "a")];
            let labels = labels.map(|(key, value)| (Arc::from(key), Arc::from(value)));
            NodeLabels::from(Labels::from(labels))
        };
        let mut shared = Shared::default();
        let [one, other] = ["n1", "n2"].map(|name| {
            let mut labels = mk(name);
            labels.share(&mut shared, &NodeName::from(name));
            assert_eq!(labels, mk(name));
            labels
        });
        assert!(Arc::ptr_eq(&one.others, &other.others));
        let found = [HOSTNAME, "zone", "other"].map(|key| one.get(key).map(|value| &**value));
        assert_eq!(found, [Some("n1"), Some("a"), None]);
    }
}
