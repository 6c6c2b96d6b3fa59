//! What may happen in a random history.

use std::time::Duration;

use bailiff_daemonset_core::{FailureKind, Input, Watched};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds};
use serde_json::{Value, json};

use super::Life;
use crate::model::{ANSWERS, DAEMONSETS, PODS, REVISIONS, all_pods, merge, path_of, scope, some_pods};

impl Life {
    fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        self.dice.pick(items).expect("not empty")
    }

    /// The path of one of the objects there are.
    fn any(&mut self, prefix: &str) -> Option<String> {
        let paths = self.cluster.objects.keys().filter(|path| path.starts_with(prefix));
        let paths: Vec<String> = paths.cloned().collect();
        self.dice.pick(&paths)
    }

    // === nodes ===

    pub(super) fn add_node(&mut self) {
        let name = format!("n{}", self.dice.roll(8));
        if !self.cluster.objects.contains_key(&format!("nodes/{name}")) {
            self.cluster.add_node(&name, json!({}), json!([]));
        }
    }

    pub(super) fn remove_node(&mut self) {
        if let Some(node) = self.any("nodes/") {
            self.cluster.remove(&node);
        }
    }

    pub(super) fn taint_node(&mut self) {
        let taints = self.one_of(&[
            json!([]),
            json!([{"key": "k", "effect": "NoSchedule"}]),
            json!([{"key": "k", "effect": "NoExecute"}]),
            json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
        ]);
        if let Some(node) = self.any("nodes/") {
            self.cluster.change(&node, json!({"spec": {"taints": taints}}));
        }
    }

    pub(super) fn label_node(&mut self) {
        let label = self.one_of(&["b", "c"]);
        if let Some(node) = self.any("nodes/") {
            self.cluster.change(&node, json!({"metadata": {"labels": {"a": label}}}));
        }
    }

    // === the DaemonSet ===

    pub(super) fn edit(&mut self) {
        let edit = self.one_of(&[
            json!({"template": {"spec": {"nodeSelector": null}}}),
            json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}),
            json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}),
            json!({"template": {"spec": {"tolerations": null}}}),
            json!({"minReadySeconds": 0}),
            json!({"minReadySeconds": 5}),
            json!({"revisionHistoryLimit": 0}),
            json!({"revisionHistoryLimit": 2}),
        ]);
        self.cluster.edit(edit);
    }

    pub(super) fn change_strategy(&mut self) {
        let strategy = self.one_of(&[
            json!({"type": "OnDelete", "rollingUpdate": null}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "50%"}}),
        ]);
        self.cluster.edit(json!({"updateStrategy": strategy}));
    }

    pub(super) fn annotate(&mut self) {
        let annotations = self.one_of(&[
            json!({"bailiff.dev/rollout-paused": "true"}),
            json!({"bailiff.dev/rollout-paused": null}),
            json!({"bailiff.dev/rollout-partition": "50%"}),
            json!({"bailiff.dev/rollout-partition": null}),
            json!({"bailiff.dev/rollout-order": "a=c"}),
            json!({"bailiff.dev/rollout-order": null}),
            json!({"bailiff.dev/strict-max-unavailable": "true"}),
            json!({"bailiff.dev/strict-max-unavailable": null}),
        ]);
        let patch = json!({"metadata": {"annotations": annotations}});
        self.cluster.change("daemonsets/ds", patch);
    }

    // === pods and revisions ===

    pub(super) fn kubelet(&mut self) {
        let pods = self.cluster.pods();
        if let Some(pod) = self.dice.pick(&pods) {
            self.cluster.kubelet(&pod);
        }
    }

    pub(super) fn break_pod(&mut self) {
        let pods = self.cluster.pods();
        let Some(pod) = self.dice.pick(&pods) else { return };
        let now = self.cluster.now.wall.to_string();
        match self.dice.roll(5) {
            0 => self.cluster.remove(&path_of(&pod)),
            1 if pod.bound => self.cluster.set_phase(&pod, "Failed", false),
            2 if pod.bound => self.cluster.set_phase(&pod, "Succeeded", false),
            3 if pod.bound && !pod.is_terminal() => {
                let patch = json!({"metadata": {"deletionTimestamp": now}});
                self.cluster.change(&path_of(&pod), patch);
            }
            _ if pod.bound && !pod.is_terminal() => self.cluster.set_phase(&pod, "Running", false),
            _ => {}
        }
    }

    pub(super) fn meddle_with_pod(&mut self) {
        let Some(path) = self.any("pods/") else { return };
        match self.dice.roll(4) {
            0 => self.let_go(&path),
            1 => self.relabel(&path, "other"),
            2 => self.relabel(&path, "ds"),
            _ => self.add_twin(&path, json!({"metadata": {"deletionTimestamp": null}})),
        }
    }

    pub(super) fn meddle_with_revision(&mut self) {
        let Some(path) = self.any("controllerrevisions/") else {
            return;
        };
        let number = self.dice.roll(9);
        match self.dice.roll(5) {
            0 => self.cluster.remove(&path),
            1 => self.let_go(&path),
            2 => self.relabel(&path, "other"),
            3 => {
                let labels = json!({"controller-revision-hash": format!("twin-{number}")});
                self.add_twin(&path, json!({"metadata": {"labels": labels}, "revision": number}));
            }
            _ => self.list_revisions(),
        }
    }

    fn let_go(&mut self, path: &str) {
        self.cluster.change(path, json!({"metadata": {"ownerReferences": null}}));
    }

    fn relabel(&mut self, path: &str, app: &str) {
        self.cluster.change(path, json!({"metadata": {"labels": {"app": app}}}));
    }

    /// Another object like this one, but for what the patch says.
    fn add_twin(&mut self, path: &str, patch: Value) {
        let mut twin = self.cluster.objects[path].clone();
        let name = format!("twin-{}", self.cluster.changes());
        merge(&mut twin, &json!({"metadata": {"name": name, "uid": null}}));
        merge(&mut twin, &patch);
        let (kind, _) = path.split_once('/').expect("a kind");
        self.cluster.put(&format!("{kind}/{name}"), twin);
    }

    // === watches and requests ===

    pub(super) fn deliver(&mut self, is_meant: impl Fn(&usize) -> bool) {
        let pending: Vec<usize> = self.cluster.pending().into_iter().filter(is_meant).collect();
        if let Some(stream) = self.dice.pick(&pending) {
            self.cluster.deliver(stream);
        }
    }

    /// Every watch breaks; answers come all the same.
    pub(super) fn break_watches(&mut self) {
        let mut answers = self.cluster.hold_back(ANSWERS);
        self.cluster.relist();
        answers.extend(self.cluster.hold_back(ANSWERS));
        self.cluster.give_back(ANSWERS, answers);
    }

    fn list_revisions(&mut self) {
        self.cluster.hold_back(REVISIONS);
        let revisions = self.cluster.revisions();
        self.cluster.feed(Input::Revisions(revisions.into()));
    }

    /// The watch of pods breaks, and while its list comes other news do; the list may break off too, and take so long that the core is
    /// told.
    pub(super) fn list_pods_slowly(&mut self) {
        let (breaks_off, is_stale) = (self.dice.roll(2) == 0, self.dice.roll(2) == 0);
        let mut rest = self.begin_list();
        if is_stale {
            let (watch, reason) = (Watched::Pods(scope()), "slow".to_owned());
            self.cluster.feed(Input::WatchStale { watch, reason });
        }
        // What happens to pods meanwhile comes after the list; and of a watch that ends, as it does with the last DaemonSet, no list does.
        let is_wild = self.is_wild;
        for _ in 0..self.dice.roll(20) {
            self.deliver(|stream| *stream != PODS && !(is_wild && *stream == DAEMONSETS));
        }
        if is_stale {
            let by = Duration::from_secs(70 * self.dice.roll(8));
            self.cluster.pass_some(by);
        }
        if breaks_off {
            rest = self.begin_list();
        }
        self.cluster.feed(rest);
        if is_stale {
            self.cluster.feed(Input::WatchFresh(Watched::Pods(scope())));
        }
    }

    /// Lists some of the pods, and returns the rest. What the watch had not said yet it says no more.
    fn begin_list(&mut self) -> Input {
        self.cluster.hold_back(PODS);
        let mut pods = self.cluster.pods();
        let rest = pods.split_off(self.dice.roll(pods.len() as u64 + 1) as usize);
        self.cluster.feed(some_pods(true, pods));
        all_pods(rest)
    }

    /// From now on requests of one kind fail, or none do any more.
    pub(super) fn toggle_failure(&mut self) {
        if self.cluster.failures.pop().is_some() {
            return;
        }
        let what = self.one_of(&[
            "create pods",
            "delete pods",
            "adopt pods",
            "release pods",
            "status",
            "get daemonsets",
            "create controllerrevisions",
            "delete controllerrevisions",
            "adopt controllerrevisions",
            "get controllerrevisions",
            "label",
            "renumber",
        ]);
        let kind = self.one_of(&[
            FailureKind::Other,
            FailureKind::Unknown,
            FailureKind::Invalid,
            FailureKind::NotSent,
            FailureKind::AlreadyExists,
        ]);
        // Names of pods are drawn, and may be taken; that another name is taken is only said if it is true.
        if kind != FailureKind::AlreadyExists || what == "create pods" {
            self.cluster.failures.push((what, kind));
        }
    }

    // === what happens in wild histories only ===

    pub(super) fn act_wildly(&mut self) {
        match self.dice.roll(12) {
            0..=3 => {
                self.cluster.creates_wait = !self.cluster.creates_wait;
                let most = self.dice.roll(3) as usize;
                self.cluster.send(most);
            }
            4..=6 => self.pause(),
            7 | 8 => self.go_stale(),
            9 | 10 => self.cluster.feed(Input::WatchFresh(Watched::Nodes)),
            _ => self.make_daemonset_anew(),
        }
    }

    /// The opposite of what wild acts have begun.
    pub(super) fn calm_down(&mut self) {
        self.cluster.creates_wait = false;
        self.cluster.feed(Input::Braked(Holds::NONE));
        self.cluster.feed(Input::WatchFresh(Watched::Nodes));
    }

    fn go_stale(&mut self) {
        let (watch, reason) = (Watched::Nodes, "slow".to_owned());
        self.cluster.feed(Input::WatchStale { watch, reason });
    }

    /// Pods of all nodes, of one or of none are held.
    fn pause(&mut self) {
        let hold = Hold {
            reason: HoldReason::Paused,
            detail: "wild".to_owned(),
            since: self.cluster.now.wall,
            until: None,
        };
        let node = format!("n{}", self.dice.roll(4));
        let scopes = [None, Some(HoldScope::All), Some(HoldScope::Node(node.as_str().into()))];
        let holds = self.one_of(&scopes).map(|scope| (scope, hold)).into_iter().collect();
        self.cluster.feed(Input::Braked(holds));
    }

    /// The DaemonSet is deleted, with what belongs to it or without, and another one of its name comes.
    fn make_daemonset_anew(&mut self) {
        if self.dice.roll(2) == 0 {
            let owned = |path: &&String| path.starts_with("pods/") || path.starts_with("controllerrevisions/");
            let owned: Vec<String> = self.cluster.objects.keys().filter(owned).cloned().collect();
            for path in owned {
                self.let_go(&path);
            }
        }
        self.cluster.remove("daemonsets/ds");
        self.cluster.add_daemonset("ds", json!({}));
    }

    pub(super) fn collect_orphans_of_the_dead(&mut self) {
        let uid = json!(&*self.cluster.daemonset().uid);
        let is_of_another = |object: &Value| {
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            !owner.is_null() && *owner != uid
        };
        let dead = self.cluster.objects.iter().filter(|(_, object)| is_of_another(object));
        let dead: Vec<String> = dead.map(|(path, _)| path.clone()).collect();
        for path in dead {
            self.cluster.remove(&path);
        }
    }
}
