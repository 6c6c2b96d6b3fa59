//! The recorder: what is sent, again, and not at all (NL-132).

use std::time::Duration;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::{About, Effect, Mono, Taint, TraceContext};
use bailiff_runtime::Seed;
use serde_json::{Value, json};

use crate::server::{Answer, Server};

fn mk_draft(note: &str) -> Draft {
    Draft {
        regarding: Regarding {
            api_version: "v1",
            kind: "Pod",
            namespace: "d".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
            ..Regarding::default()
        },
        severity: Severity::Warning,
        reason: "R",
        action: "R",
        note: note.to_owned(),
        about: About::node(&note.into()),
    }
}

fn mk_recorder(server: &Server) -> Recorder {
    Recorder::start(&server.api(), "controller", "instance", &Seed::new(1))
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_event_is_created_and_its_repetitions_are_a_series() {
    let server = Server::new([]);
    let recorder = mk_recorder(&server);
    for wait in [1, 1, 1, 60] {
        recorder.emit(|| mk_draft("x"));
        pass(wait).await;
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[0].what, "POST /apis/events.k8s.io/v1/namespaces/d/events");
    assert_eq!(asked[0].body["eventTime"], "1970-01-01T00:00:00.000000Z");
    assert_eq!(
        (&asked[0].body["note"], &asked[0].body["type"]),
        (&"x".into(), &"Warning".into())
    );
    let name = asked[0].body["metadata"]["name"].as_str().expect("a name");
    for (nth, count) in [(1, 2), (2, 4)] {
        assert_eq!(
            asked[nth].what,
            format!("PATCH /apis/events.k8s.io/v1/namespaces/d/events/{name}")
        );
        assert_eq!(asked[nth].body["series"]["count"], count);
        assert_eq!(asked[nth].body["metadata"]["annotations"]["bailiff.dev/node"], "x");
    }
}

/// A shard that went to another process and came back has the seed that it had.
#[tokio::test(start_paused = true)]
async fn a_recorder_begun_anew_gives_other_names() {
    let server = Server::new([]);
    for _ in 0..2 {
        mk_recorder(&server).emit(|| mk_draft("x"));
        pass(1).await;
    }
    let asked = server.asked();
    let names: Vec<&Value> = asked.iter().map(|one| &one.body["metadata"]["name"]).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
}

/// One Event that stands for several names the causes of the newest, and keeps none of an earlier one beside them.
#[tokio::test(start_paused = true)]
async fn a_series_names_the_causes_of_what_was_said_last() {
    let server = Server::new([]);
    let recorder = mk_recorder(&server);
    let taint = Taint::new("example.com/m", Effect::NoExecute);
    let trace = |id| TraceContext::new(id, 1);
    let node = About::node(&"n1".into());
    let by_taint = node.clone().because_of(Some(&taint)).traced(trace(1));
    for about in [by_taint, node.traced(trace(2))] {
        recorder.emit(|| Draft { about, ..mk_draft("x") });
        pass(1).await;
    }
    let asked = server.asked();
    let named: Vec<&Value> = asked.iter().map(|one| &one.body["metadata"]["annotations"]).collect();
    let id = |last: char| format!("{}{last}", "0".repeat(31));
    let first = json!({"bailiff.dev/trace-id": id('1'), "bailiff.dev/node": "n1", "bailiff.dev/taint": "example.com/m:NoExecute"});
    let last = json!({"bailiff.dev/trace-id": id('2'), "bailiff.dev/node": "n1", "bailiff.dev/taint": null});
    assert_eq!(named, [&first, &last]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_answered_is_tried_again_and_what_was_done_counts_as_created() {
    let server = Server::new([
        Answer::Never,
        Answer::Breaks,
        Answer::Says(409, r#"{"reason":"AlreadyExists"}"#),
    ]);
    let recorder = mk_recorder(&server);
    recorder.emit(|| mk_draft("x"));
    pass(60).await;
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(
        asked
            .iter()
            .all(|one| one.body["metadata"]["name"] == asked[0].body["metadata"]["name"])
    );
    let pauses: Vec<u64> = asked
        .windows(2)
        .map(|two| two[1].at.saturating_since(two[0].at).as_secs())
        .collect();
    assert!((15..18).contains(&pauses[0]) && (10..13).contains(&pauses[1]), "{pauses:?}");
    assert_eq!((server.events("created"), server.events("failed")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_twelve_attempts_and_a_refusal_one() {
    let server = Server::new([Answer::Breaks; 20]);
    let recorder = mk_recorder(&server);
    recorder.emit(|| mk_draft("x"));
    pass(600).await;
    assert_eq!((server.asked().len(), server.events("failed")), (12, 1));
    let server = Server::new([
        Answer::Says(500, "{}"),
        Answer::Says(403, "{}"),
        Answer::Says(409, r#"{"reason":"AlreadyExists"}"#),
    ]);
    let recorder = mk_recorder(&server);
    for note in ["x", "y", "z"] {
        recorder.emit(|| mk_draft(note));
        pass(60).await;
    }
    assert_eq!((server.asked().len(), server.events("failed")), (3, 3));
}

/// A series whose Event has expired on the server begins again under its name.
#[tokio::test(start_paused = true)]
async fn a_series_that_is_gone_begins_again() {
    let created = Answer::Says(201, "{}");
    let server = Server::new([created, Answer::Says(404, r#"{"reason":"NotFound"}"#), created, created]);
    let recorder = mk_recorder(&server);
    for _ in 0..3 {
        recorder.emit(|| mk_draft("x"));
        pass(1).await;
    }
    pass(60).await;
    let asked = server.asked();
    let verbs: Vec<&str> = asked.iter().filter_map(|one| one.what.split(' ').next()).collect();
    assert_eq!(verbs, ["POST", "PATCH", "POST", "PATCH"]);
    assert_eq!(asked[0].body["metadata"]["name"], asked[2].body["metadata"]["name"]);
    assert_eq!(asked[3].body["series"]["count"], 2);
    assert_eq!((server.events("created"), server.events("repeated")), (2, 1));
}

/// NL-132, DS-187: also what came up while a request was under way is written, and nothing else.
#[tokio::test(start_paused = true)]
async fn similar_events_end_with_the_newest() {
    let server = Server::new([]);
    let recorder = mk_recorder(&server);
    for n in 1..=12 {
        recorder.emit(|| mk_draft(&format!("note {n}")));
    }
    pass(1).await;
    recorder.emit(|| mk_draft("note 13"));
    pass(60).await;
    let asked = server.asked();
    let (created, changed): (Vec<_>, Vec<_>) = asked.iter().partition(|one| one.what.starts_with("POST"));
    assert_eq!((created.len(), changed.len()), (10, 2), "{asked:?}");
    assert_eq!(created[9].body["note"], "(combined from similar events): note 10");
    let name = created[9].body["metadata"]["name"].as_str().expect("a name");
    for (change, count, note) in [(changed[0], 3, "note 12"), (changed[1], 4, "note 13")] {
        assert_eq!(change.what, format!("PATCH /api/v1/namespaces/d/events/{name}"));
        assert_eq!(change.body["series"]["count"], count);
        assert_eq!(change.body["message"], format!("(combined from similar events): {note}"));
        assert_eq!(change.body["metadata"]["annotations"]["bailiff.dev/node"], note);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_hold_up_the_rest() {
    let server = Server::new([Answer::Never, Answer::Never]);
    let recorder = mk_recorder(&server);
    for note in ["a", "b", "c", "d", "e", "f"] {
        recorder.emit(|| mk_draft(note));
    }
    pass(1).await;
    assert_eq!((server.asked().len(), server.events("created")), (6, 4));
}

/// A server that takes a second for each is asked for one at a time, until it is quick again; nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_one_event_at_a_time() {
    let server = Server::new([Answer::Later(1, 201, "{}"); 11]);
    let recorder = mk_recorder(&server);
    for n in 0..20 {
        recorder.emit(|| Draft {
            reason: ["R", "S", "T"][n % 3],
            ..mk_draft(&format!("note {n}"))
        });
    }
    pass(60).await;
    let at: Vec<u64> = server
        .asked()
        .iter()
        .map(|one| one.at.saturating_since(Mono::ORIGIN).as_secs())
        .collect();
    let eight_then_one_by_one = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
    assert_eq!(
        (at[..11].to_vec(), at[11..].to_vec()),
        (eight_then_one_by_one.to_vec(), vec![4; 9])
    );
    assert_eq!(server.events("created"), 20);
}

/// Also at the end there is room for eight, as soon as the server is quick.
#[tokio::test(start_paused = true)]
async fn what_is_left_for_a_server_that_was_busy_is_sent_too() {
    let later = Answer::Later(1, 201, "{}");
    let answers = [later; 9].into_iter().chain([Answer::Says(201, "{}")]).chain([later; 8]);
    let server = Server::new(answers);
    let recorder = mk_recorder(&server);
    for n in 0..18 {
        recorder.emit(|| Draft {
            reason: ["R", "S"][n % 2],
            ..mk_draft(&format!("note {n}"))
        });
    }
    pass(1).await;
    drop(recorder);
    pass(60).await;
    let at = server
        .asked()
        .into_iter()
        .map(|one| one.at.saturating_since(Mono::ORIGIN).as_secs());
    assert_eq!(at.collect::<Vec<_>>(), [vec![0; 8], vec![1], vec![2; 9]].concat());
}

/// Who does not answer is not busy: it says nothing about the next.
#[tokio::test(start_paused = true)]
async fn no_answer_leaves_room_for_the_rest() {
    let server = Server::new([Answer::Never, Answer::Never, Answer::Never, Answer::Never]);
    let recorder = mk_recorder(&server);
    for note in ["a", "b", "c", "d", "e", "f", "g"] {
        recorder.emit(|| mk_draft(note));
    }
    pass(6).await;
    assert_eq!((server.asked().len(), server.events("created")), (7, 3));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_sent_when_the_last_handle_goes() {
    let server = Server::new([]);
    let recorder = mk_recorder(&server);
    for note in ["x", "x", "x", "y"] {
        recorder.emit(|| mk_draft(note));
        pass(1).await;
    }
    drop(recorder);
    pass(1).await;
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[3].body["series"]["count"], 3);
}

/// What comes while the server is busy waits, and says when it was said. What is too much is dropped before it is put together.
#[tokio::test(start_paused = true)]
async fn what_waits_says_when_it_was_said_and_what_is_too_much_costs_nothing() {
    const QUEUE: u64 = 1000;
    let server = Server::new([Answer::Later(1, 201, "{}"); 12]);
    let recorder = mk_recorder(&server);
    let mut put_together = 0;
    for n in 0..QUEUE + 200 {
        recorder.emit(|| {
            put_together += 1;
            let regarding = Regarding {
                name: format!("p{n}"),
                ..mk_draft("x").regarding
            };
            Draft {
                regarding,
                ..mk_draft("x")
            }
        });
    }
    pass(60).await;
    let asked = server.asked();
    assert_eq!((put_together, server.events("dropped_queue_full")), (QUEUE, 200));
    assert_eq!(server.events("created"), QUEUE);
    assert!(asked.last().is_some_and(|last| last.at > Mono::ORIGIN), "{:?}", asked.last());
    let times: Vec<&Value> = asked.iter().map(|one| &one.body["eventTime"]).collect();
    assert!(times.iter().all(|time| *time == "1970-01-01T00:00:00.000000Z"), "{times:?}");
}
