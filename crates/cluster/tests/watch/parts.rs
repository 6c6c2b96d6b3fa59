//! Lists that come in parts.

use bailiff_cluster::watch::{ListPart, WatchInParts};

use super::*;

const END: &str = r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;

type Parts = WatchInParts<Thing>;

fn mk_parts(answers: Vec<Answer>, streams: bool) -> (Parts, Asked) {
    let (api, asked) = mk_api(answers, Metrics::default(), streams);
    (Watch::start_in_parts(&api, THINGS, &Seed::new(1), ()), asked)
}

/// A part by how many it holds, the first and the last of them.
fn show_part(part: ListPart<Thing>) -> String {
    let begins = if part.first { "first" } else { "more" };
    let ends = part.objects.first().into_iter().chain(part.objects.last());
    let ends: Vec<String> = ends.map(show).collect();
    format!("{begins} {} {}", part.objects.len(), ends.join(" "))
}

async fn read_parts(watch: &mut Parts, count: usize) -> Vec<String> {
    read_with(watch, count, show_part).await
}

fn mk_things(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| mk_thing(&format!("t{number}"), 3, number)).collect()
}

fn mk_added(numbers: std::ops::Range<u32>) -> Vec<String> {
    mk_things(numbers).iter().map(|thing| mk_line("ADDED", thing)).collect()
}

fn mk_page(items: &[String], next: &str) -> Answer {
    let items = items.join(",");
    let body = format!(r#"{{"metadata":{{"resourceVersion":"5","continue":"{next}"}},"items":[{items}]}}"#);
    Answer::Whole(200, body)
}

fn mk_broken(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","uid":"u"}},"size":"large"}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_shown_while_it_is_read() {
    let lines = [
        mk_added(0..40),
        vec![
            mk_line("MODIFIED", &mk_thing("t0", 6, 7)),
            mk_line("DELETED", &mk_thing("t1", 7, 1)),
            mk_line("BOOKMARK", r#"{"metadata":{"resourceVersion":"8"}}"#),
        ],
        mk_added(40..82),
        vec![mk_line("BOOKMARK", END), mk_line("ADDED", &mk_thing("c", 10, 4))],
    ]
    .concat();
    let (mut watch, asked) = mk_parts(vec![Answer::Silence(lines)], true);
    let seen = read_parts(&mut watch, 6).await;
    let last: Vec<String> = (72..82).map(|number| format!("t{number}={number}")).collect();
    let end = format!("snapshot {}", last.join(" "));
    let parts = [
        "first 32 t0=0 t31=31",
        "more 9 t32=32 t0=7",
        "deleted t1",
        "more 32 t40=40 t71=71",
    ];
    assert_eq!(seen, [&parts[..], &[&end, "applied c=4"]].concat());
    assert_eq!(asked.lock().expect("not poisoned").len(), 1);
}

/// The end names what could not be decoded when it was said last, and is there.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_list_names_what_is_malformed_then() {
    let lines = vec![
        mk_line("ADDED", &mk_broken("a")),
        mk_line("ADDED", &mk_broken("b")),
        mk_line("ADDED", &mk_broken("c")),
        mk_line("MODIFIED", &mk_thing("a", 4, 1)),
        mk_line("DELETED", &mk_broken("b")),
        mk_line("ADDED", &mk_thing("d", 5, 2)),
        mk_line("BOOKMARK", END),
    ];
    let (mut watch, _) = mk_parts(vec![Answer::Silence(lines)], true);
    assert_eq!(
        read_parts(&mut watch, 3).await,
        ["first 1 a=1 a=1", "deleted b", "snapshot d=2 c:u=?"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_paged_list_is_shown_while_it_is_read() {
    let (mut watch, asked) = mk_parts(
        vec![
            mk_page(&[mk_things(0..50), vec![mk_broken("bad")]].concat(), "x"),
            mk_page(&mk_things(50..65), ""),
            Answer::Never,
        ],
        false,
    );
    assert_eq!(
        read_parts(&mut watch, 3).await,
        ["first 32 t0=0 t31=31", "more 32 t32=32 t63=63", "snapshot t64=64 bad:u=?"]
    );
    assert_eq!(asked.lock().expect("not poisoned")[1], "/api/v1/things?limit=500&continue=x");
}

/// What was shown of it stays, and the next list says that it begins, however short it is.
#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_no_list() {
    let refused = || Answer::Whole(403, r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#.to_owned());
    let status = r#"{"kind":"Status","code":500,"reason":"InternalError"}"#;
    let stream = [mk_added(0..40), vec![mk_line("ERROR", status)]].concat();
    let (mut watch, _) = mk_parts(
        vec![
            Answer::Lines(stream),
            mk_page(&mk_things(0..32), "x"),
            refused(),
            // Both again.
            Answer::Lines(mk_added(0..31)),
            mk_page(&mk_things(0..1), ""),
        ],
        true,
    );
    assert_eq!(
        read_parts(&mut watch, 5).await,
        [
            "first 32 t0=0 t31=31",
            "first 32 t0=0 t31=31",
            "stale false",
            "first 0 ",
            "snapshot t0=0"
        ]
    );
}

/// What a watch has shown comes before the list that follows it.
#[tokio::test(start_paused = true)]
async fn a_list_comes_after_what_was_watched_before_it() {
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
    let (mut watch, _) = mk_parts(
        vec![
            mk_page(&[], ""),
            Answer::Lines(vec![mk_line("ADDED", &mk_thing("a", 6, 1)), mk_line("ERROR", gone)]),
            mk_page(&mk_things(0..32), ""),
        ],
        false,
    );
    assert_eq!(
        read_parts(&mut watch, 5).await,
        ["first 0 ", "snapshot ", "applied a=1", "first 32 t0=0 t31=31", "snapshot "]
    );
}

/// What is more than the queue holds waits for who reads, and comes in its order.
#[tokio::test(start_paused = true)]
async fn a_list_waits_for_its_reader() {
    let (mut watch, _) = mk_parts(vec![mk_page(&mk_things(0..1_600), ""), Answer::Never], false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let seen = read_parts(&mut watch, 51).await;
    assert_eq!(
        (&*seen[0], &*seen[49]),
        ("first 32 t0=0 t31=31", "more 32 t1568=1568 t1599=1599")
    );
    assert_eq!(seen[50], "snapshot ");
}

/// Lists that break off show that a server is there, and nothing of the cluster: a reader that waits for their end is told.
#[tokio::test(start_paused = true)]
async fn lists_that_break_off_again_and_again_make_the_watch_stale() {
    let refused = || Answer::Whole(403, r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#.to_owned());
    let broken = (0..20).flat_map(|_| [mk_page(&mk_things(0..32), "x"), refused()]);
    let (mut watch, _) = mk_parts(broken.chain([mk_page(&mk_things(0..1), "")]).collect(), false);
    let mut seen = read_parts(&mut watch, 24).await;
    seen.retain(|event| !event.starts_with("first"));
    assert_eq!(seen, ["stale false", "snapshot t0=0", "fresh"]);
}
