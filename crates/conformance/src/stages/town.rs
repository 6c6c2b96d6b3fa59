//! What tests of suites play on.

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::cluster::{self, ClusterSpec};
use bailiff_sandbox::{Config, Sandbox, User, Verb};
use serde_json::Value;

use crate::timeline::{CANDIDATE, Timeline};

/// A cluster of a node with a pod and without kubelets, to which the program writes.
pub(super) struct Town {
    pub(super) sandbox: Sandbox,
    pub(super) timeline: Timeline,
}

impl Town {
    pub(super) fn new(clock: Clock) -> Self {
        let config = Config {
            history: 100,
            ..Config::default()
        };
        let sandbox = Sandbox::new(config, clock.clone(), &Seed::new(1));
        let spec = ClusterSpec {
            nodes: 1,
            zones: 1,
            region: "region".to_owned(),
            pods_per_node: 1,
            replace_evicted: false,
            node_owned: false,
            toleration_seconds: Some(0),
        };
        cluster::build(&sandbox, &spec).expect("a cluster");
        let timeline = Timeline::new(sandbox.clone(), clock);
        Self { sandbox, timeline }
    }

    /// The program makes a request.
    pub(super) fn request(&self, verb: Verb, path: &str, body: &Value) {
        let program = User::new(CANDIDATE, &["system:masters"]);
        self.sandbox.request(&program, verb, path, body).expect("it is allowed");
    }
}
