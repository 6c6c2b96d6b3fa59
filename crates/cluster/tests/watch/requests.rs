//! What a watch asks for.

use bailiff_runtime::client::Limiter;

use super::*;

/// Behind a wave of writes nobody would see what becomes of them.
#[tokio::test(start_paused = true)]
async fn a_watch_begins_without_a_turn_under_the_rate_limit() {
    let added = mk_line("ADDED", &mk_thing("a", 6, 1));
    let (api, _) = mk_api(vec![mk_list(5, &[]), Answer::Silence(vec![added])], Metrics::default(), false);
    let limiter = Limiter::new(0.001, 1, api.clock());
    let mut watch = Watch::start(&api.with_limiter(limiter), THINGS, &Seed::new(1));
    let begun = tokio::time::Instant::now();
    assert_eq!(read(&mut watch, 2).await, ["snapshot ", "applied a=1"]);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_answered_is_counted_as_a_request() {
    let registry = bailiff_runtime::Metrics::new();
    let (mut watch, _) = mk_measured_watch::<Thing>(vec![mk_list(5, &[]), Answer::Never], registry.register("", Metrics::register));
    assert_eq!(read(&mut watch, 1).await, ["snapshot "]);
    tokio::time::sleep(Duration::from_secs(40)).await;
    let text = registry.encode();
    assert!(
        text.contains("kube_client_requests_total{method=\"watch\",result=\"timeout\"} 1\n"),
        "{text}"
    );
}
