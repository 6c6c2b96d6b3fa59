//! A stage's report of itself: to the bus, that it decides and that its watches are fresh; to the kubelet, that its loop turns.

use std::time::Duration;

use bailiff_event_bus::Publisher;
use bailiff_model::Mono;
use bailiff_runtime::admin::{Check, Heartbeat};
use tokio::time::{Interval, MissedTickBehavior};

use crate::env::Env;

/// How often a stage reports itself: twice per keepalive of the bus (2 s, design §2), so that each one carries something new.
const EVERY: Duration = Duration::from_secs(1);

/// A loop that has not turned for so long is dead: four missed stale limits of the bus (10 s). The kubelet then restarts the pod.
const DEAD_AFTER: Duration = Duration::from_secs(40);

/// Reports a stage.
#[derive(Debug)]
pub struct Beacon {
    env: Env,
    every: Interval,
    heartbeat: Heartbeat,
    watches: Check,
}

impl Beacon {
    /// The beacon of the loop called `name`.
    pub fn new(env: &Env, name: &'static str) -> Self {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            env: env.clone(),
            every,
            heartbeat: env.readiness.heartbeat(name, DEAD_AFTER),
            watches: env.readiness.check("kubernetes watches"),
        }
    }

    /// Waits until the next report is due. Cancel-safe.
    pub async fn due(&mut self) {
        self.every.tick().await;
    }

    /// Reports that the loop turns now, and how fresh each of its watches is (`Watch::fresh_at`; `None`: it never was).
    pub fn report(&self, publisher: &Publisher, watches: &[(&'static str, Option<Mono>)]) {
        self.heartbeat.beat();
        let never = watches.iter().find(|(_, last)| last.is_none());
        match never {
            Some((name, _)) => self.watches.fail(format!("{name}: the API server has not answered yet")),
            None => self.watches.ok(),
        }
        let least_fresh = watches.iter().map(|(_, last)| last.unwrap_or(Mono::ORIGIN)).min();
        publisher.report(self.env.clock.now().mono, least_fresh);
    }
}
