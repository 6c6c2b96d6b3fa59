//! `cargo +nightly fuzz run requests`, in `crates/sandbox`: searches for requests that break the server.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../requests.rs"]
mod requests;

fuzz_target!(|bytes: &[u8]| requests::play(&requests::requests(bytes)));
