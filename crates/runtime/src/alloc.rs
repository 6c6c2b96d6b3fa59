//! The memory of our binaries.

/// What the bus, the stages, `bailiff` and its benchmark name as their `#[global_allocator]`: [jemalloc](https://jemalloc.net).
///
/// What a stage keeps is some ten thousand small records, made between buffers that come and go. glibc's own allocator keeps much of what
/// is free between them, and spends a tenth of a stage's processor time at rest; musl's, in images, has one lock for all threads.
///
/// How it behaves is built in, `[env]` in `.cargo/config.toml`, so that no environment has to say it. All threads share one arena, as a
/// stage has few, and each arena keeps pages that are used in part. Free pages go back to the system within a second instead of ten; at
/// once is dearer. No thread keeps free blocks of more than 4 KiB for itself. Pages are small ones, as huge ones double what a stage of
/// 5,000 nodes keeps resident. `_RJEM_MALLOC_CONF` in a program's environment changes that, in
/// [jemalloc's words](https://jemalloc.net/jemalloc.3.html#tuning). What others cost is in
/// `docs/adr/0013-jemalloc-with-settings-of-its-own.md`.
///
/// It takes nobody else's `malloc`, so a library that is preloaded, such as libfaketime, does not meet it.
pub use tikv_jemallocator::Jemalloc as Allocator;

#[cfg(test)]
mod tests {
    use tikv_jemalloc_ctl::opt;

    use super::Allocator;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    #[test]
    fn behaves_as_the_workspace_says() {
        assert_eq!(
            opt::narenas::read(),
            Ok(1),
            "`[env]` in `.cargo/config.toml` did not reach jemalloc's build"
        );
    }
}
