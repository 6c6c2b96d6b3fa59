//! Memory of static binaries.
//!
//! musl's own allocator has one lock for all threads and small blocks that it gives back at once: a quarter of what a busy process did was
//! waiting for it. Images are built for musl, so that they need no base; elsewhere the system's allocator stays.

/// The allocator of every binary that is built for musl.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
