//! What a watch of the API shows: when nodes were found silent and isolated, when pods came and went, who held which Lease.
//!
//! When something happened is when it was seen here: what the processes write about it is by their own clocks, which are faults too.

pub mod leases;
pub mod nodes;
pub mod pods;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use super::clock;
use super::program::Word;
use super::support::ApiServer;
use leases::{Holding, Renewal};
use nodes::Node;
use pods::Pod;

/// What the news of the witness are numbered.
pub const WITNESS: u64 = 0;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Since when all kubelets are told to renew their Leases often; before it nobody is there who would find them silent.
    pub begin: Timestamp,
    pub nodes: BTreeMap<String, Node>,
    /// By uid.
    pub pods: BTreeMap<String, Pod>,
    /// Who held the stages' Leases, one after another.
    pub leases: BTreeMap<String, Vec<Holding>>,
    /// Renewals of each of them.
    pub renewals: BTreeMap<String, Vec<Renewal>>,
    /// What the clock showed when kubelets renewed their Leases, by the revisions that did it. All writes have one order.
    signs: BTreeMap<u64, Timestamp>,
    /// Changes of pods so far: their order is the API server's.
    pub moment: u64,
    /// Renewals of the stages' Leases by clocks that were off by more than half an hour.
    pub skewed_renewals: usize,
}

/// A change, and when it was seen.
#[derive(Debug)]
pub struct Change<'a> {
    pub object: &'a Value,
    pub is_gone: bool,
    pub at: Timestamp,
}

/// Takes note of a change.
type Take = fn(&mut Seen, &Change<'_>);

/// Sees.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
}

impl Witness {
    /// Begins to watch; each change is news, but for renewals.
    pub fn start(api: &Arc<ApiServer>, news: &SyncSender<(u64, Word)>) -> Self {
        let witness = Self::default();
        let watches: [(&str, bool, Take); 4] = [
            ("/api/v1/nodes", true, Seen::node),
            ("/api/v1/pods", true, Seen::pod),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                false,
                Seen::node_lease,
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
                true,
                Seen::stage_lease,
            ),
        ];
        for (path, is_news, take) in watches {
            let (api, news, witness) = (Arc::clone(api), news.clone(), witness.clone());
            std::thread::spawn(move || {
                for line in api.watch(path).lines().map_while(Result::ok) {
                    let event: Value = serde_json::from_str(&line).unwrap();
                    let change = Change {
                        object: &event["object"],
                        is_gone: event["type"] == "DELETED",
                        at: clock::wall(),
                    };
                    witness.with(|seen| take(seen, &change));
                    if is_news && news.send((WITNESS, Word::Logged(Value::Null))).is_err() {
                        return;
                    }
                }
            });
        }
        witness
    }

    /// Looks at what was seen.
    pub fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many nodes were isolated so far.
    pub fn isolated(&self) -> usize {
        self.with(|seen| seen.nodes.values().filter(|node| !node.isolated.is_empty()).count())
    }
}

// === impl Seen ===

impl Seen {
    /// A time before which nobody made this revision, whenever it was seen: kubelets look at the clock and write then, and they write
    /// often.
    pub fn not_before(&self, revision: u64) -> Timestamp {
        let earlier = self.signs.range(..revision).next_back();
        earlier.map_or(Timestamp::MIN, |(_, at)| *at)
    }
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn revision(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// More than any clock is off unless it was stepped.
fn is_skewed(said: Timestamp, seen: Timestamp) -> bool {
    said.duration_since(seen).abs() > jiff::SignedDuration::from_mins(30)
}
