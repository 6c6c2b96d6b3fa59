//! The memory of our binaries.

/// What the bus, the stages, `bailiff` and its benchmark name as their `#[global_allocator]`.
///
/// What a stage keeps is some ten thousand small records, made between buffers that come and go. glibc's own allocator keeps much of what
/// is free between them, and spends a tenth of a stage's processor time at rest; musl's, in images, has one lock for all threads. Pages
/// are small ones (the feature `no_thp`): huge ones double what a stage of 5,000 nodes keeps resident.
pub use mimalloc::MiMalloc as Allocator;
