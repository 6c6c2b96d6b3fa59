//! Budgets for disruption, where evictions ask them.

use super::super::story::{Method, Terms};
use super::super::timeline::{Pod, PodNow, Timeline, World};
use super::{ROUNDING, Verdict, evictions::evictions};

/// Whether the budget of the story is about this pod.
pub(super) fn guards(world: &World, pod: &Pod) -> bool {
    world.budget.is_some() && pod.labels.get("app").is_some_and(|app| app == "web")
}

/// An eviction leaves as many pods healthy as the budget wants, unless it has waited for as long as it must.
pub(super) fn budgets_are_respected(timeline: &Timeline, terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    let patience = match terms.method {
        Method::Delete => return verdict,
        Method::Evict => None,
        Method::EvictThenDelete(after) => Some(after),
    };
    evictions(timeline, terms, |world, eviction| {
        let pod = &eviction.pod.pod;
        let Some((least, since)) = world.budget else { return };
        // What does not run disrupts nobody.
        if !guards(world, pod) || !pod.is_running || eviction.at.saturating_since(since) < terms.latency {
            return;
        }
        verdict.premises += 1;
        // Who decides after a restart goes by `timeAdded`, which is up to a second early, and so is what waits since then (TE-102).
        let waited = eviction
            .due
            .iter()
            .min()
            .map(|due| eviction.at.saturating_since(*due) + ROUNDING);
        if patience.zip(waited).is_some_and(|(patience, waited)| waited >= patience) {
            return;
        }
        // What the API server counts is a moment old.
        let is_healthy = |now: &PodNow| now.pod.is_ready() || eviction.at.saturating_since(now.ready_since) <= terms.latency;
        // One that is not ready takes nothing away: it may go while the others, as they were counted last with it, are enough.
        let is_other = |now: &PodNow| now.pod.uid != pod.uid || !pod.is_ready();
        let counts = |now: &&PodNow| is_other(now) && guards(world, &now.pod) && now.pod.is_live() && is_healthy(now);
        let healthy = world.pods.values().filter(counts).count();
        if healthy < least {
            verdict.broken(
                eviction.at,
                format!(
                    "{} goes, which leaves {healthy} healthy pods where the budget wants {least}",
                    pod.name
                ),
            );
        }
    });
    verdict
}
