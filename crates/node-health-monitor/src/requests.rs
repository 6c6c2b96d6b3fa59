//! Confirming reads and status writes: what goes over the wire, and what its answer means to the core.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_cluster::views::Meta;
use bailiff_cluster::{Api, Error, Patch, error::Kind};
use bailiff_model::{Mono, NodeName, ResourceVersion};
use bailiff_node_health_core::{ConditionWrite, Input, LeaseFacts, NodeFacts, Read, ReadBy, StatusWrite, WriteOutcome};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::views::{LeaseView, NodeView};

/// Path of all nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";
/// Path of all leases of nodes.
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Objects per page of a list, as client-go.
const PAGE: usize = 500;

/// Reads the nodes and their leases from the server's store; answers for every one of them.
pub(crate) async fn confirm(api: Api, asked: Mono, by: ReadBy, nodes: Vec<NodeName>) -> Input {
    let answers = match by {
        ReadBy::Get => {
            let mut answers = Vec::with_capacity(nodes.len());
            for name in nodes {
                let read = read_one(&api, &name).await;
                answers.push((name, read));
            }
            answers
        }
        ReadBy::List => read_all(&api, nodes).await,
    };
    Input::Confirmed { asked, by, answers }
}

/// Writes the conditions; answers what became of it.
pub(crate) async fn write(api: Api, write: StatusWrite) -> Input {
    let path = format!("{NODES}/{}/status", write.node.name);
    let result = api.patch::<Written>(&path, &Patch::Strategic(body(&write))).await;
    let outcome = match result {
        Ok(written) => WriteOutcome::Stored(ResourceVersion::from(written.metadata.resource_version)),
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
        _ => {
            tracing::warn!(node = %write.node.name, %error, "Node conditions could not be written");
            WriteOutcome::Failed {
                retry_after: error.retry_after,
            }
        }
    }
}

/// A strategic merge patch: conditions merge by type, so what is not named stays as it is (NL-053). Uid and resourceVersion make it
/// fail instead of overwriting what came in between (NL-055, NL-154).
fn body(write: &StatusWrite) -> Value {
    let conditions: Vec<Value> = write.conditions.iter().map(condition).collect();
    json!({
        "metadata": {"uid": write.node.uid.as_str(), "resourceVersion": write.node.resource_version.as_str()},
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
    }
}

async fn read_all(api: &Api, nodes: Vec<NodeName>) -> Vec<(NodeName, Read)> {
    let wanted: BTreeSet<&str> = nodes.iter().map(NodeName::as_str).collect();
    let (found, leases) = futures::join!(
        list(api, NODES, &wanted, NodeView::into_facts),
        list(api, LEASES, &wanted, LeaseView::into_facts),
    );
    let (mut found, mut leases): (Listed<NodeFacts>, Listed<LeaseFacts>) = match (found, leases) {
        (Ok(found), Ok(leases)) => (found, leases),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(nodes = nodes.len(), %error, "Nodes could not be read again");
            let read = Read::Failed {
                retry_after: error.retry_after,
            };
            return nodes.into_iter().map(|name| (name, read.clone())).collect();
        }
    };
    let answer = |name: NodeName| {
        let read = match (found.remove(name.as_str()), leases.remove(name.as_str())) {
            (None, _) => Read::Gone,
            (Some(Some(node)), None) => Read::Found {
                node: Box::new(node),
                lease: None,
            },
            (Some(Some(node)), Some(Some(lease))) => Read::Found {
                node: Box::new(node),
                lease: Some(lease),
            },
            // One of them could not be decoded: nothing is known.
            _ => Read::Failed { retry_after: None },
        };
        (name, read)
    };
    nodes.into_iter().map(answer).collect()
}

/// What a list says of the names wanted; `None` for an object that could not be decoded.
type Listed<F> = BTreeMap<String, Option<F>>;

/// Lists a collection page by page and keeps what is wanted.
async fn list<T: DeserializeOwned, F>(
    api: &Api,
    path: &str,
    wanted: &BTreeSet<&str>,
    facts: impl Fn(T) -> F,
) -> Result<Listed<F>, Error> {
    let mut listed = BTreeMap::new();
    let mut token = String::new();
    loop {
        let page: Page = api.get(&page_path(path, &token)).await?;
        for item in &page.items {
            let Ok(Named { metadata }) = serde_json::from_str(item.get()) else {
                continue;
            };
            if wanted.contains(metadata.name.as_str()) {
                let decoded = serde_json::from_str(item.get()).ok().map(&facts);
                listed.insert(metadata.name, decoded);
            }
        }
        token = page.metadata.next;
        if token.is_empty() {
            return Ok(listed);
        }
    }
}

fn page_path(path: &str, token: &str) -> String {
    let mut page = format!("{path}?limit={PAGE}");
    if !token.is_empty() {
        page.push_str("&continue=");
        for byte in token.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                page.push(char::from(byte));
            } else {
                page.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    page
}

#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    #[serde(default, deserialize_with = "bailiff_cluster::views::or_default")]
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}
