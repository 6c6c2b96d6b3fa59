//! The binary over a real etcd.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::engines::shared_cluster;
use crate::etcd_process::is_installed;

#[test]
fn the_binary_joins_says_so_and_ends_when_it_is_told() {
    if !is_installed() {
        return;
    }
    let endpoints = format!("http://{}", shared_cluster().addresses()[0]);
    let mut bus = Command::new(env!("CARGO_BIN_EXE_event-bus"))
        .args(["--engine=etcd", "--etcd-prefix=/binary/", "--etcd-endpoints", &endpoints])
        .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(bus.stderr.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.contains("Replica of the bus is open")), "it joins");
    let pid = i32::try_from(bus.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    lines.for_each(drop);
    assert_eq!(bus.wait().unwrap().code(), Some(0), "all tasks ended");
}
