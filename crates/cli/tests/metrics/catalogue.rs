//! What there is to know of each metric, told from what processes answered.

use std::collections::{BTreeMap, BTreeSet};

use super::openmetrics::{Family, Labels};
use super::system::ZONES;

/// Label of a histogram's buckets, which are the same everywhere.
pub const BUCKET: &str = "le";

/// A label with as many values as there are of something. All others have a closed set of values, each of which is there from the start.
pub struct Open {
    pub label: &'static str,
    /// How the names of those metrics begin or end whose label it is.
    pub of: &'static [&'static str],
    /// There is a value for each of these.
    pub each: &'static str,
    pub values: &'static str,
    /// How many there may be of it in the cluster that is played.
    limit: usize,
}

pub const OPEN: [Open; 4] = [
    Open {
        label: "zone",
        of: &["node_collector_", "zone_evictor_"],
        each: "zone",
        values: "`<region>:\\0:<zone>`, as upstream writes it (NL-021); empty for nodes without these labels",
        limit: ZONES,
    },
    Open {
        label: "scope",
        of: &["_braked"],
        each: "scope",
        values: "`everything`; `node`, all nodes that are paused by name together; `<region>:<zone>`, while the zone is paused",
        limit: 2 + ZONES,
    },
    Open {
        label: "name",
        of: &["leader_election_master_status"],
        each: "shard",
        values: "the Lease, `<stage>-<shard>` (`observe-<stage>-<shard>` where it only observes, `bailiff-0` for `bailiff run`), of each shard \
                 that the process leads or stands by for",
        limit: 1,
    },
    Open {
        label: "shard",
        of: &["event_bus_shard_"],
        each: "shard",
        values: "number of a shard of the topic; a topic that nobody ever published to has none",
        limit: 1,
    },
];

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// As queries name it.
    pub name: String,
    pub kind: String,
    pub help: String,
    /// Values of labels; none of those that are open.
    pub labels: BTreeMap<String, BTreeSet<String>>,
    /// Series in one process, for each of what open labels have values for.
    pub series: usize,
}

pub fn open(metric: &str, label: &str) -> Option<&'static Open> {
    let fits = |open: &&Open| {
        let is_of = |part: &&str| metric.starts_with(part) || metric.ends_with(part);
        open.label == label && open.of.iter().any(is_of)
    };
    OPEN.iter().find(fits)
}

impl Metric {
    pub fn of(family: &Family) -> Self {
        let mut metric = Self {
            name: family.queried(),
            kind: family.kind.clone(),
            help: family.help.clone(),
            labels: BTreeMap::new(),
            series: 0,
        };
        let mut closed = BTreeSet::new();
        for sample in &family.samples {
            for (label, value) in &sample.labels {
                let values = metric.labels.entry(label.clone()).or_default();
                if open(&metric.name, label).is_none() {
                    values.insert(value.clone());
                }
            }
            closed.insert((&sample.name, metric.closed(&sample.labels)));
        }
        metric.series = closed.len();
        metric
    }

    fn closed(&self, labels: &Labels) -> Labels {
        let labels = labels.iter().filter(|(label, _)| open(&self.name, label).is_none());
        labels.map(|(label, value)| (label.clone(), value.clone())).collect()
    }

    /// Its open labels.
    pub fn open(&self) -> impl Iterator<Item = &'static Open> {
        self.labels.keys().filter_map(|label| open(&self.name, label))
    }

    /// More series than this it cannot have in the cluster that is played.
    pub fn limit(&self) -> usize {
        self.open().map(|open| open.limit).product::<usize>() * self.series
    }

    /// Takes in the same metric of another process.
    pub fn absorb(&mut self, other: &Self) {
        let of_both = [&*self, other].map(|metric| (&metric.kind, &metric.help, metric.labels.keys().collect::<Vec<_>>()));
        assert_eq!(of_both[0], of_both[1], "{} is not the same everywhere", self.name);
        for (label, values) in &other.labels {
            self.labels.get_mut(label).unwrap().extend(values.iter().cloned());
        }
        self.series = self.series.max(other.series);
    }

    /// Its unit, if its values are no bare numbers.
    pub fn unit(&self) -> &'static str {
        let units = [
            ("_timestamp_seconds", "seconds since 1970"),
            ("_seconds", "seconds"),
            ("_bytes", "bytes"),
            ("_nodes_per_second", "nodes per second"),
            // Upstream's, which is no ratio.
            ("node_collector_zone_health", "percent"),
        ];
        let bare = self.name.strip_suffix("_total").unwrap_or(&self.name);
        let found = units.into_iter().find(|(suffix, _)| bare.ends_with(suffix));
        found.map_or("", |(_, unit)| unit)
    }
}
