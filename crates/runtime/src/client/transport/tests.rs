//! Against servers that speak what a test says.

pub(super) mod server;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use http::Version;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use self::server::{BOTH, Going, NEWER, OLDER, mk_relay, mk_server, until};
use super::shared::{AT_ONCE, CONNECT_WITHIN, FURTHER, URGENT_BESIDES};
use super::*;
use crate::Clock;
use crate::client::{LOOK, connector};

async fn ask(transport: &Transport) -> Result<Version, SendError> {
    let request = Request::get("/api").body(Content::default()).unwrap();
    let answer = transport.send(transport.room(false).await?, request).await?;
    let version = answer.version();
    answer.into_body().collect().await.map_err(SendError)?;
    Ok(version)
}

async fn ask_often(transport: Transport, times: usize) -> Vec<Result<Version, SendError>> {
    join_all((0..times).map(|_| ask(&transport))).await
}

fn are_all(answers: &[Result<Version, SendError>], version: Version) -> bool {
    answers
        .iter()
        .all(|answer| matches!(answer, Ok(spoken) if *spoken == version))
}

/// All that may be under way together.
const PLACES: usize = CONNECTIONS * AT_ONCE;
const CONNECTIONS: usize = 1 + FURTHER;

#[tokio::test]
async fn single_requests_share_few_connections_and_streams_have_their_own() {
    let server = mk_server(Some(BOTH)).await;
    let transport = server.transport();
    for (wave, connections) in [(AT_ONCE - 1, 1), (AT_ONCE + 1, 2), (PLACES, CONNECTIONS)] {
        server.hold();
        let asking = tokio::spawn(ask_often(transport.clone(), wave));
        server.wait_for(wave).await;
        assert_eq!(server.connections(), connections, "{wave} at once");
        server.answer(wave);
        let answers = asking.await.unwrap();
        assert!(are_all(&answers, Version::HTTP_2), "{answers:?}");
    }
    server.hold();
    let asking = tokio::spawn(ask_often(transport.clone(), PLACES + 100));
    let before = server.asked();
    server.wait_for(PLACES).await;
    server.answer(1);
    // One is answered, so there is room for another one.
    server.wait_for_asked(before + PLACES + 1).await;
    assert_eq!(*server.seen.at_once.borrow(), PLACES);
    server.answer(PLACES + 99);
    let answers = asking.await.unwrap();
    assert!(are_all(&answers, Version::HTTP_2), "{answers:?}");
    assert_eq!(server.connections(), CONNECTIONS);

    server.answer(3);
    let streams =
        join_all((0..3).map(|_| transport.open(Request::get("/api").body(Content::default()).unwrap(), Attention::Close))).await;
    for stream in &streams {
        assert_eq!(stream.as_ref().unwrap().version(), Version::HTTP_11);
    }
    assert_eq!(server.connections(), CONNECTIONS + 3);
}

/// A wave is served by what is there: by the first connection alone, if no other comes about.
#[tokio::test]
async fn a_further_connection_that_does_not_come_about_is_nobodys_error() {
    for protocols in [None, Some(OLDER)] {
        let server = mk_server(Some(NEWER)).await;
        let transport = server.transport();
        ask(&transport).await.unwrap();
        server.seen.is_there.store(protocols.is_some(), Ordering::SeqCst);
        *server.seen.protocols.lock().unwrap() = protocols.unwrap_or(NEWER);
        server.hold();
        let asking = tokio::spawn(ask_often(transport.clone(), PLACES));
        server.wait_for(AT_ONCE).await;
        server.answer(PLACES);
        let answers = asking.await.unwrap();
        assert!(are_all(&answers, Version::HTTP_2), "{protocols:?}: {answers:?}");
        assert!(server.connections() <= 2, "one is tried, and none after it for a while");
    }
}

/// What is urgent has room on the connection that is there: it waits for no other.
#[tokio::test]
async fn what_is_urgent_goes_over_the_first_connection() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    ask(&transport).await.unwrap();
    server.seen.is_there.store(false, Ordering::SeqCst);
    let mut rooms = join_all((0..AT_ONCE - 1).map(|_| transport.room(false))).await;
    for _ in 0..=URGENT_BESIDES {
        rooms.push(transport.room(true).await);
    }
    assert!(rooms.iter().all(Result::is_ok));
}

/// Places of a connection that ended are gone with it, whoever had them, and its requests go over the first.
#[tokio::test]
async fn a_further_connection_that_ends_takes_its_places_with_it() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    server.hold();
    let asking = tokio::spawn(ask_often(transport.clone(), PLACES));
    server.wait_for(PLACES).await;
    server.seen.end.send_replace(());
    server.answer(PLACES);
    assert!(are_all(&asking.await.unwrap(), Version::HTTP_2));
    let mut open = server.seen.open.subscribe();
    open.wait_for(|open| *open == 0).await.unwrap();
    // They ended young: others are not tried at once.
    tokio::time::pause();
    tokio::time::advance(2 * CONNECT_WITHIN).await;
    tokio::time::resume();
    server.seen.is_there.store(false, Ordering::SeqCst);
    let before = server.asked();
    ask(&transport).await.unwrap_err();
    server.seen.is_there.store(true, Ordering::SeqCst);
    server.answer(1);
    ask(&transport).await.unwrap();
    let asking = tokio::spawn(ask_often(transport.clone(), PLACES + 100));
    server.wait_for(PLACES).await;
    server.answer(1);
    server.wait_for_asked(before + 1 + PLACES + 1).await;
    assert_eq!(*server.seen.at_once.borrow(), PLACES, "as many as before");
    server.answer(PLACES + 99);
    assert!(are_all(&asking.await.unwrap(), Version::HTTP_2));
}

#[tokio::test]
async fn further_connections_are_closed_when_the_wave_is_over() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    server.hold();
    let asking = tokio::spawn(ask_often(transport.clone(), PLACES));
    server.wait_for(PLACES).await;
    let mut open = server.seen.open.subscribe();
    assert_eq!(*open.borrow_and_update(), CONNECTIONS);
    server.answer(PLACES);
    assert!(are_all(&asking.await.unwrap(), Version::HTTP_2));
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    open.wait_for(|open| *open <= 1).await.unwrap();
    assert!(began.elapsed() <= 3 * IDLE_FOR, "{:?}", began.elapsed());
    tokio::time::resume();
    server.answer(1);
    ask(&transport).await.unwrap();
    assert_eq!(server.connections(), CONNECTIONS, "the first stays");
}

/// What is read of an answer takes room, too: a list is long.
#[tokio::test]
async fn room_is_taken_until_the_answer_was_read() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    let mut answers = Vec::new();
    for _ in 0..PLACES {
        let request = Request::get("/api").body(Content::default()).unwrap();
        answers.push(transport.send(transport.room(false).await.unwrap(), request).await.unwrap());
    }
    let mut room = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut room).is_pending());
    let urgent = join_all((0..URGENT_BESIDES).map(|_| transport.room(true))).await;
    let mut late = Box::pin(transport.room(true));
    assert!(futures::poll!(&mut late).is_pending());
    answers.pop();
    let taken = futures::poll!(&mut room);
    assert!(taken.is_ready() && futures::poll!(&mut late).is_pending());
    drop(urgent);
    assert!(futures::poll!(&mut late).is_ready());
}

#[tokio::test]
async fn a_server_that_speaks_the_older_version_only_is_served_by_a_pool() {
    for protocols in [Some(OLDER), Some([].as_slice()), None] {
        let server = mk_server(protocols).await;
        let transport = server.transport();
        let answers = ask_often(transport.clone(), 20).await;
        assert!(are_all(&answers, Version::HTTP_11), "{answers:?}");
        // One of TLS that asked which it speaks.
        assert!(server.connections() <= 21, "{}", server.connections());
        let before = server.connections();
        ask(&transport).await.unwrap();
        assert_eq!(server.connections(), before, "{protocols:?}");
    }
}

/// A server that goes says which requests it did not look at; one that is behind the same address may speak something else.
#[tokio::test]
async fn a_connection_that_is_ended_in_order_costs_no_request() {
    let server = mk_server(Some(BOTH)).await;
    let transport = server.transport();
    ask(&transport).await.unwrap();
    for protocols in [BOTH, NEWER, OLDER] {
        *server.seen.protocols.lock().unwrap() = protocols;
        let before = server.connections();
        server.hold();
        let asking = tokio::spawn(ask_often(transport.clone(), PLACES + 100));
        server.wait_for(AT_ONCE).await;
        server.seen.end.send_replace(());
        // What waits for room waits for another one.
        until(|| !transport.ways.get().shared.as_ref().unwrap().takes_requests()).await;
        server.answer(1_000);
        let answers = asking.await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{protocols:?}: {answers:?}");
        assert!(server.connections() > before);
    }
    assert_eq!(ask(&transport).await.unwrap(), Version::HTTP_11);
}

/// As kube-apiserver does now and then with `--goaway-chance`. What it looked at is answered, however long that takes, and not sent again.
#[tokio::test]
async fn what_a_server_that_goes_did_not_look_at_is_sent_over_the_next_connection() {
    for protocols in [NEWER, OLDER] {
        let server = mk_server(Some(NEWER)).await;
        *server.seen.goes.lock().unwrap() = Some(Going::Ends);
        let transport = server.transport();
        let asking = tokio::spawn(ask_often(transport.clone(), 20));
        server.wait_for_connections(1).await;
        *server.seen.protocols.lock().unwrap() = protocols;
        server.wait_for_asked(19).await;
        server.seen.finish.notify_one();
        let answers = asking.await.unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(server.asked(), 19);
        if protocols == NEWER {
            assert_eq!(server.connections(), 2, "they go over the next one, all of them");
        }
    }
}

/// A server that takes fewer requests at once than we send says so when it is asked first.
#[tokio::test]
async fn a_request_that_was_one_too_many_is_sent_again() {
    let server = mk_server(Some(NEWER)).await;
    *server.seen.goes.lock().unwrap() = Some(Going::Refuses);
    let transport = server.transport();
    let answers = join_all((0..2).map(|_| ask(&transport))).await;
    assert!(are_all(&answers, Version::HTTP_2), "{answers:?}");
    assert_eq!((server.connections(), server.asked()), (1, 0));
}

/// A connection that nobody waits for any more comes to nothing, and that is nobody's error.
#[tokio::test]
async fn what_failed_for_others_is_not_told_to_the_next() {
    let server = mk_server(Some(NEWER)).await;
    let relay = mk_relay(&server).await;
    relay.is_dead.send(true).unwrap();
    let transport = Transport::new(&relay.config, connector(None), None).unwrap();
    let mut room = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut room).is_pending());
    drop(room);
    tokio::time::pause();
    tokio::time::sleep(2 * CONNECT_WITHIN).await;
    tokio::time::resume();
    relay.is_dead.send(false).unwrap();
    ask(&transport).await.unwrap();
}

/// Most requests are on one connection: if it is dead, the next must not be sent into it.
#[tokio::test]
async fn a_dead_connection_is_noticed_within_the_time_of_a_request() {
    let server = mk_server(Some(NEWER)).await;
    let relay = mk_relay(&server).await;
    let transport = Transport::new(&relay.config, connector(None), None).unwrap();
    ask(&transport).await.unwrap();
    relay.is_dead.send(true).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = ask(&transport).await.unwrap_err();
    assert!(!error.is_unconnected(), "the server may have read it: {error:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    tokio::time::resume();
    relay.is_dead.send(false).unwrap();
    ask(&transport).await.unwrap();
}

#[tokio::test]
async fn who_goes_while_it_connects_takes_nothing_from_the_others() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    let mut first = Box::pin(transport.room(false));
    assert!(futures::poll!(&mut first).is_pending());
    let second = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport).await }
    });
    tokio::task::yield_now().await;
    drop(first);
    second.await.unwrap().unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_was_away_is_connected_to_when_it_is_back() {
    let server = mk_server(Some(NEWER)).await;
    let transport = server.transport();
    server.seen.is_there.store(false, Ordering::SeqCst);
    let answers = join_all((0..3).map(|_| ask(&transport))).await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    server.seen.is_there.store(true, Ordering::SeqCst);
    assert_eq!(ask(&transport).await.unwrap(), Version::HTTP_2);
}

#[tokio::test]
async fn a_connection_is_used_again_and_those_that_a_wave_left_behind_are_closed() {
    let server = mk_server(None).await;
    let transport = server.transport();
    let mut open = server.seen.open.subscribe();
    for _ in 0..5 {
        ask(&transport).await.unwrap();
    }
    assert_eq!(*open.borrow(), 1);
    join_all((0..20).map(|_| ask(&transport))).await;
    assert!(*open.borrow() > 1, "they were under way together");
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    open.wait_for(|open| *open == 0).await.unwrap();
    assert!(began.elapsed() <= 3 * IDLE_FOR, "{:?}", began.elapsed());
    tokio::time::resume();
    ask(&transport).await.unwrap();
}

/// A process stands still between handing a write to a connection and the connection's turn. Somebody else may lead by then.
#[tokio::test]
async fn what_may_not_go_any_more_when_its_connection_takes_it_is_not_sent() {
    for (protocols, is_connected) in [(None, false), (None, true), (Some(NEWER), true)] {
        let server = mk_server(protocols).await;
        let transport = server.transport();
        if is_connected {
            ask(&transport).await.unwrap();
        }
        for may_go in [true, false] {
            let before = server.asked();
            let flag = Arc::new(AtomicBool::new(true));
            let seen = Arc::clone(&flag);
            let content = Content::from("{}").only_while(move || seen.load(Ordering::SeqCst));
            let request = Request::delete("/api").body(content).unwrap();
            let mut sending = transport.send(transport.room(false).await.unwrap(), request);
            assert!(futures::poll!(&mut sending).is_pending(), "it is handed over");
            flag.store(may_go, Ordering::SeqCst);
            match sending.await {
                Ok(_) => assert!(may_go),
                Err(error) => assert!(!may_go && error.was_kept(), "{protocols:?}: {error:?}"),
            }
            ask(&transport).await.unwrap();
            assert_eq!(
                server.asked(),
                before + usize::from(may_go) + 1,
                "{protocols:?}, {is_connected}"
            );
        }
    }
}

/// Brings something every few milliseconds, without end.
async fn pour(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head).await.unwrap();
    while stream.write_all(b"1\r\nx\r\n").await.is_ok() {
        tokio::time::sleep(LOOK / 16).await;
    }
}

/// Time is the test's: what comes meanwhile is there at the end of each rest.
#[tokio::test(start_paused = true)]
async fn a_busy_stream_is_looked_at_as_often_as_it_is_wanted() {
    for (attention, every) in [(Attention::Usual, LOOK), (Attention::Close, LOOK / 4)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let pouring = tokio::spawn(pour(listener));
        let transport = Transport::new(&config, connector(Some(Clock::system())), None).unwrap();
        let request = Request::get("/api").body(Content::default()).unwrap();
        let mut stream = transport.open(request, attention).await.unwrap().into_body();
        let (mut last, mut shortest) = (Instant::now(), Duration::MAX);
        let end = last + Duration::from_secs(10);
        // Nothing rests in the first seconds.
        let busy = last + Duration::from_secs(3);
        while last < end {
            stream.frame().await.unwrap().unwrap();
            let now = Instant::now();
            if last > busy && now > last {
                shortest = shortest.min(now - last);
            }
            last = now;
        }
        assert_eq!(shortest, every, "{attention:?}");
        pouring.abort();
    }
}

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["http", "https"] {
        let config = Config::new(format!("{scheme}://{address}").parse().unwrap());
        let transport = Transport::new(&config, connector(None), None).unwrap();
        let error = ask(&transport).await.unwrap_err();
        assert!(
            !error.was_kept() && error.is_unconnected() && crate::shutdown::chain(&error).contains("refused"),
            "{error:?}"
        );
        // As what wraps it says, too.
        assert!(SendError(error.into()).is_unconnected());
    }
}

/// An image without certificates has no server that it could trust, and needs none if it speaks without TLS.
#[test]
fn roots_are_for_tls_alone() {
    let file = || Some("/no/such/file".into());
    for (server, wanted) in [
        ("https://example.test", (None, file())),
        ("http://example.test", (Some(Vec::new()), None)),
    ] {
        let mut config = Config::new(server.parse().unwrap());
        config.root_cert_file = file();
        let config = trusting(&config);
        assert_eq!((config.root_cert.clone(), config.root_cert_file.clone()), wanted, "{server}");
    }
}
