//! The fixed situations in which a fault is put at every place where one fits.

use std::time::Duration;

use bailiff_model::{EvictionMode, HoldScope};

use super::story::{Deed, STILL, Story, Terms};

/// A story with a name.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Its name.
    pub name: &'static str,
    /// What happens.
    pub story: Story,
}

/// All of them.
pub fn situations() -> Vec<Situation> {
    vec![
        situation(
            "a node falls silent and comes back",
            EvictionMode::Taint,
            &["z0-n0"],
            40,
            vec![],
        ),
        situation("a node falls silent for good", EvictionMode::Taint, &["z0-n0"], 0, vec![]),
        situation(
            "a zone falls silent and comes back",
            EvictionMode::Taint,
            &["z1-n0", "z1-n1"],
            40,
            vec![],
        ),
        situation(
            "in node mode, a node falls silent and comes back",
            EvictionMode::Node,
            &["z0-n0"],
            40,
            vec![],
        ),
        situation(
            "in node mode, a node falls silent for good",
            EvictionMode::Node,
            &["z0-n0"],
            0,
            vec![],
        ),
        situation(
            "an operator's taint comes, changes and goes",
            EvictionMode::Taint,
            &[],
            0,
            operators_taint(),
        ),
        situation(
            "a DaemonSet gets another image",
            EvictionMode::Taint,
            &[],
            0,
            vec![(Duration::from_secs(12), Deed::Image(2))],
        ),
        Situation {
            name: "a DaemonSet gets another image, and another before all nodes have it, while it surges",
            ..surging()
        },
        situation(
            "a node falls silent in a pause",
            EvictionMode::Taint,
            &["z0-n0"],
            0,
            vec![(Duration::from_secs(8), Deed::Pause(HoldScope::All, Duration::from_secs(40)))],
        ),
    ]
}

fn surging() -> Situation {
    let images = vec![
        (Duration::from_secs(12), Deed::Image(2)),
        (Duration::from_secs(14), Deed::Image(3)),
    ];
    let mut situation = situation("", EvictionMode::Taint, &[], 0, images);
    situation.story.terms.rollout = (0, 1);
    situation
}

fn operators_taint() -> Vec<(Duration, Deed)> {
    let taint = |value: &str| Deed::Taint {
        node: "z0-n0".to_owned(),
        key: "example.com/a".to_owned(),
        value: value.to_owned(),
    };
    let untaint = Deed::Untaint {
        node: "z0-n0".to_owned(),
        key: "example.com/a".to_owned(),
    };
    vec![
        (Duration::from_secs(12), taint("1")),
        (Duration::from_secs(20), taint("2")),
        (Duration::from_secs(40), untaint),
    ]
}

/// Two zones of two nodes; `silent` fall silent at 12 s and are back after `span` seconds, if that is not zero.
fn situation(name: &'static str, mode: EvictionMode, silent: &[&str], span: u64, more: Vec<(Duration, Deed)>) -> Situation {
    let names = ["z0-n0", "z0-n1", "z1-n0", "z1-n1"];
    let silent: Vec<String> = silent.iter().map(|node| (*node).to_owned()).collect();
    let mut deeds = Vec::new();
    for node in names {
        for (index, tolerates) in [Some(0), Some(10), Some(100_000), None].into_iter().enumerate() {
            let name = format!("app-{node}-{index}");
            let node = node.to_owned();
            deeds.push((Duration::from_secs(3), Deed::CreatePod { name, node, tolerates }));
        }
    }
    if !silent.is_empty() {
        deeds.push((Duration::from_secs(12), Deed::Silence(silent.clone())));
        if span > 0 {
            deeds.push((Duration::from_secs(12 + span), Deed::Return(silent)));
        }
    }
    deeds.extend(more);
    Situation {
        name,
        story: Story {
            seed: 1,
            terms: Terms {
                mode,
                ..Terms::default()
            },
            nodes: names.iter().map(|node| ((*node).to_owned(), node[..2].to_owned())).collect(),
            deeds,
            end: Duration::from_secs(80) + STILL,
        },
    }
}
