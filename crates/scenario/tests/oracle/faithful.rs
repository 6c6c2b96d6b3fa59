//! The comparison accepts every recording as an observation of itself, and no observation that differs from it anywhere.

use bailiff_scenario::oracle::lines::{Fields, change, is_status, text};
use bailiff_scenario::oracle::observe::Step;
use bailiff_scenario::oracle::{Observed, Scenario, compare};
use serde_json::{Value, json};

use crate::recordings::{all, observation};

/// A way to spoil an observation: a name, and a function that spoils what it finds at each place and keeps the results.
type Spoiler = (&'static str, fn(&Scenario, &Observed) -> Vec<Observed>);

const SPOILERS: [Spoiler; 24] = [
    ("a transition dropped", |_, good| {
        at_steps(good, |steps, nth| {
            steps.remove(nth);
            true
        })
    }),
    ("a transition too late", |scenario, good| {
        at_steps(good, |steps, nth| shift(steps, nth, beyond(scenario)))
    }),
    ("a transition too early", |scenario, good| {
        at_steps(good, |steps, nth| shift(steps, nth, -beyond(scenario)))
    }),
    ("a transition twice", |_, good| {
        at_steps(good, |steps, nth| {
            steps.push(steps[nth].clone());
            true
        })
    }),
    ("a foreign transition", |_, good| {
        at_steps(good, |steps, nth| {
            let fields =
                fields(json!({"change": "taint-added", "key": "foreign", "effect": "NoExecute", "timeAdded": "set", "value": ""}));
            let step = steps[nth].clone();
            steps.push(Step { fields, ..step });
            true
        })
    }),
    ("a reason changed", |_, good| {
        at_field(good, "reason", |value| *value = "Foreign".into())
    }),
    ("a message changed", |_, good| {
        at_field(good, "message", |value| *value = "foreign".into())
    }),
    ("a result changed", |_, good| {
        at_field(good, "to", |value| *value = "Foreign".into())
    }),
    ("an origin changed", |_, good| {
        at_field(good, "from", |value| *value = "Foreign".into())
    }),
    ("a transition time kept", |_, good| at_field(good, "lastTransitionTime", flip)),
    ("a heartbeat time set", |_, good| at_field(good, "lastHeartbeatTime", flip)),
    ("another generation", |_, good| {
        at_field(good, "observedGeneration", |value| *value = 17.into())
    }),
    ("another grace period", |_, good| {
        at_field(good, "grace", |value| *value = 17.into())
    }),
    ("tolerations in another order", |_, good| {
        at_field(good, "tolerations", |value| {
            if let Value::Array(items) = value {
                items.reverse();
            }
        })
    }),
    ("a label more on a new object", |_, good| {
        at_field(good, "labels", |value| value["foreign"] = "1".into())
    }),
    ("another effect", |_, good| {
        at_field(good, "effect", |value| *value = "PreferNoSchedule".into())
    }),
    ("groups in another order", |scenario, good| groups_turned(scenario, good)),
    ("the mark after the deletion", |scenario, good| {
        mark_after_delete(scenario, good)
    }),
    ("an Event missing", |_, good| {
        at_events(good, |events, nth| drop(events.remove(nth)))
    }),
    ("an Event with another message", |_, good| {
        at_events(good, |events, nth| events[nth].message.push('!'))
    }),
    ("an Event of another type", |_, good| {
        at_events(good, |events, nth| events[nth].severity = "Error".to_owned())
    }),
    ("another state at the end", |_, good| {
        at_finals(good, |state, field| drop(state.insert(field.to_owned(), json!("foreign"))))
    }),
    ("less state at the end", |_, good| {
        at_finals(good, |state, field| drop(state.shift_remove(field)))
    }),
    ("an object more or less at the end", |_, good| {
        let mut bad: Vec<Observed> = good
            .finals
            .keys()
            .map(|object| {
                let mut bad = good.clone();
                bad.finals.remove(object);
                bad
            })
            .collect();
        let mut more = good.clone();
        more.finals.insert("pod/default/foreign".to_owned(), Fields::new());
        bad.push(more);
        bad
    }),
];

#[test]
fn a_recording_passes_as_an_observation_of_itself() {
    let recordings = all();
    for scenario in &recordings {
        let differences = compare(scenario, &observation(scenario));
        assert!(differences.is_empty(), "{}: {differences:#?}", scenario.id);
    }
    println!("{} recordings pass as themselves", recordings.len());
}

#[test]
fn a_spoiled_recording_fails_wherever_it_is_spoiled() {
    let recordings = all();
    for (name, spoil) in SPOILERS {
        let mut count = 0;
        for scenario in &recordings {
            for (nth, bad) in spoil(scenario, &observation(scenario)).iter().enumerate() {
                count += 1;
                assert!(
                    !compare(scenario, bad).is_empty(),
                    "{}: {name}, place {nth}, is not noticed",
                    scenario.id
                );
            }
        }
        println!("{name}: noticed {count} times");
        assert!(count > 10, "{name} was hardly tried");
    }
}

/// Values over time have rules of their own: they are spoiled for long, or they are not spoiled.
#[test]
fn a_spoiled_status_fails() {
    const LONG: f64 = 2.4;
    let mut counts = [0; 3];
    for scenario in &all() {
        let tolerance = scenario.tolerance_s.get();
        let good = observation(scenario);
        for (object, steps) in &good.transitions {
            for (nth, step) in steps.iter().enumerate().filter(|(_, step)| is_status(&step.fields)) {
                let field = text(&step.fields, "field");
                let same = |other: &&Step| is_status(&other.fields) && text(&other.fields, "field") == field;
                let next = steps[nth + 1..].iter().find(same).map_or(good.end, |next| next.t);
                if next - step.t < LONG {
                    continue;
                }
                let mut bad = good.clone();
                bad.transitions.get_mut(object).expect("there")[nth]
                    .fields
                    .insert("to".to_owned(), 99.into());
                assert!(
                    !compare(scenario, &bad).is_empty(),
                    "{}: {object} {field} wrong is not noticed",
                    scenario.id
                );
                counts[0] += 1;
                let is_next_another = steps[nth + 1..]
                    .iter()
                    .find(same)
                    .is_none_or(|next| next.fields["to"] != step.fields["to"]);
                let before = steps[..nth]
                    .iter()
                    .rev()
                    .find(same)
                    .map_or(json!(0), |before| before.fields["to"].clone());
                let late = step.t + beyond(scenario);
                if late + LONG < next && is_next_another && before != step.fields["to"] {
                    let mut bad = good.clone();
                    bad.transitions.get_mut(object).expect("there")[nth].t = late;
                    assert!(
                        !compare(scenario, &bad).is_empty(),
                        "{}: {object} {field} late is not noticed",
                        scenario.id
                    );
                    counts[1] += 1;
                }
                if next > step.t + tolerance + 1.0 && before != step.fields["to"] {
                    let mut bad = good.clone();
                    bad.transitions.get_mut(object).expect("there").remove(nth);
                    assert!(
                        !compare(scenario, &bad).is_empty(),
                        "{}: {object} {field} missing is not noticed",
                        scenario.id
                    );
                    counts[2] += 1;
                }
            }
        }
    }
    println!("status wrong, late, missing: noticed {counts:?} times");
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

fn fields(value: Value) -> Fields {
    value.as_object().expect("fields").clone()
}

/// Further than any time may lie outside its span, whatever the span.
fn beyond(scenario: &Scenario) -> f64 {
    let lines = scenario.observed.as_ref().expect("recorded").values().flatten();
    let widest = lines.map(|line| line.t.1 - line.t.0).fold(0.0, f64::max);
    scenario.tolerance_s.get() + widest + 0.1
}

fn shift(steps: &mut [Step], nth: usize, by: f64) -> bool {
    // Of equal transitions the K-th stands for the K-th: one that is moved past the next is that one.
    let is_alone = steps.iter().filter(|step| step.fields == steps[nth].fields).count() == 1;
    if is_alone {
        steps[nth].t += by;
    }
    is_alone
}

fn flip(value: &mut Value) {
    *value = if *value == "kept" { "set" } else { "kept" }.into();
}

/// Spoils each transition that is no value over time; `spoil` answers whether it did.
fn at_steps(good: &Observed, spoil: impl Fn(&mut Vec<Step>, usize) -> bool) -> Vec<Observed> {
    let places = good
        .transitions
        .iter()
        .flat_map(|(object, steps)| (0..steps.len()).map(move |nth| (object, nth)));
    let places = places.filter(|(object, nth)| !is_status(&good.transitions[*object][*nth].fields));
    let spoiled = places.filter_map(|(object, nth)| {
        let mut bad = good.clone();
        let steps = bad.transitions.get_mut(object)?;
        let is_spoiled = spoil(steps, nth);
        steps.sort_by(|a, b| a.t.total_cmp(&b.t));
        is_spoiled.then_some(bad)
    });
    spoiled.collect()
}

fn at_field(good: &Observed, field: &str, spoil: impl Fn(&mut Value)) -> Vec<Observed> {
    at_steps(good, |steps, nth| {
        let Some(value) = steps[nth].fields.get_mut(field) else {
            return false;
        };
        let before = value.clone();
        spoil(value);
        *value != before
    })
}

fn at_events(good: &Observed, spoil: impl Fn(&mut Vec<bailiff_scenario::oracle::lines::EventLine>, usize)) -> Vec<Observed> {
    let spoiled = (0..good.events.len()).map(|nth| {
        let mut bad = good.clone();
        spoil(&mut bad.events, nth);
        bad
    });
    spoiled.collect()
}

fn at_finals(good: &Observed, spoil: impl Fn(&mut Fields, &str)) -> Vec<Observed> {
    let places = good
        .finals
        .iter()
        .flat_map(|(object, state)| state.keys().map(move |field| (object, field)));
    let spoiled = places.map(|(object, field)| {
        let mut bad = good.clone();
        spoil(bad.finals.get_mut(object).expect("there"), field);
        bad
    });
    spoiled.collect()
}

/// Two neighbours of different groups change places.
fn groups_turned(scenario: &Scenario, good: &Observed) -> Vec<Observed> {
    let mut spoiled = Vec::new();
    for (object, steps) in &good.transitions {
        let group = |step: &Step| group(scenario, object, step);
        for (nth, pair) in steps.windows(2).enumerate() {
            let is_plain = pair.iter().all(|step| !is_status(&step.fields)) && pair[0].fields != pair[1].fields;
            if is_plain && group(&pair[0]).is_some_and(|first| group(&pair[1]).is_some_and(|second| first < second)) {
                let mut bad = good.clone();
                let steps = bad.transitions.get_mut(object).expect("there");
                (steps[nth].t, steps[nth + 1].t) = (pair[1].t, pair[0].t);
                steps.swap(nth, nth + 1);
                spoiled.push(bad);
            }
        }
    }
    spoiled
}

/// The group of a transition; none if it was recorded more than once.
fn group(scenario: &Scenario, object: &str, step: &Step) -> Option<u32> {
    let lines = &scenario.observed.as_ref().expect("recorded")[object];
    let mut equal = lines.iter().filter(|line| line.fields == step.fields);
    match (equal.next(), equal.next()) {
        (Some(line), None) => line.group,
        _ => None,
    }
}

fn mark_after_delete(scenario: &Scenario, good: &Observed) -> Vec<Observed> {
    let is_evictor_alone = |object: &str| object.starts_with("pod/") && !object.contains('@');
    let spoiled = good
        .transitions
        .iter()
        .filter(|(object, _)| is_evictor_alone(object))
        .filter_map(|(object, steps)| {
            let mark = steps
                .iter()
                .position(|step| text(&step.fields, "type") == "DisruptionTarget")?;
            let delete = steps.iter().position(|step| change(&step.fields) == "delete")?;
            if group(scenario, object, &steps[mark]) != group(scenario, object, &steps[delete]) {
                return None;
            }
            let mut bad = good.clone();
            let steps = bad.transitions.get_mut(object)?;
            let (a, b) = (steps[mark].seq, steps[delete].seq);
            (steps[mark].seq, steps[delete].seq) = (b, a);
            Some(bad)
        });
    spoiled.collect()
}
