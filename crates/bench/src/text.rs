//! A report for people: tables. Pure.

use std::fmt::Write as _;

use crate::figures::{Latency, Process};
use crate::report::{Played, Ratio, Report, Run};
use crate::situations::{Situation, TABLE};

/// Kinds of requests that are told of a situation; the rest is one line.
const KINDS: usize = 12;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    head(&mut text, report);
    for run in &report.runs {
        of_run(&mut text, run);
    }
    if !report.ratios.is_empty() {
        ratios(&mut text, report);
    }
    for (program, early) in report.early() {
        let _ = writeln!(text, "EARLY {program}: {early}");
    }
    text
}

/// The name of a situation, as on the command line.
pub fn name(situation: Situation) -> &'static str {
    let line = TABLE.iter().find(|line| line.situation == situation);
    line.map_or("", |line| line.name)
}

fn head(text: &mut String, report: &Report) {
    let (machine, settings) = (&report.machine, &report.settings);
    let _ = writeln!(
        text,
        "{} nodes, {} pods, API server: {}; {} cores, {}\ngrace {} s, toleration {} s, {} nodes/s and zone, {} requests/s of each process\n",
        settings.nodes,
        settings.pods,
        settings.server,
        machine.cores,
        machine.platform,
        settings.grace_seconds,
        settings.toleration_seconds,
        settings.node_eviction_rate,
        settings.kube_api_qps,
    );
}

fn of_run(text: &mut String, run: &Run) {
    let _ = writeln!(text, "{}: at work {:.1} s after its start", run.program, run.start_seconds);
    for played in &run.situations {
        let _ = writeln!(
            text,
            "\n  {}: {} nodes, {:.1} s",
            name(played.situation),
            played.nodes,
            played.seconds
        );
        usage(text, played);
        latencies(text, played);
        requests(text, played);
    }
    if let Some(share) = run.share_of_plain_rate {
        let _ = writeln!(
            text,
            "\n  {} evicted at {share:.2} of the rate of {}",
            name(Situation::Taint),
            name(Situation::PlainEviction)
        );
    }
    text.push('\n');
}

fn usage(text: &mut String, played: &Played) {
    let _ = writeln!(
        text,
        "    {:<28} {:>8} {:>8} {:>8} {:>9}",
        "PROCESS", "CPU S", "CPU %", "MIB", "PEAK MIB"
    );
    let measured = played.processes.iter().filter(|process| process.is_measured);
    let others = played.processes.iter().filter(|process| !process.is_measured);
    measured.for_each(|process| row(text, process, &process.name));
    if played.shared > 0.0 {
        let (name, shared) = ("the same pages of files", -played.shared);
        let _ = writeln!(text, "    {name:<28} {:>8} {:>8} {shared:>8.1} {shared:>9.1}", "", "");
    }
    row(text, &played.sum, "sum");
    others.for_each(|process| row(text, process, &format!("({})", process.name)));
}

fn row(text: &mut String, process: &Process, name: &str) {
    let Process {
        cpu_seconds,
        cpu_share,
        memory,
        peak,
        ..
    } = process;
    let share = cpu_share * 100.0;
    let _ = writeln!(
        text,
        "    {name:<28} {cpu_seconds:>8.2} {share:>8.2} {memory:>8.1} {peak:>9.1}"
    );
}

fn latencies(text: &mut String, played: &Played) {
    let rows = [
        ("grace over -> Unknown", played.detection),
        ("due -> pod deleted", played.eviction),
        ("begin -> daemon pod made", played.creation),
    ];
    let rows: Vec<(&str, Latency)> = rows
        .into_iter()
        .filter_map(|(name, latency)| Some((name, latency?)))
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "    {:<28} {:>8} {:>8} {:>8} {:>9}",
        "SECONDS", "COUNT", "P50", "P99", "MAX"
    );
    for (name, Latency { count, p50, p99, max }) in rows {
        let _ = writeln!(text, "    {name:<28} {count:>8} {p50:>8.3} {p99:>8.3} {max:>9.3}");
    }
    if let Some(rate) = played.evictions_per_second {
        let _ = writeln!(text, "    {:<28} {rate:>8.1}", "pods evicted a second");
    }
    if let Some(cpu) = played.plain_cpu_seconds {
        let _ = writeln!(text, "    {:<28} {cpu:>8.2}", "CPU s of the requests alone");
    }
}

fn requests(text: &mut String, played: &Played) {
    let (Some(requests), Some(all)) = (&played.requests, played.requests_in_all()) else {
        return;
    };
    let mut by_count: Vec<_> = requests.iter().collect();
    // The order of the names among the same counts is kept.
    by_count.sort_by_key(|request| std::cmp::Reverse(request.count));
    let _ = writeln!(text, "    {:<54} {:>9}", "REQUESTS", "COUNT");
    for request in by_count.iter().take(KINDS) {
        let kind = &request.kind;
        let kind = format!("{} {} {}", kind.process, kind.verb, kind.resource);
        let _ = writeln!(text, "    {kind:<54} {:>9}", request.count);
    }
    let others: u64 = by_count.iter().skip(KINDS).map(|request| request.count).sum();
    if others > 0 {
        let _ = writeln!(text, "    {:<54} {others:>9}", "others");
    }
    let _ = writeln!(text, "    {:<54} {all:>9}", "all");
    if let Some(each) = played.requests_per_eviction {
        let _ = writeln!(
            text,
            "    {:<54} {each:>9.2}",
            "for each evicted pod, without watches and elections"
        );
    }
}

fn ratios(text: &mut String, report: &Report) {
    let names: Vec<&str> = report.runs.iter().map(|run| run.program.as_str()).collect();
    let [ours, theirs] = names[..] else { return };
    let _ = writeln!(
        text,
        "{:<14} {:<26} {ours:>14} {theirs:>26} {:>8}",
        "SITUATION", "FIGURE", "RATIO"
    );
    for Ratio {
        situation,
        figure,
        ours,
        theirs,
        ratio,
    } in &report.ratios
    {
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(
            text,
            "{:<14} {figure:<26} {ours:>14.3} {theirs:>26.3} {ratio:>8}",
            name(*situation)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::mk_report;

    #[test]
    fn a_situation_is_told_with_everything_that_was_seen() {
        let report = mk_report();
        let mut told = String::new();
        of_run(&mut told, &report.runs[0]);
        let wanted = "  node-failure: 1 nodes, 60.0 s
    PROCESS                         CPU S    CPU %      MIB  PEAK MIB
    bailiff                          1.50     2.50     40.0      50.5
    sum                              1.50     2.50     40.0      50.5
    (sandbox)                        3.00     5.00     40.0      50.5
    SECONDS                         COUNT      P50      P99       MAX
    grace over -> Unknown               6    0.004    0.013     0.020
    due -> pod deleted                  6    0.004    0.013     0.020
    REQUESTS                                                   COUNT
    bailiff update leases                                         30
    bailiff delete pods                                            6
    all                                                           36
    for each evicted pod, without watches and elections         5.00
";
        assert!(told.contains(wanted), "{told}");
    }

    #[test]
    fn what_several_processes_have_is_taken_off() {
        let mut told = String::new();
        of_run(&mut told, &mk_report().runs[1]);
        let row = "    other                            3.00     5.00     40.0      50.5
    the same pages of files                            -7.5      -7.5
    sum ";
        assert!(told.contains(row), "{told}");
    }

    #[test]
    fn what_requests_alone_cost_is_told() {
        let mut run = mk_report().runs.remove(0);
        run.situations[1].plain_cpu_seconds = Some(0.354);
        let mut told = String::new();
        of_run(&mut told, &run);
        assert!(told.contains("CPU s of the requests alone      0.35"), "{told}");
    }

    #[test]
    fn two_programs_are_compared_and_what_was_early_comes_last() {
        let mut report = mk_report();
        report.runs[0].situations[0].early.push("n-1 was".to_owned());
        let told = text(&report);
        assert!(
            told.contains("rest           CPU, s                              1.500                      3.000    0.500"),
            "{told}"
        );
        assert!(told.ends_with("EARLY bailiff: n-1 was\n"), "{told}");
    }
}
