//! `bailiff conformance`, and what it starts.

use std::fs::File;
use std::process::Command;

use crate::support::{DEADLINE, Serving, lines_of};

#[test]
fn who_ends_it_ends_what_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The pipe ends when the last of those that it started is gone, which outlive any test.
    let program = format!("exec 9>{}; echo up >&9; sleep 3600 & wait", pipe.display());
    let judging = Serving::start(&[
        "conformance",
        "zone-evictor",
        "--only=node-fails",
        "--",
        "/bin/sh",
        "-c",
        &program,
    ]);
    let said = lines_of(File::open(&pipe).unwrap());
    assert_eq!(said.recv_timeout(DEADLINE).as_deref(), Ok("up"));
    assert_eq!(judging.stop(), Some(1));
    let ended = said.recv_timeout(DEADLINE);
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "they are gone");
}
