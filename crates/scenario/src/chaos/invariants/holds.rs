//! What holds harmful acts from outside: pauses, a rival, leases that stop together.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::{HoldScope, Mono, ReadyStatus, Zone};

use super::super::story::{HELD_FOR, Terms};
use super::super::timeline::{Change, Object, Timeline, World};
use super::{Verdict, by, deleted, isolated};
use crate::StageName;

/// An act within this after a hold waited for its end.
const WAITED: Duration = Duration::from_secs(15);
/// A sign of a rival holds for so long at least: a minute after its leader is gone.
const RIVAL_FOR: Duration = Duration::from_secs(60);

/// A hold, from when everybody could know of it.
#[derive(Clone, Debug)]
struct Span {
    scope: HoldScope,
    from: Mono,
    until: Mono,
}

/// Something that pauses hold (docs/operations.md).
struct Harm<'a> {
    stage: StageName,
    node: &'a str,
    zone: &'a Zone,
    what: String,
    /// It is about the node's silence.
    is_of_silence: bool,
}

impl Span {
    fn covers(&self, harm: &Harm<'_>) -> bool {
        match &self.scope {
            HoldScope::All => true,
            HoldScope::Zone(zone) => zone == harm.zone,
            HoldScope::Node(name) => name.as_str() == harm.node,
        }
    }
}

/// The harm that a change does, if any.
fn harm<'a>(world: &'a World, change: &Change) -> Option<Harm<'a>> {
    let stage = *StageName::ALL.iter().find(|stage| by(change, **stage))?;
    let (node, what, is_of_silence) = match &change.object {
        Object::Node(node) => {
            let known = world.nodes.get(&node.name)?;
            let is_marked = known.node.ready != ReadyStatus::Unknown && node.ready == ReadyStatus::Unknown;
            let what = if stage == StageName::NodeHealthMonitor && is_marked {
                "is marked Unknown"
            } else if stage == StageName::ZoneEvictor && isolated(world, change).is_some() {
                "is isolated"
            } else {
                return None;
            };
            (known, format!("{} {what}", node.name), true)
        }
        Object::Pod(pod) => {
            let known = &world.pods.get(&pod.uid)?.pod;
            let node = world.nodes.get(&known.node)?;
            let is_deleted = deleted(world, change).is_some();
            let what = match stage {
                StageName::TaintManager if known.is_ready() && pod.ready == "False" => "is marked not ready",
                StageName::ZoneEvictor if is_deleted || pod.is_target && !known.is_target => "is evicted",
                StageName::DaemonsetSyncer if is_deleted && known.is_bound && !known.is_finished => "is deleted",
                _ => return None,
            };
            let is_of_silence = stage == StageName::TaintManager
                || stage == StageName::ZoneEvictor && node.is_free_of_operators() && node.node.ready != ReadyStatus::True;
            (node, format!("{} on {} {what}", known.name, known.node), is_of_silence)
        }
        _ => return None,
    };
    Some(Harm {
        stage,
        node: &node.node.name,
        zone: &node.node.zone,
        what,
        is_of_silence,
    })
}

/// Judges harm by the spans in which there may be none, beyond what was in flight when they began.
fn judge(timeline: &Timeline, terms: &Terms, spans: &[Span], is_meant: impl Fn(&Harm<'_>, &Span) -> bool) -> Verdict {
    let mut verdict = Verdict::default();
    if spans.is_empty() {
        return verdict;
    }
    timeline.walk(|world, change| {
        let Some(harm) = harm(world, change) else { return };
        let mut waited = false;
        for span in spans.iter().filter(|span| span.covers(&harm) && is_meant(&harm, span)) {
            let in_flight = span.from + terms.latency;
            waited |= change.at >= span.from && change.at < span.until + WAITED;
            if change.at > in_flight && change.at < span.until {
                let since = span.from.since_origin().as_secs_f64();
                let what = format!("{} by the {}, held since {since:.3} s", harm.what, harm.stage.as_str());
                verdict.broken(change.at, what);
            }
        }
        verdict.premises += u64::from(waited);
    });
    verdict
}

/// Pauses as the ConfigMap says them. An entry stands for as long as it was asked for, from when it was written.
fn pauses(timeline: &Timeline) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: BTreeMap<String, (Option<String>, usize)> = BTreeMap::new();
    for change in &timeline.changes {
        let Object::Pauses(entries) = &change.object else { continue };
        let text = |key: &String| {
            entries
                .get(key)
                .map(|pause| pause.as_ref().map(bailiff_stage::brake::pauses::Pause::to_entry))
        };
        open.retain(|key, (entry, span)| {
            let stays = !change.is_gone && text(key).as_ref() == Some(entry);
            if !stays {
                spans[*span].until = spans[*span].until.min(change.at);
            }
            stays
        });
        for (key, pause) in entries.iter().filter(|_| !change.is_gone) {
            if open.contains_key(key) {
                continue;
            }
            let (scope, until) = match pause {
                Some(pause) => {
                    let asked = pause.since.map(|since| pause.until.duration_since(since).unsigned_abs());
                    (pause.scope.clone(), change.at + asked.unwrap_or_default())
                }
                None => (HoldScope::All, timeline.end),
            };
            open.insert(
                key.clone(),
                (pause.as_ref().map(bailiff_stage::brake::pauses::Pause::to_entry), spans.len()),
            );
            spans.push(Span {
                scope,
                from: change.at,
                until,
            });
        }
    }
    spans
}

pub(super) fn pauses_hold(timeline: &Timeline, terms: &Terms) -> Verdict {
    judge(timeline, terms, &pauses(timeline), |_, _| true)
}

/// A rival is who says that it does a duty of ours. A stage that started since did not see it: what stands at a start is the past.
pub(super) fn rivals_hold(timeline: &Timeline, terms: &Terms) -> Verdict {
    let is_rival = |by: &str| matches!(by, "node-controller" | "taint-eviction-controller" | "daemonset-controller");
    let signs = timeline.changes.iter().filter(|change| {
        let is_sign = matches!(&change.object, Object::Said { by, .. } if is_rival(by));
        is_sign && !StageName::ALL.iter().any(|stage| by(change, *stage))
    });
    let spans: Vec<Span> = signs
        .map(|change| Span {
            scope: HoldScope::All,
            from: change.at,
            until: change.at + RIVAL_FOR,
        })
        .collect();
    let is_known = |harm: &Harm<'_>, span: &Span| {
        let mut starts = timeline.starts.iter();
        !starts.any(|(at, stage)| *stage == harm.stage && *at >= span.from && *at < span.until)
    };
    judge(timeline, terms, &spans, is_known)
}

/// A loss is what the monitor says is one; what the silence before it caused already is in flight. It ends when it is said to have ended,
/// not when that is written: of what is said again and again every half minute the last is (NL-132), and of those before it only that
/// they were.
pub(super) fn losses_hold(timeline: &Timeline, terms: &Terms) -> Verdict {
    // With when they were said to have begun.
    let mut spans: Vec<(Mono, Span)> = Vec::new();
    let mut ends: BTreeMap<&str, (u32, Mono)> = BTreeMap::new();
    for change in timeline
        .changes
        .iter()
        .filter(|change| by(change, StageName::NodeHealthMonitor))
    {
        let Object::Said {
            reason,
            note,
            name,
            count,
            ..
        } = &change.object
        else {
            continue;
        };
        let (scope, said) = (scope_of(note), timeline.said_at(change, StageName::NodeHealthMonitor));
        match reason.as_str() {
            "CorrelatedLoss" => {
                let span = Span {
                    scope,
                    // From when everybody could know of it.
                    from: change.at,
                    // The Event comes a moment after the hold began.
                    until: (said + HELD_FOR).saturating_sub(terms.latency),
                };
                spans.push((said, span));
            }
            "CorrelatedLossEnded" => {
                let (before, last) = ends.insert(name, (*count, said)).unwrap_or((0, said));
                let first = if *count > before + 1 { last } else { said };
                for (began, span) in spans.iter_mut().filter(|(began, span)| span.scope == scope && *began < said) {
                    span.until = span.until.min(first.max(*began));
                }
            }
            _ => {}
        }
    }
    let mut spans: Vec<Span> = spans.into_iter().map(|(_, span)| span).collect();
    // A monitor that starts anew waits for those that were not heard yet, but it judges who is late (NL-034): a hold ends with its monitor.
    for span in &mut spans {
        let starts = timeline
            .starts
            .iter()
            .filter(|(at, stage)| *stage == StageName::NodeHealthMonitor && *at > span.from);
        span.until = starts.map(|(at, _)| *at).fold(span.until, Mono::min);
    }
    let mut verdict = judge(timeline, terms, &spans, |harm, _| harm.is_of_silence);
    let is_long = |span: &&Span| span.until > span.from + terms.latency;
    verdict.premises = spans.iter().filter(is_long).count() as u64;
    verdict
}

/// What an Event about a loss is about.
fn scope_of(note: &str) -> HoldScope {
    let zone = note.split("zone ").nth(1).and_then(|rest| rest.split(' ').next());
    let zone = zone.and_then(|text| text.trim_end_matches(';').parse().ok());
    zone.map_or(HoldScope::All, HoldScope::Zone)
}
