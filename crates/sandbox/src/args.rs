//! `bailiff sandbox`: its flags, and running what they ask for.
//!
//! Flags that kube-apiserver has keep its names and meanings. On loopback the sandbox answers TLS and plain HTTP on one port; beyond
//! it only TLS, and only to tokens it was given, unless told otherwise in so many words.

mod run;
mod tokens;

use std::net::SocketAddr;
use std::path::PathBuf;

use bailiff_runtime::args::{Error, Valid, Validate, go_bool, listen_address};
use clap::{ArgAction, Args, ValueEnum};

use crate::cluster::ClusterSpec;

pub use run::{Running, run, start};
pub use tokens::{Malformed, StaticToken, parse_tokens};

/// Valid flags of `bailiff sandbox`.
pub type SandboxArgs = Valid<SandboxFlags>;

/// Flags of `bailiff sandbox`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Sandbox", about = None, long_about = None)]
pub struct SandboxFlags {
    /// The API server alone: no nodes, kubelets, scheduler or garbage collector
    #[arg(long, env = "BAILIFF_BARE", action = ArgAction::SetTrue)]
    pub bare: bool,

    /// Where to listen
    // Unassigned by IANA, and not the port of a real API server that may run on the same machine.
    #[arg(long, env = "BAILIFF_LISTEN", default_value = "127.0.0.1:7470", value_name = "IP:PORT", value_parser = listen_address)]
    pub listen: SocketAddr,

    /// Answer plain HTTP also beyond this machine, where only TLS is answered otherwise
    #[arg(
        long, env = "BAILIFF_INSECURE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub insecure: bool,

    /// How many nodes
    #[arg(long, env = "BAILIFF_NODES", default_value_t = 6, value_name = "COUNT")]
    pub nodes: usize,

    /// In how many zones
    #[arg(long, env = "BAILIFF_ZONES", default_value_t = 3, value_name = "COUNT")]
    pub zones: usize,

    /// How many plain pods on each node
    #[arg(long, env = "BAILIFF_PODS_PER_NODE", default_value_t = 0, value_name = "COUNT")]
    pub pods_per_node: usize,

    /// How long these pods tolerate a node that is not ready or unreachable (default: the API server's 300)
    #[arg(long, env = "BAILIFF_POD_TOLERATION_SECONDS", value_name = "SECONDS")]
    pub pod_toleration_seconds: Option<u32>,

    /// Keep these pods up by a ReplicaSet, so that evicted ones come back elsewhere
    #[arg(
        long, env = "BAILIFF_REPLACE_EVICTED", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub replace_evicted: bool,

    /// Have these pods controlled by their node, as static pods are, so that no DaemonSet may adopt them
    #[arg(
        long, env = "BAILIFF_NODE_OWNED", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub node_owned: bool,

    /// Write a kubeconfig for this sandbox to this file: one that is made beside it, and only its owner can read, takes its place
    #[arg(long, env = "BAILIFF_WRITE_KUBECONFIG", value_name = "FILE")]
    pub write_kubeconfig: Option<PathBuf>,

    /// CSV file of bearer tokens: token,user,uid,"group1,group2" (default: one token of an administrator, in the kubeconfig)
    #[arg(long, env = "BAILIFF_TOKEN_AUTH_FILE", value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Requests without a token are system:anonymous; without effect if everything is allowed, as in kube-apiserver
    #[arg(
        long, env = "BAILIFF_ANONYMOUS_AUTH", default_value = "true", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub anonymous_auth: bool,

    /// Who may do what
    #[arg(
        long,
        env = "BAILIFF_AUTHORIZATION_MODE",
        default_value = "AlwaysAllow",
        value_name = "MODE"
    )]
    pub authorization_mode: AuthorizationMode,
}

/// How requests are authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthorizationMode {
    /// Everybody may do everything
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// By Roles and their bindings
    #[value(name = "RBAC")]
    Rbac,
}

// === impl SandboxFlags ===

impl SandboxFlags {
    /// The cluster to build, none for a bare API server.
    pub fn cluster(&self) -> Option<ClusterSpec> {
        let spec = ClusterSpec {
            nodes: self.nodes,
            zones: self.zones,
            pods_per_node: self.pods_per_node,
            replace_evicted: self.replace_evicted,
            node_owned: self.node_owned,
            toleration_seconds: self.pod_toleration_seconds,
            ..ClusterSpec::default()
        };
        (!self.bare).then_some(spec)
    }

    /// Only this machine reaches it.
    pub fn is_private(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Requests without a token are answered.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous_auth && self.authorization_mode != AuthorizationMode::AlwaysAllow
    }
}

impl Validate for SandboxFlags {
    fn validate(&self) -> Result<(), Error> {
        if !self.is_private() && self.token_auth_file.is_none() {
            let allowed = "beyond this machine --token-auth-file is required";
            return Err(Error::new("listen", self.listen, allowed));
        }
        if self.node_owned && self.replace_evicted {
            return Err(Error::new(
                "node-owned",
                true,
                "allowed without --replace-evicted, whose pods have a ReplicaSet for a controller",
            ));
        }
        if let Some(spec) = self.cluster()
            && let Err(crate::cluster::Error::Spec { field, value, allowed }) = spec.validate()
        {
            let flag = match field {
                "zones" => "zones",
                "nodes" => "nodes",
                _ => "pods-per-node",
            };
            return Err(Error::new(flag, value, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::parse_from;
    use clap::Parser;

    use super::*;

    #[derive(Clone, Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        sandbox: SandboxArgs,
    }

    fn parse(flags: &[&str]) -> Result<SandboxFlags, i32> {
        let arguments = ["sandbox"].iter().chain(flags);
        match parse_from::<Cli>(arguments) {
            Ok(cli) => Ok(cli.sandbox.into_inner()),
            Err(refusal) => Err(refusal.exit_code()),
        }
    }

    #[test]
    fn without_flags_there_are_six_nodes_in_three_zones_on_loopback() {
        let flags = parse(&[]).unwrap();
        assert!(flags.listen.ip().is_loopback());
        let spec = flags.cluster().unwrap();
        assert_eq!((spec.nodes, spec.zones, spec.pods_per_node), (6, 3, 0));
        assert_eq!(spec.toleration_seconds, None);
        let short = parse(&["--pod-toleration-seconds=30"]).unwrap();
        assert_eq!(short.cluster().unwrap().toleration_seconds, Some(30));
        assert_eq!(parse(&["--bare"]).unwrap().cluster(), None);
    }

    #[test]
    fn anonymous_requests_are_as_in_kube_apiserver() {
        let cases: [(&[&str], bool); 3] = [
            (&[], false),
            (&["--authorization-mode=RBAC"], true),
            (&["--authorization-mode=RBAC", "--anonymous-auth=false"], false),
        ];
        for (flags, wanted) in cases {
            assert_eq!(parse(flags).unwrap().is_anonymous(), wanted, "{flags:?}");
        }
    }

    #[test]
    fn wrong_flags_end_with_64() {
        let cases: [&[&str]; 8] = [
            &["--listen=0.0.0.0:7470"],
            &["--listen=0.0.0.0:7470", "--insecure"],
            &["--listen=here"],
            &["--zones=0"],
            &["--nodes=1000001"],
            &["--pods-per-node=200"],
            &["--authorization-mode=Sometimes"],
            &["--node-owned", "--replace-evicted"],
        ];
        for flags in cases {
            assert_eq!(parse(flags), Err(64), "{flags:?}");
        }
        let open = ["--listen=0.0.0.0:7470", "--token-auth-file=tokens.csv"];
        assert!(parse(&open).is_ok());
        assert!(parse(&["--node-owned", "--replace-evicted=false"]).is_ok());
    }
}
