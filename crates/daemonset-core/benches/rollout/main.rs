//! CPU time of a full rollout, at 500 to 15,000 nodes, and how it grows: the slope of a straight line through the logarithms is 1 if a
//! node costs the same in any cluster. Beyond [`STEEPEST`] this fails.
//!
//! What counts is what a rollout makes the process do with what comes in and goes out: reading every pod that watches and answers show,
//! from JSON; all decisions; and writing the requests. What the core takes of that is shown beside it, with a slope of its own. The
//! cluster around it is played in memory and does not count, nor do sockets.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod cluster;
mod pods;

use std::process::ExitCode;
use std::time::Duration;

use cluster::{Cluster, Work};

const SIZES: [usize; 5] = [500, 1_000, 2_000, 5_000, 15_000];
/// Rollouts measured of each size, in turns, so that a bad minute of the machine is one for all sizes. Of each part of a rollout the
/// fastest counts, whatever else the machine does: a large cluster as a whole would never be left alone for long enough.
const RUNS: usize = 9;
/// Ordered sets grow by the logarithm, and large ones leave the processor's caches. A pass over all nodes for each of them would be 2.
const STEEPEST: f64 = 1.1;

/// A way to roll out.
struct Strategy {
    name: &'static str,
    max_unavailable: &'static str,
    max_surge: &'static str,
}

const STRATEGIES: [Strategy; 3] = [
    Strategy {
        name: "maxUnavailable 10 %",
        max_unavailable: r#""10%""#,
        max_surge: "0",
    },
    Strategy {
        name: "maxUnavailable 1",
        max_unavailable: "1",
        max_surge: "0",
    },
    Strategy {
        name: "maxSurge 10 %",
        max_unavailable: "0",
        max_surge: r#""10%""#,
    },
];

/// A rollout in a cluster of each size, with the fastest of each of its parts.
fn measure(strategy: &Strategy) -> [Work; SIZES.len()] {
    let run = |nodes| {
        let mut cluster = Cluster::new(nodes, strategy.max_unavailable, strategy.max_surge);
        let work = cluster.roll_out();
        cluster.assert_rolled_out(&work);
        work
    };
    let mut best = SIZES.map(run);
    for _ in 1..RUNS {
        for (best, nodes) in best.iter_mut().zip(SIZES) {
            take_faster(best, run(nodes));
        }
    }
    best
}

fn take_faster(best: &mut Work, other: Work) {
    assert_eq!(
        (best.inputs, best.cpu.len()),
        (other.inputs, other.cpu.len()),
        "all rollouts are the same"
    );
    let parts = best.cpu.iter_mut().zip(other.cpu).chain(best.core.iter_mut().zip(other.core));
    for (part, other) in parts {
        *part = other.min(*part);
    }
}

/// The slope of the straight line that is nearest to the points' logarithms.
fn slope(points: &[(usize, Duration)]) -> f64 {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .map(|(nodes, cpu)| ((*nodes as f64).ln(), cpu.as_secs_f64().ln()))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len() as f64;
    let (x, y) = (mean(|log| log.0), mean(|log| log.1));
    let covariance: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    let variance: f64 = logs.iter().map(|log| (log.0 - x).powi(2)).sum();
    covariance / variance
}

/// True if it is not too steep.
fn bench(strategy: &Strategy) -> bool {
    println!("{}", strategy.name);
    println!(
        "{:>8} {:>12} {:>12} {:>16} {:>10} {:>10} {:>14}",
        "nodes", "CPU", "per node", "of it the core", "inputs", "requests", "requests/node"
    );
    let (mut all, mut core) = (Vec::new(), Vec::new());
    for (nodes, work) in SIZES.into_iter().zip(measure(strategy)) {
        let sums: [Duration; 2] = [work.cpu.iter().sum(), work.core.iter().sum()];
        println!(
            "{nodes:>8} {:>9.3} ms {:>9.3} µs {:>13.3} µs {:>10} {:>10} {:>14.2}",
            sums[0].as_secs_f64() * 1e3,
            sums[0].as_secs_f64() * 1e6 / nodes as f64,
            sums[1].as_secs_f64() * 1e6 / nodes as f64,
            work.inputs,
            work.requests,
            work.requests as f64 / nodes as f64,
        );
        all.push((nodes, sums[0]));
        core.push((nodes, sums[1]));
    }
    let (slope, of_core) = (slope(&all), slope(&core));
    let is_fine = slope <= STEEPEST;
    let verdict = if is_fine { "" } else { ": too steep" };
    println!("log-log slope {slope:.3}, at most {STEEPEST}{verdict}; of the core alone {of_core:.3}\n");
    is_fine
}

fn main() -> ExitCode {
    // All are measured, also behind one that fails.
    let fine: Vec<bool> = STRATEGIES.iter().map(bench).collect();
    if fine.contains(&false) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
