//! `bailiff conformance`, and what it starts.

use std::fs::File;
use std::process::Command;

use crate::support::{DEADLINE, Serving, bailiff, lines_of};

#[test]
fn a_program_that_there_is_not_is_told_once_and_before_anything_is_played() {
    for command in [
        &["conformance", "zone-evictor", "--", "/no/such/program", "--flag"][..],
        &["diff", "--stage=zone-evictor", "--bus=127.0.0.1:1", "--", "/no/such/program"],
    ] {
        let ended = bailiff(command);
        let allowed = "allowed is a program, by its path or as it is found in $PATH, and its arguments";
        let wanted = format!("error: invalid value '/no/such/program' for '<COMMAND>': there is no such program; {allowed}\n");
        assert_eq!(
            (ended.code, ended.stdout.as_str(), ended.stderr),
            (Some(64), "", wanted),
            "{command:?}"
        );
    }
}

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
