//! Programs that run as processes of this machine, to be measured from outside: from `/metrics`, from `/proc`, from their logs.
//!
//! What is measured, and what figures mean, is said by who uses this: `cargo xtask scaling` and `bailiff-bench`. `cargo xtask dist` builds
//! the same programs, and tests that start etcd have it listen on [addresses](free_address) from here. It is small, and knows no runtime:
//! `cargo xtask` is built before everything else.

#![allow(
    clippy::disallowed_methods,
    reason = "processes live in real time, which is what is measured here"
)]

mod binaries;
mod directory;
mod files;
mod http;
pub mod metrics;
mod program;
mod usage;

pub use binaries::{BINARY, PACKAGE, build, build_with, cargo};
pub use directory::Directory;
pub use files::FilePages;
pub use http::Server;
pub use program::{Program, free_address, own_ip};
pub use usage::Usage;
