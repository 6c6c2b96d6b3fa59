//! When a watch says that it is stale.

use super::*;

/// Neither a long pause nor a server that accepts and says nothing may put off the news.
#[tokio::test(start_paused = true)]
async fn staleness_is_said_in_time_whatever_the_watch_waits_for() {
    let broken = || Answer::Whole(503, String::new());
    let unanswered = || {
        vec![
            mk_list(5, &[]),
            Answer::Quiet(Vec::new(), 2),
            Answer::Never,
            Answer::Never,
            Answer::Never,
        ]
    };
    let refused = || {
        let begun = vec![mk_list(5, &[]), Answer::Quiet(Vec::new(), 2)];
        begun.into_iter().chain((0..40).map(|_| broken())).collect()
    };
    for (name, answers) in [("never answered", unanswered()), ("refused", refused())] {
        let (mut watch, _) = mk_watch(answers);
        let started = tokio::time::Instant::now();
        assert_eq!(read(&mut watch, 2).await, ["snapshot ", "stale true"], "{name}");
        let late = started.elapsed().saturating_sub(Duration::from_secs(2) + SILENT_AFTER);
        assert!(late < Duration::from_millis(10), "{name}: {late:?}");
    }
}

/// A list that brings page after page shows nothing before its end: what was shown is as old as if nobody had answered.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_slow_makes_the_watch_stale() {
    let page = |items: &str| {
        let body = format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"x"}},"items":[{items}]}}"#);
        Answer::Later(20, Box::new(Answer::Whole(200, body)))
    };
    let slow = || {
        let last = mk_list(9, &[&mk_thing("b", 7, 2)]);
        vec![page(&mk_thing("a", 6, 1)), page(""), page(""), last, Answer::Never]
    };
    let begun = vec![
        mk_list(5, &[]),
        Answer::Quiet(vec![mk_line("BOOKMARK", r#"{"metadata":{"resourceVersion":"6"}}"#)], 2),
        Answer::Whole(410, String::new()),
    ];
    for (shown, before) in [(Some(2), begun), (None, Vec::new())] {
        let has_begun = !before.is_empty();
        let (mut watch, _) = mk_watch(before.into_iter().chain(slow()).collect());
        let started = tokio::time::Instant::now();
        if has_begun {
            assert_eq!(read(&mut watch, 1).await, ["snapshot "]);
        }
        let Event::Stale { since, .. } = watch.next().await else {
            panic!("not stale {:?} after {shown:?}", started.elapsed());
        };
        assert_eq!(since.map(|since| since.since_origin().as_secs()), shown);
        let late = started
            .elapsed()
            .saturating_sub(Duration::from_secs(shown.unwrap_or(0)) + SILENT_AFTER);
        assert!(late < Duration::from_millis(10), "{late:?} after {shown:?}");
        assert_eq!(read(&mut watch, 2).await, ["snapshot a=1 b=2", "fresh"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answered_is_stale_too() {
    let broken = || Answer::Whole(500, String::new());
    let (mut watch, _) = mk_watch(vec![broken(), broken(), broken(), mk_list(1, &[])]);
    assert_eq!(read(&mut watch, 3).await, ["stale false", "snapshot ", "fresh"]);
}
