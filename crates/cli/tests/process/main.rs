//! `bailiff` as a process: what it answers on its command line, and that its parts work against each other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

mod cluster;
mod commands;
mod conformance;
mod diff;
#[allow(dead_code, reason = "the other tests of processes need the rest")]
mod support;
mod top;
