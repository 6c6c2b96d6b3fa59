//! What is told of incidents: when one opens, what happens in it, how it ends.

use std::time::Duration;

use bailiff_model::{ReadyStatus, TraceContext, Wall};
use bailiff_node_health_core::{Closing, Config, Judgement, LossLimit, Measurement, Opening, Part, Passage, Reprieve};

use crate::support::{Answers, World};

/// What was told since the last call: when, in seconds since the start, of which node, what, and how long that lasted.
fn told(world: &mut World) -> Vec<String> {
    let told = std::mem::take(&mut world.told);
    told.iter()
        .filter_map(|(at, what)| Some(format!("{} {}", rounded(*at), say(what)?)))
        .collect()
}

fn say(measurement: &Measurement) -> Option<String> {
    Some(match measurement {
        Measurement::Opened(Opening {
            node,
            began,
            opened,
            verdict,
            ..
        }) => format!("{} opened {} {}", node.name, verdict.as_str(), lasted(*began, *opened)),
        Measurement::Judged(Judgement {
            node,
            counted_from,
            judged,
            ..
        }) => format!("{} judged {}", node.name, lasted(*counted_from, *judged)),
        Measurement::Reprieved(Reprieve {
            node,
            trace,
            counted_from,
            grace_ended,
            ..
        }) => {
            let of = if trace.is_some() {
                "reprieved"
            } else {
                "reprieved in no incident"
            };
            format!("{} {of} {}", node.name, lasted(*counted_from, *grace_ended))
        }
        Measurement::Closed(Closing {
            node,
            began,
            closed,
            outcome,
            ..
        }) => format!("{} closed {} {}", node.name, outcome.as_str(), lasted(*began, *closed)),
        Measurement::Passed(Passage {
            node, start, end, what, ..
        }) => format!("{} {} {}", node.name, part(what), lasted(*start, *end)),
        _ => return None,
    })
}

fn part(part: &Part) -> String {
    match part {
        Part::Held { reason, outcome, .. } => format!("held {reason} {}", outcome.as_str()),
        Part::Refused {
            request,
            refusal,
            attempts,
            detail,
        } => format!("{request:?} {} x{attempts} ({detail})", refusal.as_str()),
        Part::Recounted => "recounted".to_owned(),
    }
}

fn lasted(start: Wall, end: Wall) -> f64 {
    rounded(end.duration_since(start).as_secs_f64())
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn traces(world: &World) -> Vec<TraceContext> {
    let trace = |(_, what): &(f64, Measurement)| match what {
        Measurement::Opened(Opening { trace, .. })
        | Measurement::Judged(Judgement { trace, .. })
        | Measurement::Passed(Passage { trace, .. })
        | Measurement::Closed(Closing { trace, .. }) => Some(*trace),
        Measurement::Reprieved(Reprieve { trace, .. }) => *trace,
        _ => None,
    };
    world.told.iter().filter_map(trace).collect()
}

/// Design §9: an incident is opened once, by the first record that is not healthy, from the last sign of life; it ends with the record
/// that is. All of it is of one trace, that of the records.
#[test]
fn an_incident_opens_once_and_ends_with_the_recovery() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(10.0);
    world.renew("n1");
    world.pass(60.0);
    let record = world.topic["n1"].trace;
    world.post("n1", ReadyStatus::True);
    assert!(traces(&world).iter().all(|trace| Some(*trace) == record));
    let wanted = ["47.5 n1 opened late 37.5", "60 n1 judged 50", "70 n1 closed recovered 60"];
    assert_eq!(told(&mut world), wanted);
    world.pass(40.0);
    assert_eq!(told(&mut world), ["107.5 n1 opened late 37.5"], "another one");
    assert_ne!(world.topic["n1"].trace, record);
}

/// Design §9: whatever opens it: a kubelet that says so, or a hand that writes Unknown. From one verdict to the next it stays open.
#[test]
fn an_incident_opens_whoever_says_so() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass(10.0);
    world.renew("n2");
    world.post("n1", ReadyStatus::False);
    world.change("n2", |facts| facts.ready.status = ReadyStatus::Unknown);
    let wanted = ["10 n1 opened not_ready 0", "10 n2 opened unreachable 0"];
    assert_eq!(told(&mut world), wanted);
    let trace = world.topic["n1"].trace;
    world.pass(55.0);
    world.post("n1", ReadyStatus::False);
    assert_eq!(told(&mut world), ["60 n1 judged 50"], "it fell silent, and speaks again");
    assert_eq!((world.verdict("n1"), world.topic["n1"].trace), ("not_ready", trace));
    world.post("n1", ReadyStatus::True);
    let wanted = ["65 n1 closed recovered 55", "65 n2 recounted 55"];
    assert_eq!(told(&mut world), wanted, "NL-099");
}

#[test]
fn an_incident_ends_with_its_node() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.pass(40.0);
    world.delete("n1");
    assert_eq!(told(&mut world), ["37.5 n1 opened late 37.5", "40 n1 closed deleted 40"]);
    world.create("n1", "u2", ReadyStatus::True);
    world.delete("n1");
    assert_eq!(told(&mut world), [""; 0], "it was in none");
}

/// A node that speaks in the read after its grace is told of, in the incident that it was in when it was asked for.
#[test]
fn a_reprieve_is_told_in_the_incident() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    let record = world.topic["n1"].trace;
    world.watch_stalled = true;
    world.renew("n1");
    world.answer_pending();
    assert!(traces(&world).iter().all(|trace| Some(*trace) == record));
    let wanted = [
        "37.5 n1 opened late 37.5",
        "50.1 n1 closed recovered 50.1",
        "50.1 n1 reprieved 50",
    ];
    assert_eq!(told(&mut world), wanted);
}

/// Design §9: a node that never had a status is in no incident until it is judged.
#[test]
fn a_node_that_never_spoke_is_in_no_incident_until_it_is_judged() {
    let mut world = World::running(Config::default(), &[]);
    world.create("new", "u", ReadyStatus::Absent);
    world.pass(60.1);
    assert_eq!(told(&mut world), ["60 new opened unreachable 60", "60 new judged 60"]);
}

/// Design §8, §9: the heir of an incident goes on with it, and does not open it again, as long as the verdict stands.
#[test]
fn the_incident_of_a_verdict_that_stands_is_inherited() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    world.pass(10.0);
    world.post("n1", ReadyStatus::False);
    world.pass_alive(35.0, &["n1", "n3"]);
    let traces = |world: &World| ["n1", "n2", "n3"].map(|node| world.topic[node].trace);
    let verdicts = |world: &World| ["n1", "n2", "n3"].map(|node| world.verdict(node));
    let before = traces(&world);
    world.told.clear();
    world.restart(Config::default());
    assert_eq!(verdicts(&world), ["not_ready", "late", "healthy"]);
    assert_eq!((traces(&world), told(&mut world)), (before, Vec::new()));
    world.post("n1", ReadyStatus::True);
    assert_eq!(
        told(&mut world),
        ["1 n1 closed recovered 35"],
        "since it posted, as far as is on record"
    );
}

/// Design §8, §9: an incident that ends while nobody judges is told to have ended, by whoever judges next: the record that says so is the
/// last of its trace, as if it had been seen. So is one whose node went, or gave its name to another.
#[test]
fn an_incident_that_ended_while_nobody_judged_is_closed_by_the_heir() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3", "n4", "n5"]);
    world.pass(10.0);
    world.renew("n5");
    world.pass(45.0);
    let verdicts = |world: &World| ["n1", "n2", "n5"].map(|node| world.verdict(node));
    assert_eq!(verdicts(&world), ["unreachable", "unreachable", "late"]);
    let before = world.topic.clone();
    world.watch_stalled = true;
    world.post("n1", ReadyStatus::True);
    world.post("n2", ReadyStatus::False);
    world.delete("n3");
    world.put_node("n4", "u2", ReadyStatus::True);
    world.renew("n5");
    world.watch_stalled = false;
    world.told.clear();
    world.restart(Config::default());
    assert_eq!(verdicts(&world), ["healthy", "not_ready", "healthy"]);
    for node in ["n1", "n2", "n5"] {
        assert_eq!(world.topic[node].trace, before[node].trace, "{node}");
    }
    let was = |(_, measurement): &(f64, Measurement)| match measurement {
        Measurement::Closed(closing) => Some((
            closing.node.name.to_string(),
            closing.was.map(|was| was.as_str()),
            closing.trace,
        )),
        _ => None,
    };
    let was: Vec<_> = world.told.iter().filter_map(was).collect();
    for (node, was, trace) in was {
        assert_eq!(was, Some(if node == "n5" { "late" } else { "unreachable" }), "{node}");
        assert_eq!(Some(trace), before[&*node].trace, "{node}");
    }
    let wanted = [
        "1 n1 closed recovered 55",
        "1 n4 closed deleted 55",
        "1 n5 closed recovered 45",
        "1 n3 closed deleted 55",
    ];
    assert_eq!(told(&mut world), wanted);
    world.post("n2", ReadyStatus::True);
    assert_eq!(told(&mut world), ["1 n2 closed recovered 55"], "it went on");
}

/// It became ready and not ready again while nobody listened: that is another incident. So is one that follows a recovery.
#[test]
fn the_incident_of_a_verdict_that_fell_is_not_inherited() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass(10.0);
    for node in ["n1", "n2"] {
        world.post(node, ReadyStatus::False);
    }
    world.pass(5.0);
    world.post("n2", ReadyStatus::True);
    let before = ["n1", "n2"].map(|node| world.topic[node].trace);
    assert!(
        before[1].is_some() && world.verdict("n2") == "healthy",
        "the last record of it"
    );
    world.watch_stalled = true;
    world.post("n1", ReadyStatus::True);
    world.pass(5.0);
    world.post("n1", ReadyStatus::False);
    world.change("n2", |facts| facts.ready.status = ReadyStatus::Unknown);
    world.watch_stalled = false;
    world.told.clear();
    world.restart(Config::default());
    let wanted = [
        "1 n1 closed recovered 10",
        "1 n1 opened not_ready 0",
        "1 n2 opened unreachable 5",
    ];
    assert_eq!(told(&mut world), wanted);
    let after = ["n1", "n2"].map(|node| world.topic[node].trace);
    assert!(after[0] != before[0] && after[1] != before[1], "{after:?}");
}

/// A judged node that has no record opens one; one that has goes on.
#[test]
fn a_verdict_that_was_found_opens_an_incident() {
    let mut world = World::running(Config::default(), &["n1", "n2"]);
    world.pass(55.0);
    world.topic.remove("n1");
    world.told.clear();
    world.restart(Config::default());
    assert_eq!(told(&mut world), ["1 n1 opened unreachable 0"]);
}

/// Pause: told once, from when the node would have been read until it is, however often it is looked at; or until it speaks.
#[test]
fn a_hold_is_told_once_when_it_is_left() {
    for speaks in [false, true] {
        let mut world = World::running(Config::default(), &["n1"]);
        world.brake(true);
        world.pass(120.0);
        assert_eq!(told(&mut world), ["37.5 n1 opened late 37.5"], "it stands");
        if speaks {
            world.renew("n1");
            let wanted = ["120 n1 held paused recovered 70", "120 n1 closed recovered 120"];
            assert_eq!(told(&mut world), wanted);
        } else {
            world.brake(false);
            world.pass(5.0);
            assert_eq!(told(&mut world), ["120 n1 held paused released 70", "120 n1 judged 120"]);
        }
    }
}

/// Pause: one that begins between read and write, and is left because somebody else writes; and a node that speaks but stays not ready.
#[test]
fn a_hold_ends_with_what_it_held() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    world.brake(true);
    world.answer_pending();
    world.pass(10.0);
    world.change("n1", |facts| facts.ready.status = ReadyStatus::Unknown);
    assert_eq!(
        told(&mut world),
        ["37.5 n1 opened late 37.5", "60.1 n1 held paused overtaken 10"]
    );
    let mut world = World::running(Config::default(), &["n1"]);
    world.post("n1", ReadyStatus::False);
    world.brake(true);
    world.pass(60.0);
    world.renew("n1");
    assert_eq!(
        told(&mut world),
        ["0 n1 opened not_ready 0", "60 n1 held paused recovered 10"]
    );
}

/// Correlated loss, and a pause after it: each is told for itself.
#[test]
fn one_hold_after_the_other_is_told() {
    let limit = LossLimit {
        millionths: 500_000,
        window: Duration::from_secs(30),
        hold: Duration::from_secs(60),
    };
    let config = Config {
        loss: Some(limit),
        ..Config::default()
    };
    let mut world = World::running(config, &["n1", "n2"]);
    world.pass(90.0);
    world.brake(true);
    world.pass(60.0);
    world.delete("n1");
    world.brake(false);
    world.pass(10.0);
    let held: Vec<String> = told(&mut world).into_iter().filter(|told| told.contains("held")).collect();
    let wanted = [
        "90 n1 held correlated_loss replaced 40",
        "90 n2 held correlated_loss replaced 40",
        "150 n1 held paused deleted 60",
        "150 n2 held paused released 60",
    ];
    assert_eq!(held, wanted);
}

/// NL-057, NL-152: requests that fail are told once, when one succeeds, with how often they were made.
#[test]
fn requests_that_fail_are_told_once() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Fails;
    world.pass(60.0);
    assert_eq!(told(&mut world), ["37.5 n1 opened late 37.5"]);
    world.answers = Answers::FailsWrites;
    world.pass(10.0);
    world.answers = Answers::AtOnce;
    world.pass(10.0);
    let told = told(&mut world);
    let [reads, writes, judged] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(reads.contains("n1 Read failed x6 (no answer)"), "{reads}");
    assert!(writes.contains("n1 Write failed x2 (no answer)"), "{writes}");
    assert!(judged.contains("n1 judged"), "{judged}");
}

/// NL-056: conflicts, and a node that is gone before its watch says so; it comes back, and speaks.
#[test]
fn conflicts_and_a_node_that_is_gone_are_told() {
    let mut world = World::running(Config::default(), &["n1"]);
    world.answers = Answers::Later;
    world.pass(50.1);
    for _ in 0..2 {
        world.answer_pending();
        world.watch_stalled = true;
        world.change("n1", |_| {});
        world.watch_stalled = false;
        world.answer_pending();
    }
    let node = world.nodes.remove("n1").unwrap();
    world.answer_pending();
    world.nodes.insert(node.name.clone(), node);
    world.renew("n1");
    let wanted = [
        "37.5 n1 opened late 37.5",
        "50.1 n1 Write conflict x2 (the node changed since it was read) 0",
        "50.1 n1 Read gone x1 (there is no such node) 0",
        "50.1 n1 closed recovered 50.1",
    ];
    assert_eq!(told(&mut world), wanted);
}

/// NL-099: silent nodes are told that their grace is counted anew. Who was late is healthy by that, and did not speak.
#[test]
fn a_grace_that_is_counted_anew_is_told() {
    let mut world = World::running(Config::default(), &["n1", "n2", "n3"]);
    world.change("n2", |facts| facts.excluded = true);
    for node in ["n1", "n3"] {
        world.post(node, ReadyStatus::False);
    }
    world.pass(40.0);
    world.told.clear();
    world.post("n3", ReadyStatus::True);
    let wanted = [
        "40 n3 closed recovered 40",
        "40 n1 recounted 40",
        "40 n2 recounted 40",
        "40 n2 closed recounted 40",
    ];
    assert_eq!(told(&mut world), wanted);
    world.post("n1", ReadyStatus::True);
    assert_eq!(told(&mut world), ["40 n1 closed recovered 40"]);
}
