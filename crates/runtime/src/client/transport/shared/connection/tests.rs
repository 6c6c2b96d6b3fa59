//! Against a server at the other end of a pipe.

use std::sync::atomic::AtomicBool;

use futures::future::join_all;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::client::transport::tests::server::until;

/// One end of a pipe, whose writes are counted.
struct Counted {
    pipe: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// A connection to a server that takes `most` requests at once, and answers each that `answers` has a permit for.
async fn mk_connection(most: u32, answers: Arc<tokio::sync::Semaphore>) -> (Sender, Arc<AtomicUsize>, Arc<Mutex<Vec<String>>>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let near = Counted {
        pipe: near,
        writes: Arc::clone(&writes),
    };
    let (sender, driver) = begin(near, 100).await.unwrap();
    tokio::spawn(driver);
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut server = h2::server::Builder::new()
            .max_concurrent_streams(most)
            .handshake::<_, Bytes>(far)
            .await
            .unwrap();
        while let Some(Ok((request, mut respond))) = server.accept().await {
            let (head, mut body) = request.into_parts();
            seen.lock().unwrap().push(head.uri.path().to_owned());
            let answers = Arc::clone(&answers);
            tokio::spawn(async move {
                while let Some(bytes) = body.data().await {
                    body.flow_control().release_capacity(bytes.unwrap().len()).unwrap();
                }
                answers.acquire().await.unwrap().forget();
                let mut answer = respond.send_response(Response::default(), false).unwrap();
                answer.send_data("done".into(), true).unwrap();
            });
        }
    });
    // The first answer brings what the server bounds.
    ask(&sender, "/first", Content::default()).await.unwrap();
    (sender, writes, asked)
}

async fn ask(sender: &Sender, path: &str, content: Content) -> Result<Bytes, Unanswered> {
    let request = Request::put(format!("https://server{path}")).body(content).unwrap();
    let answer = sender.send(request).await?;
    Ok(answer.into_body().collect().await.unwrap().to_bytes())
}

/// More than the protocol gathers by itself: bodies that it would write one by one, and more of them than one record holds.
#[tokio::test]
async fn what_is_asked_together_is_written_together() {
    let (sender, writes, asked) = mk_connection(100, Arc::new(tokio::sync::Semaphore::new(1_000))).await;
    let before = writes.load(Ordering::SeqCst);
    let answers = join_all((0..60).map(|_| ask(&sender, "/", vec![b'x'; 600].into()))).await;
    assert!(
        answers.iter().all(|answer| matches!(answer, Ok(body) if body == "done")),
        "{answers:?}"
    );
    assert_eq!(asked.lock().unwrap().len(), 61);
    // The requests, and what the answers lead to.
    let writes = writes.load(Ordering::SeqCst) - before;
    assert!((1..=10).contains(&writes), "{writes}");
}

#[tokio::test]
async fn what_is_long_arrives_as_it_was_sent() {
    let (sender, _, asked) = mk_connection(100, Arc::new(tokio::sync::Semaphore::new(1_000))).await;
    let long = vec![b'x'; 3 << 20];
    let answers = join_all((0..4).map(|_| ask(&sender, "/long", long.clone().into()))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(asked.lock().unwrap().len(), 5);
}

/// A server may take fewer requests at once than are handed over. They wait, and whether they may go is asked when it is their turn.
#[tokio::test]
async fn who_waits_for_the_server_is_asked_when_it_is_his_turn() {
    for may_go in [true, false] {
        let answers = Arc::new(tokio::sync::Semaphore::new(1));
        let (sender, _, asked) = mk_connection(1, Arc::clone(&answers)).await;
        let flag = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&flag);
        let content = Content::from("{}").only_while(move || seen.load(Ordering::SeqCst));
        let before = ask(&sender, "/before", "{}".into());
        let waits = ask(&sender, "/waits", content);
        let after = ask(&sender, "/after", "{}".into());
        let answering = async {
            until(|| asked.lock().unwrap().len() == 2).await;
            // All that could go has gone.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(*asked.lock().unwrap(), ["/first", "/before"]);
            flag.store(may_go, Ordering::SeqCst);
            answers.add_permits(10);
        };
        let (before, waits, after, ()) = tokio::join!(before, waits, after, answering);
        assert!(before.is_ok() && after.is_ok(), "{before:?} {after:?}");
        let told: &[&str] = match waits {
            Ok(_) => &["/first", "/before", "/waits", "/after"],
            Err(Unanswered::Kept(_)) => &["/first", "/before", "/after"],
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(told.len() == 4, may_go);
        assert_eq!(*asked.lock().unwrap(), told);
    }
}

#[tokio::test]
async fn who_gave_up_before_it_was_his_turn_was_not_sent() {
    let answers = Arc::new(tokio::sync::Semaphore::new(1));
    let (sender, _, asked) = mk_connection(1, Arc::clone(&answers)).await;
    let before = ask(&sender, "/before", "{}".into());
    let mut gives_up = Box::pin(ask(&sender, "/gives-up", "{}".into()));
    let answering = async {
        assert!(futures::poll!(&mut gives_up).is_pending());
        until(|| asked.lock().unwrap().len() == 2).await;
        drop(gives_up);
        answers.add_permits(10);
    };
    let (before, ()) = tokio::join!(before, answering);
    before.unwrap();
    ask(&sender, "/after", "{}".into()).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["/first", "/before", "/after"]);
}

/// Also if not even the question whether anybody is there can be written.
#[tokio::test(start_paused = true)]
async fn who_waits_for_an_answer_is_told_that_nobody_is_there() {
    for room in [1 << 20, 1 << 10] {
        let (near, far) = tokio::io::duplex(room);
        let (sender, driver) = begin(near, 100).await.unwrap();
        let driver = tokio::spawn(driver);
        let began = Instant::now();
        let answers = join_all((0..50).map(|_| ask(&sender, "/", vec![b'x'; 1_000].into()))).await;
        assert_eq!(began.elapsed().as_secs(), (PING_AFTER + PONG_WITHIN).as_secs(), "{room}");
        for answer in answers {
            let said = crate::shutdown::chain(&answer.unwrap_err());
            assert!(said.contains("whether anybody is there"), "{room}: {said}");
        }
        driver.await.unwrap().unwrap_err();
        assert!(sender.is_closed());
        assert!(matches!(ask(&sender, "/", "{}".into()).await, Err(Unanswered::Ended)));
        drop(far);
    }
}

/// What was written before has to go first: only then is it asked whether the next may go.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_line_is_asked_when_it_is_free() {
    for may_go in [true, false] {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (sender, driver) = begin(near, 100).await.unwrap();
        tokio::spawn(driver);
        let long = vec![b'x'; 8_000];
        let mut before = Box::pin(ask(&sender, "/before", long.into()));
        assert!(futures::poll!(&mut before).is_pending());
        // It fills the pipe.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let flag = Arc::new(AtomicBool::new(true));
        let asked = Arc::new(AtomicUsize::new(0));
        let (seen, count) = (Arc::clone(&flag), Arc::clone(&asked));
        let content = Content::from("{}").only_while(move || {
            count.fetch_add(1, Ordering::SeqCst);
            seen.load(Ordering::SeqCst)
        });
        let mut waits = Box::pin(ask(&sender, "/waits", content));
        assert!(futures::poll!(&mut waits).is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        flag.store(may_go, Ordering::SeqCst);
        let mut came = vec![0; 20_000];
        let (mut length, mut ended) = (0, None);
        while asked.load(Ordering::SeqCst) == 0 {
            length += far.read(&mut came[length..]).await.unwrap();
            ended = futures::FutureExt::now_or_never(&mut waits);
            tokio::task::yield_now().await;
        }
        assert!(length >= 7_000, "all but what the pipe holds: {length}");
        if !may_go {
            let ended = match ended {
                Some(ended) => ended,
                None => waits.await,
            };
            assert!(matches!(ended, Err(Unanswered::Kept(_))), "{ended:?}");
        }
    }
}

/// A server may begin with no room at all, and nobody but its settings says when there is some.
#[tokio::test(start_paused = true)]
async fn a_server_that_has_room_later_is_asked_then() {
    const HEADERS: u8 = 1;
    let settings = |most: u8| [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, most];
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (sender, driver) = begin(near, 100).await.unwrap();
    tokio::spawn(driver);
    far.write_all(&settings(0)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut asking = Box::pin(ask(&sender, "/", "{}".into()));
    assert!(futures::poll!(&mut asking).is_pending());
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut kinds = Vec::new();
    far.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])
        .await
        .unwrap();
    let mut is_raised = false;
    while kinds.last() != Some(&HEADERS) {
        let mut head = [0; 9];
        let frame = tokio::time::timeout(Duration::from_secs(60), far.read_exact(&mut head));
        match frame.await {
            Ok(read) => drop(read.unwrap()),
            Err(_) if !is_raised => {
                is_raised = true;
                far.write_all(&settings(1)).await.unwrap();
                continue;
            }
            Err(_) => panic!("it was not asked: {kinds:?}"),
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        far.read_exact(&mut vec![0; length as usize]).await.unwrap();
        kinds.push(head[3]);
    }
    assert!(is_raised && kinds.len() > 1, "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn more_than_may_be_under_way_is_refused_and_ends_nothing() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (sender, driver) = begin(near, 2).await.unwrap();
    let asking = join_all((0..3).map(|_| ask(&sender, "/", "{}".into())));
    let mut asking = Box::pin(asking);
    assert!(futures::poll!(&mut asking).is_pending());
    assert!(!sender.is_closed());
    drop((driver, far));
    let ended = asking.await;
    let full = ended.iter().filter(|ended| matches!(ended, Err(Unanswered::Full)));
    assert_eq!(full.count(), 1, "{ended:?}");
}

/// It rests until something is asked: nobody is woken to look after it.
#[tokio::test(start_paused = true)]
async fn who_has_nothing_to_wait_for_asks_nobody_whether_he_is_there() {
    let (sender, writes, _) = mk_connection(100, Arc::new(tokio::sync::Semaphore::new(1_000))).await;
    let before = writes.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!sender.is_closed());
    assert!(
        writes.load(Ordering::SeqCst) - before <= 1,
        "at most what the last answer led to"
    );
}
