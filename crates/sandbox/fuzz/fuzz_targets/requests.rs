//! `cargo fuzz run --sanitizer none requests`, in `crates/sandbox`: searches for requests that break the server.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../requests.rs"]
#[allow(dead_code, reason = "each target makes requests in one way")]
mod requests;

fuzz_target!(|bytes: &[u8]| {
    requests::play(&requests::requests(bytes));
});
