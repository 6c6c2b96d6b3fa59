use super::*;

const UID: &str = "0a1b2c3d-0000-4000-8000-0123456789ab";

/// A history that is written one object at a time.
#[derive(Default)]
struct History {
    writes: Vec<Write>,
}

impl History {
    fn add(&mut self, t: f64, by_controllers: bool, kind: Kind, what: What, object: Value) {
        let uid = object.pointer("/metadata/uid").cloned();
        let last = self
            .writes
            .iter()
            .rev()
            .find(|write| write.object.pointer("/metadata/uid").cloned() == uid);
        let previous = last.map(|write| write.object.clone());
        self.writes.push(Write {
            t,
            by_controllers,
            kind,
            what,
            object,
            previous,
        });
    }

    fn observe(self) -> Observed {
        observe(self.writes, 100.0, &[])
    }
}

fn node(name: &str, uid: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut node = json!({
        "metadata": {"name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "1"}},
        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m",
            "lastHeartbeatTime": "2026-01-01T00:00:09Z", "lastTransitionTime": "2026-01-01T00:00:01Z"}]},
    });
    change(&mut node);
    node
}

fn daemon_pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "generateName": "ds-", "labels": {"controller-revision-hash": "h4sh"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": UID, "controller": true}],
        },
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}},
            "containers": [{"name": "c", "image": "i", "resources": {}}],
        },
    })
}

fn revision(name: &str, uid: &str, hash: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "labels": {"controller-revision-hash": hash},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "controller": true, "blockOwnerDeletion": true}],
        },
        "revision": 1, "data": {"spec": {"b": 1, "a": 2}},
    })
}

fn event(name: &str, object: (&str, &str, &str), message: &str, count: u64) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name}, "reason": "R", "type": "Normal", "message": message,
        "involvedObject": {"kind": object.0, "namespace": object.1, "name": object.2, "uid": UID}, "reportingComponent": "c",
        "series": {"count": count},
    })
}

/// The transitions of an object, without their times.
fn lines(observed: &Observed, object: &str) -> Vec<Value> {
    let steps = observed.transitions.get(object).map_or(&[] as &[_], Vec::as_slice);
    steps.iter().map(|step| Value::Object(step.fields.clone())).collect()
}

#[test]
fn only_what_controllers_wrote_is_listed() {
    let mut history = History::default();
    history.add(0.0, false, Kind::Node, What::Created, node("n1", "u1", |_| {}));
    let tainted = node("n1", "u1", |node| {
        node["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}])
    });
    history.add(1.0, false, Kind::Node, What::Changed, tainted.clone());
    let mut labelled = tainted;
    labelled["metadata"]["labels"] = json!({"b": "2"});
    history.add(2.0, true, Kind::Node, What::Changed, labelled);
    let observed = history.observe();
    let wanted = [
        json!({"change": "label", "key": "a", "from": "1", "to": null}),
        json!({"change": "label", "key": "b", "from": null, "to": "2"}),
    ];
    assert_eq!(lines(&observed, "node/n1"), wanted);
    assert_eq!(observed.finals["node/n1"]["taints"], json!(["k=:NoExecute"]));
}

#[test]
fn taints_and_conditions_are_told_as_recordings_tell_them() {
    let mut history = History::default();
    history.add(0.0, false, Kind::Node, What::Created, node("n1", "u1", |_| {}));
    let taint = |value: &str, at: &str| json!({"key": "k", "effect": "NoExecute", "value": value, "timeAdded": at});
    let steps: [fn(&mut Value); 3] = [
        |node| node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:10Z".into(),
        |node| node["status"]["conditions"][0]["status"] = "Unknown".into(),
        |node| {
            node["status"]["conditions"].as_array_mut().expect("conditions").push(json!({
            "type": "PIDPressure", "status": "Unknown", "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:20Z",
        }))
        },
    ];
    let mut state = node("n1", "u1", |_| {});
    for (t, step) in [1.0, 2.0, 3.0].into_iter().zip(steps) {
        step(&mut state);
        history.add(t, true, Kind::Node, What::Changed, state.clone());
    }
    for (t, taints) in [
        (4.0, json!([taint("", "a")])),
        (5.0, json!([taint("v", "b")])),
        (6.0, json!([])),
    ] {
        state["spec"]["taints"] = taints;
        history.add(t, true, Kind::Node, What::Changed, state.clone());
    }
    let wanted = [
        json!({"change": "condition", "type": "Ready", "from": "True", "to": "Unknown", "reason": "R", "message": "m",
               "lastTransitionTime": "kept", "lastHeartbeatTime": "kept"}),
        json!({"change": "condition", "type": "PIDPressure", "from": null, "to": "Unknown", "reason": "", "message": "",
               "lastTransitionTime": "set", "lastHeartbeatTime": "creationTimestamp"}),
        json!({"change": "taint-added", "key": "k", "effect": "NoExecute", "value": "", "timeAdded": "set"}),
        json!({"change": "taint-value", "key": "k", "effect": "NoExecute"}),
        json!({"change": "taint-restamped", "key": "k", "effect": "NoExecute"}),
        json!({"change": "taint-removed", "key": "k", "effect": "NoExecute"}),
    ];
    assert_eq!(lines(&history.observe(), "node/n1"), wanted);
}

#[test]
fn deletions_of_pods_are_told_once() {
    let mut history = History::default();
    let pod = |name: &str| json!({"metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1}, "status": {"phase": "Running"}});
    let mark = json!([{"type": "DisruptionTarget", "status": "True", "observedGeneration": 1}, {"type": "PodScheduled", "status": "True"}]);
    for name in ["slow", "quick", "users"] {
        history.add(0.0, false, Kind::Pod, What::Created, pod(name));
    }
    let mut slow = pod("slow");
    slow["status"]["conditions"] = mark;
    history.add(1.0, true, Kind::Pod, What::Changed, slow.clone());
    slow["metadata"]["deletionTimestamp"] = "soon".into();
    slow["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    history.add(2.0, true, Kind::Pod, What::Changed, slow.clone());
    history.add(3.0, false, Kind::Pod, What::Gone, slow);
    history.add(4.0, true, Kind::Pod, What::Gone, pod("quick"));
    history.add(5.0, false, Kind::Pod, What::Gone, pod("users"));
    let observed = history.observe();
    let wanted = [
        json!({"change": "condition", "type": "DisruptionTarget", "from": null, "to": "True", "reason": "", "message": "",
               "lastTransitionTime": "none", "observedGeneration": "current"}),
        json!({"change": "delete", "grace": 30}),
    ];
    assert_eq!(lines(&observed, "pod/default/slow"), wanted);
    assert_eq!(
        lines(&observed, "pod/default/quick"),
        [json!({"change": "delete", "grace": 0})]
    );
    assert_eq!(lines(&observed, "pod/default/users"), [] as [Value; 0]);
    assert!(observed.finals.is_empty());
}

#[test]
fn names_chosen_at_run_time_are_replaced_everywhere() {
    let mut history = History::default();
    let set = json!({"metadata": {"name": "ds", "namespace": "default", "uid": "set"}});
    history.add(0.0, false, Kind::DaemonSet, What::Created, set);
    history.add(
        0.1,
        true,
        Kind::ControllerRevision,
        What::Created,
        revision("ds-h4sh", "r1", "h4sh"),
    );
    history.add(0.2, true, Kind::Pod, What::Created, daemon_pod("ds-x7k2p", "n1"));
    history.add(0.3, true, Kind::Pod, What::Created, daemon_pod("ds-bcdfg", "n1"));
    history.add(
        0.4,
        false,
        Kind::ControllerRevision,
        What::Created,
        revision("ds-copy", "r2", "copy"),
    );
    history.add(
        0.5,
        false,
        Kind::ControllerRevision,
        What::Gone,
        revision("ds-h4sh", "r1", "h4sh"),
    );
    history.add(
        0.6,
        true,
        Kind::ControllerRevision,
        What::Created,
        revision("ds-h4sh-1", "r3", "h4sh"),
    );
    let about = ("DaemonSet", "default", "ds");
    for (nth, message) in [
        "Created pod: ds-bcdfg",
        "pods \"ds-zzzzz\" refused.",
        "on default/ds-x7k2p.",
        &format!("is {UID}"),
    ]
    .into_iter()
    .enumerate()
    {
        history.add(
            1.0,
            true,
            Kind::Event,
            What::Created,
            event(&format!("e{nth}"), about, message, 1),
        );
    }
    let observed = history.observe();
    let objects: Vec<&String> = observed.finals.keys().collect();
    let wanted = [
        "controllerrevision/default/ds-<ds-hash-1>/recreated-1",
        "controllerrevision/default/ds-copy",
        "daemonset/default/ds",
        "pod/default/ds@n1#1",
        "pod/default/ds@n1#2",
    ];
    assert_eq!(objects, wanted);
    let created = &lines(&observed, "controllerrevision/default/ds-<ds-hash-1>/recreated-1")[0];
    assert_eq!(
        (&created["name"], &created["data_keys_sorted"]),
        (&json!("ds-h4sh-1"), &json!(false))
    );
    let pod = &lines(&observed, "pod/default/ds@n1#1")[0];
    assert_eq!(pod["labels"]["controller-revision-hash"], "<ds-hash-1>");
    assert_eq!(
        (&pod["node"], &pod["bound"], &pod["hostNetwork"]),
        (&json!("n1"), &json!(false), &json!(false))
    );
    assert_eq!(
        pod["owner"],
        json!(["apps/v1/DaemonSet/ds controller=true blockOwnerDeletion=false"])
    );
    let messages: Vec<&str> = observed.events.iter().map(|event| event.message.as_str()).collect();
    let wanted = [
        "Created pod: ds@n1#2",
        "pods \"ds-<random>\" refused.",
        "on default/ds@n1#1.",
        "is <uid>",
    ];
    assert_eq!(messages, wanted);
}

#[test]
fn objects_made_again_are_told_apart_but_not_in_events() {
    let mut history = History::default();
    history.add(0.0, false, Kind::Node, What::Created, node("n1", "u1", |_| {}));
    history.add(1.0, false, Kind::Node, What::Gone, node("n1", "u1", |_| {}));
    history.add(2.0, false, Kind::Node, What::Created, node("n1", "u2", |_| {}));
    history.add(
        3.0,
        true,
        Kind::Node,
        What::Changed,
        node("n1", "u2", |node| node["metadata"]["labels"] = json!({})),
    );
    history.add(
        4.0,
        true,
        Kind::Event,
        What::Created,
        event("e1", ("Node", "", "n1"), "(combined from similar events): m", 2),
    );
    history.add(5.0, true, Kind::Event, What::Created, event("e2", ("Node", "", "n1"), "m", 1));
    history.add(6.0, true, Kind::Event, What::Changed, event("e2", ("Node", "", "n1"), "m", 5));
    history.add(
        7.0,
        false,
        Kind::Event,
        What::Created,
        event("e3", ("Node", "", "n1"), "of a kubelet", 1),
    );
    let observed = history.observe();
    assert_eq!(lines(&observed, "node/n1"), [] as [Value; 0]);
    assert_eq!(lines(&observed, "node/n1/recreated-1").len(), 1);
    let [event] = observed.events.as_slice() else {
        panic!("one text: {:?}", observed.events)
    };
    assert_eq!(
        (event.obj.as_str(), event.count, event.uid.as_deref()),
        ("node/n1", Some((7, 7)), Some("set"))
    );
}

#[test]
fn counters_of_a_status_are_values_over_time() {
    let mut history = History::default();
    let set =
        |status: Value| json!({"metadata": {"name": "ds", "namespace": "default", "uid": "s", "generation": 1}, "status": status});
    history.add(0.0, false, Kind::DaemonSet, What::Created, set(json!({})));
    history.add(
        1.0,
        true,
        Kind::DaemonSet,
        What::Changed,
        set(json!({"numberReady": 2, "observedGeneration": 1})),
    );
    history.add(
        2.0,
        true,
        Kind::DaemonSet,
        What::Changed,
        set(json!({"numberReady": 0, "observedGeneration": 1})),
    );
    let observed = history.observe();
    let wanted = [
        json!({"change": "status", "field": "numberReady", "to": 2}),
        json!({"change": "status", "field": "observedGeneration", "to": 1}),
        json!({"change": "status", "field": "numberReady", "to": 0}),
    ];
    assert_eq!(lines(&observed, "daemonset/default/ds"), wanted);
    let state = &observed.finals["daemonset/default/ds"];
    assert_eq!(
        (&state["status"]["observedGeneration"], &state["status"]["collisionCount"]),
        (&json!(1), &json!(0))
    );
}

#[test]
fn interchangeable_nodes_get_letters_in_the_order_they_were_served() {
    let mut history = History::default();
    for (name, uid) in [("n1", "u1"), ("n2", "u2"), ("n3", "u3")] {
        history.add(0.0, false, Kind::Node, What::Created, node(name, uid, |_| {}));
    }
    let taint = |t: f64, name: &str, uid: &str, effect: &str, history: &mut History| {
        let tainted = node(name, uid, |node| {
            node["spec"]["taints"] = json!([{"key": "k", "effect": effect}])
        });
        history.add(t, true, Kind::Node, What::Changed, tainted);
    };
    taint(1.0, "n1", "u1", "NoExecute", &mut history);
    taint(3.0, "n2", "u2", "NoSchedule", &mut history);
    taint(4.0, "n3", "u3", "NoExecute", &mut history);
    history.add(
        5.0,
        true,
        Kind::Event,
        What::Created,
        event("e", ("Node", "", "n3"), "Node n3 is not n33", 1),
    );
    let set: Interchangeable = serde_json::from_value(json!({
        "nodes": ["n1", "n2", "n3"], "name": "node", "rank_after": 2, "rank_by": {"effect": "NoExecute"},
    }))
    .expect("a set");
    let observed = observe(history.writes, 100.0, &[set]);
    let objects: Vec<&String> = observed.transitions.keys().collect();
    assert_eq!(objects, ["node/<node-a>", "node/<node-b>", "node/<node-c>"]);
    let first = |object: &str| observed.transitions[object][0].t;
    assert_eq!(
        (first("node/<node-a>"), first("node/<node-b>"), first("node/<node-c>")),
        (4.0, 1.0, 3.0)
    );
    assert_eq!(observed.events[0].message, "Node <node-a> is not n33");
}

#[test]
fn the_canary_and_what_comes_after_the_end_are_not_seen() {
    let mut history = History::default();
    let mut set = json!({"metadata": {"name": "canary", "namespace": CANARY, "uid": "c"}});
    history.add(0.0, false, Kind::DaemonSet, What::Created, set.clone());
    set["status"] = json!({"observedGeneration": 1});
    history.add(1.0, true, Kind::DaemonSet, What::Changed, set);
    history.add(101.0, true, Kind::Node, What::Created, node("n1", "u1", |_| {}));
    let observed = history.observe();
    assert!(observed.is_empty() && observed.finals.is_empty() && observed.events.is_empty());
}

#[test]
fn an_observation_is_written_as_a_recording() {
    let mut history = History::default();
    history.add(0.0, false, Kind::Node, What::Created, node("n1", "u1", |_| {}));
    for (t, label) in [(1.0, "b"), (1.5, "c"), (2.254, "d")] {
        history.add(
            t,
            true,
            Kind::Node,
            What::Changed,
            node("n1", "u1", |node| node["metadata"]["labels"] = json!({"a": label})),
        );
    }
    let written = history.observe().to_json();
    let groups: Vec<&Value> = written["observed"]["node/n1"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| &line["group"])
        .collect();
    assert_eq!(groups, [0, 0, 1]);
    assert_eq!(written["observed"]["node/n1"][2]["t"], json!([2.25, 2.25]));
    assert_eq!(written["final"]["node/n1"]["unschedulable"], json!(false));
}
