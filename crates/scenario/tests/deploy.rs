//! What is in `deploy/`: the chart, the manifests that are made from it, and that both speak of things that exist.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

#[path = "deploy/door.rs"]
mod door;
#[path = "deploy/flags.rs"]
mod flags;
#[path = "deploy/images.rs"]
mod images;
#[path = "deploy/manifests.rs"]
mod manifests;
#[path = "deploy/rights.rs"]
mod rights;
#[path = "deploy/writes.rs"]
mod writes;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The objects of a file of YAML documents.
fn documents(name: &str) -> Vec<Value> {
    let text = read(name);
    let documents = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str::<Value>(document).unwrap_or_else(|error| panic!("{name}: {error}\n{document}")));
    documents.filter(|object| !object.is_null()).collect()
}
