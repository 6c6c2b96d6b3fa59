//! Worlds: one thread, paused time, no sockets.
//!
//! Time stands still while anything can run and then jumps to the next timer, so minutes of a cluster pass in moments; and since
//! one thread runs everything in one order, the same seed gives the same run.

use bailiff_model::Wall;
use bailiff_runtime::Clock;

/// When worlds begin: 2024-01-01T00:00:00Z, so that times in logs are easy to read.
const BEGINNING: i64 = 1_704_067_200;

/// Runs `play` in a world of its own, with the world's clock.
///
/// The future runs on this thread and must not be called inside a runtime.
pub fn run<T>(play: impl AsyncFnOnce(Clock) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(async {
        let beginning = Wall::from_second(BEGINNING).expect("a constant in range");
        play(Clock::virtual_from(beginning)).await
    })
}
