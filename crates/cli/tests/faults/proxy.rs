//! A way between two processes that can be broken, slow, or closed to some of those who use it.

use std::collections::{BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::clock;

/// How often a connection looks whether its way has changed.
const GLANCE: Duration = Duration::from_millis(20);
/// What a slow way adds in each direction: as far as the other side of the earth.
const DELAY: Duration = Duration::from_millis(150);
/// Bytes a second that a slow way lets through, for each connection and direction.
const BANDWIDTH: f64 = 128.0 * 1024.0;
/// Bytes under way at most; beyond it the sender has to wait.
const UNDER_WAY: usize = 256 << 10;

/// A way to an address. It ends with the test's process.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    link: Arc<Link>,
}

/// What a way is like now.
#[derive(Debug, Default)]
struct Link {
    state: Mutex<State>,
    /// The header with which whoever connects says who it is.
    header: Option<&'static str>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    is_slow: bool,
    /// Those who do not get through.
    closed_to: BTreeSet<String>,
    /// Bytes that were carried slowly.
    slowly: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Whole,
    Slow,
    Cut,
}

/// What is under way on a connection, in one direction.
#[derive(Debug)]
struct Pipe {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    length: usize,
    /// When the last byte of it will have passed the narrow place.
    free: Instant,
}

// === impl Proxy ===

impl Proxy {
    /// A way to `target`, which need not be there yet.
    pub fn to(target: SocketAddr) -> Self {
        Self::with(target, None)
    }

    /// A way whose users say in an HTTP header of their first request who they are.
    pub fn of_known(target: SocketAddr, header: &'static str) -> Self {
        Self::with(target, Some(header))
    }

    fn with(target: SocketAddr, header: Option<&'static str>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let link = Arc::new(Link {
            header,
            ..Link::default()
        });
        let shared = Arc::clone(&link);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Whoever connects while the target is down sees the connection end.
                let Ok(server) = TcpStream::connect(target) else { continue };
                let who = Arc::new(OnceLock::new());
                for (from, to, asks) in [(&client, &server, true), (&server, &client, false)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let (link, who) = (Arc::clone(&shared), Arc::clone(&who));
                    std::thread::spawn(move || carry(from, to, &link, &who, asks));
                }
            }
        });
        Self { address, link }
    }

    /// Nothing gets through from now on, and nobody is told: as when packets are dropped.
    pub fn cut(&self, is_cut: bool) {
        self.link.with(|state| state.is_cut = is_cut);
    }

    /// Nothing of, or for, one of its users gets through any more.
    pub fn close_to(&self, who: &str, is_closed: bool) {
        self.link.with(|state| {
            if is_closed {
                state.closed_to.insert(who.to_owned());
            } else {
                state.closed_to.remove(who);
            }
        });
    }

    /// Everything takes its time.
    pub fn slow(&self, is_slow: bool) {
        self.link.with(|state| state.is_slow = is_slow);
    }

    /// How many bytes were carried slowly so far.
    pub fn slowly(&self) -> usize {
        self.link.with(|state| state.slowly)
    }
}

// === impl Link ===

impl Link {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pace(&self, who: Option<&String>) -> Pace {
        self.with(|state| {
            if state.is_cut || who.is_some_and(|who| state.closed_to.contains(who)) {
                Pace::Cut
            } else if state.is_slow {
                Pace::Slow
            } else {
                Pace::Whole
            }
        })
    }
}

// === impl Pipe ===

impl Pipe {
    fn push(&mut self, bytes: &[u8], pace: Pace) {
        let now = clock::now();
        let mut due = now;
        if pace == Pace::Slow {
            #[expect(clippy::cast_precision_loss, reason = "a chunk is small")]
            let takes = Duration::from_secs_f64(bytes.len() as f64 / BANDWIDTH);
            self.free = self.free.max(now) + takes;
            due = self.free + DELAY;
        }
        self.length += bytes.len();
        self.chunks.push_back((due, bytes.to_vec()));
    }

    /// What has arrived.
    fn take(&mut self, pace: Pace) -> Vec<u8> {
        let now = clock::now();
        let arrives = |due: Instant| match pace {
            // What was on its way arrives when the way is whole again, as by TCP's own repetition.
            Pace::Cut => false,
            Pace::Slow => due <= now,
            Pace::Whole => true,
        };
        let mut taken = Vec::new();
        while self.chunks.front().is_some_and(|(due, _)| arrives(*due)) {
            taken.extend(self.chunks.pop_front().map(|(_, bytes)| bytes).unwrap_or_default());
        }
        self.length -= taken.len();
        taken
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, link: &Link, who: &OnceLock<String>, asks: bool) {
    from.set_read_timeout(Some(GLANCE)).unwrap();
    let mut buffer = [0; 16 << 10];
    let mut pipe = Pipe {
        chunks: VecDeque::new(),
        length: 0,
        free: clock::now(),
    };
    let mut is_open = true;
    while is_open || pipe.length > 0 {
        if is_open && pipe.length < UNDER_WAY {
            match from.read(&mut buffer) {
                Ok(0) => is_open = false,
                Ok(length) => {
                    if let Some(header) = link.header.filter(|_| asks && who.get().is_none()) {
                        note(who, &buffer[..length], header);
                    }
                    pipe.push(&buffer[..length], link.pace(who.get()));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        } else {
            clock::breathe(GLANCE);
        }
        let pace = link.pace(who.get());
        // What a sender that is gone had sent is never repeated.
        if !is_open && pace == Pace::Cut {
            break;
        }
        let arrived = pipe.take(pace);
        if pace == Pace::Slow {
            link.with(|state| state.slowly += arrived.len());
        }
        if to.write_all(&arrived).is_err() {
            break;
        }
    }
    // Either side may have gone first.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn note(who: &OnceLock<String>, request: &[u8], header: &str) {
    let text = String::from_utf8_lossy(request);
    let mut lines = text.lines().map_while(|line| line.split_once(':').or(Some(("", ""))));
    if let Some((_, value)) = lines.find(|(name, _)| name.eq_ignore_ascii_case(header)) {
        // The first request says it for the whole connection.
        let _ = who.set(value.trim().to_owned());
    }
}
