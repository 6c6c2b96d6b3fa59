//! The surroundings of a running stage.
//!
//! Everything a stage needs from outside is handed to it here, so that the same shell runs in a pod of its own, beside the other
//! stages in one process, or in a world in virtual time.

use bailiff_cluster::Api;
use bailiff_event_bus::{Bus, PublishOptions, SubscribeOptions};
use bailiff_model::{Shard, Topic};
use bailiff_runtime::{Clock, Metrics, Pace, Readiness, Seed, Shutdown, Spans};

/// The surroundings of a stage; cloning it gives the same ones.
#[derive(Clone, Debug)]
pub struct Env {
    /// The API server. Its writes are refused once leadership is gone.
    pub api: Api,
    /// The bus.
    pub bus: Bus,
    /// Which part of the work is ours.
    pub shard: Shard,
    /// Epoch of the Lease that gave it to us; 0 without leader election (the bus then issues one).
    pub epoch: u64,
    /// What it has in common with the other stages of its process.
    pub host: Host,
}

/// What a process gives every stage in it; cloning it gives the same.
#[derive(Clone, Debug)]
pub struct Host {
    /// The clock.
    pub clock: Clock,
    /// The source of randomness.
    pub seed: Seed,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// What is said on `/readyz` and `/livez`.
    pub readiness: Readiness,
    /// Where spans go.
    pub spans: Spans,
    /// Ends what runs in it.
    pub shutdown: Shutdown,
    /// Who we are, on the bus, in Leases and in Events: unique per process.
    pub identity: String,
    /// Nothing but Leases is written (`--observe`).
    pub observes: bool,
}

/// Why a stage ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process took over our shard on the bus.
    #[error("fenced on topic {topic}: {detail}")]
    Fenced {
        /// The topic.
        topic: &'static str,
        /// What the bus said.
        detail: String,
    },
    /// The leader Lease is gone.
    #[error("leadership was lost: {0}")]
    LeadershipLost(String),
    /// The stage's loop came to an end although nobody asked for it.
    #[error("the stage ended by itself")]
    Ended,
}

// === impl Env ===

impl Env {
    /// How the stage called `name` follows these topics: whole, and under its own name.
    pub fn subscribing(&self, name: &str, topics: &[Topic]) -> SubscribeOptions {
        SubscribeOptions {
            topics: topics.to_vec(),
            filters: Vec::new(),
            subscriber: self.on_bus(name),
        }
    }

    /// How the stage called `name` publishes its shard of `topic`: under its own name, in the epoch of its Lease.
    pub fn publishing(&self, name: &str, topic: Topic) -> PublishOptions {
        PublishOptions {
            topic,
            shard: self.shard.index,
            shard_count: self.shard.count,
            producer: self.on_bus(name),
            epoch: self.epoch,
        }
    }

    /// Who it is on the bus.
    fn on_bus(&self, name: &str) -> String {
        format!("{name}/{}", self.host.identity)
    }
}

// === impl Host ===

impl Host {
    /// One with metrics and checks of its own, whose spans go nowhere.
    pub fn new(clock: &Clock, seed: &Seed, identity: &str) -> Self {
        Self {
            clock: clock.clone(),
            seed: seed.clone(),
            metrics: Metrics::new(),
            readiness: Readiness::new(clock),
            spans: Spans::off(),
            shutdown: Shutdown::new(),
            identity: identity.to_owned(),
            observes: false,
        }
    }

    /// The same for one shard: where there are several, metrics and checks say which.
    #[must_use]
    pub fn of_shard(&self, shard: Shard) -> Self {
        if shard.count == 1 {
            return self.clone();
        }
        let Shard { index, count } = shard;
        Self {
            seed: self.seed.fork(&format!("shard {index}")),
            metrics: self.metrics.of_shard(index),
            readiness: self.readiness.of_part(&format!("shard {index} of {count}")),
            ..self.clone()
        }
    }

    /// From here on it draws other numbers: who comes back to a shard would repeat those of the last time, such as pauses that are to
    /// keep replicas apart. The same each time it is played.
    pub fn draw_anew(&mut self) {
        self.seed = self.seed.fork("again");
    }

    /// Forgets what was measured and checked here.
    pub fn forget(&self) {
        self.metrics.forget();
        self.readiness.forget();
    }

    /// The surroundings of a stage that has `shard`, in `epoch`.
    pub fn env(self, api: Api, bus: &Bus, shard: Shard, epoch: u64) -> Env {
        Env {
            api: if self.observes { api.observing() } else { api },
            bus: bus.clone(),
            shard,
            epoch,
            host: self,
        }
    }
}

/// Does nothing until the shutdown begins: the duty of the stage called `name` was not asked for.
///
/// # Errors
/// None.
pub async fn idle(env: &Env, name: &'static str, controller: &'static str) -> Result<(), Error> {
    let note = format!("{controller} is not among --controllers: nothing to do");
    tracing::info!(stage = name, "{note}");
    env.host.readiness.check(name).note(note);
    env.host.shutdown.triggered().await;
    Ok(())
}

/// A stage: a name, its flags, and a loop.
pub trait Stage: 'static {
    /// Name of the program, of the command of `bailiff`, and of the Lease.
    const NAME: &'static str;

    /// What it is for, in one line: the head of `--help`.
    const ABOUT: &'static str;

    /// How often it wakes up at most while much happens; what comes waits for the next time. At rest no stage is near it.
    const WAKES: Pace = Pace::USUAL;

    /// Flags of its own.
    type Options: clap::Args + Clone + Send + Sync + 'static;

    /// Runs until the shutdown begins, or until the stage may not go on.
    fn run(options: Self::Options, env: Env) -> impl Future<Output = Result<(), Error>> + Send;
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;

    use super::*;

    #[test]
    fn who_comes_back_to_a_shard_draws_other_numbers_the_same_each_time_it_is_played() {
        let play = || {
            let mut host = Host::new(&Clock::virtual_from(Wall::UNIX_EPOCH), &Seed::new(7), "a");
            [(); 3].map(|()| {
                let drawn = [0, 1].map(|index| host.of_shard(Shard { index, count: 2 }).seed.next_u64());
                host.draw_anew();
                drawn
            })
        };
        let drawn = play();
        let all: std::collections::BTreeSet<u64> = drawn.into_iter().flatten().collect();
        assert_eq!((all.len(), drawn), (6, play()));
    }
}
