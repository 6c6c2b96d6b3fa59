//! The cluster that is played with: a sandbox as a process of its own, or a real API server whose kubelets are one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiff_cluster::watch::{Source, read_collection};
use bailiff_cluster::{Api, Encoded, Metrics, Patch};
use bailiff_model::{Wall, wellknown};
use bailiff_processes::{BINARY, Program, Usage};
use bailiff_runtime::{Clock, KubeArgs, Seed, client};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::args::BenchFlags;
use crate::load;
use crate::views::{DaemonSetView, LeaseView, TargetView};

/// Requests under way when many nodes are changed: enough to keep an API server busy.
const HANDS: usize = 16;
/// Far beyond what a list of all Leases takes; it only ends a run that hangs.
const LIST: Duration = Duration::from_secs(120);
/// A request while an API server is as busy as can be.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long everything that was made takes to be removed.
const CLEAN: Duration = Duration::from_secs(600);

const LEASES: Source = Source::all("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
const PODS: &str = "/api/v1/pods";
const DAEMONSETS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";
/// The key of the taint that is made by hand.
const TAINT: &str = "bench.bailiff.dev/maintenance";
/// The annotation by which a sandbox's kubelet is made silent.
const ALIVE: &str = "sandbox.bailiff.dev/alive";

/// A cluster. Dropping it ends its process, which removes what it made in a real one.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The sandbox, or the kubelets.
    pub(crate) program: Program,
    pub(crate) api: Api,
    /// How its API server is reached.
    pub(crate) kubeconfig: PathBuf,
    is_sandbox: bool,
    seed: Seed,
}

// === impl Cluster ===

impl Cluster {
    /// Starts its process. Nodes and pods come later.
    pub(crate) async fn start(flags: &BenchFlags, binaries: &Path, directory: &Path, clock: &Clock) -> Result<Self, String> {
        let seed = Seed::from_system();
        let (program, kubeconfig, api) = match &flags.kubeconfig {
            Some(kubeconfig) => {
                let api = reach(kubeconfig, clock).await?;
                refuse_others(&api).await?;
                (start_load(flags, kubeconfig)?, kubeconfig.clone(), api)
            }
            None => {
                let (program, kubeconfig) = start_sandbox(flags, binaries, directory).await?;
                let api = reach(&kubeconfig, clock).await?;
                (program, kubeconfig, api)
            }
        };
        Ok(Self {
            program,
            api,
            kubeconfig,
            is_sandbox: flags.kubeconfig.is_none(),
            seed,
        })
    }

    /// What it is called in figures.
    pub(crate) fn name(&self) -> &str {
        &self.program.name
    }

    /// It began to live: what is to be there was made.
    pub(crate) fn is_filled(&mut self) -> Result<bool, String> {
        self.program.check()?;
        Ok(self.is_sandbox || self.program.has_said(load::FILLED))
    }

    pub(crate) fn usage(&self) -> Result<Usage, String> {
        self.program.usage()
    }

    /// When each node renewed its Lease last.
    pub(crate) async fn renewals(&self) -> Result<BTreeMap<String, Wall>, String> {
        let mut renewals = BTreeMap::new();
        let take = |name: &str, object: &Encoded<'_>| {
            use bailiff_cluster::Decode as _;
            let lease = LeaseView::decode(object).ok();
            if let Some(at) = lease.and_then(|lease| lease.spec.renew_time) {
                renewals.insert(name.to_owned(), at);
            }
        };
        let read = read_collection::<LeaseView>(&self.api, &LEASES, &self.seed, LIST, take).await;
        read.map_err(|error| format!("the Leases cannot be listed: {error}"))?;
        Ok(renewals)
    }

    /// The pods on these nodes, as they are.
    pub(crate) async fn pods_on(&self, nodes: &[String]) -> Result<Vec<TargetView>, String> {
        let nodes: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
        let mut pods = Vec::new();
        let take = |_: &str, object: &Encoded<'_>| {
            use bailiff_cluster::Decode as _;
            let pod = TargetView::decode(object).ok();
            pods.extend(pod.filter(|pod| nodes.contains(pod.spec.node_name.as_str())));
        };
        let read = read_collection::<TargetView>(&self.api, &Source::all(PODS), &self.seed, LIST, take).await;
        read.map_err(|error| format!("the pods cannot be listed: {error}"))?;
        Ok(pods)
    }

    /// These nodes fall silent, or speak again.
    pub(crate) async fn silence(&mut self, nodes: &[String], is_silent: bool) -> Result<(), String> {
        if !self.is_sandbox {
            return self.program.tell(&load::command(nodes, is_silent));
        }
        let alive = is_silent.then_some("false");
        let patch = json!({"metadata": {"annotations": {ALIVE: alive}}});
        self.patch_nodes(nodes, &patch).await
    }

    /// These nodes get a taint that nothing tolerates, or lose it.
    pub(crate) async fn taint(&self, nodes: &[String], is_tainted: bool) -> Result<(), String> {
        let taints = is_tainted.then(|| json!([{"key": TAINT, "effect": "NoExecute"}]));
        self.patch_nodes(nodes, &json!({"spec": {"taints": taints}})).await
    }

    async fn patch_nodes(&self, nodes: &[String], patch: &Value) -> Result<(), String> {
        let patch = Patch::Merge(patch.clone());
        let patched = stream::iter(nodes).map(|name| {
            let patch = &patch;
            async move {
                let patched = self.api.patch::<IgnoredAny>(&format!("/api/v1/nodes/{name}"), patch).await;
                patched
                    .map(drop)
                    .map_err(|error| format!("node {name} cannot be patched: {error}"))
            }
        });
        patched.buffer_unordered(HANDS).try_collect().await
    }

    /// Creates the DaemonSet.
    pub(crate) async fn create_daemonset(&self) -> Result<(), String> {
        let created = self.api.create::<IgnoredAny>(DAEMONSETS, &daemonset()).await;
        created
            .map(drop)
            .map_err(|error| format!("the DaemonSet cannot be created: {error}"))
    }

    /// Changes its template.
    pub(crate) async fn change_daemonset(&self) -> Result<(), String> {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"bench.bailiff.dev/version": "2"}}}}});
        let path = daemonset_path();
        let changed = self.api.patch::<IgnoredAny>(&path, &Patch::Merge(patch)).await;
        changed
            .map(drop)
            .map_err(|error| format!("the DaemonSet cannot be changed: {error}"))
    }

    /// Where it stands.
    pub(crate) async fn daemonset(&self) -> Result<DaemonSetView, String> {
        let read = self.api.get(&daemonset_path()).await;
        read.map_err(|error| format!("the DaemonSet cannot be read: {error}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.is_sandbox {
            eprintln!("removing what was made in the cluster");
            if !self.program.end(CLEAN) {
                let last = self.program.last_line().unwrap_or_default();
                eprintln!("not everything was removed: {last}; the next benchmark there removes the rest first");
            }
        }
    }
}

/// A client with the deadline of everything that is asked here.
async fn reach(kubeconfig: &Path, clock: &Clock) -> Result<Api, String> {
    let client = connect(kubeconfig).await?;
    Ok(Api::new(client, clock.clone(), Metrics::default()).with_deadline(DEADLINE))
}

/// A client that reaches an API server as a stage does: over TLS single requests share a connection, for whose room they wait as long as a
/// stage's do. Who uses it has to send again what found none.
pub(crate) async fn reach_as_a_stage(kubeconfig: &Path, clock: &Clock) -> Result<Api, String> {
    let connected = client::connect_paced(&flags_of(kubeconfig), "bench", clock).await;
    let transport = connected.map_err(|error| bailiff_runtime::shutdown::chain(&error))?;
    Ok(Api::new(transport, clock.clone(), Metrics::default()).with_deadline(DEADLINE))
}

/// What is measured acts on every node and pod there is, and taints and evicts what fails: nodes of anybody else are none to play with.
async fn refuse_others(api: &Api) -> Result<(), String> {
    let others = format!(
        "/api/v1/nodes?limit=1&labelSelector={}%21%3D{}",
        load::LABEL.replace('/', "%2F"),
        load::OWNER
    );
    let list: Value = api
        .get(&others)
        .await
        .map_err(|error| format!("the nodes cannot be listed: {error}"))?;
    match list["items"][0]["metadata"]["name"].as_str() {
        None => Ok(()),
        Some(name) => Err(format!(
            "the cluster has nodes of its own, such as {name}: a benchmark wants an API server without any, for it acts on all there are"
        )),
    }
}

/// A client that sends what it is given at once.
pub(crate) async fn connect(kubeconfig: &Path) -> Result<kube::Client, String> {
    let connected = client::connect(&flags_of(kubeconfig), "bench").await;
    connected.map_err(|error| bailiff_runtime::shutdown::chain(&error))
}

fn flags_of(kubeconfig: &Path) -> KubeArgs {
    KubeArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..KubeArgs::default()
    }
}

async fn start_sandbox(flags: &BenchFlags, binaries: &Path, directory: &Path) -> Result<(Program, PathBuf), String> {
    let written = directory.join("sandbox.kubeconfig");
    // Of a sandbox before.
    let _ = std::fs::remove_file(&written);
    let arguments = [
        "sandbox".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--nodes={}", flags.nodes),
        format!("--zones={}", flags.zones),
        format!("--pods-per-node={}", flags.pods_per_node()),
        format!("--pod-toleration-seconds={}", flags.toleration_seconds),
        "--node-owned".to_owned(),
        format!("--write-kubeconfig={}", written.display()),
    ];
    let mut program = Program::start(&binaries.join(BINARY), "sandbox".to_owned(), &arguments)?;
    // It writes the file when everything is there and before it listens.
    let text = loop {
        program.check()?;
        match std::fs::read_to_string(&written) {
            Ok(text) if text.ends_with("}\n") => break text,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    if flags.direct {
        return Ok((program, written));
    }
    let plain = directory.join("plain.kubeconfig");
    std::fs::write(&plain, in_plain_text(&text)?).map_err(|error| format!("{}: {error}", plain.display()))?;
    Ok((program, plain))
}

/// The kubeconfig of a sandbox, which answers plain HTTP at the same port: nobody's cipher is measured.
fn in_plain_text(kubeconfig: &str) -> Result<String, String> {
    let mut config: Value = serde_json::from_str(kubeconfig).map_err(|error| format!("the sandbox's kubeconfig: {error}"))?;
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
    let server = server.replacen("https://", "http://", 1);
    config["clusters"][0]["cluster"] = json!({"server": server});
    Ok(config.to_string())
}

fn start_load(flags: &BenchFlags, kubeconfig: &Path) -> Result<Program, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let arguments = [
        "load".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--nodes={}", flags.nodes),
        format!("--zones={}", flags.zones),
        format!("--pods-per-node={}", flags.pods_per_node()),
        format!("--toleration-seconds={}", flags.toleration_seconds),
    ];
    Program::converse(&own, "kubelets".to_owned(), &arguments)
}

fn daemonset_path() -> String {
    format!("{DAEMONSETS}/{}", load::DAEMONSET)
}

fn daemonset() -> Value {
    let labels = json!({load::LABEL: load::OWNER, "bench.bailiff.dev/daemon": "true"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": load::DAEMONSET, "labels": {load::LABEL: load::OWNER}},
        "spec": {
            "selector": {"matchLabels": {"bench.bailiff.dev/daemon": "true"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 1,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
                },
            },
        },
    })
}

/// The namespace of the Leases of nodes, which sandboxes and servers make themselves.
pub(crate) const NODE_LEASES: &str = wellknown::NAMESPACE_NODE_LEASE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_reached_without_a_cipher() {
        let written = json!({
            "clusters": [{"name": "s", "cluster": {"server": "https://127.0.0.1:7", "certificate-authority-data": "eA=="}}],
            "users": [{"name": "s", "user": {"token": "t"}}],
        });
        let plain: Value = serde_json::from_str(&in_plain_text(&written.to_string()).unwrap()).unwrap();
        assert_eq!(
            plain["clusters"][0],
            json!({"name": "s", "cluster": {"server": "http://127.0.0.1:7"}})
        );
        assert_eq!(plain["users"], written["users"]);
        assert!(in_plain_text("no JSON").is_err());
    }
}
