//! Who may do what on the bus.
//!
//! A role is what a caller's certificate says it is ([`bailiff_runtime::tls::Identity`]); a table says which topics each role may
//! publish to, subscribe to, read, and reset. The decision is a pure function of the three. Where it is asked, and what a refusal
//! looks like to the caller, is the server's business; who a caller is, TLS's.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bailiff_model::Topic;

pub use file::Error;

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Open a session on a topic.
    Publish,
    /// Follow a topic.
    Subscribe,
    /// Ask for a key's history, and for the state of a topic.
    Read,
    /// Set a shard's epoch back.
    Reset,
}

/// Topics for each action.
type Grants = BTreeMap<Action, BTreeSet<Topic>>;

/// The table: what each role may do. A role that is not in it may do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    grants: BTreeMap<String, Grants>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not {action} {topic}: {allowed}")]
pub struct Denied {
    /// The role, or why there is none.
    pub who: String,
    /// What it wanted.
    pub action: Action,
    /// Of which topic.
    pub topic: Topic,
    /// What it may do.
    pub allowed: String,
}

// === impl Action ===

bailiff_model::words! {
    /// Its name, as in the file of roles.
    Action {
        Publish => "publish",
        Subscribe => "subscribe",
        Read => "read",
        Reset => "reset",
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Roles ===

impl Default for Roles {
    /// Each stage publishes its own topic, and reads that and what the stages before it publish; `viewer` reads everything, and
    /// `operator` may also reset epochs.
    fn default() -> Self {
        use Topic::{DaemonRollouts, EvictionIntents, EvictionOutcomes, NodeHealth};
        let stage = |own, reads: &[Topic]| grants(&[own], reads, &[]);
        let roles = [
            ("node-health-monitor", stage(NodeHealth, &[NodeHealth])),
            ("taint-manager", stage(EvictionIntents, &[NodeHealth, EvictionIntents])),
            (
                "zone-evictor",
                stage(EvictionOutcomes, &[NodeHealth, EvictionIntents, EvictionOutcomes]),
            ),
            (
                "daemonset-syncer",
                stage(DaemonRollouts, &[NodeHealth, EvictionOutcomes, DaemonRollouts]),
            ),
            ("viewer", grants(&[], &Topic::ALL, &[])),
            ("operator", grants(&[], &Topic::ALL, &Topic::ALL)),
        ];
        Self {
            grants: roles.map(|(role, grants)| (role.to_owned(), grants)).into(),
        }
    }
}

fn grants(publish: &[Topic], reads: &[Topic], reset: &[Topic]) -> Grants {
    let set = |topics: &[Topic]| topics.iter().copied().collect();
    [
        (Action::Publish, set(publish)),
        (Action::Subscribe, set(reads)),
        (Action::Read, set(reads)),
        (Action::Reset, set(reset)),
    ]
    .into()
}

impl Roles {
    /// The names of the roles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.grants.keys().map(String::as_str)
    }

    /// Whether `role` may do `action` to `topic`.
    ///
    /// # Errors
    /// It may not.
    pub fn decide(&self, role: &str, action: Action, topic: Topic) -> Result<(), Denied> {
        let grants = self.grants.get(role);
        if grants.is_some_and(|grants| grants.get(&action).is_some_and(|topics| topics.contains(&topic))) {
            return Ok(());
        }
        let allowed = match grants {
            None => "there is no such role here".to_owned(),
            Some(grants) => describe(grants),
        };
        Err(Denied {
            who: format!("role '{role}'"),
            action,
            topic,
            allowed,
        })
    }
}

fn describe(grants: &Grants) -> String {
    let list = |topics: &BTreeSet<Topic>| topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>().join(", ");
    let filled = grants.iter().filter(|(_, topics)| !topics.is_empty());
    let parts: Vec<String> = filled.map(|(action, topics)| format!("{action} {}", list(topics))).collect();
    if parts.is_empty() {
        "it may do nothing".to_owned()
    } else {
        format!("allowed is {}", parts.join("; "))
    }
}
