//! Kubelets that are clients over sockets. The server has a thread of its own, whose time on a processor is what counts: what the
//! clients cost does not.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bailiff_runtime::Shutdown;
use bailiff_sandbox::{Sandbox, server};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::fill;

/// Nodes whose kubelets share a connection: no more connections than a server takes.
const NODES_PER_CONNECTION: usize = 10;

/// A server in a thread of its own.
pub struct Server {
    address: SocketAddr,
    /// Its directory under `/proc`.
    thread: Option<String>,
    shutdown: Shutdown,
    handle: thread::JoinHandle<()>,
}

// === impl Server ===

impl Server {
    /// Serves a sandbox over plain HTTP on loopback.
    pub fn start(sandbox: Sandbox) -> Self {
        let (ready, started) = mpsc::sync_channel(1);
        let shutdown = Shutdown::new();
        let until = shutdown.clone();
        let handle = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime of one thread can be made");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
                let address = listener.local_addr().expect("a listener has an address");
                let link = std::fs::read_link("/proc/thread-self").ok();
                let thread = link.map(|link| format!("/proc/{}", link.display()));
                ready.send((address, thread)).expect("the starter waits");
                let served = server::serve(listener, sandbox, async move { until.triggered().await });
                served.await.expect("the listener holds");
            });
        });
        let (address, thread) = started.recv().expect("the server starts");
        Self {
            address,
            thread,
            shutdown,
            handle,
        }
    }

    /// How long its thread was on a processor so far.
    pub fn processor_time(&self) -> Option<Duration> {
        let schedule = std::fs::read_to_string(format!("{}/schedstat", self.thread.as_ref()?)).ok()?;
        Some(Duration::from_nanos(schedule.split_whitespace().next()?.parse().ok()?))
    }

    /// Ends it.
    pub fn stop(self) {
        self.shutdown.trigger();
        self.handle.join().expect("the server ends with its shutdown");
    }

    /// Has the kubelets of all nodes renew their leases once per `every`, for some turns, while somebody watches all leases.
    pub fn renew(&self, nodes: usize, turns: usize, every: Duration) {
        let address = self.address;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime of one thread can be made");
        runtime.block_on(async move {
            let watch = tokio::spawn(watch(address));
            let mut clients = tokio::task::JoinSet::new();
            for first in (0..nodes).step_by(NODES_PER_CONNECTION) {
                let last = (first + NODES_PER_CONNECTION).min(nodes);
                // Kubelets do not renew all at once.
                let delay = every.mul_f64(first as f64 / nodes as f64 / NODES_PER_CONNECTION as f64);
                clients.spawn(async move {
                    tokio::time::sleep(delay).await;
                    kubelets(address, first..last, turns, every).await;
                });
            }
            while let Some(ended) = clients.join_next().await {
                ended.expect("kubelets renew");
            }
            watch.abort();
        });
    }
}

async fn kubelets(address: SocketAddr, nodes: std::ops::Range<usize>, turns: usize, every: Duration) {
    let stream = TcpStream::connect(address).await.expect("the server accepts");
    let mut stream = BufReader::new(stream);
    let mut leases = Vec::new();
    for nth in nodes {
        leases.push((nth, exchange(&mut stream, "GET", &fill::lease_path(nth), "").await));
    }
    let count = u32::try_from(leases.len()).expect("few nodes share a connection");
    let mut ticks = tokio::time::interval(every.max(Duration::from_nanos(1)) / count);
    for turn in 1..=turns {
        for (nth, lease) in &mut leases {
            if !every.is_zero() {
                ticks.tick().await;
            }
            let at = lease.find("\"renewTime\":\"").expect("a lease says when it was renewed") + 13;
            let time = format!("2026-11-21T02:{:02}:{:02}.000000Z", turn / 60 % 60, turn % 60);
            lease.replace_range(at..at + time.len(), &time);
            *lease = exchange(&mut stream, "PUT", &fill::lease_path(*nth), lease).await;
        }
    }
}

/// Sends a request and reads the body of its answer.
async fn exchange(stream: &mut BufReader<TcpStream>, method: &str, path: &str, body: &str) -> String {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: sandbox\r\nUser-Agent: kubelet/v1.36.2\r\nAccept: application/json\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).await.expect("the server answers");
    assert!(line.contains(" 200 "), "{method} {path}: {line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.expect("the head ends");
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().expect("a length is a number");
        }
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.expect("the body is as long as it says");
    String::from_utf8(answer).expect("JSON is UTF-8")
}

/// Reads a watch of all leases.
async fn watch(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let request = "GET /apis/coordination.k8s.io/v1/leases?watch=true HTTP/1.1\r\nHost: sandbox\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut chunk = vec![0; 65536];
    while stream.read(&mut chunk).await.is_ok_and(|length| length > 0) {}
}
