//! `cargo fuzz run --sanitizer none texts`, in `crates/sandbox`: searches from recorded requests, as text, for requests that break the server.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../requests.rs"]
#[allow(dead_code, reason = "each target makes requests in one way")]
mod requests;

fuzz_target!(|bytes: &[u8]| {
    requests::play(&requests::written(bytes));
});
