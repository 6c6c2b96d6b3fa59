//! What the embedded cluster costs: requests, watches, memory, and a big cluster that only lives.
//!
//! `cargo bench -p bailiff-sandbox` prints a table, `-- --output json` the same for programs. Nothing here asserts a time: what can be
//! judged on any machine are the ratios, which compare two figures of the same run. Without `--bench`, as `cargo test` runs it, sizes are
//! small: that only shows that it works.

use std::alloc;

use cap::Cap;
use clap::{Parser, ValueEnum};

mod cluster;
mod fill;
mod http;
mod measure;
mod memory;
mod report;
mod requests;
mod watches;

use report::Report;

/// Counts what is allocated; there is no limit.
#[global_allocator]
static ALLOCATOR: Cap<alloc::System> = Cap::new(alloc::System, usize::MAX);

/// Costs of the embedded cluster
#[derive(Clone, Debug, Parser)]
struct Cli {
    /// How to print the figures
    #[arg(long, default_value = "table", value_name = "FORM")]
    output: Output,

    /// Numbers of pods to measure at; figures are compared with those at the first
    #[arg(long, value_delimiter = ',', value_name = "COUNT,…")]
    pods: Option<Vec<usize>>,

    /// Numbers of watchers to measure with
    #[arg(long, value_delimiter = ',', value_name = "COUNT,…")]
    watchers: Option<Vec<usize>>,

    /// Nodes of the cluster that only lives
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,

    /// Only these parts
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "requests,watches,memory,cluster",
        value_name = "PART,…"
    )]
    only: Vec<Part>,

    /// Cargo says that this is a benchmark and no test
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Requests per second by kind of request
    Requests,
    /// From a write until all watchers have it
    Watches,
    /// Bytes per stored object
    Memory,
    /// Ten thousand nodes and a hundred thousand pods that only live
    Cluster,
}

fn main() {
    let cli = Cli::parse();
    let report = run(&cli);
    match cli.output {
        Output::Table => print!("{}", report.table()),
        Output::Json => println!("{}", report.json()),
    }
}

fn run(cli: &Cli) -> Report {
    let (pods, watchers, nodes, rounds, renewals) = if cli.bench {
        (vec![1_000, 10_000, 100_000], vec![1, 10, 100, 1_000], 10_000, 2_000, 3)
    } else {
        (vec![100, 200], vec![1, 10], 100, 50, 2)
    };
    let pods = cli.pods.clone().unwrap_or(pods);
    let watchers = cli.watchers.clone().unwrap_or(watchers);
    let nodes = cli.nodes.unwrap_or(nodes);
    let most = pods.iter().copied().max().unwrap_or(0);
    let mut report = Report::default();
    for part in &cli.only {
        match part {
            Part::Requests => requests::measure(&pods, rounds, &mut report),
            Part::Watches => watches::measure(&watchers, rounds / 10, &mut report),
            Part::Memory => memory::measure(&pods, &ALLOCATOR, &mut report),
            Part::Cluster => cluster::measure(nodes, most, renewals, cli.bench, &mut report),
        }
    }
    report
}

/// A runtime of one thread whose time is real, or stands still but for what is waited for.
fn runtime(is_paused: bool) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(is_paused)
        .build()
        .expect("a runtime of one thread can be made")
}
