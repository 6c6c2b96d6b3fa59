//! The cluster of a kubeconfig, for commands that need no bus: how it is reached, and which nodes of it are meant.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bailiff_cluster::views::or_default;
use bailiff_cluster::{Api, Decode, Error, Kind};
use bailiff_model::Zone;
use bailiff_model::names::is_subdomain;
use bailiff_runtime::args::{Error as Invalid, exit_invalid};
use bailiff_runtime::{KubeArgs, client};
use clap::builder::NonEmptyStringValueParser;
use serde::Deserialize;

use crate::Failure;

/// Nodes per page of a list, as client-go.
const PAGE: &str = "500";

/// Which API server.
#[derive(Clone, Debug, clap::Args)]
pub struct Kube {
    /// Kubeconfig file; without it $KUBECONFIG or ~/.kube/config, and in a pod its service account
    #[arg(long, env = "BAILIFF_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// What is meant: exactly one.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "target", required = true, multiple = false)]
pub struct Target {
    /// Zone, as <region>:<zone>; the zone alone is enough where only one region has it
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "ZONE")]
    pub zone: Option<String>,

    /// Node
    #[arg(long, value_parser = node_name, value_name = "NODE")]
    pub node: Option<String>,

    /// Everything
    #[arg(long)]
    pub all: bool,
}

/// A name that a node can have. Of an empty one, as of a variable that is not set, or one with a slash, the path to ask for it would lead
/// elsewhere, and an entry of pauses that says it could not be read, which pauses everything.
pub fn node_name(text: &str) -> Result<String, String> {
    let allowed = "allowed is the name of a node: lower-case letters, digits, '-' and '.'";
    is_subdomain(text).then(|| text.to_owned()).ok_or_else(|| allowed.to_owned())
}

/// A node of the cluster.
#[derive(Debug)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// The zone it is in, by its labels.
    pub zone: Zone,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Item>,
}

impl Decode for List {}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue", deserialize_with = "or_default")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    uid: String,
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
}

/// The API server cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the API server of {kubeconfig}")]
struct Unreached {
    kubeconfig: String,
    source: Error,
}

/// A write that came to no answer.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer a write, which may have been done")]
struct Unanswered(#[source] Error);

/// What a write failed with: without an answer nobody knows whether it was done, unless there was nobody to do it.
pub fn of_write(error: Error) -> Failure {
    if is_unanswered(&error) && !error.is_unconnected {
        Unanswered(error).into()
    } else {
        error.into()
    }
}

fn is_unanswered(error: &Error) -> bool {
    error.answered.is_none() && matches!(error.kind, Kind::Unavailable | Kind::Timeout)
}

// === impl Kube ===

impl Kube {
    /// What came of asking `ask`: of an API server that could not be reached it is said by what it was looked for. A write fails
    /// with [`of_write`].
    pub async fn asked<T>(self, ask: impl AsyncFnOnce(Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let kubeconfig = match &self.kubeconfig {
            Some(file) => format!("'{}' (--kubeconfig)", file.display()),
            None => "$KUBECONFIG, ~/.kube/config or the pod (no --kubeconfig is given)".to_owned(),
        };
        let said = |error: Failure| -> Failure {
            match error.downcast::<Error>() {
                Ok(source) if is_unanswered(&source) => {
                    let source = *source;
                    Unreached { kubeconfig, source }.into()
                }
                Ok(other) => other,
                Err(other) => other,
            }
        };
        ask(self).await.map_err(said)
    }

    /// A client that sends what it is given at once, for `user`; ends the process if the kubeconfig makes no sense.
    pub async fn client(self, user: &str) -> kube::Client {
        let args = KubeArgs {
            kubeconfig: self.kubeconfig,
            ..KubeArgs::default()
        };
        match client::connect(&args, user).await {
            Ok(client) => client,
            Err(error) => exit_invalid(&error),
        }
    }
}

/// All nodes.
///
/// # Errors
/// When the API server does not list them.
pub async fn nodes(api: &Api) -> Result<Vec<Node>, Error> {
    let (mut nodes, mut next) = (Vec::new(), String::new());
    loop {
        let page: List = api.get(&format!("/api/v1/nodes?limit={PAGE}&continue={next}")).await?;
        nodes.extend(page.items.into_iter().map(|Item { metadata }| Node {
            zone: Zone::from_labels(|key| metadata.labels.get(key).map(String::as_str)),
            name: metadata.name,
            uid: metadata.uid,
        }));
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(nodes);
        }
    }
}

/// The zone of `zones` that `text` names.
pub fn pick(text: &str, zones: &[Zone]) -> Result<Zone, Invalid> {
    let found: Vec<&Zone> = match text.parse::<Zone>() {
        Ok(wanted) => zones.iter().filter(|zone| **zone == wanted).collect(),
        Err(_) => zones.iter().filter(|zone| &*zone.zone == text).collect(),
    };
    if let [zone] = found[..] {
        return Ok(zone.clone());
    }
    if zones.is_empty() {
        return Err(Invalid::new("zone", text, "there are no nodes"));
    }
    let names: Vec<String> = zones.iter().map(Zone::to_string).collect();
    let what = if found.is_empty() {
        "no node is in it"
    } else {
        "several regions have it"
    };
    Err(Invalid::new(
        "zone",
        text,
        format!("{what}; allowed is one of {}", names.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_named_in_full_or_where_it_is_the_only_one() {
        let zones = [
            Zone::new("eu", "a"),
            Zone::new("us", "a"),
            Zone::new("eu", "b"),
            Zone::default(),
        ];
        assert_eq!(pick("eu:a", &zones).expect("named in full"), zones[0]);
        assert_eq!(pick("b", &zones).expect("the only one"), zones[2]);
        assert_eq!(pick(":", &zones).expect("nodes without a zone"), zones[3]);
        for wrong in ["a", "c", "eu:c"] {
            let error = pick(wrong, &zones).expect_err(wrong).to_string();
            assert!(error.contains("--zone") && error.contains("eu:b"), "{error}");
        }
        let error = pick("a", &[]).expect_err("there is none").to_string();
        assert!(error.ends_with("there are no nodes"), "{error}");
    }

    #[tokio::test]
    async fn a_write_without_an_answer_may_have_been_done() {
        let said = async |failure: Failure| {
            let kube = Kube { kubeconfig: None };
            kube.asked::<()>(async |_| Err(failure))
                .await
                .expect_err("it fails")
                .to_string()
        };
        for kind in [Kind::Timeout, Kind::Unavailable] {
            let error = Error::new(kind, "no answer");
            assert!(
                said(error.clone().into())
                    .await
                    .starts_with("cannot reach the API server of ")
            );
            assert!(
                said(of_write(error))
                    .await
                    .ends_with("did not answer a write, which may have been done")
            );
        }
        let mut unconnected = Error::new(Kind::Unavailable, "connection refused");
        unconnected.is_unconnected = true;
        assert!(
            said(of_write(unconnected))
                .await
                .starts_with("cannot reach the API server of ")
        );
        let mut refused = Error::new(Kind::Unavailable, "later");
        refused.answered = Some(503);
        assert_eq!(said(of_write(refused.clone())).await, refused.to_string());
    }

    #[test]
    fn a_node_is_named_as_nodes_are() {
        for name in ["worker-7", "10.0.0.7", "ip-10-0-0-7.eu-1.example.com", "n"] {
            assert_eq!(node_name(name).as_deref(), Ok(name));
        }
        for wrong in [
            "",
            ".",
            "..",
            "a/status",
            "a?limit=1",
            "a b",
            "Worker",
            "-a",
            "a-",
            "a..b",
            &"a".repeat(254),
        ] {
            assert!(node_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
