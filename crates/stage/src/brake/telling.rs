//! Telling people what holds a stage from outside: log, metrics, `/readyz`, Events.

use std::collections::BTreeMap;

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::{About, Hold, HoldReason, HoldScope, Holds};
use bailiff_runtime::admin::Check;
use bailiff_runtime::metrics::at_zero;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::pauses::Pause;
use super::{NAME, NAMESPACE};
use crate::env::Env;
use crate::rival::MANAGER;

#[derive(Debug)]
pub(super) struct Teller {
    check: Check,
    braked: Family<Labels, Gauge>,
    rival_signs: Counter,
    recorder: Recorder,
}

/// As many series as there are zones, and not one more: nodes are counted together.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Labels {
    scope: String,
    reason: &'static str,
}

/// What can hold everything from outside.
const REASONS: [HoldReason; 4] = [
    HoldReason::Paused,
    HoldReason::Rival,
    HoldReason::ApiStale,
    HoldReason::Observing,
];

/// The scope of all nodes that are paused by name.
const NODE: &str = "node";

impl Teller {
    pub(super) fn start(env: &Env, name: &'static str) -> Self {
        let (braked, rival_signs) = (Family::default(), Counter::default());
        env.host.metrics.register(&name.replace('-', "_"), |registry| {
            let help = "Holds of the stage's acts from outside, by what is held and why; nodes are counted together";
            registry.register("braked", help, braked.clone());
            at_zero(&braked, always());
            let help = "Writes by which a kube-controller-manager was seen to do one of the stage's duties";
            registry.register("rival_signs", help, rival_signs.clone());
        });
        Self {
            check: env.host.readiness.check(format!("{name}: pauses")),
            braked,
            rival_signs,
            recorder: Recorder::start(&env.api, name, &env.host.identity, &env.host.seed.fork("brake")),
        }
    }

    pub(super) fn rival_signs(&self) -> Counter {
        self.rival_signs.clone()
    }

    /// Tells what holds now and what did before; `is_news` is false for what only has not been read yet.
    pub(super) fn tell(&self, before: Option<&Holds>, holds: &Holds, is_news: bool) {
        self.count(before, holds);
        for (scope, hold) in before.into_iter().flat_map(Holds::iter) {
            if holds.get(scope, hold.reason).is_none() {
                tracing::info!(%scope, reason = %hold.reason, "No longer held from outside");
                self.rival(hold, false);
            }
        }
        let mut said = Vec::new();
        for (scope, hold) in holds.iter() {
            if before.and_then(|before| before.get(scope, hold.reason)) != Some(hold) && is_news {
                tracing::warn!(%scope, reason = %hold.reason, detail = %hold.detail, "Held from outside");
                self.rival(hold, true);
            }
            said.push(format!("{scope}: {} ({})", hold.reason, hold.detail));
        }
        // A hold is no reason to send the process away: it ends by itself.
        if said.is_empty() {
            self.check.ok();
        } else {
            self.check.note(said.join("; "));
        }
    }

    fn count(&self, before: Option<&Holds>, holds: &Holds) {
        let (before, now) = (before.map(counted).unwrap_or_default(), counted(holds));
        for labels in before.keys().filter(|labels| !now.contains_key(labels)) {
            self.braked.remove(labels);
        }
        at_zero(&self.braked, always());
        for (labels, count) in now {
            self.braked.get_or_create(&labels).set(count);
        }
    }

    fn rival(&self, hold: &Hold, is_there: bool) {
        if hold.reason != HoldReason::Rival {
            return;
        }
        let detail = &hold.detail;
        let (severity, reason, note) = if is_there {
            let note = format!("{detail}, which is a duty of ours: nothing disruptive is done until it stops");
            (Severity::Warning, "RivalController", note)
        } else {
            let note = format!("{detail}; it was quiet for long enough since, or is gone: nothing is held any more because of it");
            (Severity::Normal, "RivalControllerGone", note)
        };
        let lease = regarding("coordination.k8s.io/v1", "Lease", MANAGER);
        self.emit(lease, severity, reason, note, About::default());
    }

    /// A pause ended by itself. Each stage says so when it takes it for over.
    pub(super) fn pause_ended(&self, pause: &Pause) {
        let note = format!(
            "the pause of {} is over: it stood until {:.0} ({})",
            pause.scope, pause.until, pause.reason
        );
        tracing::info!(scope = %pause.scope, until = %pause.until, "Pause ended by itself");
        let about = match &pause.scope {
            HoldScope::Node(node) => About::node(node),
            HoldScope::All | HoldScope::Zone(_) => About::default(),
        };
        let pauses = regarding("v1", "ConfigMap", NAME);
        self.emit(pauses, Severity::Normal, "PauseExpired", note, about);
    }

    fn emit(&self, regarding: Regarding, severity: Severity, reason: &'static str, note: String, about: About) {
        self.recorder.emit(|| Draft {
            regarding,
            severity,
            reason,
            action: reason,
            note,
            about,
        });
    }
}

/// An object in the namespace of what is read from outside.
fn regarding(api_version: &'static str, kind: &'static str, name: &str) -> Regarding {
    Regarding {
        api_version,
        kind,
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        ..Regarding::default()
    }
}

/// What always has a series: what can hold everything, and pauses of nodes.
fn always() -> impl Iterator<Item = Labels> {
    let everything = REASONS.map(|reason| Labels::of(&HoldScope::All, reason));
    let nodes = Labels {
        scope: NODE.to_owned(),
        reason: HoldReason::Paused.as_str(),
    };
    everything.into_iter().chain([nodes])
}

fn counted(holds: &Holds) -> BTreeMap<Labels, i64> {
    let mut counted = BTreeMap::new();
    for (scope, hold) in holds.iter() {
        *counted.entry(Labels::of(scope, hold.reason)).or_default() += 1;
    }
    counted
}

impl Labels {
    fn of(scope: &HoldScope, reason: HoldReason) -> Self {
        let scope = match scope {
            HoldScope::Node(_) => NODE.to_owned(),
            scope => scope.to_string(),
        };
        let reason = reason.as_str();
        Self { scope, reason }
    }
}
