//! What a run came to, and two runs beside each other. Pure.

use serde::Serialize;

use crate::count::is_background;
use crate::figures::{Counts, Kind, Latency, Process, ratio};
use crate::situations::Situation;

/// What `--output json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// What was asked for.
    pub settings: Settings,
    /// Bailiff first, then whatever it is compared with.
    pub runs: Vec<Run>,
    /// Figures of the first run over those of the second, where there are two.
    pub ratios: Vec<Ratio>,
}

/// Where it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Processors.
    pub cores: usize,
    /// Architecture and system.
    pub platform: String,
}

/// What is the same for every program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Nodes.
    pub nodes: usize,
    /// Plain pods: as many on each node.
    pub pods: usize,
    /// Whose API server: `sandbox`, or `kubeconfig`.
    pub server: String,
    /// How long a node may be silent, seconds.
    pub grace_seconds: f64,
    /// How long pods tolerate that, seconds.
    pub toleration_seconds: u32,
    /// Nodes a second and zone.
    pub node_eviction_rate: f64,
    /// Requests a second of each process.
    pub kube_api_qps: u32,
}

/// A program, played through the situations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// `bailiff`, or the other command's first word.
    pub program: String,
    /// Seconds from its start until it was at work.
    pub start_seconds: f64,
    /// What was played.
    pub situations: Vec<Played>,
    /// How many pods of tainted nodes went a second, over how many whoever measures could evict in the same time with the same requests.
    pub share_of_plain_rate: Option<f64>,
    /// What came before its time before the first situation, between two, after the last, or in one that did not come about: nothing may.
    pub early_between: Vec<String>,
}

/// A situation that was played.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Played {
    /// Which.
    pub situation: Situation,
    /// Nodes it concerned.
    pub nodes: usize,
    /// Seconds it took, from its beginning until everything was done.
    pub seconds: f64,
    /// What each process used meanwhile.
    pub processes: Vec<Process>,
    /// All that are measured, together.
    pub sum: Process,
    /// Pages of files that several of these have in memory, less one of each, MiB: the sum has them once.
    #[serde(rename = "sharedMiB")]
    pub shared: f64,
    /// Requests to the API server by kind; none if they were not counted.
    pub requests: Option<Vec<Request>>,
    /// From the end of a node's grace to its Ready=Unknown.
    pub detection: Option<Latency>,
    /// From when a pod was due to its deletion.
    pub eviction: Option<Latency>,
    /// From the beginning to each daemon pod.
    pub creation: Option<Latency>,
    /// Pods evicted a second from when the last was due, where all come due together.
    pub evictions_per_second: Option<f64>,
    /// Seconds of a processor that plain evictions took whoever measures: what the requests alone cost.
    pub plain_cpu_seconds: Option<f64>,
    /// Requests over pods that were evicted, without those that are sent at rest too.
    pub requests_per_eviction: Option<f64>,
    /// What came before its time: nothing may.
    pub early: Vec<String>,
}

/// Requests of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Which.
    #[serde(flatten)]
    pub kind: Kind,
    /// How many.
    pub count: u64,
}

/// A figure of the first run over that of the second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Of which situation.
    pub situation: Situation,
    /// Which figure, with its unit.
    pub figure: &'static str,
    /// Of the first run.
    pub ours: f64,
    /// Of the second.
    pub theirs: f64,
    /// One over the other; none where the other is nothing.
    pub ratio: Option<f64>,
}

// === impl Report ===

impl Report {
    /// Puts two runs beside each other.
    pub fn compare(&mut self) {
        self.ratios = match self.runs.as_slice() {
            [ours, theirs] => ratios(ours, theirs),
            _ => Vec::new(),
        };
    }

    /// Everything that was early.
    pub fn early(&self) -> impl Iterator<Item = (&str, &str)> {
        self.runs.iter().flat_map(|run| {
            let played = run.situations.iter().flat_map(|played| &played.early);
            let all = played.chain(&run.early_between);
            all.map(|early| (run.program.as_str(), early.as_str()))
        })
    }

    /// For programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| error.to_string())
    }
}

// === impl Run ===

impl Run {
    /// Holds what the program did against what anybody could.
    pub fn weigh(&mut self) {
        let rate = |situation| {
            let played = self.situations.iter().find(|played| played.situation == situation);
            played.and_then(|played| played.evictions_per_second)
        };
        let rates = rate(Situation::Taint).zip(rate(Situation::PlainEviction));
        self.share_of_plain_rate = rates.and_then(|(its, plain)| ratio(its, plain));
    }
}

// === impl Played ===

impl Played {
    /// Every request that was counted.
    pub fn requests_in_all(&self) -> Option<u64> {
        Some(self.requests.as_ref()?.iter().map(|request| request.count).sum())
    }

    /// Those that are not sent at rest too.
    pub fn requests_for_it(&self) -> Option<u64> {
        let requests = self.requests.as_ref()?.iter();
        let foreground = requests.filter(|request| !is_background(&request.kind.verb, &request.kind.resource));
        Some(foreground.map(|request| request.count).sum())
    }

    /// The figures that can be compared, by name and unit.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let mut figures = vec![
            ("duration, s", self.seconds),
            ("CPU, s", self.sum.cpu_seconds),
            ("memory at the end, MiB", self.sum.memory),
            ("peak memory, MiB", self.sum.peak),
        ];
        // Counts of requests are far below what a float holds exactly.
        #[allow(clippy::cast_precision_loss)]
        figures.extend(self.requests_in_all().map(|requests| ("requests", requests as f64)));
        figures.extend(self.evictions_per_second.map(|rate| ("evictions a second", rate)));
        figures.extend(self.requests_per_eviction.map(|requests| ("requests per eviction", requests)));
        let latencies = [
            (self.detection, ["detection p50, s", "detection p99, s", "detection max, s"]),
            (self.eviction, ["eviction p50, s", "eviction p99, s", "eviction max, s"]),
            (self.creation, ["creation p50, s", "creation p99, s", "creation max, s"]),
        ];
        for (latency, names) in latencies {
            let values = latency.map(|Latency { p50, p99, max, .. }| [p50, p99, max]);
            figures.extend(values.into_iter().flat_map(|values| names.into_iter().zip(values)));
        }
        figures
    }
}

/// Requests as a report has them.
pub fn requests(counts: Counts) -> Vec<Request> {
    counts.into_iter().map(|(kind, count)| Request { kind, count }).collect()
}

fn ratios(ours: &Run, theirs: &Run) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for one in &ours.situations {
        let Some(other) = theirs.situations.iter().find(|other| other.situation == one.situation) else {
            continue;
        };
        let others = other.figures();
        for (figure, value) in one.figures() {
            if let Some(&(_, theirs)) = others.iter().find(|(name, _)| *name == figure) {
                ratios.push(Ratio {
                    situation: one.situation,
                    figure,
                    ours: value,
                    theirs,
                    ratio: ratio(value, theirs),
                });
            }
        }
    }
    ratios
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report of two programs, the second of which takes twice of everything.
    pub(crate) fn mk_report() -> Report {
        let process = |name: &str, is_measured, cpu: f64| Process {
            name: name.to_owned(),
            is_measured,
            cpu_seconds: cpu,
            cpu_share: cpu / 60.0,
            memory: 40.0,
            peak: 50.5,
        };
        let latency = |factor: f64| Latency {
            count: 6,
            p50: 0.004 * factor,
            p99: 0.0125 * factor,
            max: 0.02 * factor,
        };
        let run = |program: &str, factor: f64| {
            let processes = vec![process(program, true, 1.5 * factor), process("sandbox", false, 3.0)];
            let kind = |verb: &str, resource: &str| Kind {
                process: program.to_owned(),
                verb: verb.to_owned(),
                resource: resource.to_owned(),
            };
            let rest = Played {
                situation: Situation::Rest,
                nodes: 5,
                seconds: 60.0,
                sum: Process::sum(&processes, (0.0, 0.0)),
                shared: 7.5 * (factor - 1.0),
                processes,
                requests: Some(requests(Counts::from([
                    (kind("update", "leases"), 30),
                    (kind("delete", "pods"), 6),
                ]))),
                detection: None,
                eviction: None,
                creation: None,
                evictions_per_second: None,
                plain_cpu_seconds: None,
                requests_per_eviction: None,
                early: Vec::new(),
            };
            let failure = Played {
                situation: Situation::NodeFailure,
                nodes: 1,
                detection: Some(latency(factor)),
                eviction: Some(latency(factor)),
                requests_per_eviction: Some(5.0 * factor),
                ..rest.clone()
            };
            Run {
                program: program.to_owned(),
                start_seconds: 2.25,
                situations: vec![rest, failure],
                share_of_plain_rate: None,
                early_between: Vec::new(),
            }
        };
        let mut report = Report {
            machine: Machine {
                cores: 2,
                platform: "x86_64 linux".to_owned(),
            },
            settings: Settings {
                nodes: 5,
                pods: 30,
                server: "sandbox".to_owned(),
                grace_seconds: 50.0,
                toleration_seconds: 30,
                node_eviction_rate: 100.0,
                kube_api_qps: 5000,
            },
            runs: vec![run("bailiff", 1.0), run("other", 2.0)],
            ratios: Vec::new(),
        };
        report.compare();
        report
    }

    #[test]
    fn ratios_are_of_the_same_figure_in_the_same_situation() {
        let report = mk_report();
        let of = |situation, figure: &str| {
            let mut ratios = report.ratios.iter();
            let found = ratios.find(|ratio| ratio.situation == situation && ratio.figure == figure);
            found.and_then(|ratio| ratio.ratio)
        };
        assert_eq!(of(Situation::Rest, "CPU, s"), Some(0.5));
        assert_eq!(of(Situation::NodeFailure, "eviction p99, s"), Some(0.5));
        assert_eq!(of(Situation::NodeFailure, "requests per eviction"), Some(0.5));
        assert_eq!(of(Situation::Rest, "eviction p99, s"), None, "nothing was evicted at rest");
        let mut alone = Report {
            runs: report.runs[..1].to_vec(),
            ..Report::default()
        };
        alone.compare();
        assert_eq!(alone.ratios, []);
    }

    #[test]
    fn the_rate_of_evictions_is_held_against_a_plain_one() {
        let mut run = mk_report().runs.remove(0);
        run.weigh();
        assert_eq!(run.share_of_plain_rate, None, "nothing was tainted");
        for (situation, rate) in [(Situation::Taint, 150.0), (Situation::PlainEviction, 200.0)] {
            run.situations.push(Played {
                situation,
                evictions_per_second: Some(rate),
                ..run.situations[0].clone()
            });
        }
        run.weigh();
        assert_eq!(run.share_of_plain_rate, Some(0.75));
    }

    #[test]
    fn what_is_sent_at_rest_too_is_no_eviction_s() {
        let played = mk_report().runs.remove(0).situations.remove(1);
        assert_eq!((played.requests_in_all(), played.requests_for_it()), (Some(36), Some(6)));
    }

    #[test]
    fn programs_read_units_and_kinds() {
        let told: serde_json::Value = serde_json::from_str(&mk_report().json()).unwrap();
        let failure = &told["runs"][0]["situations"][1];
        assert_eq!(failure["situation"], "node-failure");
        assert_eq!(failure["processes"][0]["peakMiB"], 50.5);
        assert_eq!(failure["requests"][0]["resource"], "pods");
        assert_eq!(failure["requestsPerEviction"], 5.0);
        assert_eq!(told["ratios"][0]["situation"], "rest");
    }

    #[test]
    fn what_was_early_is_told_with_whose_it_was() {
        let mut report = mk_report();
        assert_eq!(report.early().next(), None);
        report.runs[1].situations[0].early.push("too early".to_owned());
        report.runs[1].early_between.push("in between".to_owned());
        let wanted = [("other", "too early"), ("other", "in between")];
        assert_eq!(report.early().collect::<Vec<_>>(), wanted);
    }
}
