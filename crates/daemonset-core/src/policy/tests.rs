use std::sync::Arc;

use super::*;
use crate::facts::{Labels, Node};

fn mk(annotations: &[(&str, &str)]) -> (Policy, Vec<String>) {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let (policy, complaints) = Policy::read(&annotations.collect());
    (policy, complaints.iter().map(ToString::to_string).collect())
}

fn mk_order(text: &str) -> Option<Order> {
    mk(&[("bailiff.dev/rollout-order", text)]).0.order
}

/// Opt-in: what others annotate asks for nothing.
#[test]
fn without_annotations_nothing_is_asked_for() {
    let others = [
        ("deprecated.daemonset.template.generation", "3"),
        ("bailiff.dev", "x"),
        ("bailiff.devil/rollout-paused", "true"),
        ("kubernetes.io/change-cause", "bailiff.dev/rollout-paused"),
    ];
    for annotations in [&[][..], &others] {
        assert_eq!(mk(annotations), (Policy::default(), Vec::new()));
    }
}

/// Opt-in: well-formed values.
#[test]
fn well_formed_annotations_are_read() {
    let asked = |key: &str, value: &str| mk(&[(&format!("bailiff.dev/{key}"), value)]);
    let plain = Policy::default;
    let partition = |amount| Policy {
        partition: Some(amount),
        ..plain()
    };
    let (paused, strict, exclude_unready, conditions) = (true, true, true, true);
    let cases = [
        ("rollout-paused", "true", Policy { paused, ..plain() }),
        ("rollout-paused", "false", plain()),
        ("rollout-partition", "0", partition(Amount::Absolute(0))),
        ("rollout-partition", "12", partition(Amount::Absolute(12))),
        ("rollout-partition", "0%", partition(Amount::Percent(0))),
        ("rollout-partition", "100%", partition(Amount::Percent(100))),
        ("strict-max-unavailable", "true", Policy { strict, ..plain() }),
        ("strict-max-unavailable", "false", plain()),
        (
            "exclude-unready-nodes",
            "true",
            Policy {
                exclude_unready,
                ..plain()
            },
        ),
        ("exclude-unready-nodes", "false", plain()),
        ("rollout-conditions", "true", Policy { conditions, ..plain() }),
        ("rollout-conditions", "false", plain()),
    ];
    for (key, value, wanted) in cases {
        assert_eq!(asked(key, value), (wanted, Vec::new()), "{key}: {value}");
    }
    for order in [
        "wave",
        "example.com/wave",
        "wave=canary",
        "team-2.example.com/wave",
        "topology.kubernetes.io/zone=b,a,c-1",
    ] {
        let (policy, complaints) = asked("rollout-order", order);
        assert!(policy.order.is_some() && !policy.paused && complaints.is_empty(), "{order}");
    }
}

/// Opt-in: a malformed value is complained about, and read as what replaces fewer pods.
#[test]
fn malformed_annotations_are_read_as_the_safe_choice() {
    let all = Some(Amount::Percent(100));
    let plain = Policy::default;
    let (paused, strict) = (true, true);
    let cases: [(&str, &[&str], Policy); 7] = [
        (
            "rollout-paused",
            &["", "True", "yes", "1", " true"],
            Policy { paused, ..plain() },
        ),
        (
            "rollout-partition",
            &["", "-1", "+1", "1.5", "101%", "%", "all", "1 %", "99999999999"],
            Policy {
                partition: all,
                ..plain()
            },
        ),
        (
            "rollout-order",
            &[
                "",
                "=a",
                "wave=",
                "wave=a,",
                "wave=a,,b",
                "wave=a,a",
                "wave=a, b",
                "-wave",
                "a/b/c",
                "/wave",
                "wave=a=b",
                "Ex.com/wave",
            ],
            Policy { paused, ..plain() },
        ),
        ("strict-max-unavailable", &["", "on"], Policy { strict, ..plain() }),
        ("exclude-unready-nodes", &["", "TRUE"], plain()),
        ("rollout-conditions", &["", "all"], plain()),
        ("rollout-pause", &["true"], plain()),
    ];
    for (key, values, wanted) in cases {
        for value in values {
            let annotation = format!("bailiff.dev/{key}");
            let (policy, complaints) = mk(&[(&annotation, value)]);
            assert_eq!(policy, wanted, "{key}: {value:?}");
            let [complaint] = complaints.as_slice() else {
                unreachable!("one complaint about {key}: {value:?}: {complaints:?}");
            };
            let begin = format!("annotation {annotation}: {value:?} ");
            assert!(complaint.starts_with(&begin), "{complaint}");
        }
    }
}

/// Opt-in: a complaint names annotation, value, what is allowed and what happens; it never grows with the value.
#[test]
fn complaints_say_what_to_mend() {
    let (_, complaints) = mk(&[("bailiff.dev/rollout-partition", "half")]);
    assert_eq!(
        complaints,
        [
            "annotation bailiff.dev/rollout-partition: \"half\" must be a number of nodes or a percentage from \"0%\" to \"100%\"; \
             until it is mended no old pod is replaced"
        ]
    );
    let (_, complaints) = mk(&[("bailiff.dev/rollout-order", &"ä".repeat(10_000))]);
    assert!(
        complaints[0].len() < 400 && complaints[0].contains("ä\"… must"),
        "{}",
        complaints[0]
    );
}

/// Rollout-order: listed values, then numbers by size, then other values as text, then nodes without the label.
#[test]
fn nodes_are_ordered_by_their_label() {
    let order = mk_order("example.com/wave=canary,2").expect("well formed");
    let rank = |value: Option<&str>| {
        let labels: Labels = value
            .into_iter()
            .map(|value| (Arc::from("example.com/wave"), Arc::from(value)))
            .collect();
        let node = Node {
            labels: labels.into(),
            ..Node::default()
        };
        order.rank(Some(&node))
    };
    let values = [
        Some("canary"),
        Some("2"),
        Some("1"),
        Some("9"),
        Some("10"),
        Some(""),
        Some("0000000000000000001"),
        Some("Z"),
        Some("b"),
        Some("c"),
        None,
    ];
    let ranks: Vec<Rank> = values.into_iter().map(rank).collect();
    assert!(
        ranks.is_sorted() && ranks.windows(2).all(|pair| pair[0] != pair[1]),
        "{ranks:?}"
    );
    assert_eq!(order.rank(None), Rank::Last);
}

/// Rollout-partition: a share is rounded up.
#[test]
fn partitions_are_rounded_up() {
    let kept = |text: &str, desired| mk(&[("bailiff.dev/rollout-partition", text)]).0.kept(desired);
    assert_eq!(
        (kept("3", 2), kept("1%", 5), kept("50%", 3), kept("100%", 7), kept("0%", 7)),
        (3, 1, 2, 7, 0)
    );
    let is_partitioned = |text: &str| mk(&[("bailiff.dev/rollout-partition", text)]).0.is_partitioned();
    assert!(is_partitioned("1") && is_partitioned("1%") && !is_partitioned("0") && !is_partitioned("0%"));
}
