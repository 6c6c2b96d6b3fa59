//! Confirming reads and status writes: what goes over the wire, and what its answer means to the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Source, read_collection};
use bailiff_cluster::{Api, Decode, Encoded, Error, Patch, error::Kind};
use bailiff_model::{Load, Mono, NodeName, ResourceVersion};
use bailiff_node_health_core::{ConditionWrite, Input, LeaseFacts, NodeFacts, Read, ReadBy, StatusWrite, WriteOutcome};
use bailiff_runtime::client::Attention;
use bailiff_runtime::{Seed, Shutdown};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::views::{LeaseView, NodeView};

/// Path of all nodes.
pub const NODES: &str = "/api/v1/nodes";

/// All of them. A node whose last sign of life is its status is found silent as much later as that was seen late: unlike a Lease it does
/// not say when it was posted, but to the second.
pub(crate) const ALL_NODES: Source = Source::all(NODES).with_attention(Attention::Close);

/// Path of all leases of nodes.
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// How long a single read may take: twice as long as other requests. A node is no less silent for it, as only what is read after the end of
/// its grace counts; and one that is given up is asked for again of a server that is slow, which is why it was given up.
const GET_WITHIN: Duration = Duration::from_secs(10);

/// How long a list of all nodes may take. It is asked for when many went silent together, which is when the API server is busy: as long
/// as it answers pages it is worth waiting for. What was read by then is answered; whom it did not get to is read one by one.
const LIST_WITHIN: Duration = Duration::from_secs(60);

/// Reads the nodes and their leases from the server's store; answers for every one of them.
async fn confirm(api: Api, seed: Seed, asked: Mono, by: ReadBy, nodes: Vec<NodeName>) -> Input {
    let answers = match by {
        ReadBy::Get => {
            let api = api.with_deadline(GET_WITHIN);
            let mut answers = Vec::with_capacity(nodes.len());
            for name in nodes {
                let read = read_one(&api, &name).await;
                answers.push((name, read));
            }
            answers
        }
        ReadBy::List => read_all(&api, &seed, nodes).await,
    };
    Input::Confirmed { asked, by, answers }
}

/// The same, given up when the process is told to end: a list may take long, and nobody needs it then.
pub async fn confirm_until(end: Shutdown, api: Api, seed: Seed, asked: Mono, by: ReadBy, nodes: Vec<NodeName>) -> Input {
    let names = nodes.clone();
    tokio::select! {
        biased;
        answered = confirm(api, seed, asked, by, nodes) => answered,
        () = end.triggered() => {
            let detail: Arc<str> = Arc::from("the process ends");
            let unread = |name| {
                let detail = detail.clone();
                let (retry_after, load) = (None, Load::None);
                (
                    name,
                    Read::Failed {
                        retry_after,
                        load,
                        detail,
                    },
                )
            };
            let answers = names.into_iter().map(unread).collect();
            Input::Confirmed { asked, by, answers }
        }
    }
}

/// Writes the conditions; answers what became of it.
pub async fn write(api: Api, write: StatusWrite) -> Input {
    let path = format!("{NODES}/{}/status", write.node.name);
    let result = api.patch::<Written>(&path, &Patch::Strategic(body(&write))).await;
    let outcome = match result {
        Ok(written) => WriteOutcome::Stored(ResourceVersion::from(written.metadata.resource_version.as_str())),
        Err(error) => refused(&write, error),
    };
    Input::Written {
        node: write.node,
        outcome,
    }
}

fn refused(write: &StatusWrite, error: Error) -> WriteOutcome {
    match error.kind {
        Kind::Conflict => WriteOutcome::Conflict,
        Kind::NotFound => WriteOutcome::Gone,
        Kind::CalledOff => WriteOutcome::CalledOff,
        Kind::Observing => failed_write(&error),
        _ => {
            tracing::warn!(node = %write.node.name, %error, "Node conditions could not be written");
            failed_write(&error)
        }
    }
}

fn failed_write(error: &Error) -> WriteOutcome {
    WriteOutcome::Failed {
        retry_after: error.retry_after,
        load: error.kind.load(),
        detail: Arc::from(error.to_string()),
    }
}

/// A strategic merge patch: conditions merge by type, so what is not named stays as it is (NL-053). Uid and resourceVersion make it
/// fail instead of overwriting what came in between (NL-055, NL-154).
fn body(write: &StatusWrite) -> Value {
    let conditions: Vec<Value> = write.conditions.iter().map(condition).collect();
    json!({
        "metadata": {"uid": write.node.uid.to_string(), "resourceVersion": write.node.resource_version.to_string()},
        "status": {"conditions": conditions},
    })
}

fn condition(write: &ConditionWrite) -> Value {
    let mut condition = json!({
        "type": write.kind,
        "status": "Unknown",
        "reason": write.reason,
        "message": write.message,
        // metav1.Time has no fraction (NL-066).
        "lastTransitionTime": format!("{:.0}", write.since),
    });
    if let Some(heartbeat) = write.heartbeat {
        condition["lastHeartbeatTime"] = json!(format!("{heartbeat:.0}"));
    }
    condition
}

async fn read_one(api: &Api, name: &NodeName) -> Read {
    let (node_path, lease_path) = (format!("{NODES}/{name}"), format!("{LEASES}/{name}"));
    let (node, lease) = futures::join!(api.get::<NodeView>(&node_path), api.get::<LeaseView>(&lease_path));
    let node = match node {
        Ok(node) => node.into_facts(),
        Err(error) if error.kind == Kind::NotFound => return Read::Gone,
        Err(error) => return failed(name, &error),
    };
    let lease = match lease {
        Ok(lease) => Some(lease.into_facts()),
        Err(error) if error.kind == Kind::NotFound => None,
        Err(error) => return failed(name, &error),
    };
    Read::Found {
        node: Box::new(node),
        lease,
    }
}

fn failed(name: &NodeName, error: &Error) -> Read {
    tracing::warn!(node = %name, %error, "Node could not be read again");
    Read::Failed {
        retry_after: error.retry_after,
        load: error.kind.load(),
        detail: Arc::from(error.to_string()),
    }
}

async fn read_all(api: &Api, seed: &Seed, nodes: Vec<NodeName>) -> Vec<(NodeName, Read)> {
    let wanted: BTreeSet<&str> = nodes.iter().map(NodeName::as_str).collect();
    let (mut found, mut leases) = futures::join!(
        list(api, NODES, seed, &wanted, NodeView::into_facts),
        list(api, LEASES, seed, &wanted, LeaseView::into_facts),
    );
    let failure = found.failure.take().or(leases.failure.take());
    if let Some(error) = &failure {
        tracing::warn!(nodes = nodes.len(), %error, "Not all nodes could be read again");
    }
    let retry_after = failure.as_ref().and_then(|error| error.retry_after);
    let load = failure.as_ref().map_or(Load::Answered, |error| error.kind.load());
    let why = failure.map_or_else(|| "it could not be decoded".to_owned(), |error| error.to_string());
    let detail: Arc<str> = Arc::from(why);
    let answer = |name: NodeName| {
        let read = listed(found.take(name.as_str()), leases.take(name.as_str()));
        let read = read.unwrap_or_else(|| Read::Failed {
            retry_after,
            load,
            detail: detail.clone(),
        });
        (name, read)
    };
    nodes.into_iter().map(answer).collect()
}

/// What two lists say of one node; `None` if one of them did not get to it, or it could not be decoded.
fn listed(node: Listing<NodeFacts>, lease: Listing<LeaseFacts>) -> Option<Read> {
    let lease = match (&node, lease) {
        (Listing::Absent, _) => return Some(Read::Gone),
        (Listing::Unread, _) | (_, Listing::Unread) => return None,
        (Listing::Found(_), Listing::Found(lease)) => Some(lease),
        (Listing::Found(_), Listing::Absent) => None,
    };
    match node {
        Listing::Found(node) => Some(Read::Found {
            node: Box::new(node),
            lease,
        }),
        Listing::Absent | Listing::Unread => None,
    }
}

/// What a list says of the names wanted.
struct Listed<F> {
    /// `None` for an object that could not be decoded.
    objects: BTreeMap<String, Option<F>>,
    /// Why it is not whole, if it is not: then a name that is missing means nothing.
    is_whole: bool,
    failure: Option<Error>,
}

/// What a list says of one name.
enum Listing<F> {
    Found(F),
    Absent,
    Unread,
}

impl<F> Listed<F> {
    fn take(&mut self, name: &str) -> Listing<F> {
        match self.objects.remove(name) {
            Some(Some(facts)) => Listing::Found(facts),
            None if self.is_whole => Listing::Absent,
            Some(None) | None => Listing::Unread,
        }
    }
}

/// Lists a collection and keeps what is wanted.
async fn list<T: Decode, F>(
    api: &Api,
    path: &'static str,
    seed: &Seed,
    wanted: &BTreeSet<&str>,
    facts: impl Fn(T) -> F,
) -> Listed<F> {
    let mut objects = BTreeMap::new();
    let take = |name: &str, object: &Encoded<'_>| {
        if wanted.contains(name) {
            let decoded = T::decode(object).ok().map(&facts);
            objects.insert(name.to_owned(), decoded);
        }
    };
    let ended = read_collection::<T>(api, &Source::all(path), seed, LIST_WITHIN, take).await;
    Listed {
        objects,
        is_whole: ended.is_ok(),
        failure: ended.err(),
    }
}

#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

impl Decode for Written {
    const MESSAGE: Option<&'static Message> = Some(&schema::OBJECT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk<F>(objects: &[(&str, Option<F>)], is_whole: bool) -> Listed<F>
    where
        F: Clone,
    {
        Listed {
            objects: objects
                .iter()
                .map(|(name, facts)| ((*name).to_owned(), facts.clone()))
                .collect(),
            is_whole,
            failure: None,
        }
    }

    /// NL-040: a node is found silent as much later as its status was seen late.
    #[test]
    fn the_stream_of_nodes_is_looked_at_closely() {
        let Source { path, attention, .. } = ALL_NODES;
        assert_eq!((&*path, attention), (NODES, Attention::Close));
    }

    /// NL-057, design §1: a list that ended early says nothing of who is missing in it, and all it can of the others.
    #[test]
    fn what_was_read_is_answered_and_what_was_not_is_not_taken_for_gone() {
        let node = |name: &str| -> NodeFacts {
            let view: NodeView = serde_json::from_value(json!({"metadata": {"name": name, "uid": "u"}})).expect("a node");
            view.into_facts()
        };
        let lease = |name: &str| LeaseFacts {
            name: name.into(),
            resource_version: "1".into(),
            renewed: None,
        };
        let text = |read: Option<Read>| match read {
            None => "unread",
            Some(Read::Gone) => "gone",
            Some(Read::Found { lease: None, .. }) => "without lease",
            Some(Read::Found { lease: Some(_), .. }) => "found",
            Some(Read::Failed { .. }) => "failed",
        };
        for (whole, wanted) in [
            ((true, true), ["found", "without lease", "unread", "gone"]),
            ((true, false), ["found", "unread", "unread", "gone"]),
            ((false, true), ["found", "without lease", "unread", "unread"]),
        ] {
            let mut nodes = mk(&[("a", Some(node("a"))), ("b", Some(node("b"))), ("broken", None)], whole.0);
            let mut leases = mk(&[("a", Some(lease("a")))], whole.1);
            let found = ["a", "b", "broken", "missing"].map(|name| text(listed(nodes.take(name), leases.take(name))));
            assert_eq!(found, wanted, "{whole:?}");
        }
    }
}
