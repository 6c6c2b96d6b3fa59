//! What a renewal of a Lease costs on its way from the socket to the reader of a watch: processor time of everything but the server.
//!
//! The server writes each renewal by itself, as an API server does: in its own time, at even distances, or as fast as it is read.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{Meta, time};
use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{Api, Decode, Metrics, View, Watch};
use bailiff_model::Wall;
use bailiff_runtime::{Clock, Seed};
use serde::Deserialize;

/// Renewals per second; none is as many as are read.
const RATES: [Option<u32>; 4] = [Some(100), Some(1_000), Some(13_000), None];
const LASTS: Duration = Duration::from_secs(3);
const SERVER: &str = "server";

#[derive(Deserialize)]
struct LeaseView {
    metadata: Meta,
    spec: LeaseSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    #[serde(deserialize_with = "time")]
    renew_time: Option<Wall>,
}

impl Decode for LeaseView {
    const MESSAGE: Option<&'static Message> = Some(&schema::LEASE);
}

impl View for LeaseView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Writes a field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(bytes);
    field
}

fn document(message: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(2, message)].concat()
}

/// A renewal as a chunk of the answer.
fn chunk() -> Vec<u8> {
    let lease = include_bytes!("../tests/scan/objects/lease.pb");
    let event = [field(1, b"MODIFIED"), field(2, &field(1, &document(lease)))].concat();
    let length = u32::try_from(event.len()).unwrap_or_default();
    let frame = [length.to_be_bytes().to_vec(), event].concat();
    [format!("{:x}\r\n", frame.len()).into_bytes(), frame, b"\r\n".to_vec()].concat()
}

/// Answers lists with nothing, and watches with renewals.
fn serve(listener: &TcpListener, rate: Option<u32>) {
    for stream in listener.incoming().flatten() {
        std::thread::Builder::new()
            .name(SERVER.to_owned())
            // The reader hangs up in the end.
            .spawn(move || drop(answer(stream, rate)))
            .expect("a thread");
    }
}

fn answer(mut stream: TcpStream, rate: Option<u32>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while let Some(request) = lines.next() {
        let request = request?;
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        if request.contains("sendInitialEvents") {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")?;
        } else if request.contains("watch=true") {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            renew(&mut stream, rate)?;
        } else {
            let list = document(&field(1, &field(2, b"1")));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", list.len());
            stream.write_all(&[head.into_bytes(), list].concat())?;
        }
    }
    Ok(())
}

fn renew(stream: &mut TcpStream, rate: Option<u32>) -> std::io::Result<()> {
    let (chunk, begun) = (chunk(), Instant::now());
    for nth in 0_u32.. {
        if let Some(rate) = rate {
            let due = begun + Duration::from_secs(1) * nth / rate;
            while Instant::now() < due {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// Processor time of all threads but the server's.
fn used() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let read = |file| std::fs::read_to_string(task.path().join(file)).ok();
        if read("comm")?.trim() == SERVER {
            return None;
        }
        read("schedstat")?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Reads for a while; answers with renewals and what they cost.
async fn read(address: SocketAddr) -> (u32, Duration) {
    let config = kube::Config::new(format!("http://{address}").parse().expect("an address"));
    let client = kube::Client::try_from(config).expect("a client");
    let api = Api::new(client, Clock::system(), Metrics::default());
    let mut watch: Watch<LeaseView> = Watch::start(&api, Source::all("/leases"), &Seed::new(1));
    let mut seen = 0;
    let (mut begun, mut before) = (Instant::now(), used());
    while seen == 0 || begun.elapsed() < LASTS {
        if let Event::Applied(lease) = watch.next().await {
            assert!(lease.spec.renew_time.is_some());
            if seen == 0 {
                (begun, before) = (Instant::now(), used());
            }
            seen += 1;
        }
    }
    (seen, used().saturating_sub(before))
}

fn main() {
    println!(
        "{:>12} {:>12} {:>14} {:>14}",
        "per second", "seen", "of one core", "per renewal"
    );
    for rate in RATES {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::Builder::new()
            .name(SERVER.to_owned())
            .spawn(move || serve(&listener, rate))
            .expect("a thread");
        // As a stage's own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (seen, used) = runtime
            .expect("a runtime")
            .block_on(async { tokio::spawn(read(address)).await })
            .expect("it reads");
        let rate = rate.map_or_else(|| "all".to_owned(), |rate| rate.to_string());
        let share = used.as_secs_f64() / LASTS.as_secs_f64() * 100.0;
        let micros = used.as_secs_f64() * 1e6 / f64::from(seen);
        println!("{rate:>12} {seen:>12} {share:>12.1} % {micros:>11.2} µs");
    }
}
