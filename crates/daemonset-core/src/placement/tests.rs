//! Placement as tables: template parts, node, verdict.

use bailiff_model::{NodeName, Taint};
use serde_json::json;

use super::*;
use crate::template::Template;

fn mk_node(labels: &[(&str, &str)], taints: &[(&str, &str, Effect)]) -> Node {
    Node {
        name: NodeName::from("n1"),
        labels: labels
            .iter()
            .map(|(k, v)| (Arc::from(*k), Arc::from(*v)))
            .collect::<crate::facts::Labels>()
            .into(),
        taints: taints
            .iter()
            .map(|(key, value, effect)| Taint {
                value: Arc::from(*value),
                ..Taint::new(key, *effect)
            })
            .collect(),
        ..Node::default()
    }
}

fn judge(spec: Value, node: &Node) -> Verdict {
    let raw = serde_json::value::to_raw_value(&json!({"metadata": {"labels": {"app": "ds"}}, "spec": spec})).expect("JSON");
    Template::parse(&raw).expect("a template").placement().judge(node)
}

/// DS-080, DS-083
#[test]
fn the_first_matching_row_wins() {
    use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
    let none = &[][..];
    let tolerate_all = json!({"tolerations": [{"operator": "Exists"}]});
    let cases = [
        ("nothing special", json!({}), none, Verdict::RUN),
        ("nodeName of this node", json!({"nodeName": "n1"}), none, Verdict::RUN),
        ("nodeName of another", json!({"nodeName": "n2"}), none, Verdict::NEITHER),
        (
            "nodeSelector matches",
            json!({"nodeSelector": {"zone": "a"}}),
            none,
            Verdict::RUN,
        ),
        (
            "nodeSelector does not",
            json!({"nodeSelector": {"zone": "b"}}),
            none,
            Verdict::NEITHER,
        ),
        (
            "name and selector disagree",
            json!({"nodeName": "n1", "nodeSelector": {"zone": "b"}}),
            none,
            Verdict::NEITHER,
        ),
        ("NoExecute", json!({}), &[("k", "", NoExecute)][..], Verdict::NEITHER),
        ("NoSchedule", json!({}), &[("k", "", NoSchedule)], Verdict::KEEP),
        (
            "both",
            json!({}),
            &[("k", "", NoSchedule), ("k", "", NoExecute)],
            Verdict::NEITHER,
        ),
        (
            "PreferNoSchedule is ignored",
            json!({}),
            &[("k", "", PreferNoSchedule)],
            Verdict::RUN,
        ),
        (
            "tolerated",
            tolerate_all,
            &[("k", "v", NoSchedule), ("l", "", NoExecute)],
            Verdict::RUN,
        ),
    ];
    for (name, spec, taints, wanted) in cases {
        assert_eq!(judge(spec, &mk_node(&[("zone", "a")], taints)), wanted, "{name}");
    }
}

/// DS-080, DS-083, DS-091: cordon and pressure never stop a DaemonSet, not-ready in its NoSchedule form does.
#[test]
fn automatic_tolerations_count() {
    use Effect::{NoExecute, NoSchedule};
    let host = || json!({"hostNetwork": true});
    let cases = [
        (json!({}), "not-ready", NoExecute, Verdict::RUN),
        (json!({}), "unreachable", NoExecute, Verdict::RUN),
        (json!({}), "disk-pressure", NoSchedule, Verdict::RUN),
        (json!({}), "memory-pressure", NoSchedule, Verdict::RUN),
        (json!({}), "pid-pressure", NoSchedule, Verdict::RUN),
        (json!({}), "unschedulable", NoSchedule, Verdict::RUN),
        (json!({}), "network-unavailable", NoSchedule, Verdict::KEEP),
        (host(), "network-unavailable", NoSchedule, Verdict::RUN),
        (json!({}), "not-ready", NoSchedule, Verdict::KEEP),
        (json!({}), "unreachable", NoSchedule, Verdict::KEEP),
        (json!({}), "out-of-service", NoExecute, Verdict::NEITHER),
    ];
    for (spec, key, effect, wanted) in cases {
        let key = format!("node.kubernetes.io/{key}");
        assert_eq!(judge(spec, &mk_node(&[], &[(&key, "", effect)])), wanted, "{key}:{effect}");
    }
}

/// DS-081
#[test]
fn required_node_affinity_is_an_or_of_terms() {
    let term = |expressions: Value, fields: Value| json!({"matchExpressions": expressions, "matchFields": fields});
    let label = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    let on_label = |key: &str, operator: &str, values: Value| vec![term(json!([label(key, operator, values)]), json!([]))];
    let name = |operator: &str, values: Value| vec![term(json!([]), json!([label("metadata.name", operator, values)]))];
    let node = mk_node(&[("zone", "a"), ("size", "8")], &[]);
    let cases = [
        ("no terms", vec![], false),
        ("empty term", vec![json!({})], false),
        ("In", on_label("zone", "In", json!(["a", "b"])), true),
        ("In without the label", on_label("rack", "In", json!(["a"])), false),
        ("NotIn", on_label("zone", "NotIn", json!(["a"])), false),
        ("NotIn without the label", on_label("rack", "NotIn", json!(["a"])), true),
        ("Exists", on_label("zone", "Exists", json!([])), true),
        ("DoesNotExist", on_label("zone", "DoesNotExist", json!([])), false),
        ("Gt", on_label("size", "Gt", json!(["7"])), true),
        ("Gt of itself", on_label("size", "Gt", json!(["8"])), false),
        ("Lt", on_label("size", "Lt", json!(["9"])), true),
        ("Lt on a word", on_label("zone", "Lt", json!(["9"])), false),
        ("Gt of a word", on_label("size", "Gt", json!(["x"])), false),
        ("an unknown operator", on_label("zone", "Near", json!(["a"])), false),
        ("name In", name("In", json!(["n1"])), true),
        ("name NotIn", name("NotIn", json!(["n1"])), false),
        ("name NotIn another", name("NotIn", json!(["n2"])), true),
        ("name In with two values", name("In", json!(["n1", "n2"])), false),
        (
            "an unreadable term beside a good one",
            [name("Near", json!(["n1"])), name("In", json!(["n1"]))].concat(),
            true,
        ),
        (
            "one of two terms",
            [name("In", json!(["n2"])), on_label("zone", "In", json!(["a"]))].concat(),
            true,
        ),
        (
            "both parts of a term",
            vec![term(
                json!([label("zone", "In", json!(["a"]))]),
                json!([label("metadata.name", "In", json!(["n2"]))]),
            )],
            false,
        ),
    ];
    for (case, terms, wanted) in cases {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let verdict = judge(json!({"affinity": {"nodeAffinity": required}}), &node);
        assert_eq!(verdict.run, wanted, "{case}");
    }
}

/// DS-008, DS-082
#[test]
fn operators_without_their_gate_tolerate_nothing() {
    for operator in ["Gt", "Lt", "exists"] {
        let spec = json!({"tolerations": [{"key": "k", "operator": operator, "value": "1"}]});
        let node = mk_node(&[], &[("k", "1", Effect::NoSchedule)]);
        assert_eq!(judge(spec, &node), Verdict::KEEP, "{operator}");
    }
}
