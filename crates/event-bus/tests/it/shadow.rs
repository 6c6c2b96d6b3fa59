//! A shadow of a bus, over a socket. Time is real here, so nothing is asserted about it.

use bailiff_event_bus::{Bus, Roles, Server, ServerOptions, Shadow, publish, subscribe};
use bailiff_model::Topic;
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::{Clock, Seed};
use tokio_util::sync::CancellationToken;

use crate::support::{Follower, contents, mk_draft, mk_following, mk_publishing};

#[tokio::test]
async fn who_uses_a_shadow_hears_the_bus_and_speaks_beside_it() {
    let (clock, seed) = (Clock::system(), Seed::new(1));
    let mk_server = || Server::new(ServerOptions::default(), &clock, &seed);
    let (real, beside) = (mk_server(), mk_server());
    let bus = Bus::in_process(&real);
    let first = publish(&bus, mk_publishing("first", Topic::NodeHealth, (0, 1), 7), &clock, &seed);
    first.set(mk_draft("a", 1));
    first.complete();
    first.settled().await;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shadow = Bus::connect(&format!("http://{}", listener.local_addr().unwrap()));
    let stop = CancellationToken::new();
    let port = Port::grpc("shadow", listener, None, Bounds::BUS, &port::Metrics::default());
    let serving = tokio::spawn(Shadow::of(&bus, &beside).serve_port(port, Roles::default(), stop.clone()));

    // An epoch that would fence nobody, and one that would fence the first: neither reaches the bus.
    let second = publish(&shadow, mk_publishing("second", Topic::NodeHealth, (0, 1), 9), &clock, &seed);
    second.set(mk_draft("a", 2));
    second.complete();
    second.settled().await;
    let mut told = Follower::new(subscribe(
        &Bus::in_process(&beside),
        mk_following("judge", &[Topic::NodeHealth]),
        &clock,
        &seed,
    ));
    told.step().await;
    assert_eq!(told.contents(), contents([("a", 2)]), "what it says is heard beside");

    let mut hears = Follower::new(subscribe(
        &shadow,
        mk_following("second", &[Topic::NodeHealth]),
        &clock,
        &seed,
    ));
    hears.step().await;
    assert_eq!(hears.contents(), contents([("a", 1)]), "what it hears is the bus's");
    first.set(mk_draft("a", 3));
    hears.until(|hears| hears.contents() == contents([("a", 3)])).await;
    assert_eq!(
        shadow.history(Topic::NodeHealth, "a").await.unwrap().len(),
        2,
        "with its history"
    );

    let producer = |status: &bailiff_event_bus::client::BusStatus| status.topics[0].shards[0].producer.clone();
    assert_eq!(producer(&bus.status().await.unwrap()), "first", "nobody was fenced");
    assert_eq!(producer(&shadow.status().await.unwrap()), "second", "its status is its own");

    // A bus that goes ends what is heard; what is said stays.
    real.kill();
    hears.until(|hears| hears.lost == 1).await;
    assert_eq!(
        shadow.history(Topic::NodeHealth, "a").await.unwrap_err().to_string(),
        "the bus refused GetHistory"
    );
    assert_eq!(shadow.status().await.unwrap().topics[0].keys, 1);
    stop.cancel();
    serving.await.unwrap();
}
