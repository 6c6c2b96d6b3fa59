//! What happens in a story, done.

use std::time::Duration;

use bailiff_model::{HoldScope, NodeName, wellknown};
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_sandbox::{User, Verb};
use bailiff_stage::brake::{self, pauses::Pause};
use serde_json::{Value, json};

use super::{Act, Player, create_node};
use crate::StageName;
use crate::chaos::faults::Cut;
use crate::chaos::story::{Deed, Story};
use crate::fixture::Error;

/// Name of a kube-controller-manager's Lease, and of its field manager.
const RIVAL: &str = "kube-controller-manager";

impl Player {
    pub(super) async fn deed(&mut self, deed: Deed) -> Result<(), Error> {
        match deed {
            Deed::Silence(nodes) => self.kubelets(&nodes, "alive", "false").await?,
            Deed::Return(nodes) => self.kubelets(&nodes, "alive", "true").await?,
            Deed::Ready(nodes, is_ready) => {
                let text = if is_ready { "True" } else { "False" };
                self.kubelets(&nodes, "ready", text).await?;
            }
            Deed::Divide(stage, shards) => {
                self.fixture.roll(stage, Story::division(shards)).await?;
                self.starts.push((self.fixture.clock.now().mono, stage));
            }
            other => self.objects(other),
        }
        Ok(())
    }

    /// What people do to objects.
    fn objects(&mut self, deed: Deed) {
        match deed {
            Deed::Taint { node, key, value } => self.taint(&node, &key, Some(&value)),
            Deed::Untaint { node, key } => self.taint(&node, &key, None),
            Deed::DeleteNode(node) => self.request(Verb::Delete, &format!("/api/v1/nodes/{node}"), &Value::Null),
            Deed::CreateNode(node, zone) => {
                // It may be there: nobody deleted it, or it was created again already.
                let _ = create_node(&self.fixture, &node, &zone);
            }
            Deed::Relabel(node, zone) => {
                let labels = json!({"metadata": {"labels": {(wellknown::LABEL_ZONE): zone}}});
                self.request(Verb::MergePatch, &format!("/api/v1/nodes/{node}"), &labels);
            }
            Deed::CreatePod { name, node, tolerates } => {
                self.request(
                    Verb::Create,
                    "/api/v1/namespaces/default/pods",
                    &Story::pod(&name, &node, tolerates),
                );
            }
            Deed::DeletePod(name) => self.request(Verb::Delete, &format!("/api/v1/namespaces/default/pods/{name}"), &Value::Null),
            Deed::Image(version) => {
                let spec = &Story::daemon_set(version, (1, 0))["spec"]["template"]["spec"];
                let patch = json!({"spec": {"template": {"spec": spec}}});
                self.request(Verb::MergePatch, "/apis/apps/v1/namespaces/default/daemonsets/agent", &patch);
            }
            other => self.disturb(other),
        }
    }

    /// What happens to stages, to what is between them, and beside them.
    fn disturb(&mut self, deed: Deed) {
        match deed {
            Deed::Kill(stage, span) => {
                self.fixture.kill_stage(stage);
                self.plan(self.at() + span, Act::Start(stage));
            }
            Deed::KillReplica(stage, number, span) => {
                self.fixture.kill_replica(stage, number);
                self.plan(self.at() + span, Act::Start(stage));
            }
            Deed::KillBus(span) => {
                self.fixture.server.kill();
                self.plan(self.at() + span, Act::StartBus);
            }
            Deed::Disconnect => self.fixture.server.disconnect(),
            Deed::Step(stage, by) => {
                self.fixture.clock_of(stage).step(by);
                self.steps.push((stage, by));
            }
            Deed::Storm(storm) => self.faults.storm(storm),
            Deed::Cut(stage, cut) => self.cut(stage, cut, true),
            Deed::Mend(stage, cut) => self.cut(stage, cut, false),
            Deed::Pause(..) | Deed::Resume(_) | Deed::Scribble | Deed::ForgetPauses => self.pauses(&deed),
            Deed::Rival(span) => {
                let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
                self.request(Verb::Create, path, &json!({"metadata": {"name": RIVAL}, "spec": {}}));
                let until = self.at() + span;
                self.rival(until, 0);
            }
            Deed::Budget(least) => self.budget(least),
            Deed::Release(node) => {
                let labels = json!({"metadata": {"labels": {"app": "loose"}}});
                self.daemon_pods(&node, |player, path| player.request(Verb::MergePatch, path, &labels));
            }
            Deed::DeleteDaemon(node) => self.daemon_pods(&node, |player, path| player.request(Verb::Delete, path, &Value::Null)),
            // All others are done by then.
            _ => {}
        }
    }

    fn cut(&self, stage: StageName, cut: Cut, is_cut: bool) {
        match (self.fixture.line_of(stage).filter(|_| cut == Cut::Bus), is_cut) {
            (Some(line), true) => line.cut(),
            (Some(line), false) => line.mend(),
            (None, _) => self.faults.cut(stage, cut, is_cut),
        }
    }

    /// Does something to the daemon pod of a node.
    fn daemon_pods(&self, node: &str, act: impl Fn(&Self, &str)) {
        let (_, pods) = self.fixture.sandbox.list("pods");
        for pod in pods {
            let value = pod.value();
            if value["metadata"]["labels"]["app"] == "agent" && value["spec"]["nodeName"] == *node {
                act(self, &format!("/api/v1/namespaces/{}/pods/{}", pod.namespace(), pod.name()));
            }
        }
    }

    /// Writes the ConfigMap of pauses, as `bailiff pause` and `bailiff resume` do.
    fn pauses(&self, deed: &Deed) {
        let since = self.fixture.clock.wall();
        let mk = |scope: &HoldScope, span: Duration| Pause {
            scope: scope.clone(),
            since: Some(since),
            until: since + span,
            reason: "for the sake of it".to_owned(),
            by: String::new(),
        };
        let data = match deed {
            Deed::Pause(scope, span) => {
                let pause = mk(scope, *span);
                json!({(pause.key()): pause.to_entry()})
            }
            Deed::Resume(scope) => json!({(mk(scope, Duration::ZERO).key()): null}),
            Deed::Scribble => json!({"note": "paused, I think"}),
            _ => return self.request(Verb::Delete, &format!("{}/{}", brake::COLLECTION, brake::NAME), &Value::Null),
        };
        // There by now, or refused because it is.
        self.request(Verb::Create, brake::COLLECTION, &json!({"metadata": {"name": brake::NAME}}));
        self.request(
            Verb::MergePatch,
            &format!("{}/{}", brake::COLLECTION, brake::NAME),
            &json!({"data": data}),
        );
    }

    /// A kube-controller-manager renews its Lease every second, and every few seconds it says that it did a duty of ours.
    pub(super) fn rival(&mut self, until: Duration, turn: u32) {
        let now = format!("{:.6}", self.fixture.clock.wall());
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{RIVAL}?fieldManager={RIVAL}");
        let spec = json!({"holderIdentity": "kcm", "renewTime": now, "leaseDurationSeconds": 15});
        self.request(Verb::MergePatch, &lease, &json!({"spec": spec}));
        let at = self.at();
        if turn % 5 == 3 {
            for controller in ["node-controller", "taint-eviction-controller", "daemonset-controller"] {
                let event = json!({
                    "metadata": {"name": format!("{controller}-{}", at.as_millis()), "namespace": "default"}, "eventTime": now,
                    "reportingController": controller, "reportingInstance": "kcm", "action": "x", "reason": "x", "type": "Normal",
                    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
                });
                let path = format!("/apis/events.k8s.io/v1/namespaces/default/events?fieldManager={RIVAL}");
                self.request(Verb::Create, &path, &event);
            }
        }
        if at < until {
            self.plan(at + Duration::from_secs(1), Act::Rival { until, turn: turn + 1 });
        }
    }

    fn budget(&self, least: usize) {
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}});
        self.request(Verb::Create, path, &json!({"metadata": {"name": "web"}, "spec": spec}));
        self.request(
            Verb::MergePatch,
            &format!("{path}/web"),
            &json!({"spec": {"minAvailable": least}}),
        );
    }

    /// What the cluster's own people do; what cannot be done because the object is gone is not done.
    fn request(&self, verb: Verb, path: &str, body: &Value) {
        let _ = self.fixture.sandbox.request(&User::admin(), verb, path, body);
    }

    fn taint(&self, node: &str, key: &str, value: Option<&str>) {
        let added = self.fixture.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let _ = self.fixture.sandbox.modify("nodes", ("", node, ""), |object| {
            let mut taints = object
                .pointer("/spec/taints")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            taints.retain(|taint| taint["key"] != key);
            if let Some(value) = value {
                taints.push(json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": added}));
            }
            object["spec"]["taints"] = taints.into();
            true
        });
    }

    async fn kubelets(&self, nodes: &[String], setting: &str, text: &str) -> Result<(), Error> {
        for node in nodes {
            let change = Change::default().with(setting, text).expect("the kubelets have this setting");
            self.fixture
                .driver
                .change(Target::Node(NodeName::from(node.as_str())), change)
                .await?;
        }
        Ok(())
    }
}
