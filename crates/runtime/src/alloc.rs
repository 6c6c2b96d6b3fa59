//! The memory of our binaries.

/// What the bus, the stages, `bailiff` and its benchmark name as their `#[global_allocator]`.
///
/// What a stage keeps is some ten thousand small records, made between buffers that come and go. glibc's own allocator keeps much of what
/// is free between them, and spends a tenth of a stage's processor time at rest; musl's, in images, has one lock for all threads. Pages
/// are small ones (the feature `no_thp`): huge ones double what a stage of 5,000 nodes keeps resident.
///
/// It is asked for each block with its alignment, and for a block of words whose length is no power of two it then mostly makes room for
/// what may be lost to that: ten words take a block of twelve, 40 of 48. In place of `malloc` (the feature `override`) it would not; but a
/// library that is preloaded, such as libfaketime, has its memory freed there before mimalloc is ready, and the process dies.
pub use mimalloc::MiMalloc as Allocator;
