use serde_json::json;

use super::*;
use crate::oracle::observe::Step;

fn scenario(change: impl FnOnce(&mut Value)) -> Scenario {
    let mut file = json!({
        "id": "x", "controllers": ["taint-eviction-controller"], "duration": 20, "tolerance_s": 1,
        "observed": {}, "events": [], "final": {},
    });
    change(&mut file);
    serde_json::from_value(file).expect("a scenario")
}

/// An observation of these transitions, in this order.
fn seen(transitions: &[(&str, f64, Value)]) -> Observed {
    let mut observed = Observed {
        end: 20.0,
        ..Observed::default()
    };
    for (seq, (object, t, fields)) in transitions.iter().enumerate() {
        let fields = fields.as_object().expect("fields").clone();
        let step = Step { t: *t, seq, fields };
        observed.transitions.entry((*object).to_owned()).or_default().push(step);
    }
    observed
}

fn kinds(scenario: &Scenario, observed: &Observed) -> Vec<Kind> {
    compare(scenario, observed)
        .into_iter()
        .map(|difference| difference.kind)
        .collect()
}

fn with_lines(lines: &Value) -> Scenario {
    scenario(|file| file["observed"]["pod/a"] = lines.clone())
}

#[test]
fn the_kth_of_equal_transitions_stands_for_the_kth() {
    let label = |to: &str| json!({"change": "label", "key": "a", "to": to});
    let recorded = with_lines(&json!([
        {"t": [1, 1], "change": "label", "key": "a", "to": "1", "group": 0},
        {"t": [9, 9], "change": "label", "key": "a", "to": "1", "group": 1},
    ]));
    let both = [("pod/a", 1.5, label("1")), ("pod/a", 8.5, label("1"))];
    assert_eq!(kinds(&recorded, &seen(&both)), []);
    assert_eq!(kinds(&recorded, &seen(&both[..1])), [Kind::Missing]);
    assert_eq!(kinds(&recorded, &seen(&both[1..])), [Kind::Missing, Kind::Time]);
    let thrice = [both[0].clone(), both[1].clone(), ("pod/a", 9.0, label("1"))];
    assert_eq!(kinds(&recorded, &seen(&thrice)), [Kind::Unexpected]);
    let other = [both[0].clone(), ("pod/a", 8.5, label("2"))];
    let differences = compare(&recorded, &seen(&other));
    assert_eq!(
        differences[0].to_string(),
        "changed: label a to=\"1\" at 9.00 s; seen to=\"2\" at 8.50 s"
    );
}

#[test]
fn order_matters_between_groups_and_not_within_one() {
    let lines = |second: u32| {
        with_lines(&json!([
            {"t": [1, 1], "change": "phase", "to": "A", "group": 0},
            {"t": [1.8, 1.8], "change": "reason", "to": "B", "group": second},
        ]))
    };
    let (a, b) = (json!({"change": "phase", "to": "A"}), json!({"change": "reason", "to": "B"}));
    let turned = [("pod/a", 1.3, b), ("pod/a", 1.4, a)];
    assert_eq!(kinds(&lines(0), &seen(&turned)), []);
    assert_eq!(kinds(&lines(1), &seen(&turned)), [Kind::Order]);
}

/// TE-072
#[test]
fn the_mark_comes_before_the_deletion_although_both_are_one_group() {
    let mark = json!({"change": "condition", "type": "DisruptionTarget"});
    let delete = json!({"change": "delete", "grace": 30});
    let lines = json!([
        {"t": [1, 1], "change": "condition", "type": "DisruptionTarget", "group": 0},
        {"t": [1, 1], "change": "delete", "grace": 30, "group": 0},
    ]);
    let right = [("pod/a", 1.0, mark.clone()), ("pod/a", 1.0, delete.clone())];
    let wrong = [("pod/a", 1.0, delete), ("pod/a", 1.0, mark)];
    assert_eq!(kinds(&with_lines(&lines), &seen(&right)), []);
    assert_eq!(kinds(&with_lines(&lines), &seen(&wrong)), [Kind::Order]);
}

#[test]
fn what_is_unstable_is_neither_required_nor_forbidden() {
    let recorded = scenario(|file| {
        file["unstable"] = json!([
            {"obj": "pod/a", "change": "delete"},
            {"event": {"obj": "pod/a", "reason": "R"}},
            {"final": "pod/a", "field": "phase", "values": ["A", "B"]},
            {"final": "pod/b"},
        ]);
        file["final"] = json!({"pod/a": {"terminating": true}});
    });
    let mut observed = seen(&[("pod/a", 3.0, json!({"change": "delete", "grace": 30}))]);
    let event = json!({"obj": "pod/a", "namespace": "n", "type": "Normal", "reason": "R", "message": "m"});
    observed.events.push(serde_json::from_value(event).expect("an event"));
    let state = |fields: Value| fields.as_object().expect("fields").clone();
    observed
        .finals
        .insert("pod/a".to_owned(), state(json!({"terminating": true, "phase": "C"})));
    observed.finals.insert("pod/b".to_owned(), state(json!({"phase": "C"})));
    assert_eq!(compare(&recorded, &observed), []);
    observed
        .finals
        .insert("pod/a".to_owned(), state(json!({"terminating": true, "node": "n1"})));
    observed.finals.insert("pod/c".to_owned(), state(json!({})));
    observed.events[0].reason = "S".to_owned();
    assert_eq!(kinds(&recorded, &observed), [Kind::Unexpected, Kind::Final, Kind::Final]);
}

#[test]
fn a_status_is_a_value_over_time() {
    let to = |value: u32| json!({"change": "status", "field": "numberReady", "to": value});
    let recorded = with_lines(&json!([
        {"t": [1, 1.1], "change": "status", "field": "numberReady", "to": 2, "group": 0},
        {"t": [8, 8], "change": "status", "field": "numberReady", "to": 3, "group": 1},
    ]));
    /// What happens, the values from when on, and what differs.
    type Case<'a> = (&'a str, &'a [(f64, u32)], &'a [Kind]);
    let cases: [Case<'_>; 12] = [
        ("as recorded", &[(1.0, 2), (8.0, 3)], &[]),
        ("brief values do not matter", &[(0.5, 1), (0.9, 2), (7.5, 5), (8.1, 3)], &[]),
        (
            "a blip does not make a new value",
            &[(1.0, 2), (4.0, 1), (4.3, 2), (8.0, 3)],
            &[],
        ),
        (
            "a value of just the least length is no blip",
            &[(1.0, 2), (8.0, 3), (9.2, 4), (9.6, 3)],
            &[],
        ),
        (
            "or it is one: recordings know no better",
            &[(1.0, 2), (4.0, 7), (5.2, 2), (8.0, 3)],
            &[],
        ),
        (
            "what is longer than that is none",
            &[(1.0, 2), (4.0, 7), (5.22, 2), (8.0, 3)],
            &[Kind::UnexpectedValue],
        ),
        (
            "a recorded value may be brief",
            &[(1.0, 2), (1.2, 0), (2.0, 2), (8.0, 3)],
            &[],
        ),
        ("never reached", &[(1.0, 2)], &[Kind::MissingValue]),
        (
            "too late",
            &[(1.0, 2), (9.5, 3)],
            &[Kind::MissingValue, Kind::UnexpectedValue],
        ),
        ("too early", &[(1.0, 2), (6.0, 3)], &[Kind::UnexpectedValue]),
        (
            "wrong for long",
            &[(1.0, 2), (4.0, 9), (7.0, 2), (8.0, 3)],
            &[Kind::UnexpectedValue],
        ),
        (
            "back to nothing",
            &[(1.0, 2), (4.0, 0), (7.0, 2), (8.0, 3)],
            &[Kind::UnexpectedValue],
        ),
    ];
    for (name, steps, wanted) in cases {
        let steps: Vec<(&str, f64, Value)> = steps.iter().map(|(t, value)| ("pod/a", *t, to(*value))).collect();
        assert_eq!(kinds(&recorded, &seen(&steps)), wanted, "{name}");
    }
}

#[test]
fn what_a_file_does_not_say_is_not_judged() {
    let silent = scenario(|file| {
        for part in ["observed", "events", "final"] {
            file.as_object_mut().expect("a map").remove(part);
        }
    });
    assert!(!silent.is_judged());
    assert_eq!(compare(&silent, &seen(&[("pod/a", 3.0, json!({"change": "delete"}))])), []);
}
