//! A stage's report of itself: to the bus, that it decides and that its watches are fresh; to the kubelet, that its loop turns.

use std::time::Duration;

use bailiff_cluster::watch::SILENT_AFTER;
use bailiff_event_bus::Publisher;
use bailiff_model::Mono;
use bailiff_runtime::admin::{Check, Heartbeat};
use bailiff_runtime::{GoDuration, Ticks};

use crate::env::Env;

/// How often a stage reports itself at least: twice per keepalive of the bus (2 s, design §2), so that each one carries something new.
const EVERY: Duration = Duration::from_secs(1);

/// A loop that has not turned for so long is dead: four missed stale limits of the bus (10 s). The kubelet then restarts the pod.
const DEAD_AFTER: Duration = Duration::from_secs(40);

/// What is wrong with a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Never(&'static str),
    Stale(&'static str, Duration),
}

/// Reports a stage.
#[derive(Debug)]
pub struct Beacon {
    env: Env,
    every: Ticks,
    heartbeat: Heartbeat,
    watches: Check,
}

impl Beacon {
    /// The beacon of the loop called `name`.
    pub fn new(env: &Env, name: &'static str) -> Self {
        Self {
            env: env.clone(),
            every: Ticks::new(&env.host.clock, EVERY),
            heartbeat: env.host.readiness.heartbeat(name, DEAD_AFTER),
            // Stages of one process share its checks.
            watches: env.host.readiness.check(format!("{name}: kubernetes watches")),
        }
    }

    /// Waits until the next report is due. Cancel-safe.
    pub async fn due(&mut self) {
        self.every.tick().await;
    }

    /// Reports that the loop turns now, and how fresh each of its watches is (`Watch::fresh_at`; `None`: it never was).
    pub fn report(&self, publisher: &Publisher, watches: &[(&'static str, Option<Mono>)]) {
        self.heartbeat.beat();
        let now = self.env.host.clock.now().mono;
        match trouble(watches, now) {
            Some(Trouble::Never(name)) => self.watches.fail(format!("{name}: the API server has not answered yet")),
            // Another process would hear no more; what is held meanwhile is the core's to say.
            Some(Trouble::Stale(name, age)) => self.watches.note(format!(
                "{name}: no sign of life from the API server for {}",
                GoDuration::new(age)
            )),
            None => self.watches.ok(),
        }
        publisher.report(now, least_fresh(watches, now));
    }
}

/// When the least fresh of the watches gave a sign of life; `now` if there are none, `None` if one never did: the shard is not live
/// then, however young the process.
fn least_fresh(watches: &[(&'static str, Option<Mono>)], now: Mono) -> Option<Mono> {
    watches
        .iter()
        .try_fold(now, |least, (_, last)| last.map(|last| least.min(last)))
}

/// The worst trouble: a watch that never gave a sign of life, else the one that was silent longest.
fn trouble(watches: &[(&'static str, Option<Mono>)], now: Mono) -> Option<Trouble> {
    if let Some((name, _)) = watches.iter().find(|(_, last)| last.is_none()) {
        return Some(Trouble::Never(name));
    }
    let ages = watches
        .iter()
        .map(|(name, last)| (now.saturating_since(last.unwrap_or(now)), *name));
    let (age, name) = ages.max()?;
    // A watch within its contract counts as fresh now (`Watch::fresh_at`).
    (age >= SILENT_AFTER).then_some(Trouble::Stale(name, age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_watch_is_named() {
        let at = |seconds| Some(Mono::from_origin(Duration::from_secs(seconds)));
        let now = Mono::from_origin(Duration::from_secs(100));
        assert_eq!(trouble(&[], now), None);
        assert_eq!(trouble(&[("a", at(100)), ("b", at(99))], now), None);
        let stale = trouble(&[("a", at(40)), ("b", at(10)), ("c", at(100))], now);
        assert_eq!(stale, Some(Trouble::Stale("b", Duration::from_secs(90))));
        assert_eq!(trouble(&[("a", at(10)), ("b", None)], now), Some(Trouble::Never("b")));
    }

    /// `Keepalive.watch_age`: absent is not fresh.
    #[test]
    fn a_watch_that_never_gave_a_sign_of_life_is_not_reported_as_fresh() {
        let at = |seconds| Some(Mono::from_origin(Duration::from_secs(seconds)));
        let now = Mono::from_origin(Duration::from_secs(3));
        assert_eq!(least_fresh(&[("a", at(3)), ("b", None)], now), None);
        assert_eq!(least_fresh(&[("a", at(3)), ("b", at(1))], now), at(1));
        assert_eq!(least_fresh(&[], now), Some(now), "no watches, none stale");
    }
}
