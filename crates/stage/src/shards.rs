//! The shards of a stage's work: standing for each, working on those that are led, handing one over to a replica that has fewer.

use bailiff_event_bus::Bus;
use bailiff_model::Shard;
use bailiff_runtime::admin::Check;
use bailiff_runtime::client::{Limiter, Transport};
use bailiff_runtime::lease::{self, Candidates};
use bailiff_runtime::{DeathPolicy, LeaderElectionArgs, Leadership, Shutdown, Tasks};
use tokio_util::sync::CancellationToken;

use crate::env::{Env, Error, Host, Stage};
use crate::process::{api, lease_name};

/// One replica of a stage: a process, or its like in a world.
#[derive(Clone, Debug)]
pub struct Replica {
    /// What it has.
    pub host: Host,
    /// Who stands in it, for which Leases.
    pub candidates: Candidates,
    /// Owns what acts. To be drained first.
    pub acting: Tasks,
    /// Owns the elections. To be drained after `release`.
    pub elections: Tasks,
    /// Cancelled to give the Leases up, when nothing acts any more.
    pub release: CancellationToken,
}

/// What a replica works with.
#[derive(Clone, Debug)]
pub struct Work<O> {
    /// Flags of the stage.
    pub options: O,
    /// What it reaches.
    pub reach: Reach,
}

/// What the shards of a replica reach, and share.
#[derive(Clone)]
pub struct Reach {
    /// The API server.
    pub transport: Transport,
    /// How much of it all shards may use together.
    pub limiter: Limiter,
    /// The bus.
    pub bus: Bus,
    /// How Leases are kept.
    pub leader_election: LeaderElectionArgs,
}

/// Stands for one shard.
struct Stand<O> {
    shard: Shard,
    work: Work<O>,
    replica: Replica,
}

/// Why work on a shard ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The process ends.
    Shutdown,
    /// Another replica shall have it.
    AskedAway,
}

/// Stands for every one of `count` shards. The end of the work on one of them that is not a hand-over is the end of the replica: nobody
/// may hold a Lease and do nothing with it.
pub fn stand<S: Stage>(replica: &Replica, work: &Work<S::Options>, count: u32) {
    for index in 0..count {
        let stand = Stand {
            shard: Shard { index, count },
            work: work.clone(),
            replica: replica.clone(),
        };
        replica.acting.spawn(S::NAME, DeathPolicy::EndProcess, stand.run::<S>());
    }
}

// === impl Reach ===

impl Reach {
    /// This, and the flags of a stage.
    pub const fn with<O>(self, options: O) -> Work<O> {
        Work { options, reach: self }
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").field("bus", &self.bus).finish_non_exhaustive()
    }
}

// === impl Stand ===

impl<O: Clone> Stand<O> {
    /// Stands, works and hands over, again and again.
    async fn run<S: Stage<Options = O>>(mut self) -> Result<(), Error> {
        while self.term::<S>().await? == Ended::AskedAway {
            self.replica.host.draw_anew();
            // Whoever asked takes it now. Should nobody, it is stood for again as if its holder had died.
            let lease = self.work.reach.leader_election.leader_elect_lease_duration.get();
            tokio::select! {
                biased;
                () = self.replica.host.shutdown.triggered() => break,
                () = tokio::time::sleep(lease) => {}
            }
        }
        Ok(())
    }

    /// From standing to the end of the work.
    async fn term<S: Stage<Options = O>>(&self) -> Result<Ended, Error> {
        let host = self.replica.host.of_shard(self.shard);
        let standby = host.readiness.check(format!("{}: leadership", S::NAME));
        let release = self.replica.release.child_token();
        let mut leadership = self.elect::<S>(release.clone());
        let Some(epoch) = acquired(&mut leadership, &host.shutdown, &standby).await? else {
            // Nobody would work on what it won now.
            release.cancel();
            return Ok(Ended::Shutdown);
        };
        let reach = &self.work.reach;
        let (transport, limiter) = (reach.transport.clone(), reach.limiter.clone());
        let api = api(S::NAME, transport, &host.clock, limiter, &host.metrics, &leadership);
        let env = host.clone().env(api, &reach.bus, self.shard, epoch);
        let ended = work::<S>(self.work.options.clone(), env, leadership.clone()).await?;
        if ended == Ended::AskedAway {
            tracing::info!(shard = self.shard.index, "Handing the shard over to a replica that has fewer");
            release.cancel();
            leadership.lost().await;
            host.forget();
        }
        Ok(ended)
    }

    fn elect<S: Stage>(&self, release: CancellationToken) -> Leadership {
        let flags = &self.work.reach.leader_election;
        if !flags.leader_elect {
            return Leadership::always(0);
        }
        let host = &self.replica.host;
        let name = lease_name(S::NAME, host.observes);
        let options = lease::Options::new(flags, &name, self.shard, host.identity.clone());
        let (leadership, election) = self.replica.candidates.elect(options, release);
        self.replica
            .elections
            .spawn("leader election", DeathPolicy::EndProcess, election);
        leadership
    }
}

/// Waits until the shard is ours, and answers the epoch; `None` if the shutdown came first.
pub(crate) async fn acquired(leadership: &mut Leadership, shutdown: &Shutdown, standby: &Check) -> Result<Option<u64>, Error> {
    standby.note("standby: waiting for the leader Lease");
    let won = tokio::select! {
        biased;
        () = shutdown.triggered() => return Ok(None),
        won = leadership.acquired() => won.map_err(|lost| Error::LeadershipLost(lost.to_string()))?,
    };
    standby.ok();
    Ok(Some(won))
}

/// Runs the stage until the shutdown begins, another replica shall have the shard, or the Lease is lost.
pub(crate) async fn work<S: Stage>(options: S::Options, mut env: Env, mut leadership: Leadership) -> Result<Ended, Error> {
    let (whole, asked) = (env.host.shutdown.clone(), leadership.clone());
    let part = whole.of_part();
    env.host.shutdown = part.clone();
    let stage = S::run(options, env);
    tokio::pin!(stage);
    let mut is_asked = false;
    loop {
        tokio::select! {
            biased;
            () = leadership.lost() => return Err(Error::LeadershipLost("the Lease was not renewed in time".to_owned())),
            ended = &mut stage => {
                ended?;
                return match (whole.is_triggered(), is_asked) {
                    (true, _) => Ok(Ended::Shutdown),
                    (false, true) => Ok(Ended::AskedAway),
                    (false, false) => Err(Error::Ended),
                };
            }
            () = asked.asked_away(), if !is_asked => {
                is_asked = true;
                part.trigger();
            }
        }
    }
}
