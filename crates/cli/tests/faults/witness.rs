//! What a watch of the API shows: when nodes were found silent and isolated, and when pods went.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use super::program::Word;
use super::support::ApiServer;

/// What the news of the witness are numbered.
pub const WITNESS: u64 = 0;

/// Taint of a silent node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A node as it was seen, over all of its versions.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub zone: String,
    /// When it was marked Unknown, each time.
    pub unknown: Vec<Timestamp>,
    /// When it was isolated, each time.
    pub isolated: Vec<Timestamp>,
    /// Last renewal of its lease.
    pub renewed: Option<Timestamp>,
    /// It is isolated now.
    pub is_isolated: bool,
    /// It has any taint now, or is not ready.
    pub is_troubled: bool,
}

/// A pod as it was seen.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub node: String,
    /// When its deletion was asked for.
    pub deleted: Option<Timestamp>,
    /// It had the condition DisruptionTarget by then.
    pub was_target: bool,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub nodes: BTreeMap<String, Node>,
    /// By uid.
    pub pods: BTreeMap<String, Pod>,
}

/// Takes note of an object.
type Take = fn(&mut Seen, &Value);

/// Sees.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
}

impl Witness {
    /// Begins to watch; each change is news, but for renewals.
    pub fn start(api: &Arc<ApiServer>, news: &SyncSender<(u64, Word)>) -> Self {
        let witness = Self::default();
        let watches: [(&str, bool, Take); 3] = [
            ("/api/v1/nodes", true, Seen::node),
            ("/api/v1/pods", true, Seen::pod),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
                false,
                Seen::lease,
            ),
        ];
        for (path, is_news, take) in watches {
            let (api, news, witness) = (Arc::clone(api), news.clone(), witness.clone());
            std::thread::spawn(move || {
                for line in api.watch(path).lines().map_while(Result::ok) {
                    let event: Value = serde_json::from_str(&line).unwrap();
                    witness.with(|seen| take(seen, &event["object"]));
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

impl Seen {
    fn node(&mut self, object: &Value) {
        let node = self.nodes.entry(text(&object["metadata"]["name"])).or_default();
        node.zone = text(&object["metadata"]["labels"]["topology.kubernetes.io/zone"]);
        let ready = condition(object, "Ready");
        if ready["status"] == "Unknown" {
            note(&mut node.unknown, &ready["lastTransitionTime"]);
        }
        let taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let isolation = taints
            .iter()
            .find(|taint| taint["key"] == UNREACHABLE && taint["effect"] == "NoExecute");
        if let Some(taint) = isolation {
            note(&mut node.isolated, &taint["timeAdded"]);
        }
        node.is_isolated = isolation.is_some();
        node.is_troubled = !taints.is_empty() || ready["status"] != "True";
    }

    fn pod(&mut self, object: &Value) {
        let pod = self.pods.entry(text(&object["metadata"]["uid"])).or_default();
        pod.node = text(&object["spec"]["nodeName"]);
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if let Some(end) = time(&object["metadata"]["deletionTimestamp"]) {
            pod.deleted = Some(end - jiff::SignedDuration::from_secs(grace));
        }
        pod.was_target |= condition(object, "DisruptionTarget")["status"] == "True";
    }

    fn lease(&mut self, object: &Value) {
        let node = self.nodes.entry(text(&object["metadata"]["name"])).or_default();
        // What it did before it was marked is what counts.
        if node.unknown.is_empty() {
            node.renewed = time(&object["spec"]["renewTime"]);
        }
    }
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.cloned().unwrap_or_default()
}

fn note(times: &mut Vec<Timestamp>, value: &Value) {
    if let Some(at) = time(value).filter(|at| times.last() != Some(at)) {
        times.push(at);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}
