//! What is played: a table, and how many nodes each situation concerns.

use std::ops::Range;

use serde::Serialize;

/// Something that happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Situation {
    /// Nothing but renewals of Leases, each node's every 10 s
    Rest,
    /// One node falls silent
    NodeFailure,
    /// A share of the nodes falls silent together
    MassFailure,
    /// Somebody taints nodes by hand, NoExecute, and nothing tolerates it
    Taint,
    /// The benchmark itself evicts the pods of as many nodes, with the same two requests for each: a pace to hold that of others against
    PlainEviction,
    /// A DaemonSet is created, for all nodes
    Rollout,
    /// Its template changes
    Update,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Wait,
    /// Kubelets fall silent.
    Silence,
    /// Nodes get a taint.
    Taint,
    /// Pods are evicted by whoever measures.
    Evict,
    /// The DaemonSet is created.
    Create,
    /// The DaemonSet's template is changed; it is created before if it was not.
    Change,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Which.
    pub situation: Situation,
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// What is done.
    pub act: Act,
    /// Whose nodes: of the failing one, of the mass, of the tainted ones, or nobody's.
    pub whose: Option<Part>,
}

/// A part of the nodes that is used up by one situation: its pods are gone afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first.
    One,
    /// As many as fail together.
    Mass,
    /// As many as are tainted.
    Tainted,
    /// As many again, whose pods are evicted plainly.
    Plain,
}

/// All situations, in the order in which they are played.
pub const TABLE: [Line; 7] = [
    line(Situation::Rest, "rest", Act::Wait, None),
    line(Situation::NodeFailure, "node-failure", Act::Silence, Some(Part::One)),
    line(Situation::MassFailure, "mass-failure", Act::Silence, Some(Part::Mass)),
    line(Situation::Taint, "taint", Act::Taint, Some(Part::Tainted)),
    line(Situation::PlainEviction, "plain-eviction", Act::Evict, Some(Part::Plain)),
    line(Situation::Rollout, "rollout", Act::Create, None),
    line(Situation::Update, "update", Act::Change, None),
];

const fn line(situation: Situation, name: &'static str, act: Act, whose: Option<Part>) -> Line {
    Line {
        situation,
        name,
        act,
        whose,
    }
}

/// How many nodes the parts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// That fail together.
    pub mass: usize,
    /// That are tainted.
    pub tainted: usize,
}

// === impl Parts ===

impl Parts {
    /// Of so many nodes, a share fails, and at most so many are tainted: a fifth of a small cluster.
    pub fn of(nodes: usize, share: f64, tainted: usize) -> Self {
        // Both are far below what a float holds exactly, and the share is from 0 to a half.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let mass = (nodes as f64 * share).round() as usize;
        Self {
            mass: mass.max(1),
            tainted: tainted.min(nodes / 5).max(1),
        }
    }

    /// Which nodes, of all in their order: no node is in two parts.
    pub const fn range(self, part: Part) -> Range<usize> {
        let Self { mass, tainted } = self;
        match part {
            Part::One => 0..1,
            Part::Mass => 1..1 + mass,
            Part::Tainted => 1 + mass..1 + mass + tainted,
            Part::Plain => 1 + mass + tainted..1 + mass + 2 * tainted,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_situation_is_in_the_table_once_under_its_own_name() {
        let names: Vec<String> = Situation::value_variants()
            .iter()
            .map(|situation| situation.to_possible_value().unwrap().get_name().to_owned())
            .collect();
        assert_eq!(names, TABLE.map(|line| line.name));
        assert_eq!(Situation::value_variants(), TABLE.map(|line| line.situation));
    }

    #[test]
    fn parts_are_disjoint_and_within_the_nodes() {
        let clusters = (10..100).chain([5_000, 130_000]);
        for (nodes, share) in clusters.flat_map(|nodes| [0.0, 0.1, 0.5].map(|share| (nodes, share))) {
            let parts = Parts::of(nodes, share, 1_000);
            let ranges = [Part::One, Part::Mass, Part::Tainted, Part::Plain].map(|part| parts.range(part));
            assert!(
                ranges.iter().all(|range| !range.is_empty() && range.end <= nodes),
                "{nodes}, {share}: {ranges:?}"
            );
            let follows = ranges.windows(2).all(|pair| pair[0].end == pair[1].start);
            assert!(follows, "{nodes}, {share}: {ranges:?}");
        }
        assert_eq!(
            Parts::of(5_000, 0.1, 1_000),
            Parts {
                mass: 500,
                tainted: 1_000
            }
        );
    }
}
