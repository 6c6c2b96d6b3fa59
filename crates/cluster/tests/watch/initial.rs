//! Lists that come as the beginning of a watch.

use super::*;

const END: &str = r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;

#[tokio::test(start_paused = true)]
async fn a_list_comes_as_a_stream_that_goes_on_as_the_watch() {
    let bad = r#"{"metadata":{"name":"bad","uid":"u"},"size":"large"}"#;
    let (mut watch, asked) = mk_streaming_watch(vec![
        Answer::Quiet(
            vec![
                mk_line("ADDED", &mk_thing("a", 3, 1)),
                mk_line("ADDED", &mk_thing("b", 4, 2)),
                mk_line("ADDED", bad),
                // What happens meanwhile.
                mk_line("MODIFIED", &mk_thing("b", 6, 3)),
                mk_line("DELETED", &mk_thing("a", 7, 1)),
                mk_line("BOOKMARK", r#"{"metadata":{"resourceVersion":"8"}}"#),
                mk_line("BOOKMARK", END),
                mk_line("ADDED", &mk_thing("c", 10, 4)),
            ],
            9,
        ),
        Answer::Never,
    ]);
    assert_eq!(read(&mut watch, 2).await, ["snapshot b=3 bad:u=?", "applied c=4"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = asked.lock().expect("not poisoned").clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(
        asked[0].contains("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&") && !asked[0].contains("resourceVersion="),
        "{asked:?}"
    );
    assert!(asked[1].contains("&resourceVersion=10&"), "{asked:?}");
}

/// A server that does not have it, or has something else, is asked for pages, and only once for a stream.
#[tokio::test(start_paused = true)]
async fn pages_are_read_where_there_are_no_streams() {
    let refused = |code| Answer::Whole(code, format!(r#"{{"kind":"Status","code":{code},"reason":"Invalid"}}"#));
    let gone = || Answer::Whole(410, r#"{"kind":"Status","code":410,"reason":"Expired"}"#.to_owned());
    let cases = [
        ("refuses by validation", refused(422)),
        ("refuses", refused(400)),
        (
            "ignores what is asked for",
            Answer::Lines(vec![r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#.to_owned()]),
        ),
        (
            "has no position",
            Answer::Silence(vec![mk_line("BOOKMARK", &END.replace("\"9\"", "\"\""))]),
        ),
        ("says too much at once", Answer::Silence(vec!["x".repeat(9 << 20)])),
    ];
    for (server, answer) in cases {
        let (mut watch, asked) = mk_streaming_watch(vec![
            answer,
            mk_list(5, &[&mk_thing("b", 4, 2)]),
            gone(),
            mk_list(20, &[]),
            Answer::Never,
        ]);
        assert_eq!(read(&mut watch, 2).await, ["snapshot b=2", "snapshot "], "{server}");
        let asked = asked.lock().expect("not poisoned").clone();
        let streams = asked.iter().filter(|request| request.contains("sendInitialEvents"));
        assert_eq!(streams.count(), 1, "{server}: {asked:?}");
    }
}

/// A server on its way out ends all streams in good order. One that never tells the end does not have it.
#[tokio::test(start_paused = true)]
async fn streams_are_given_up_once_several_in_a_row_have_no_end() {
    let added = || vec![mk_line("ADDED", &mk_thing("a", 3, 1))];
    let gone = || Answer::Whole(410, String::new());
    let cut: [fn(Vec<String>) -> Answer; 2] = [|lines| Answer::Quiet(lines, 40), Answer::Silence];
    for cut in cut {
        let cut_off = |times| (0..times).flat_map(move |_| [cut(added()), mk_list(5, &[]), gone()]);
        let ended = || [Answer::Lines(vec![mk_line("BOOKMARK", END)]), gone()];
        let answers = cut_off(2).chain(ended()).chain(cut_off(3)).chain([mk_list(9, &[])]);
        let (mut watch, asked) = mk_streaming_watch(answers.collect());
        let mut seen = read(&mut watch, 20).await;
        seen.retain(|event| event == "snapshot ");
        assert_eq!(seen.len(), 7);
        let asked = asked.lock().expect("not poisoned").clone();
        let streams = asked.iter().filter(|request| request.contains("sendInitialEvents"));
        assert_eq!(streams.count(), 6, "{asked:?}");
    }
}

/// What may only have gone wrong this once is asked for as a stream again.
#[tokio::test(start_paused = true)]
async fn a_stream_that_failed_is_tried_again_with_the_next_list() {
    let status = r#"{"kind":"Status","code":500,"reason":"InternalError"}"#;
    let (mut watch, asked) = mk_streaming_watch(vec![
        Answer::Lines(vec![mk_line("ADDED", &mk_thing("a", 3, 1)), mk_line("ERROR", status)]),
        mk_list(5, &[&mk_thing("b", 4, 2)]),
        Answer::Whole(410, String::new()),
        Answer::Silence(vec![mk_line("BOOKMARK", END)]),
    ]);
    assert_eq!(read(&mut watch, 2).await, ["snapshot b=2", "snapshot "]);
    assert_eq!(asked.lock().expect("not poisoned").len(), 4);
}

/// A server that has too much to do is not asked for pages instead.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    let later = r#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":35}}"#;
    let (mut watch, asked) = mk_streaming_watch(vec![
        Answer::Whole(429, later.to_owned()),
        Answer::Silence(vec![mk_line("BOOKMARK", END)]),
    ]);
    let begun = tokio::time::Instant::now();
    let seen = read(&mut watch, 3).await;
    assert_eq!(seen, ["stale false", "snapshot ", "fresh"]);
    assert!(begun.elapsed() >= Duration::from_secs(35));
    assert_eq!(asked.lock().expect("not poisoned").len(), 2);
}
