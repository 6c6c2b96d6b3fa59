//! A way between two processes that can be broken.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a connection looks whether its way is broken.
const GLANCE: Duration = Duration::from_millis(20);

/// A way to an address. It ends with the test's process.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    broken: Arc<AtomicBool>,
}

impl Proxy {
    /// A way to `target`, which need not be there yet.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (address, broken) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let state = Arc::clone(&broken);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Whoever connects while the target is down sees the connection end.
                let Ok(server) = TcpStream::connect(target) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&state);
                    std::thread::spawn(move || carry(from, to, &state));
                }
            }
        });
        Self { address, broken }
    }

    /// Nothing gets through from now on, and nobody is told: as when packets are dropped.
    pub fn cut(&self, is_cut: bool) {
        self.broken.store(is_cut, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, broken: &AtomicBool) {
    from.set_read_timeout(Some(GLANCE)).unwrap();
    let mut buffer = [0; 16 << 10];
    let mut kept = Vec::new();
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => kept.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        // What was on its way arrives when the way is whole again, as by TCP's own repetition.
        if !broken.load(Ordering::SeqCst) && !kept.is_empty() {
            if to.write_all(&kept).is_err() {
                break;
            }
            kept.clear();
        }
    }
    // Either side may have gone first.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
