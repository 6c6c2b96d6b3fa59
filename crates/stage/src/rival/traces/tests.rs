use serde_json::{Value, json};

use super::*;

const KUBELET: &str = "kubelet";

/// Sees objects in both encodings, as far as they are watched in both, which tells the same.
struct Both([Traces; 2]);

impl Both {
    fn of(what: What) -> Self {
        Self([Traces::of(what), Traces::of(what)])
    }

    fn saw(&mut self, object: &str) -> Option<String> {
        let [json, protobuf] = &mut self.0;
        let seen = json.saw(&Encoded::Json(object));
        let again = match (json.what.message(), serde_json::from_str(object)) {
            (Some(message), Ok(value)) => {
                let bytes = bailiff_sandbox::protobuf::message(&value, message.name);
                protobuf.saw(&Encoded::Protobuf(bytes.into()))
            }
            _ => protobuf.saw(&Encoded::Json(object)),
        };
        assert_eq!(seen, again, "in protobuf: {object}");
        seen
    }

    fn saw_all(&mut self) -> Option<Past> {
        let [json, protobuf] = self.0.each_mut().map(Traces::saw_all);
        assert_eq!(json, protobuf);
        json
    }

    fn gone(&mut self, meta: &Meta) {
        for traces in &mut self.0 {
            traces.gone(meta);
        }
    }
}

/// An entry of `managedFields`.
fn mk_entry(manager: &str, subresource: &str, time: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
           "fieldsV1": fields, "subresource": subresource})
}

/// The fields of a condition that whoever sets it owns.
fn conditions(types: &[&str]) -> Value {
    let mut fields = json!({});
    for kind in types {
        fields[format!("k:{{\"type\":\"{kind}\"}}")] = json!({"f:status": {}, "f:reason": {}, "f:lastTransitionTime": {}});
    }
    json!({"f:status": {"f:conditions": fields}})
}

fn condition(kind: &str, status: &str, since: &str) -> Value {
    json!({"type": kind, "status": status, "lastTransitionTime": since})
}

fn taints() -> Value {
    json!({"f:spec": {"f:taints": {}}})
}

fn mk(name: &str, entries: &[Value], spec: Value, conditions: &[Value]) -> String {
    json!({"metadata": {"name": name, "managedFields": entries}, "spec": spec, "status": {"conditions": conditions}}).to_string()
}

fn tainted(at: &str) -> Value {
    json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": at}]})
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T00:01:00Z";

/// A node that was silent since `time`, as `manager` says.
fn unknown(time: &str, manager: &str) -> String {
    let entries = [mk_entry(manager, "status", time, conditions(&["Ready"]))];
    mk("n", &entries, json!({}), &[condition("Ready", "Unknown", time)])
}

/// A node that `manager` isolated at `time`.
fn isolated(time: &str, manager: &str) -> String {
    mk("n", &[mk_entry(manager, "", time, taints())], tainted(time), &[])
}

/// The rival owns what it set long ago, and writes something else now.
fn volumes_beside_conditions() -> String {
    let mut fields = conditions(&["Ready"]);
    fields["f:status"]["f:volumesAttached"] = json!({});
    let entries = [mk_entry(MANAGER, "status", LATE, fields)];
    mk("n", &entries, json!({}), &[condition("Ready", "Unknown", EARLY)])
}

/// The rival created the condition, which the kubelet sets since.
fn created_once() -> String {
    let fields = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}}}}});
    let entries = [
        mk_entry(MANAGER, "status", EARLY, fields),
        mk_entry(KUBELET, "status", LATE, conditions(&["Ready"])),
    ];
    mk("n", &entries, json!({}), &[condition("Ready", "True", LATE)])
}

/// What controllers of the same process that are not ours write of a node.
fn other_duties() -> [String; 3] {
    let volumes = mk_entry(MANAGER, "status", LATE, json!({"f:status": {"f:volumesAttached": {}}}));
    let range = mk_entry(MANAGER, "", LATE, json!({"f:spec": {"f:podCIDR": {}}}));
    let network = [mk_entry(MANAGER, "status", LATE, conditions(&["NetworkUnavailable"]))];
    let other_taints = json!({"taints": [{"key": "other", "effect": "NoSchedule"}]});
    [
        mk("n", &[volumes, range], json!({}), &[]),
        mk("n", &network, json!({}), &[condition("NetworkUnavailable", "True", LATE)]),
        mk("n", &[mk_entry(MANAGER, "", LATE, taints())], other_taints, &[]),
    ]
}

/// What a node was at first and is then, and whether that is the work of a rival.
#[test]
fn a_write_of_health_by_another_manager_is_seen_and_nothing_else() {
    let plain = mk(
        "n",
        &[mk_entry(KUBELET, "status", EARLY, conditions(&["Ready"]))],
        json!({}),
        &[],
    );
    let (unknown_before, isolated_before) = (unknown(EARLY, MANAGER), isolated(EARLY, MANAGER));
    let [addresses, network, taints] = other_duties();
    let cases = [
        ("conditions", &plain, unknown(LATE, MANAGER), true),
        ("conditions again", &unknown_before, unknown(LATE, MANAGER), true),
        ("conditions of before", &unknown_before, unknown(EARLY, MANAGER), false),
        ("conditions that are ours", &plain, unknown(LATE, "bailiff"), false),
        ("taints", &plain, isolated(LATE, MANAGER), true),
        ("taints of before", &isolated_before, isolated(EARLY, MANAGER), false),
        ("taints that are ours now", &isolated_before, isolated(LATE, "bailiff"), false),
        (
            "volumes on a node of before",
            &unknown_before,
            volumes_beside_conditions(),
            false,
        ),
        ("the kubelet is back", &unknown_before, created_once(), false),
        ("addresses and volumes", &plain, addresses, false),
        ("another condition", &plain, network, false),
        ("other taints", &plain, taints, false),
    ];
    for (case, first, then, is_seen) in cases {
        let mut traces = Both::of(What::Nodes);
        assert_eq!(traces.saw(first), None, "{case}: the past is none");
        traces.saw_all();
        let seen = traces.saw(&then);
        assert_eq!(seen.is_some(), is_seen, "{case}: {seen:?}");
    }
}

/// What somebody else took over in the meantime, so that the rival does not even stand in the object any more, is new when it is back.
#[test]
fn what_the_rival_lost_and_has_again_is_a_write() {
    for (owned, other) in [
        (unknown(EARLY, MANAGER), unknown(EARLY, KUBELET)),
        (isolated(EARLY, MANAGER), isolated(EARLY, "bailiff")),
    ] {
        let mut traces = Both::of(What::Nodes);
        traces.saw(&owned);
        traces.saw_all();
        assert_eq!((traces.saw(&owned), traces.saw(&other)), (None, None));
        assert!(traces.saw(&owned).is_some());
        assert_eq!(traces.saw(&owned), None, "once");
    }
}

/// What a later list shows, and objects that come later, are not the past.
#[test]
fn only_the_first_list_is_the_past() {
    let unknown = |name: &str, time: &str| {
        let entries = [mk_entry(MANAGER, "status", time, conditions(&["Ready"]))];
        mk(name, &entries, json!({}), &[condition("Ready", "Unknown", time)])
    };
    let mut traces = Both::of(What::Nodes);
    traces.saw(&unknown("a", EARLY));
    traces.saw_all();
    assert_eq!(traces.saw(&unknown("a", EARLY)), None, "listed again");
    assert_eq!(
        traces.saw(&unknown("b", EARLY)).as_deref(),
        Some("wrote health conditions of node b")
    );
    assert_eq!(
        traces.saw(&unknown("a", LATE)).as_deref(),
        Some("wrote health conditions of node a")
    );
    traces.gone(&Meta {
        name: "a".into(),
        ..Meta::default()
    });
    assert_eq!(
        traces.0.map(|traces| traces.known.len()),
        [1, 1],
        "nothing is kept of what is gone"
    );
}

#[test]
fn pods_tell_of_the_duty_by_ready_and_by_the_reason_of_the_disruption() {
    let pod = |kind: &str, reason: &str| {
        let entries = [mk_entry(MANAGER, "status", LATE, conditions(&[kind]))];
        let mut condition = condition(kind, "True", LATE);
        condition["reason"] = json!(reason);
        json!({"metadata": {"name": "p", "namespace": "d", "managedFields": entries}, "status": {"conditions": [condition]}})
            .to_string()
    };
    let created = mk("p", &[mk_entry(MANAGER, "", LATE, json!({"f:spec": {}}))], json!({}), &[]);
    let cases = [
        (pod("Ready", ""), Some("wrote conditions of pod d/p")),
        (
            pod("DisruptionTarget", "DeletionByTaintManager"),
            Some("wrote conditions of pod d/p"),
        ),
        (pod("DisruptionTarget", "DeletionByPodGC"), None),
        (created, None),
    ];
    for (pod, wanted) in cases {
        let mut traces = Both::of(What::Pods);
        traces.saw_all();
        assert_eq!(traces.saw(&pod).as_deref(), wanted, "{pod}");
    }
}

/// Another time is another write, whichever is the later one; what is lost to others is none.
#[test]
fn daemon_sets_and_events_tell_by_the_time_of_the_entry() {
    let set = |time: &str, manager: &str| {
        let entries = [
            mk_entry(MANAGER, "", LATE, json!({"f:metadata": {}})),
            mk_entry(manager, "status", time, json!({"f:status": {"f:numberReady": {}}})),
        ];
        json!({"metadata": {"name": "s", "namespace": "d", "managedFields": entries}}).to_string()
    };
    let mut traces = Both::of(What::DaemonSets);
    traces.saw(&set(LATE, MANAGER));
    traces.saw_all();
    assert_eq!(traces.saw(&set(LATE, MANAGER)), None);
    assert_eq!(
        traces.saw(&set(EARLY, MANAGER)).as_deref(),
        Some("wrote the status of DaemonSet d/s")
    );
    assert_eq!(traces.saw(&set(LATE, "bailiff")), None);

    let event = |manager: &str, reporter: Value| {
        let mut event = json!({"metadata": {"name": "e", "managedFields": [mk_entry(manager, "", LATE, json!({}))]}});
        for (field, value) in reporter.as_object().into_iter().flatten() {
            event[field] = value.clone();
        }
        event.to_string()
    };
    let cases = [
        (event(MANAGER, json!({"reportingComponent": "node-controller"})), true),
        (
            event(
                MANAGER,
                json!({"reportingComponent": "", "source": {"component": "node-controller"}}),
            ),
            true,
        ),
        (event("bailiff", json!({"reportingComponent": "node-controller"})), false),
    ];
    for (event, is_seen) in cases {
        let mut traces = Both::of(What::Events);
        traces.saw_all();
        let wanted = is_seen.then_some("emits Events as node-controller");
        assert_eq!(traces.saw(&event).as_deref(), wanted, "{event}");
    }
}

#[test]
fn what_cannot_be_read_tells_nothing() {
    for object in [
        "kube-controller-manager",
        r#"{"metadata":{"name":"kube-controller-manager","managedFields":null}}"#,
        r#"{"metadata":{"name":"n","managedFields":[{"manager":"kube-controller-manager","fieldsV1":null}]}}"#,
        r#"{"metadata":{"name":"n","managedFields":[{"manager":"kube-controller-manager","fieldsV1":{"f:conditions":7}}]},"status":7}"#,
    ] {
        let mut traces = Both::of(What::Nodes);
        traces.saw_all();
        assert_eq!(traces.saw(object), None, "{object}");
    }
}

/// Of the first list the youngest trace is told, once, with the time that the rival wrote of it; the entry's own would be that of fields
/// of other controllers.
#[test]
fn the_youngest_trace_of_the_first_list_is_told() {
    let past = |what: &str, at: &str| {
        Some(Past {
            at: at.parse().expect("a time"),
            what: what.to_owned(),
        })
    };
    let set = json!({"metadata": {"name": "s", "namespace": "d", "managedFields": [
        mk_entry(MANAGER, "", LATE, json!({})), mk_entry(MANAGER, "status", EARLY, json!({}))]}});
    let event = json!({"metadata": {"name": "e", "managedFields": [mk_entry(MANAGER, "", LATE, json!({}))]},
        "reportingComponent": "node-controller"});
    let [volumes, ..] = other_duties();
    let cases = [
        (
            What::Nodes,
            vec![unknown(EARLY, MANAGER)],
            past("wrote health conditions of node n", EARLY),
        ),
        (
            What::Nodes,
            vec![volumes_beside_conditions()],
            past("wrote health conditions of node n", EARLY),
        ),
        (
            What::Nodes,
            vec![unknown(EARLY, MANAGER), isolated(LATE, MANAGER), unknown(EARLY, MANAGER)],
            past("wrote health taints of node n", LATE),
        ),
        (What::Nodes, vec![isolated(LATE, "bailiff"), volumes, created_once()], None),
        (
            What::DaemonSets,
            vec![set.to_string()],
            past("wrote the status of DaemonSet d/s", EARLY),
        ),
        (
            What::Events,
            vec![event.to_string()],
            past("emits Events as node-controller", LATE),
        ),
    ];
    for (what, objects, wanted) in cases {
        let mut traces = Both::of(what);
        for object in &objects {
            assert_eq!(traces.saw(object), None, "the past is none");
        }
        assert_eq!(traces.saw_all(), wanted, "{objects:?}");
        assert_eq!(traces.saw_all(), None, "once");
    }
}
