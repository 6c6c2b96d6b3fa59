//! `bailiff-bench load`: the kubelets of a real API server, as a process of its own, so that what they cost is nobody else's.
//!
//! It creates the nodes, their Leases and the pods, renews the Leases at a kubelet's pace, starts pods, lets those that were told to go
//! go, and binds daemon pods as a scheduler would. Lines on standard input say which nodes are silent. When that ends, or on SIGTERM or
//! SIGINT, it removes everything that carries its label, so also what its predecessor could not remove; so it does before it begins.

mod clean;
mod fleet;
mod life;
mod objects;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_cluster::{Api, Metrics};
use bailiff_runtime::args::{Error, Valid, Validate};
use bailiff_runtime::{Clock, Seed};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use objects::{DAEMONSET, LABEL, OWNER};

/// What it says once everything was created.
pub(crate) const FILLED: &str = "everything was created";

/// Requests under way at a time. An API server serves some hundreds at once; more would wait there.
const HANDS: usize = 64;

/// A request while an API server is as busy as can be.
const DEADLINE: Duration = Duration::from_secs(60);

/// Flags of `bailiff-bench load`.
pub(crate) type LoadArgs = Valid<LoadFlags>;

/// What is created.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(about = None, long_about = None)]
pub(crate) struct LoadFlags {
    /// The API server
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,

    /// How many nodes
    #[arg(long, value_name = "COUNT")]
    pub(crate) nodes: usize,

    /// In how many zones
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    pub(crate) zones: usize,

    /// How many pods on each node
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) pods_per_node: usize,

    /// How long they tolerate a node that is not ready or unreachable
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) toleration_seconds: u32,
}

/// The API server.
#[derive(Clone)]
struct Server {
    api: Api,
    /// For the one request that the other does not know.
    client: kube::Client,
}

/// A line on standard input.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Command {
    /// Which nodes.
    nodes: Vec<String>,
    /// They are silent, or speak again.
    is_silent: bool,
}

impl Validate for LoadFlags {
    fn validate(&self) -> Result<(), Error> {
        if self.zones == 0 {
            return Err(Error::new("zones", self.zones, "wanted 1 or more"));
        }
        Ok(())
    }
}

/// The line that says which nodes are silent.
pub(crate) fn command(nodes: &[String], is_silent: bool) -> String {
    let command = Command {
        nodes: nodes.to_vec(),
        is_silent,
    };
    serde_json::to_string(&command).unwrap_or_default()
}

/// Lives until it is told to end, and removes what it made.
pub(crate) async fn run(args: LoadArgs) -> Result<ExitCode, String> {
    let flags = args.into_inner();
    let told_to_end = crate::signals::told_to_end()?;
    let client = crate::cluster::connect(&flags.kubeconfig).await?;
    let server = Server {
        api: Api::new(client.clone(), Clock::system(), Metrics::default()).with_deadline(DEADLINE),
        client,
    };
    clean::all(&server).await?;
    let lived = tokio::select! {
        biased;
        () = told_to_end => Ok(()),
        lived = live(&server, &flags) => lived,
    };
    eprintln!("removing everything that was created");
    let cleaned = clean::all(&server).await;
    lived.and(cleaned)?;
    Ok(ExitCode::SUCCESS)
}

async fn live(server: &Server, flags: &LoadFlags) -> Result<(), String> {
    let fleet = life::fill(&server.api, flags).await?;
    eprintln!("{FILLED}");
    life::run(server, fleet, &Seed::from_system()).await
}

// === impl Server ===

impl Server {
    /// Removes an object without a grace period, as only a kubelet may do with a pod. One that is gone, or is another one than this
    /// uid's, is no matter of ours.
    async fn delete_at_once(&self, path: &str, uid: Option<&str>) -> Result<(), String> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": uid.map(|uid| json!({"uid": uid})),
        });
        let request = http::Request::delete(path).header("content-type", "application/json");
        let request = request
            .body(options.to_string().into_bytes())
            .map_err(|error| format!("{path}: {error}"))?;
        let answer = tokio::time::timeout(DEADLINE, self.client.request_text(request)).await;
        match answer.map_err(|_| format!("{path} was not removed within {DEADLINE:?}"))? {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(format!("{path} cannot be removed: {error}")),
        }
    }
}

/// What an object that was created or replaced answers: its version.
fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_told_in_a_line() {
        let line = command(&["bench-a-0".to_owned()], true);
        assert!(!line.contains('\n'));
        let wanted = Command {
            nodes: vec!["bench-a-0".to_owned()],
            is_silent: true,
        };
        assert_eq!(serde_json::from_str::<Command>(&line).unwrap(), wanted);
    }
}
