//! Every role, action and topic; and what a file may say.

use bailiff_event_bus::access::{Action, Roles};
use bailiff_model::Topic;

/// Rows are roles, columns topics in pipeline order; p, s, r and x are publish, subscribe, read and reset.
const TABLE: &str = "
    node-health-monitor  psr- ---- ---- ----
    taint-manager        -sr- psr- ---- ----
    zone-evictor         -sr- -sr- psr- ----
    daemonset-syncer     -sr- ---- -sr- psr-
    viewer               -sr- -sr- -sr- -sr-
    operator             -srx -srx -srx -srx
    event-bus            ---- ---- ---- ----
    nobody               ---- ---- ---- ----
";

fn row(roles: &Roles, role: &str) -> String {
    let cell = |topic: Topic| {
        let letters = [
            (Action::Publish, 'p'),
            (Action::Subscribe, 's'),
            (Action::Read, 'r'),
            (Action::Reset, 'x'),
        ];
        let letter = |(action, letter)| {
            if roles.decide(role, action, topic).is_ok() {
                letter
            } else {
                '-'
            }
        };
        letters.map(letter).into_iter().collect::<String>()
    };
    Topic::ALL.map(cell).join(" ")
}

#[test]
fn the_built_in_table_is_the_pipeline() {
    let roles = Roles::default();
    for line in TABLE.trim().lines() {
        let (role, wanted) = line.trim().split_once(' ').expect("a role and its row");
        assert_eq!(row(&roles, role), wanted.trim(), "{role}");
    }
    assert_eq!(roles.names().count(), 6, "every role is in the table above");
}

/// What makes the bus point one way: nobody reads what a later stage publishes.
#[test]
fn no_stage_reads_what_a_later_one_publishes() {
    let roles = Roles::default();
    let stages = ["node-health-monitor", "taint-manager", "zone-evictor", "daemonset-syncer"];
    for (place, stage) in stages.into_iter().enumerate() {
        for (index, topic) in Topic::ALL.into_iter().enumerate() {
            assert_eq!(
                roles.decide(stage, Action::Publish, topic).is_ok(),
                index == place,
                "{stage} {topic}"
            );
            if index > place {
                assert!(roles.decide(stage, Action::Subscribe, topic).is_err(), "{stage} {topic}");
            }
        }
    }
}

#[test]
fn a_refusal_names_role_action_topic_and_what_is_allowed() {
    let roles = Roles::default();
    for (role, wanted) in [
        (
            "taint-manager",
            "role 'taint-manager' may not publish node-health: allowed is publish eviction-intents; subscribe node-health, eviction-intents; read node-health, eviction-intents",
        ),
        ("mine", "role 'mine' may not publish node-health: there is no such role here"),
    ] {
        let denied = roles.decide(role, Action::Publish, Topic::NodeHealth).expect_err(role);
        assert_eq!(denied.to_string(), wanted);
    }
}

#[test]
fn a_file_replaces_the_table() {
    let roles = Roles::parse(
        "roles:
  ns/mine/sa/monitor:
    publish: [node-health]
    subscribe: [node-health]
  dashboard:
    subscribe: ['*']
    read: ['*']
  idle: {}
",
    )
    .expect("allowed");
    assert_eq!(row(&roles, "ns/mine/sa/monitor"), "ps-- ---- ---- ----");
    assert_eq!(row(&roles, "dashboard"), "-sr- -sr- -sr- -sr-");
    for gone in ["idle", "operator"] {
        assert_eq!(row(&roles, gone), "---- ---- ---- ----", "{gone}");
    }
    let denied = roles
        .decide("idle", Action::Read, Topic::NodeHealth)
        .expect_err("nothing is allowed");
    assert!(denied.to_string().ends_with("it may do nothing"), "{denied}");
}

#[test]
fn what_is_wrong_in_a_file_is_answered_with_field_value_and_what_is_allowed() {
    let cases: [(&str, &[&str]); 8] = [
        ("", &["roles"]),
        ("roles: {}", &["roles", "at least one"]),
        (
            "roles: {a: {publish: [nodes]}}",
            &["roles.a.publish[0]", "\"nodes\"", "node-health", "\"*\""],
        ),
        ("roles: {a: {publsh: [node-health]}}", &["publsh", "publish"]),
        ("roles: {a: {publish: node-health}}", &["sequence"]),
        ("roles: {'a b': {}}", &["\"a b\"", "letters"]),
        ("rules: {}", &["rules", "roles"]),
        ("roles: {a: {}, a: {}}", &["duplicate", "a"]),
    ];
    for (text, parts) in cases {
        let said = Roles::parse(text).expect_err(text);
        for part in parts {
            assert!(said.contains(part), "{text}: {said} lacks {part}");
        }
    }
}
