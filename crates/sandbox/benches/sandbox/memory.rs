//! Bytes per stored object, as the allocator counts them.

use cap::Cap;

use super::measure::Client;
use super::report::Report;
use super::{fill, runtime};

/// Measures at each number of pods.
pub fn measure(sizes: &[usize], allocator: &Cap<std::alloc::System>, report: &mut Report) {
    let runtime = runtime(false);
    for &size in sizes {
        let mut client = Client::new();
        let at = format!("{size} pods");
        runtime.block_on(fill::namespaces(&mut client));
        client.sandbox.compact();
        let before = allocator.allocated();
        runtime.block_on(fill::pods(&mut client, 0..size));
        let with_past = allocator.allocated().saturating_sub(before);
        client.sandbox.compact();
        let stored = allocator.allocated().saturating_sub(before);
        let json: usize = client.sandbox.list("pods").1.iter().map(|object| object.json().len()).sum();
        let per = |bytes: usize| bytes as f64 / size.max(1) as f64;
        report.add("memory: JSON of a pod", at.clone(), per(json), "bytes/object");
        report.add("memory: stored pod", at.clone(), per(stored), "bytes/object");
        report.add(
            "memory: stored pod over its JSON",
            at.clone(),
            stored as f64 / json.max(1) as f64,
            "times",
        );
        report.add(
            "memory: the past, for watches",
            at,
            with_past.saturating_sub(stored) as f64 / 1048576.0,
            "MiB",
        );
    }
}
