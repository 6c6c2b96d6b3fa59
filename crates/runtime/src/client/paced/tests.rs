use std::any::Any;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use hyper::rt::ReadBuf;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;

const PATIENCE: Patience = Patience {
    read: Duration::from_secs(330),
    write: Duration::from_secs(30),
};

async fn connection() -> (Paced, TcpStream) {
    connection_looked_at(Some(Clock::system()), Attention::Usual).await
}

async fn connection_looked_at(looks: Option<Clock>, attention: Attention) -> (Paced, TcpStream) {
    // Else time that nobody needs passes in one piece while a packet is under way.
    tokio::spawn(async {
        loop {
            tokio::time::sleep(LOOK / 16).await;
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let uri = format!("http://{}", listener.local_addr().expect("an address"));
    let mut connector = Connector::new(looks, PATIENCE).attentive(attention);
    let connecting = connector.call(uri.parse().expect("a URI"));
    let (paced, accepted) = tokio::join!(connecting, listener.accept());
    let server = accepted.expect("accepted").0;
    // What is written goes at once, and not when what went before was acknowledged: that is real time.
    server.set_nodelay(true).expect("a socket");
    (paced.expect("connected"), server)
}

/// Reads once; nothing if there is nothing.
async fn read(paced: &mut Paced) -> Option<io::Result<Vec<u8>>> {
    let mut room = [0_u8; 2 * MOUTHFUL];
    let mut buffer = ReadBuf::new(&mut room);
    let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *paced).poll_read(cx, buffer.unfilled()))).await;
    match polled {
        Poll::Ready(read) => Some(read.map(|()| buffer.filled().to_vec())),
        Poll::Pending => None,
    }
}

/// Waits until there is something, or the end.
async fn read_some(paced: &mut Paced) -> io::Result<Vec<u8>> {
    let mut room = [0_u8; 2 * MOUTHFUL];
    let mut buffer = ReadBuf::new(&mut room);
    poll_fn(|cx| Pin::new(&mut *paced).poll_read(cx, buffer.unfilled())).await?;
    Ok(buffer.filled().to_vec())
}

/// Sends this, and reads until nothing is left, which is all of it.
async fn bring(server: &mut TcpStream, paced: &mut Paced, bytes: &[u8]) {
    server.write_all(bytes).await.expect("written");
    let mut read_so_far = Vec::new();
    while read_so_far.len() < bytes.len() {
        read_so_far.extend(read_some(paced).await.expect("it is open"));
    }
    assert_eq!(read_so_far, bytes);
    assert!(read(paced).await.is_none());
}

/// Somebody whose queue is full, and who accepts nobody: what comes then is not answered.
fn mk_deaf() -> (SocketAddr, [Box<dyn Any>; 2]) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(0).expect("it listens");
    let address = listener.local_addr().expect("an address");
    let waiting = std::net::TcpStream::connect(address).expect("there is room for one");
    (address, [Box::new(listener), Box::new(waiting)])
}

/// Addresses of one name share the time, so none of them has all of it.
#[tokio::test(start_paused = true)]
async fn an_address_that_does_not_answer_is_given_up_in_time_for_the_next() {
    // Else time that nobody needs passes in one piece while a packet is under way.
    tokio::spawn(async {
        loop {
            tokio::time::sleep(LOOK / 16).await;
        }
    });
    let (deaf, _deaf) = mk_deaf();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let open = listener.local_addr().expect("an address");
    for (addresses, answers) in [(vec![deaf], None), (vec![deaf, open], Some(open))] {
        let share = TCP_WITHIN / u32::try_from(addresses.len()).expect("they are few");
        let names = tower::service_fn(move |_: Name| std::future::ready(Ok::<_, Infallible>(addresses.clone().into_iter())));
        let begun = Instant::now();
        let connecting = tcp(names).call(Uri::from_static("http://several.test"));
        let ended = tokio::time::timeout(Duration::from_secs(3600), connecting).await;
        let connected = ended.expect("it ends").ok();
        assert_eq!(connected.map(|io| io.inner().peer_addr().expect("a peer")), answers);
        let within = begun.elapsed();
        assert!(within.abs_diff(share) < LOOK, "{within:?} of {TCP_WITHIN:?}");
    }
}

async fn write(paced: &mut Paced, bytes: &[u8]) {
    poll_fn(|cx| Pin::new(&mut *paced).poll_write(cx, bytes))
        .await
        .expect("written");
}

fn rests(paced: &Paced) -> bool {
    matches!(paced.socket, Socket::Resting(..))
}

/// A connection that rests.
async fn resting() -> (Paced, TcpStream) {
    let (mut paced, mut server) = connection().await;
    tokio::time::advance(AWAKE_FOR).await;
    for _ in 0..2 {
        bring(&mut server, &mut paced, b"event").await;
    }
    assert!(rests(&paced));
    (paced, server)
}

/// Time is the test's, so rests take none.
#[tokio::test(start_paused = true)]
async fn a_busy_stream_rests_and_loses_nothing() {
    let (mut paced, mut server) = resting().await;
    let mut rested = 0;
    for turn in 1..=100_usize {
        let size = if turn % 10 == 0 { 3 * MOUTHFUL + turn } else { turn };
        let bytes: Vec<u8> = (0..size).map(|n| (n + turn) as u8).collect();
        bring(&mut server, &mut paced, &bytes).await;
        rested += u32::from(rests(&paced));
    }
    assert_eq!(rested, 100);
    drop(server);
    let end = read_some(&mut paced).await.expect("it was closed in good order");
    assert!(end.is_empty(), "the end of the stream is read as ever");
}

/// What comes in masses must not have to wait for room on its way.
#[tokio::test(start_paused = true)]
async fn who_finds_much_does_not_rest() {
    for (found, is_at_rest) in [(MUCH - 6, true), (MUCH - 5, false)] {
        let (mut paced, mut server) = resting().await;
        paced.found = found;
        bring(&mut server, &mut paced, b"event").await;
        assert_eq!((rests(&paced), paced.found), (is_at_rest, 0), "{found}");
    }
}

/// All that rest are looked at at the same instants.
#[tokio::test(start_paused = true)]
async fn a_rest_ends_with_the_turn() {
    for (attention, every) in [(Attention::Usual, LOOK), (Attention::Close, LOOK / 4)] {
        let clock = Clock::system();
        let (mut paced, mut server) = connection_looked_at(Some(clock.clone()), attention).await;
        tokio::time::advance(AWAKE_FOR).await;
        bring(&mut server, &mut paced, b"event").await;
        for _ in 0..3 {
            bring(&mut server, &mut paced, b"event").await;
            assert!(rests(&paced), "{attention:?}");
            assert_eq!(paced.rest.deadline(), clock.end_of_turn(every), "{attention:?}");
        }
    }
}

/// What comes now and then on a busy stream, with some looks that find nothing, wakes nobody in between; after a quiet time it does.
#[tokio::test(start_paused = true)]
async fn a_rest_goes_on_until_it_is_quiet() {
    let (mut paced, mut server) = resting().await;
    let begin = Instant::now();
    for pause in [LOOK / 2, LOOK, LOOK * 3 / 2] {
        tokio::time::advance(pause).await;
        assert!(read(&mut paced).await.is_none() && rests(&paced), "{pause:?}");
        bring(&mut server, &mut paced, b"event").await;
        assert!(rests(&paced), "{:?}", begin.elapsed());
    }
    tokio::time::advance(QUIET + LOOK).await;
    assert!(read(&mut paced).await.is_none());
    assert!(!rests(&paced));
}

#[tokio::test(start_paused = true)]
async fn without_looks_nothing_rests() {
    let (mut paced, mut server) = connection_looked_at(None, Attention::Usual).await;
    tokio::time::advance(AWAKE_FOR).await;
    for _ in 0..10 {
        bring(&mut server, &mut paced, b"event").await;
        assert!(!rests(&paced));
    }
}

/// Somebody waits for the answer to a request, and for the state that a watch begins with.
#[tokio::test(start_paused = true)]
async fn what_was_just_asked_for_does_not_rest() {
    let (mut paced, mut server) = resting().await;
    write(&mut paced, b"request").await;
    let asked = Instant::now();
    while asked.elapsed() < AWAKE_FOR {
        assert!(!rests(&paced), "after {:?}", asked.elapsed());
        bring(&mut server, &mut paced, b"event").await;
        tokio::time::advance(LOOK / 8).await;
    }
    bring(&mut server, &mut paced, b"event").await;
    assert!(rests(&paced));
}

#[tokio::test(start_paused = true)]
async fn what_is_written_to_or_quiet_does_not_rest() {
    let (mut paced, mut server) = connection().await;
    for _ in 0..100 {
        write(&mut paced, b"request").await;
        bring(&mut server, &mut paced, b"answer").await;
        assert!(!rests(&paced));
    }
    let (mut paced, mut server) = connection().await;
    for _ in 0..100 {
        tokio::time::advance(LOOK).await;
        bring(&mut server, &mut paced, b"event").await;
        assert!(!rests(&paced));
    }
}

/// What comes and what is sent begins the patience anew, whether the connection rests or not.
#[tokio::test(start_paused = true)]
async fn a_connection_that_brings_nothing_ends() {
    for (is_resting, is_written_to) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut paced, mut server) = if is_resting { resting().await } else { connection().await };
        tokio::time::advance(PATIENCE.read * 2 / 3).await;
        if is_written_to {
            write(&mut paced, b"request").await;
        } else {
            bring(&mut server, &mut paced, b"event").await;
        }
        let began = Instant::now();
        let ended = read_some(&mut paced).await.expect_err("nothing comes");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), PATIENCE.read, "{is_resting} {is_written_to}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_nothing_ends() {
    let (mut paced, _nobody_reads) = connection().await;
    let mut full = None;
    let ended = loop {
        let written = poll_fn(|cx| Poll::Ready(Pin::new(&mut paced).poll_write(cx, &[0; 1 << 16]))).await;
        match written {
            Poll::Ready(Ok(_)) => full = None,
            Poll::Ready(Err(error)) => break error,
            Poll::Pending => {
                let since = *full.get_or_insert_with(Instant::now);
                assert!(since.elapsed() < PATIENCE.write);
                tokio::time::advance(PATIENCE.write / 4).await;
            }
        }
    };
    assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    assert_eq!(full.map(|since| since.elapsed()), Some(PATIENCE.write));
}

/// Whether somebody was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever reads sleeps until the end of the rest; a write is that end.
#[tokio::test(start_paused = true)]
async fn a_write_ends_a_rest() {
    let (mut paced, mut server) = resting().await;
    assert!(paced.rest.deadline() > Instant::now() + LOOK / 10, "it goes on for a while");
    let reader = Arc::new(Woken::default());
    let mut room = [0_u8; 64];
    let mut buffer = ReadBuf::new(&mut room);
    let waker = Waker::from(Arc::clone(&reader));
    let polled = Pin::new(&mut paced).poll_read(&mut Context::from_waker(&waker), buffer.unfilled());
    assert!(polled.is_pending());
    write(&mut paced, b"more").await;
    tokio::time::sleep(LOOK / 10).await;
    assert!(reader.0.load(Ordering::Relaxed), "the reader looks at what is awake");
    assert!(!rests(&paced));
    let mut heard = [0; 4];
    tokio::io::AsyncReadExt::read_exact(&mut server, &mut heard)
        .await
        .expect("heard");
    assert_eq!(&heard, b"more");
}
