//! Figures out of what was counted and seen: pure.

use std::collections::BTreeMap;

use bailiff_processes::Usage;
use serde::Serialize;

/// How long something took, over all its occurrences, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// How often it was seen.
    pub count: usize,
    /// Half took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What a process used between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// What it is called.
    pub name: String,
    /// It is one of those that are compared; the others make the load, serve the API or look on.
    pub is_measured: bool,
    /// Seconds of a processor.
    pub cpu_seconds: f64,
    /// Share of one processor.
    pub cpu_share: f64,
    /// Memory at the end, MiB.
    #[serde(rename = "memoryMiB")]
    pub memory: f64,
    /// The most in between, MiB.
    #[serde(rename = "peakMiB")]
    pub peak: f64,
}

/// Requests of a kind from a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Kind {
    /// Which process.
    pub process: String,
    /// Verb, as the API has it.
    pub verb: String,
    /// Resource, with its subresource.
    pub resource: String,
}

/// How often requests of each kind were sent.
pub type Counts = BTreeMap<Kind, u64>;

// === impl Latency ===

impl Latency {
    /// Of these times. Percentiles are times that occurred (nearest rank); none of nothing.
    pub fn of(mut times: Vec<f64>) -> Option<Self> {
        times.sort_by(f64::total_cmp);
        let last = *times.last()?;
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            count: times.len(),
            p50: rank(50),
            p99: rank(99),
            max: last,
        })
    }
}

// === impl Process ===

impl Process {
    /// Of a process that had used `before`, and `seconds` later `after`.
    pub fn between(name: &str, is_measured: bool, before: &Usage, after: &Usage, seconds: f64) -> Self {
        let cpu_seconds = (after.cpu - before.cpu).max(0.0);
        Self {
            name: name.to_owned(),
            is_measured,
            cpu_seconds,
            cpu_share: if seconds > 0.0 { cpu_seconds / seconds } else { 0.0 },
            memory: after.memory,
            peak: after.peak.max(after.memory),
        }
    }

    /// All that are measured, as one. Peaks are added though they need not fall together: it is the most that they can have had. `shared`
    /// is what is counted too often if their memory is added, MiB: before and after.
    pub fn sum(processes: &[Self], (before, after): (f64, f64)) -> Self {
        let mut sum = Self {
            name: "sum".to_owned(),
            is_measured: true,
            ..Self::default()
        };
        for process in processes.iter().filter(|process| process.is_measured) {
            sum.cpu_seconds += process.cpu_seconds;
            sum.cpu_share += process.cpu_share;
            sum.memory += process.memory;
            sum.peak += process.peak;
        }
        sum.memory = (sum.memory - after).max(0.0);
        // Whenever it was, they shared no less.
        sum.peak = (sum.peak - before.min(after)).max(0.0);
        sum
    }
}

/// What was counted between two looks; kinds of which nothing was are left out.
pub fn between(before: &Counts, after: &Counts) -> Counts {
    let mut grown = Counts::new();
    for (kind, &count) in after {
        let more = count.saturating_sub(before.get(kind).copied().unwrap_or_default());
        if more > 0 {
            grown.insert(kind.clone(), more);
        }
    }
    grown
}

/// One figure over another; none where the other is nothing, which nothing is a multiple of.
pub fn ratio(one: f64, other: f64) -> Option<f64> {
    (other > 0.0 && one.is_finite()).then(|| one / other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_occurred() {
        assert_eq!(Latency::of(Vec::new()), None);
        let one = Latency::of(vec![2.5]).unwrap();
        assert_eq!((one.count, one.p50, one.p99, one.max), (1, 2.5, 2.5, 2.5));
        let many = Latency::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!((many.count, many.p50, many.p99, many.max), (200, 100.0, 198.0, 200.0));
    }

    #[test]
    fn what_is_not_measured_is_not_in_the_sum() {
        let usage = |cpu, memory, peak| Usage { cpu, memory, peak };
        let process = |name, is_measured| {
            let (before, after) = (usage(1.0, 5.0, 90.0), usage(3.0, 10.0, 20.0));
            Process::between(name, is_measured, &before, &after, 4.0)
        };
        let all = [process("one", true), process("sandbox", false), process("two", true)];
        let told = |shared| {
            let sum = Process::sum(&all, shared);
            (sum.cpu_seconds, sum.cpu_share, sum.memory, sum.peak)
        };
        assert_eq!(told((0.0, 0.0)), (4.0, 1.0, 20.0, 40.0));
        assert_eq!(told((2.5, 7.5)), (4.0, 1.0, 12.5, 37.5));
    }

    #[test]
    fn only_what_grew_is_told() {
        let kind = |verb: &str| Kind {
            process: "p".to_owned(),
            verb: verb.to_owned(),
            resource: "pods".to_owned(),
        };
        let before = Counts::from([(kind("get"), 5), (kind("list"), 1)]);
        let after = Counts::from([(kind("get"), 7), (kind("list"), 1), (kind("delete"), 3)]);
        assert_eq!(
            between(&before, &after),
            Counts::from([(kind("get"), 2), (kind("delete"), 3)])
        );
    }

    #[test]
    fn nothing_is_no_multiple() {
        assert_eq!((ratio(1.0, 4.0), ratio(1.0, 0.0)), (Some(0.25), None));
    }
}
