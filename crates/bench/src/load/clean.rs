//! Removes everything that carries the label.

use std::time::Duration;

use bailiff_cluster::views::or_default;
use bailiff_cluster::{Decode, Kind};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;

use super::objects::{LABEL, OWNER};
use super::{HANDS, Server};
use crate::programs::LEASE_PREFIX;

/// Collections, in this order: what makes others goes before them.
const COLLECTIONS: [&str; 8] = [
    "/apis/apps/v1/namespaces/kube-system/daemonsets",
    "/api/v1/namespaces/kube-system/pods",
    "/api/v1/namespaces/default/pods",
    "/apis/apps/v1/namespaces/kube-system/controllerrevisions",
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/api/v1/namespaces/default/serviceaccounts",
    "/api/v1/namespaces/kube-system/serviceaccounts",
];

/// Where leaders are elected.
const ELECTIONS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Objects a page asks for.
const PAGE: usize = 500;
/// How often the list is looked at again, for what was created meanwhile, and the pause in between.
const ROUNDS: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Item>,
}

impl Decode for List {}

#[derive(Deserialize)]
struct Item {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// Removes it all.
///
/// # Errors
/// What could not be removed.
pub(super) async fn all(server: &Server) -> Result<(), String> {
    for collection in COLLECTIONS {
        empty(server, collection).await?;
    }
    // Leases have no labels of those who elect a leader by them.
    let elections: List = match server.api.get(ELECTIONS).await {
        Ok(list) => list,
        Err(error) => return Err(format!("{ELECTIONS} cannot be listed: {error}")),
    };
    let ours = elections
        .items
        .into_iter()
        .filter(|item| item.metadata.name.starts_with(LEASE_PREFIX));
    for lease in ours {
        remove(server, ELECTIONS, lease.metadata.name).await?;
    }
    Ok(())
}

/// A page after the other goes, until there is none; what is gone leaves the list, so the first page is always another one.
async fn empty(server: &Server, collection: &str) -> Result<(), String> {
    let path = format!(
        "{collection}?labelSelector={}%3D{OWNER}&limit={PAGE}",
        LABEL.replace('/', "%2F")
    );
    let mut rounds = 0;
    let mut last = usize::MAX;
    loop {
        let list: List = match server.api.get(&path).await {
            Ok(list) => list,
            Err(error) if error.kind == Kind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{collection} cannot be listed: {error}")),
        };
        if list.items.is_empty() {
            return Ok(());
        }
        if list.items.len() < PAGE && list.items.len() >= last {
            rounds += 1;
        }
        last = list.items.len();
        if rounds > ROUNDS {
            return Err(format!("{last} objects of {collection} do not go"));
        }
        let gone = stream::iter(list.items).map(|item| remove(server, collection, item.metadata.name));
        gone.buffer_unordered(HANDS).try_collect::<()>().await?;
        if last < PAGE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn remove(server: &Server, collection: &str, name: String) -> Result<(), String> {
    // Nobody else lets a pod go whose kubelet this is.
    server.delete_at_once(&format!("{collection}/{name}"), None).await
}
