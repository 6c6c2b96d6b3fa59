//! Telling people what holds a stage from outside: log, metrics, `/readyz`, Events.

use bailiff_cluster::Recorder;
use bailiff_cluster::events::{Draft, Regarding, Severity};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds};
use bailiff_runtime::admin::Check;
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    scope: String,
    reason: &'static str,
}

impl Teller {
    pub(super) fn start(env: &Env, name: &'static str) -> Self {
        let (braked, rival_signs) = (Family::default(), Counter::default());
        env.host.metrics.register(&name.replace('-', "_"), |registry| {
            let help = "1 while acts are held from outside the stage, by what is held and why";
            registry.register("braked", help, braked.clone());
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
        let label = |scope: &HoldScope, hold: &Hold| Labels {
            scope: scope.to_string(),
            reason: hold.reason.as_str(),
        };
        for (scope, hold) in before.into_iter().flat_map(Holds::iter) {
            self.braked.get_or_create(&label(scope, hold)).set(0);
            if holds.get(scope, hold.reason).is_none() {
                tracing::info!(%scope, reason = %hold.reason, "No longer held from outside");
                self.rival(hold, false);
            }
        }
        let mut said = Vec::new();
        for (scope, hold) in holds.iter() {
            self.braked.get_or_create(&label(scope, hold)).set(1);
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
        self.emit("coordination.k8s.io/v1", "Lease", MANAGER, severity, reason, note);
    }

    /// A pause ended by itself. Each stage says so when it takes it for over.
    pub(super) fn pause_ended(&self, pause: &Pause) {
        let note = format!(
            "the pause of {} is over: it stood until {:.0} ({})",
            pause.scope, pause.until, pause.reason
        );
        tracing::info!(scope = %pause.scope, until = %pause.until, "Pause ended by itself");
        self.emit("v1", "ConfigMap", NAME, Severity::Normal, "PauseExpired", note);
    }

    fn emit(
        &self,
        api_version: &'static str,
        kind: &'static str,
        name: &str,
        severity: Severity,
        reason: &'static str,
        note: String,
    ) {
        self.recorder.emit(Draft {
            regarding: Regarding {
                api_version,
                kind,
                namespace: NAMESPACE.to_owned(),
                name: name.to_owned(),
                ..Regarding::default()
            },
            severity,
            reason,
            action: reason,
            note,
            annotations: Vec::new(),
        });
    }
}
