//! Figures, and how they are shown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::flags::Flags;
use super::measure::{Failover, Process, Run};
use super::system::Stage;

/// A kind of process: all of it together.
struct Kind {
    name: String,
    count: usize,
    /// Share of a processor, of all of them.
    steady: f64,
    /// Of the largest.
    memory: f64,
    peak: f64,
    /// Seconds of a processor, of all of them.
    failure: f64,
}

/// For people.
pub(crate) fn table(flags: &Flags, runs: &[Run]) -> String {
    let mut text = String::new();
    let head = [
        "SHARDS",
        "PROCESS",
        "COUNT",
        "CPU %",
        "US/RENEWAL",
        "MS/FAILED NODE",
        "MIB",
        "PEAK MIB",
    ];
    row(&mut text, head.map(str::to_owned));
    for run in runs {
        for kind in kinds(run) {
            row(
                &mut text,
                [
                    run.shards.to_string(),
                    kind.name,
                    kind.count.to_string(),
                    format!("{:.1}", kind.steady * 100.0),
                    format!("{:.1}", kind.steady / run.renewals * 1e6),
                    format!("{:.2}", kind.failure / f64::from(flags.failing) * 1e3),
                    format!("{:.0}", kind.memory),
                    format!("{:.0}", kind.peak),
                ],
            );
        }
    }
    text.push('\n');
    let head = "SHARDS  START S  RENEWALS/S  VERDICTS/S  TAINTS/S  RECORDS  FAILOVER S: led (works), least to most";
    let _ = writeln!(text, "{head}");
    for run in runs {
        let Run {
            shards,
            start,
            renewals,
            verdicts,
            taints,
            records,
            ..
        } = run;
        let failovers = Stage::ALL.map(|stage| span(stage.name(), &run.failovers)).join(" ");
        let line = format!("{shards:<6} {start:>8.1} {renewals:>11.0} {verdicts:>11.0} {taints:>9.0} {records:>8.0}  {failovers}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("CPU and times per renewal or node are of all processes of a kind together, memory is of the largest one.\n");
    text
}

fn row(text: &mut String, [shards, process, rest @ ..]: [String; 8]) {
    let _ = write!(text, "{shards:<6}  {process:<32}");
    for (cell, width) in rest.iter().zip([5, 8, 11, 15, 6, 9]) {
        let _ = write!(text, " {cell:>width$}");
    }
    text.push('\n');
}

/// Processes that do the same, in the order of what they belong to.
fn kinds(run: &Run) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for process in &run.processes {
        let name = kind_of(process);
        if !kinds.iter().any(|kind| kind.name == name) {
            kinds.push(Kind {
                name: name.clone(),
                count: 0,
                steady: 0.0,
                memory: 0.0,
                peak: 0.0,
                failure: 0.0,
            });
        }
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.name == name) {
            kind.count += 1;
            kind.steady += process.steady;
            kind.failure += process.failure;
            kind.memory = kind.memory.max(process.memory);
            kind.peak = kind.peak.max(process.peak);
        }
    }
    kinds.sort_by(|one, other| one.name.cmp(&other.name));
    kinds
}

fn kind_of(process: &Process) -> String {
    let name = process.name.split(' ').next().unwrap_or_default();
    let is_stage = Stage::ALL.iter().any(|stage| stage.name() == name);
    match process.shards {
        _ if !is_stage => name.to_owned(),
        0 => format!("{name}, standing by"),
        1 => format!("{name}, leading"),
        shards => format!("{name}, leading {shards}"),
    }
}

/// From the shortest to the longest.
fn span(stage: &str, failovers: &[Failover]) -> String {
    let of_stage = || failovers.iter().filter(|failover| failover.stage == stage);
    let span = |times: Vec<f64>| {
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        format!("{least:.1}-{most:.1}")
    };
    if of_stage().next().is_none() {
        return String::new();
    }
    let led = span(of_stage().map(|failover| failover.led).collect());
    let ready = span(of_stage().map(|failover| failover.ready).collect());
    format!("{stage} {led} ({ready})")
}

/// For programs: seconds, MiB, shares of a processor.
pub(crate) fn json(flags: &Flags, runs: &[Run]) -> String {
    let process = |process: &Process| {
        let Process {
            name,
            shards,
            steady,
            memory,
            peak,
            failure,
        } = process;
        json!({
            "name": name, "shards": shards, "cpu": steady, "memoryMiB": memory, "peakMiB": peak, "failureSeconds": failure,
        })
    };
    let failover = |Failover { stage, led, ready }: &Failover| json!({"stage": stage, "led": led, "ready": ready});
    let run = |run: &Run| {
        json!({
            "shards": run.shards,
            "startSeconds": run.start,
            "renewalsPerSecond": run.renewals,
            "verdictsPerSecond": run.verdicts,
            "taintsPerSecond": run.taints,
            "nodeHealthRecords": run.records,
            "processes": run.processes.iter().map(process).collect::<Vec<_>>(),
            "failovers": run.failovers.iter().map(failover).collect::<Vec<_>>(),
        })
    };
    let all: Value = json!({
        "nodes": flags.nodes,
        "podsPerNode": flags.pods_per_node,
        "failing": flags.failing,
        "kubeApiQps": flags.qps,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    });
    format!("{all:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_run() -> Run {
        let process = |name: &str, shards, steady, memory| Process {
            name: name.to_owned(),
            shards,
            steady,
            memory,
            peak: 2.0 * memory,
            failure: 10.0 * steady,
        };
        let failover = |led, ready| Failover {
            stage: "taint-manager",
            led,
            ready,
        };
        Run {
            shards: 2,
            start: 7.25,
            renewals: 1000.0,
            processes: vec![
                process("sandbox", 0, 0.5, 900.0),
                process("taint-manager 1", 1, 0.25, 30.0),
                process("taint-manager 3", 1, 0.05, 40.0),
                process("taint-manager 5", 0, 0.0, 9.0),
            ],
            verdicts: 81.0,
            taints: 80.4,
            records: 400.0,
            failovers: vec![failover(13.26, 14.0), failover(16.04, 17.31)],
        }
    }

    #[test]
    fn processes_of_a_kind_are_one_row() {
        let flags = Flags {
            failing: 100,
            ..Flags::default()
        };
        let wanted = "\
SHARDS  PROCESS                          COUNT    CPU %  US/RENEWAL  MS/FAILED NODE    MIB  PEAK MIB
2       sandbox                              1     50.0       500.0           50.00    900      1800
2       taint-manager, leading               2     30.0       300.0           30.00     40        80
2       taint-manager, standing by           1      0.0         0.0            0.00      9        18

SHARDS  START S  RENEWALS/S  VERDICTS/S  TAINTS/S  RECORDS  FAILOVER S: led (works), least to most
2           7.2        1000          81        80      400   taint-manager 13.3-16.0 (14.0-17.3)
CPU and times per renewal or node are of all processes of a kind together, memory is of the largest one.
";
        assert_eq!(table(&flags, &[mk_run()]), wanted);
    }

    #[test]
    fn programs_read_the_same() {
        let told: Value = serde_json::from_str(&json(&Flags::default(), &[mk_run()])).unwrap();
        assert_eq!(told["nodes"], 50_000);
        assert_eq!(told["runs"][0]["processes"][1]["name"], "taint-manager 1");
        assert_eq!(told["runs"][0]["failovers"][1]["ready"], 17.31);
    }
}
