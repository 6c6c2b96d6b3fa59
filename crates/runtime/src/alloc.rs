//! Memory of binaries that are built for musl, as those of images are, so that they need no base. Of all others nothing is here: they
//! keep the system's allocator.
//!
//! musl's own has one lock for all threads, and gives small blocks back to the kernel at once: threads of a busy process wait for each
//! other. This one is shared well.

/// The allocator of every binary that links this crate, if it is built for musl.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
