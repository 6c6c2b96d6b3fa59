use std::collections::BTreeMap;
use std::sync::Arc;

use bailiff_model::taint::{Effect, Operator, Taint, Toleration};
use bailiff_model::{Profile, ReadyStatus, Zone};
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::chaos::faults::Cut;
use crate::chaos::story::{Deed, Story};
use crate::chaos::timeline::{Change, Node, Object, Pod};

fn mono(second: u64) -> Mono {
    Mono::from_origin(Duration::from_secs(second))
}

fn wall(second: u64) -> Wall {
    Wall::UNIX_EPOCH + Duration::from_secs(second)
}

fn mk_node(value: Option<&str>) -> Object {
    let taint = |value: &str| Taint {
        value: Arc::from(value),
        ..Taint::new("example.com/a", Effect::NoExecute)
    };
    Object::Node(Node {
        name: "n0".to_owned(),
        uid: "n0-uid".to_owned(),
        zone: Zone::default(),
        labels: BTreeMap::new(),
        ready: ReadyStatus::True,
        taints: value.map(taint).into_iter().collect(),
    })
}

fn mk_pod(is_terminating: bool) -> Object {
    Object::Pod(Pod {
        uid: "p-uid".to_owned(),
        name: "p".to_owned(),
        node: "n0".to_owned(),
        is_bound: true,
        daemon_of: None,
        tolerations: vec![Toleration {
            operator: Operator::Exists,
            seconds: Some(10),
            ..Toleration::exists("", Effect::NoExecute)
        }],
        ready: "True".to_owned(),
        is_target: false,
        is_terminating,
        is_finished: false,
        is_running: true,
        labels: BTreeMap::new(),
        image: String::new(),
    })
}

/// A node that gets a taint at 12 s, and a pod that tolerates it for 10 s; `more` follows.
fn mk_timeline(more: &[(u64, &str, Object)]) -> Timeline {
    let begin = [
        (0, "admin", mk_node(None)),
        (3, "admin", mk_pod(false)),
        (12, "", mk_node(Some("1"))),
    ];
    let changes = begin.iter().chain(more).map(|(at, actor, object)| Change {
        at: mono(*at),
        actor: Arc::from(*actor),
        is_gone: false,
        object: object.clone(),
    });
    Timeline {
        changes: changes.collect(),
        end: mono(60),
        ..Timeline::default()
    }
}

fn mk_wish(state: &str) -> Value {
    json!({"podEviction": {
        "pod": {"uid": "p-uid"}, "node": {"name": "n0", "uid": "n0-uid"}, "state": state, "trigger": "expired",
        "cause": {"taints": [{"key": "example.com/a", "value": "1"}]},
        "dueAt": wall(22).to_string(), "decidedAt": wall(if state == "due" { 22 } else { 12 }).to_string(),
    }})
}

fn mk_outcome(state: &str, more: Value) -> Value {
    json!({"podOutcome": {"state": state, state: more, "since": wall(22).to_string(), "failedAttempts": 0}})
}

fn mk_line(topic: &str, body: &Value) -> Value {
    json!({"at": "", "by": "", "text": "", "record": {"topic": topic, "key": "pod/p-uid", "body": body}})
}

/// The answer that a wish and an outcome make, of a pod that is there.
fn mk_answer(wish: &Value, outcome: Option<&Value>, is_there: bool) -> Value {
    let mut lines = vec![mk_line("eviction-intents", wish)];
    lines.extend(outcome.map(|outcome| mk_line("eviction-outcomes", outcome)));
    let mut present = lines.clone();
    if is_there {
        present.push(json!({"record": {"seen": {"taints": ["example.com/a=1:NoExecute"]}}}));
    }
    json!({"past": lines, "present": present, "future": []})
}

fn judge(answer: Value, at: u64, timeline: &Timeline) -> Agreement {
    judge_by(answer, at, timeline, &Terms::default(), &no_trouble())
}

fn judge_by(answer: Value, at: u64, timeline: &Timeline, terms: &Terms, trouble: &Trouble) -> Agreement {
    let question = Question {
        at: mono(at),
        wall: wall(at),
        subject: Subject {
            name: "default/p".to_owned(),
            uid: "p-uid".to_owned(),
            node: "n0".to_owned(),
        },
        answer: Answer(answer),
        is_live: true,
    };
    Agreement::of(&[question], timeline, terms, trouble)
}

fn assert_agrees(agreement: &Agreement, kind: &str) {
    assert_eq!(agreement.wrong, Vec::<String>::new());
    assert_eq!(agreement.agreed, BTreeMap::from([(kind.to_owned(), 1)]), "{agreement:?}");
}

#[test]
fn an_eviction_is_told_with_its_cause_and_its_times_or_found_wrong() {
    let timeline = mk_timeline(&[(22, "zone-evictor", mk_pod(true))]);
    let (wish, outcome) = (mk_wish("due"), mk_outcome("deleted", Value::Null));
    assert_agrees(
        &judge(mk_answer(&wish, Some(&outcome), false), 40, &timeline),
        "evicted when its time was over",
    );
    let tampered = [
        ("/podOutcome/state", json!("cancelled")),
        ("/podOutcome/since", json!(wall(27).to_string())),
        ("/podEviction/pod/uid", json!("other")),
        ("/podEviction/node/name", json!("n1")),
        ("/podEviction/trigger", json!("node")),
        ("/podEviction/state", json!("scheduled")),
        ("/podEviction/dueAt", json!(wall(15).to_string())),
        ("/podEviction/dueAt", json!(wall(30).to_string())),
        ("/podEviction/decidedAt", json!(wall(30).to_string())),
        ("/podEviction/cause/taints/0/value", json!("2")),
        ("/podEviction/cause/taints", json!([])),
    ];
    for (pointer, lie) in tampered {
        let (mut wish, mut outcome) = (wish.clone(), outcome.clone());
        for told in [&mut wish, &mut outcome] {
            if let Some(field) = told.pointer_mut(pointer) {
                *field = lie.clone();
            }
        }
        let found = judge(mk_answer(&wish, Some(&outcome), false), 40, &timeline);
        assert_eq!(found.wrong.len(), 1, "{pointer} {lie}: {found:?}");
    }
}

#[test]
fn a_pod_that_stands_is_told_with_the_true_reason_or_found_wrong() {
    let timeline = mk_timeline(&[]);
    let running = mk_answer(&mk_wish("scheduled"), None, true);
    assert_agrees(&judge(running.clone(), 16, &timeline), "to go: its time runs");
    // Nothing says why it is there when it is due.
    assert_eq!(judge(running, 30, &timeline).wrong.len(), 1);
    assert_eq!(judge(mk_answer(&mk_wish("due"), None, true), 30, &timeline).wrong.len(), 1);
    let held = |reason: &str| {
        let outcome = mk_outcome("held", json!({"reason": reason}));
        judge(mk_answer(&mk_wish("due"), Some(&outcome), true), 30, &timeline)
    };
    assert_agrees(&held("rate_limited"), "held: rate_limited");
    for reason in [
        "paused",
        "rival",
        "correlated_loss",
        "all_zones_disrupted",
        "rate_zero",
        "budget",
        "stale",
        "api_stale",
        "observing",
    ] {
        assert_eq!(held(reason).wrong.len(), 1, "{reason} is not so");
    }
    for state in ["deleted", "gone", "cancelled", "evicting", "blocked", "refused"] {
        let outcome = mk_outcome(state, Value::Null);
        let found = judge(mk_answer(&mk_wish("due"), Some(&outcome), true), 30, &timeline);
        assert_eq!(found.wrong.len(), 1, "{state} is not so");
    }
}

#[test]
fn what_nobody_asked_about_is_missing() {
    let found = Agreement::of(&[], &mk_timeline(&[]), &Terms::default(), &no_trouble());
    assert_eq!(found.wrong, ["nobody asked about the pod of uid p-uid"]);
}

/// What is told by a clock that was stepped is not a time before anything was.
#[test]
fn a_time_that_only_a_wrong_clock_tells_is_taken_for_what_it_was() {
    let stepped = mk_trouble(
        Terms::default(),
        vec![(1, Deed::Step(StageName::TaintManager, SignedDuration::from_hours(-1)))],
    );
    let mut timeline = mk_timeline(&[(22, "zone-evictor", mk_pod(true))]);
    timeline.changes[1].at = mono(1);
    let mut wish = mk_wish("due");
    for time in ["dueAt", "decidedAt"] {
        wish["podEviction"][time] = (wall(22) - SignedDuration::from_hours(1)).to_string().into();
    }
    let answer = mk_answer(&wish, Some(&mk_outcome("deleted", Value::Null)), false);
    let found = judge_by(answer, 40, &timeline, &Terms::default(), &stepped);
    assert_agrees(&found, "evicted when its time was over");
}

/// What went late is told with what held it, unless the story kept the stages from telling each other.
#[test]
fn a_wish_that_could_not_be_told_waited_for_that() {
    let timeline = mk_timeline(&[(31, "zone-evictor", mk_pod(true))]);
    let mut outcome = mk_outcome("deleted", Value::Null);
    outcome["podOutcome"]["since"] = wall(31).to_string().into();
    let answer = mk_answer(&mk_wish("due"), Some(&outcome), false);
    assert_eq!(judge(answer.clone(), 40, &timeline).wrong.len(), 1, "nothing held it");
    for (stage, is_told) in [
        (StageName::TaintManager, true),
        (StageName::ZoneEvictor, true),
        (StageName::DaemonsetSyncer, false),
    ] {
        let cut = vec![(15, Deed::Cut(stage, Cut::Bus)), (30, Deed::Mend(stage, Cut::Bus))];
        let trouble = mk_trouble(Terms::default(), cut);
        let found = judge_by(answer.clone(), 40, &timeline, &Terms::default(), &trouble);
        assert_eq!(found.wrong.is_empty(), is_told, "{stage:?}");
    }
}

/// TE-063, TE-076: upstream counts a whole time when the taints change after it was tried, and goes on when they change before.
#[test]
fn upstream_counts_anew_what_was_tried() {
    let terms = Terms {
        profile: Profile::Upstream,
        ..Terms::default()
    };
    for (changed, is_anew) in [(18, false), (30, true)] {
        let mut both = mk_node(Some("1"));
        if let Object::Node(node) = &mut both {
            node.taints.push(Taint::new("example.com/b", Effect::NoExecute));
        }
        let timeline = mk_timeline(&[(changed, "", both)]);
        let mut wish = mk_wish("scheduled");
        wish["podEviction"]["cause"]["taints"] = json!([{"key": "example.com/a", "value": "1"}, {"key": "example.com/b"}]);
        for (field, at) in [("decidedAt", changed), ("dueAt", changed + 10)] {
            wish["podEviction"][field] = wall(at).to_string().into();
        }
        let mut answer = mk_answer(&wish, None, true);
        answer["present"][1]["record"]["seen"]["taints"] = json!(["example.com/a=1:NoExecute", "example.com/b:NoExecute"]);
        let found = judge_by(answer, 36, &timeline, &terms, &no_trouble());
        if is_anew {
            assert_agrees(&found, "to go: its time runs anew");
        } else {
            assert_eq!(found.wrong.len(), 1, "{found:?}");
        }
    }
}

/// A layout that is another waits as long as a Lease lasts; the same one is handed over.
#[test]
fn who_divides_the_work_anew_is_longer_gone() {
    let stage = StageName::ZoneEvictor;
    let terms = Terms {
        shards: Some([2; 4]),
        ..Terms::default()
    };
    let deeds = vec![
        (10, Deed::Divide(stage, 2)),
        (30, Deed::Divide(stage, 3)),
        (70, Deed::Divide(stage, 3)),
    ];
    let trouble = mk_trouble(terms, deeds);
    let ends = |from: u64| (from..).find(|at| !trouble.is_amid(stage, mono(*at), mono(*at)));
    assert_eq!([10, 30, 70].map(ends), [Some(19), Some(56), Some(79)]);
    assert!(!trouble.is_amid(StageName::TaintManager, mono(0), mono(100)));
}

/// Who waited for a watch or a list tries again after a pause, and hears nothing until then.
#[test]
fn who_waits_for_an_answer_that_never_comes_hears_nothing() {
    let mut trouble = no_trouble();
    trouble.waited(StageName::TaintManager, mono(10), mono(40));
    let is_deaf = |at| trouble.is_amid(StageName::TaintManager, mono(at), mono(at));
    assert_eq!([9, 10, 40, 70, 71].map(is_deaf), [false, true, true, true, false]);
    assert!(!trouble.is_amid(StageName::ZoneEvictor, mono(0), mono(100)));
}

fn no_trouble() -> Trouble {
    mk_trouble(Terms::default(), Vec::new())
}

/// Of a story in which this happens, at these seconds.
fn mk_trouble(terms: Terms, deeds: Vec<(u64, Deed)>) -> Trouble {
    let story = Story {
        seed: 1,
        terms,
        nodes: Vec::new(),
        deeds: deeds.into_iter().map(|(at, deed)| (Duration::from_secs(at), deed)).collect(),
        end: Duration::from_secs(60),
    };
    Trouble::of(&story, Mono::ORIGIN)
}
