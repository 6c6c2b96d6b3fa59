//! Changes of hands in the recorded DaemonSet scenarios: ours takes over from upstream's controller after any of its writes, or from
//! itself, and goes on as if nothing had happened.

use bailiff_scenario::oracle::file::{Action, Step, Sut};
use bailiff_scenario::oracle::play::Error;
use bailiff_scenario::oracle::{Played, Profile, Scenario, jobs, play_all, take_over_all, writes};

use crate::recordings::all;

/// Where whoever starts anew does otherwise, by scenario and object, and no other object there does.
const OTHERWISE: [(&str, &str); 4] = [
    // The backoff of failed pods is in nobody's objects: theirs is forgotten, as upstream's by a restart (DS-200).
    ("ds-failed-backoff", "pod/default/ds@n1#"),
    ("ds-failed-backoff", "daemonset/default/ds"),
    // A revision that somebody deleted is made again with our hash, not upstream's (DS-156). No pod restarts for it.
    ("ds-revision-deleted", "controllerrevision/default/ds-<ds-hash-"),
    // What upstream's has not told yet, ours in its default profile would have (DS-225).
    ("ds-noschedule-pod-lost", "daemonset/default/ds"),
];

/// What is not as recorded, nor as it may be.
fn complaints(id: &str, result: Result<Played, Error>) -> Option<String> {
    let differences = match result {
        Ok(played) => played.differences,
        Err(error) => return Some(bailiff_runtime::shutdown::chain(&error)),
    };
    let is_meant = |object: &str| {
        OTHERWISE
            .iter()
            .any(|(scenario, start)| *scenario == id && object.starts_with(start))
    };
    let lines = differences.iter().filter(|difference| !is_meant(&difference.object));
    let lines: Vec<String> = lines.map(|line| format!("\n    {} {line}", line.object)).take(5).collect();
    (!lines.is_empty()).then(|| lines.concat())
}

fn daemonsets() -> Vec<Scenario> {
    let mut scenarios = all();
    scenarios.retain(|scenario| scenario.id.starts_with("ds-"));
    assert!(scenarios.len() > 20, "only {} recordings", scenarios.len());
    scenarios
}

fn check(profile: Profile) {
    let scenarios = daemonsets();
    let moments: Vec<(&Scenario, usize)> = scenarios
        .iter()
        .flat_map(|scenario| (1..=writes(scenario)).map(move |after| (scenario, after)))
        .collect();
    let mut failed = Vec::new();
    take_over_all(&moments, profile, 1, jobs(), |nth, result| {
        let (scenario, after) = moments[nth];
        if let Some(what) = complaints(&scenario.id, result) {
            failed.push(format!("{} after {after} of {}: {what}", scenario.id, writes(scenario)));
        }
    });
    assert!(moments.len() > 300, "only {} moments", moments.len());
    assert!(failed.is_empty(), "{}: {}", failed.len(), failed.join("\n"));
}

/// DS-200, DS-201, DS-205, DS-210, DS-213, DS-214: whenever upstream's controller is replaced by ours, what it left is continued: its
/// revisions and pods are kept as they are, what it had begun is finished as it would have, and nothing else is written.
#[test]
fn ours_goes_on_wherever_upstreams_left_off() {
    check(Profile::Bailiff);
}

/// DS-200, DS-213: in upstream's profile too.
#[test]
fn ours_as_upstreams_goes_on_wherever_upstreams_left_off() {
    check(Profile::Upstream);
}

/// How long one lives: shorter than a pod takes to be replaced (0.6 s to go, 0.6 s to come), and with no common measure with that.
const LIFE: f64 = 0.47;

/// The scenario in which the syncer is killed again and again, from this moment on.
fn with_restarts(mut scenario: Scenario, from: f64) -> Scenario {
    let mut at = from;
    while at < scenario.duration.get() {
        for (at, what) in [(at, Sut::Kill), (at + 0.03, Sut::Start)] {
            let action = Action::Sut(what);
            scenario.steps.push(Step { at, action });
        }
        at += LIFE;
    }
    // Those of one that died before it could send them are lost.
    scenario.events = None;
    scenario
}

/// DS-033, DS-200, DS-214, DS-233: a syncer that dies twice a second does what one does that lives: no pod more is restarted, and no
/// rollout stands still.
#[test]
fn restarts_in_the_middle_change_nothing() {
    let mut scenarios = Vec::new();
    for scenario in daemonsets() {
        // Other stages would be killed with it, which is the chaos tests' business.
        let is_alone = scenario.controllers.len() == 1;
        if is_alone && scenario.id != "ds-failed-backoff" {
            scenarios.extend([0.2, 0.4].map(|from| with_restarts(scenario.clone(), from)));
        }
    }
    let mut failed = Vec::new();
    play_all(&scenarios, Profile::Bailiff, 1, jobs(), |nth, result| {
        let id = &scenarios[nth].id;
        if let Some(what) = complaints(id, result) {
            failed.push(format!("{id}: {what}"));
        }
    });
    assert!(failed.is_empty(), "{}: {}", failed.len(), failed.join("\n"));
}
