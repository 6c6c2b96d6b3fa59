//! Turns findings and records into lines for people, grouping what happens together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_event_bus::{Body, Record};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, ZoneStatus};
use bailiff_model::{Hold, ZoneState};
use serde::Serialize;

use super::some_of;
use crate::report::Finding;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The set-up.
    Plan,
    /// Something the demonstration does.
    Script,
    /// Daemon pods that came up.
    Daemons,
    /// Nodes found silent.
    Detected,
    /// A zone's state.
    Zone,
    /// Nodes that wait, and why.
    Waiting,
    /// Nodes isolated.
    Isolated,
    /// Pods evicted.
    Evicted,
    /// Pods that stay.
    Kept,
    /// Nodes that are well again.
    Recovered,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Time since the start.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// What it is about.
    pub kind: Kind,
    /// The text.
    pub text: String,
}

fn seconds<S: serde::Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((at.as_secs_f64() * 10.0).round() / 10.0)
}

/// Collects what happened since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Narrator {
    daemons: BTreeSet<String>,
    detected: BTreeMap<String, (BTreeSet<String>, Duration)>,
    isolated: BTreeMap<String, BTreeSet<String>>,
    tolerating: usize,
    told_kept: bool,
    evicted: BTreeMap<String, (usize, usize)>,
    recovered: BTreeMap<String, BTreeSet<String>>,
    zones: BTreeMap<String, ZoneStatus>,
    told: BTreeMap<String, (ZoneState, String)>,
    waiting: BTreeMap<String, NodeOutcome>,
    told_waiting: String,
}

impl Narrator {
    pub(super) fn finding(&mut self, finding: &Finding) {
        match finding {
            Finding::Detected { node, zone, delay } => {
                let (nodes, worst) = self.detected.entry(zone.to_string()).or_default();
                nodes.insert(node.clone());
                *worst = (*worst).max(*delay);
            }
            Finding::Isolated {
                node, zone, tolerating, ..
            } => {
                self.isolated.entry(zone.to_string()).or_default().insert(node.clone());
                self.tolerating += tolerating;
            }
            Finding::Evicted { node, early, .. } => {
                let (count, too_early) = self.evicted.entry(node.clone()).or_default();
                *count += 1;
                *too_early += usize::from(*early);
            }
            Finding::Recovered { node, zone } => {
                self.recovered.entry(zone.to_string()).or_default().insert(node.clone());
            }
            Finding::DaemonPod { node } => {
                self.daemons.insert(node.clone());
            }
        }
    }

    pub(super) fn record(&mut self, record: &Record) {
        match &record.body {
            Some(Body::Outcome(Outcome::Zone(status))) => {
                self.zones.insert(status.zone.to_string(), ZoneStatus::clone(status));
            }
            Some(Body::Outcome(Outcome::Node(outcome))) => {
                let name = outcome.node.name.to_string();
                match outcome.state {
                    NodeOutcomeState::Queued { .. } | NodeOutcomeState::Held(_) => {
                        self.waiting.insert(name, NodeOutcome::clone(outcome))
                    }
                    _ => self.waiting.remove(&name),
                };
            }
            None => {
                if let Some(name) = record.key.strip_prefix("node/") {
                    self.waiting.remove(name);
                }
            }
            _ => {}
        }
    }

    /// The lines for what happened since the last call.
    pub(super) fn take(&mut self) -> Vec<(Kind, String)> {
        let mut lines = Vec::new();
        let daemons = std::mem::take(&mut self.daemons);
        if !daemons.is_empty() {
            lines.push((
                Kind::Daemons,
                format!("{} became ready: {}", counted(daemons.len(), "daemon pod"), some_of(&daemons)),
            ));
        }
        for (zone, (nodes, worst)) in std::mem::take(&mut self.detected) {
            let text = format!(
                "{} of {zone} became Unknown, at most {:.2} s past the grace: {}",
                counted(nodes.len(), "node"),
                worst.as_secs_f64(),
                some_of(&nodes)
            );
            lines.push((Kind::Detected, text));
        }
        self.zone_lines(&mut lines);
        self.waiting_line(&mut lines);
        for (zone, nodes) in std::mem::take(&mut self.isolated) {
            lines.push((Kind::Isolated, format!("{} of {zone} got NoExecute", some_of(&nodes))));
        }
        if self.tolerating > 0 && !std::mem::replace(&mut self.told_kept, true) {
            lines.push((
                Kind::Kept,
                "pods that tolerate it for ever stay, and so do daemon pods".to_owned(),
            ));
        }
        for (node, (count, early)) in std::mem::take(&mut self.evicted) {
            let early = if early > 0 {
                format!(", {early} of them EARLY")
            } else {
                String::new()
            };
            lines.push((Kind::Evicted, format!("{} of {node}{early}", counted(count, "pod"))));
        }
        for (zone, nodes) in std::mem::take(&mut self.recovered) {
            lines.push((
                Kind::Recovered,
                format!(
                    "{} of {zone} became Ready and untainted: {}",
                    counted(nodes.len(), "node"),
                    some_of(&nodes)
                ),
            ));
        }
        lines
    }

    fn zone_lines(&mut self, lines: &mut Vec<(Kind, String)>) {
        for (zone, status) in std::mem::take(&mut self.zones) {
            let held = status
                .held
                .as_ref()
                .map_or_else(String::new, |hold| format!("; held: {}", reason(hold)));
            let told = (status.state, held.clone());
            if self.told.get(&zone) == Some(&told) {
                continue;
            }
            self.told.insert(zone.clone(), told);
            let text = format!(
                "{zone} is {}: {} of {} not ready, {} late; {} node/s{held}",
                status.state, status.not_ready, status.voting, status.late, status.rate_per_second
            );
            lines.push((Kind::Zone, text));
        }
    }

    fn waiting_line(&mut self, lines: &mut Vec<(Kind, String)>) {
        let mut reasons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, outcome) in &self.waiting {
            let why = match &outcome.state {
                NodeOutcomeState::Held(hold) => reason(hold),
                _ => "for the zone's rate".to_owned(),
            };
            reasons.entry(why).or_default().insert(name.clone());
        }
        let text = reasons
            .iter()
            .map(|(why, nodes)| format!("{} wait {why} ({})", nodes.len(), some_of(nodes)))
            .collect::<Vec<_>>()
            .join("; ");
        if text != self.told_waiting && !text.is_empty() {
            lines.push((Kind::Waiting, text.clone()));
        }
        self.told_waiting = text;
    }
}

/// So many of these.
fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

fn reason(hold: &Hold) -> String {
    if hold.detail.is_empty() {
        hold.reason.to_string()
    } else {
        format!("{}: {}", hold.reason, hold.detail)
    }
}
