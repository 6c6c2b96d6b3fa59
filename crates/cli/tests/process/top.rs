//! `bailiff top` on a terminal of its own: what it shows, what ends it, and that the terminal is then as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use bailiff_event_bus::{Body, Bus, Draft, PublishOptions, Publisher, Server, ServerOptions, publish};
use bailiff_model::outcome::{Outcome, ZoneStatus};
use bailiff_model::{Topic, Zone, ZoneState};
use bailiff_runtime::{Clock, Seed};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{DEADLINE, bailiff, command};

/// Leaves the alternate screen, and shows the cursor.
const GIVEN_BACK: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

/// A bus of this process, on which one zone is told.
struct LocalBus {
    /// Whose threads serve.
    _runtime: tokio::runtime::Runtime,
    flag: String,
    publisher: Publisher,
}

fn mk_zone(name: &str) -> Body {
    Body::Outcome(Outcome::Zone(Box::new(ZoneStatus {
        zone: Zone::new("eu-1", name),
        state: ZoneState::Normal,
        voting: 3,
        not_ready: 0,
        late: 0,
        rate_per_second: 0.1,
        last_grant: None,
        queue_length: 0,
        held: None,
    })))
}

// === impl LocalBus ===

impl LocalBus {
    fn start() -> Self {
        let runtime = runtime();
        let (clock, seed) = (Clock::system(), Seed::new(1));
        let (server, listener) = runtime.block_on(async {
            let server = Server::new(ServerOptions::default(), &clock, &seed);
            (server, tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let flag = format!("--bus={}", listener.local_addr().unwrap());
        runtime.spawn(server.clone().serve(listener, CancellationToken::new()));
        let options = PublishOptions {
            topic: Topic::EvictionOutcomes,
            shard: 0,
            shard_count: 1,
            producer: "zone-evictor-0".to_owned(),
            epoch: 1,
        };
        let publisher = runtime.block_on(async {
            let publisher = publish(&Bus::in_process(&server), options, &clock, &seed);
            publisher.set(Draft::new(mk_zone("a")));
            publisher.complete();
            publisher.settled().await;
            publisher
        });
        Self {
            _runtime: runtime,
            flag,
            publisher,
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A process on a terminal that nobody else uses. Dropping it kills it.
struct OnTerminal {
    child: Child,
    /// The person's side.
    person: File,
    /// The program's side, to see how it is left.
    program: OwnedFd,
    written: Receiver<String>,
    seen: String,
}

// === impl OnTerminal ===

impl OnTerminal {
    fn start(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap();
        let program = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&person, size).unwrap();
        let end = || Stdio::from(program.try_clone().unwrap());
        let child = command(args)
            .envs(environment.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let person = File::from(person);
        let mut reader = person.try_clone().unwrap();
        let (sender, written) = sync_channel(100_000);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if sender.send(String::from_utf8_lossy(&bytes[..read]).into_owned()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            person,
            program,
            written,
            seen: String::new(),
        }
    }

    /// Waits until this was written.
    fn until(&mut self, wanted: &str) {
        while !self.seen.contains(wanted) {
            match self.written.recv_timeout(DEADLINE) {
                Ok(text) => self.seen.push_str(&text),
                Err(error) => panic!("{wanted:?} was not written, {error}: {:?}", self.seen),
            }
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn press(&mut self, key: &[u8]) {
        self.person.write_all(key).unwrap();
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it has ended.
    fn ended(&mut self) -> Option<i32> {
        for text in GIVEN_BACK {
            self.until(text);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_and_signals_end_it_and_give_the_terminal_back() {
    type End = fn(&mut OnTerminal);
    let ends: [(&str, End); 6] = [
        ("q", |top| top.press(b"q")),
        ("escape", |top| top.press(b"\x1b")),
        ("control-c", |top| top.press(b"\x03")),
        ("SIGTERM", |top| top.signal("TERM")),
        ("SIGINT", |top| top.signal("INT")),
        ("SIGHUP", |top| top.signal("HUP")),
    ];
    let bus = LocalBus::start();
    for (name, end) in ends {
        let mut top = OnTerminal::start(&["top", &bus.flag], &[]);
        top.until("eu-1:a");
        assert!(top.is_raw() && top.seen.contains("\x1b[?1049h"), "{name}: {:?}", top.seen);
        end(&mut top);
        assert_eq!((top.ended(), top.is_raw()), (Some(0), false), "{name}: {:?}", top.seen);
    }
}

#[test]
fn what_changes_on_the_bus_is_drawn_and_no_colour_is_used_where_none_is_wanted() {
    let bus = LocalBus::start();
    for (environment, is_coloured) in [(&[("NO_COLOR", "1")][..], false), (&[], true)] {
        let mut top = OnTerminal::start(&["top", &bus.flag], environment);
        top.until("eu-1:a");
        bus.publisher.set(Draft::new(mk_zone("next")));
        top.until("eu-1:next");
        bus.publisher.remove("zone/eu-1:next");
        // Green, for what is well.
        assert_eq!(top.seen.contains("\x1b[32m"), is_coloured, "{:?}", top.seen);
        top.press(b"q");
        assert_eq!(top.ended(), Some(0));
    }
}

#[test]
fn where_there_is_no_terminal_it_is_one_frame_as_plain_text() {
    let bus = LocalBus::start();
    for args in [&["top", &bus.flag][..], &["top", "--once", &bus.flag]] {
        let ended = bailiff(args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(ended.stdout.starts_with("bailiff top  "), "{ended:?}");
        assert!(ended.stdout.contains("\neu-1:a  Normal  0/3"), "{ended:?}");
        assert!(!ended.stdout.contains('\x1b'), "{ended:?}");
    }
    let mut frames = bailiff(&["top", "--once", "--output=json", &bus.flag]).json();
    let frame = frames.pop().unwrap();
    assert_eq!((frames.len(), &frame["busLost"]), (0, &json!(false)));
    assert_eq!(frame["zones"][0]["zone"], json!({"region": "eu-1", "zone": "a"}));
}

#[test]
fn frames_as_json_go_on_line_by_line() {
    let bus = LocalBus::start();
    let mut top = command(&["top", "--output=json", &bus.flag])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(top.stdout.take().unwrap()));
    let mut zones = || -> usize {
        let frame: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        frame["zones"].as_array().unwrap().len()
    };
    assert_eq!(zones(), 1);
    bus.publisher.set(Draft::new(mk_zone("b")));
    while zones() == 1 {}
    drop(lines);
    // It ends by itself: nobody reads any more.
    assert_eq!(top.wait().unwrap().code(), Some(0));
}

#[test]
fn a_bus_that_cannot_be_asked_is_said_before_the_terminal_is_taken() {
    let ended = bailiff(&["top", "--bus=127.0.0.1:1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.starts_with("error: cannot reach the event bus at"), "{ended:?}");
}
