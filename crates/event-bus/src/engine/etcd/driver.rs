//! The connection of a replica to etcd: appends its entries, follows the log, keeps its presence, writes snapshots, compacts.
//!
//! Nothing is decided here but when to ask which member.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_model::Now;
use bailiff_runtime::Seed;
use tokio::sync::{Notify, mpsc, watch};

use super::client::{self, Client, Error, Member};
use super::keys::Keys;
use super::load;
use super::presence::{self, Ear};
use super::replica::Replica;
use super::save::Saved;
use super::snapshot;
use super::{Etcd, Input, Output, SnapshotAfter, Standing, rpc};
use crate::engine::Limits;

/// Pause before what failed is tried again.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Steps on their way to the engine, and back.
const STEPS: usize = 256;

/// How a replica reaches etcd, and what it does there.
#[derive(Clone, Debug)]
pub struct Config {
    /// All members.
    pub members: Vec<Member>,
    /// What all keys begin with.
    pub prefix: String,
    /// Bounds and durations of the engine: the same for all replicas.
    pub limits: Limits,
    /// When snapshots are written.
    pub snapshot_after: SnapshotAfter,
    /// How often etcd's history is compacted.
    pub compact_every: Duration,
    /// How much of it is kept: whoever follows the log more slowly begins again from the snapshot.
    pub history_for: Duration,
    /// How long a replica may say nothing before the others end its sessions.
    pub presence_for: Duration,
    /// From when on a replica counts as cut off: an own entry has not come back for so long, or, while it does not take part, no entry of
    /// anybody has come. Longer than etcd takes for the election of a leader, and half of what a subscriber waits before it counts a silent
    /// bus as stale.
    pub cut_off_after: Duration,
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// etcd's data were deleted, replaced or went back in time: this bus is gone, the next one has another incarnation.
    #[error("the data in etcd are not what they were")]
    Lost,
    /// The engine is gone.
    #[error("the engine is gone")]
    Closed,
    /// What etcd holds cannot be read.
    #[error("the log cannot be read")]
    Unreadable(#[source] Error),
}

/// Owns the connection; to be [run](Driver::run) beside the engine.
pub struct Driver {
    pub(super) link: Arc<Link>,
    outputs: mpsc::Receiver<Output>,
    loaded: i64,
}

/// What the parts of the driver share.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) keys: Keys,
    pub(super) config: Config,
    pub(super) replica: String,
    /// What the bus is called if the data turn out to be gone.
    pub(super) next_incarnation: String,
    /// The revision at which the identity of the data stands.
    pub(super) meta: i64,
    inputs: mpsc::Sender<Input>,
    wake: Arc<Notify>,
    /// The snapshot that stands.
    saved: Mutex<Saved>,
    /// The newest revision that etcd has committed for this replica, that of its newest entry, and up to which the watch has told.
    pub(super) committed: AtomicI64,
    pub(super) appended: AtomicI64,
    pub(super) told: watch::Sender<i64>,
    /// The newest entry that was told.
    newest: Mutex<Newest>,
    pub(super) ear: Ear,
    pub(super) left: Notify,
    pub(super) lease: AtomicI64,
    pub(super) standing: Arc<Mutex<Standing>>,
}

/// An entry by which it is seen whether the store knows what it knew.
#[derive(Clone, Debug, Default)]
pub(super) struct Newest {
    pub(super) revision: u64,
    /// Where it is; `None`: in the snapshot.
    pub(super) key: Option<Vec<u8>>,
}

// === impl Config ===

impl Config {
    /// The defaults, for these members.
    pub fn new(members: Vec<Member>) -> Self {
        Self {
            members,
            prefix: "/bailiff/event-bus/".to_owned(),
            limits: Limits::default(),
            snapshot_after: SnapshotAfter::default(),
            compact_every: Duration::from_secs(5 * 60),
            history_for: Duration::from_secs(15 * 60),
            presence_for: Duration::from_secs(10),
            cut_off_after: Duration::from_secs(5),
        }
    }
}

/// Reads what etcd holds. The engine takes commands once it is a member, which it becomes while the driver runs and it is polled.
///
/// # Errors
/// etcd does not answer, or holds what cannot be read.
pub async fn connect(config: &Config, seed: &Seed, now: impl Fn() -> Now) -> Result<(Etcd, Driver), Error> {
    let keys = Keys::new(&config.prefix, &config.limits);
    let members = config.members.len().max(1) as u64;
    let first = usize::try_from(seed.fork("etcd member").below(members)).unwrap_or(0);
    let client = Client::new(&config.members, first);
    // etcd gives no lease id twice: so it names the replica, whatever seeds are used.
    let lease = client.grant(config.presence_for).await?;
    let fresh = format!("{}-{lease:x}", seed.uuid());
    let loaded = load::load(&client, &keys, &config.limits, &fresh).await?;
    let (inputs, from_driver) = mpsc::channel(STEPS);
    let (to_driver, outputs) = mpsc::channel(STEPS);
    let wake = Arc::new(Notify::new());
    let replica = format!("{lease:016x}");
    let link = Link {
        client,
        keys,
        config: config.clone(),
        replica: replica.clone(),
        next_incarnation: format!("{}-{lease:x}", seed.uuid()),
        meta: loaded.meta,
        inputs,
        wake: Arc::clone(&wake),
        saved: Mutex::new(loaded.snapshot),
        committed: AtomicI64::new(loaded.revision),
        appended: AtomicI64::new(loaded.revision),
        told: watch::Sender::new(loaded.revision),
        newest: Mutex::new(Newest {
            revision: loaded.machine.position,
            key: loaded.newest,
        }),
        ear: Ear::new(),
        left: Notify::new(),
        lease: AtomicI64::new(lease),
        standing: Arc::default(),
    };
    let mut replica = Replica::new(replica, loaded.machine, now());
    replica.snapshot_taken(loaded.snapshot_bytes, loaded.since_snapshot);
    let standing = Arc::clone(&link.standing);
    let engine = Etcd::new(loaded.incarnation, replica, (from_driver, to_driver), wake, standing, config);
    let driver = Driver {
        link: Arc::new(link),
        outputs,
        loaded: loaded.revision,
    };
    Ok((engine, driver))
}

// === impl Driver ===

impl Driver {
    /// Begins the bus anew: what etcd holds is older than what was seen of it.
    pub(super) async fn begin_anew(self) -> End {
        self.link.begin_anew().await
    }

    /// Serves the engine until the data in etcd are not what they were, or the engine is gone.
    pub async fn run(self) -> End {
        let Self {
            link,
            mut outputs,
            loaded,
        } = self;
        let (appends, to_append) = mpsc::channel(STEPS);
        let (snapshots, to_write) = mpsc::channel(1);
        let sorting = async {
            while let Some(output) = outputs.recv().await {
                match output {
                    Output::Append(append) => drop(appends.send(append).await),
                    Output::Snapshot(machine) => drop(snapshots.send(machine).await),
                    Output::Left => link.left.notify_one(),
                    Output::Forgotten => return Err(link.begin_anew().await),
                }
            }
            Err(End::Closed)
        };
        let ended: Result<Infallible, End> = tokio::select! {
            biased;
            ended = sorting => ended,
            ended = link.append_all(to_append) => ended,
            ended = link.follow(loaded) => ended,
            ended = presence::keep(&link) => ended,
            ended = link.write_snapshots(to_write) => ended,
            ended = link.compact() => ended,
        };
        match ended {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }
}

// === impl Link ===

impl Link {
    pub(super) async fn tell(&self, input: Input) -> Result<(), End> {
        self.inputs.send(input).await.map_err(|_| End::Closed)?;
        self.wake.notify_one();
        Ok(())
    }

    /// A transaction that does something only while the data are what they were.
    pub(super) async fn guarded(
        &self,
        compare: Vec<rpc::Compare>,
        success: Vec<rpc::RequestOp>,
        failure: Vec<rpc::RequestOp>,
    ) -> Result<rpc::TxnResponse, Step> {
        let meta = client::stands_at(self.keys.meta(), self.meta);
        let request = rpc::TxnRequest {
            compare: [vec![meta], compare].concat(),
            success,
            failure: [vec![client::get(self.keys.meta())], failure].concat(),
        };
        // Several are under way at a time, and may be answered in any order: only what was committed before this was sent counts.
        let committed = self.committed.load(Ordering::Relaxed);
        let response = self.client.txn(request).await.map_err(Step::Failed)?;
        let revision = response.header.map_or(0, |header| header.revision);
        let stands = response.succeeded || client::found(&response, 0).is_some_and(|kv| kv.mod_revision == self.meta);
        // Committed is committed: a store that does not know of it was put back to an older state.
        let is_older = revision < committed;
        if is_older && stands {
            return Err(Step::Ended(self.begin_anew().await));
        }
        if !stands {
            return Err(Step::Ended(End::Lost));
        }
        self.committed.fetch_max(revision, Ordering::Relaxed);
        Ok(response)
    }

    /// The data went back in time: whatever they are now is given up, unless somebody else was first.
    pub(super) async fn begin_anew(&self) -> End {
        tracing::warn!("Data in etcd went back in time: the bus begins anew");
        while let Err(error) = load::begin(&self.client, &self.keys, &self.next_incarnation, self.meta).await {
            tracing::debug!(%error, "The bus has not begun anew yet");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        End::Lost
    }

    pub(super) fn saved(&self) -> Saved {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_saved(&self, saved: Saved) {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = saved;
    }

    pub(super) fn newest(&self) -> Newest {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_newest(&self, revision: u64, key: Option<Vec<u8>>) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Newest { revision, key };
    }

    /// True if the store knows the newest entry that was told, or has it in its snapshot.
    pub(super) async fn is_known(&self) -> Result<bool, Step> {
        let Newest { revision, key } = self.newest();
        let stands = key.map(|key| client::stands_at(key, i64::try_from(revision).unwrap_or(i64::MAX)));
        let is_asked = stands.is_some();
        let snapshot = || vec![client::get(self.keys.snapshot())];
        let response = self.guarded(stands.into_iter().collect(), snapshot(), snapshot()).await?;
        if response.succeeded && is_asked {
            return Ok(true);
        }
        // What is looked up if the comparison fails comes behind the identity.
        let found = client::found(&response, usize::from(!response.succeeded));
        let manifest = found.map(|kv| prost::Message::decode(kv.value.as_slice()).unwrap_or_default());
        Ok(manifest.is_some_and(|manifest| snapshot::position(&manifest) >= revision) || revision == 0)
    }

    /// Compacts etcd's history: what is older than anybody follows is let go.
    async fn compact(&self) -> Result<Infallible, End> {
        let mut seen = VecDeque::new();
        let mut every = tokio::time::interval(self.config.compact_every);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = every.tick().await;
            seen.push_back((now, *self.told.borrow()));
            let is_old = |at: &tokio::time::Instant| now.duration_since(*at) >= self.config.history_for;
            let mut revision = None;
            while let Some((_, old)) = seen.front().filter(|(at, _)| is_old(at)) {
                revision = Some(*old);
                seen.pop_front();
            }
            if let Some(revision) = revision
                && let Err(error) = self.client.compact(revision).await
            {
                // Another replica has compacted as far already, or etcd will be asked again.
                tracing::debug!(%error, revision, "etcd was not compacted");
            }
        }
    }

    /// Who is there, and at which revision.
    pub(super) async fn present(&self) -> Result<(Vec<String>, i64), Error> {
        let prefix = self.keys.replicas();
        let (found, revision) = self.client.list(&prefix, 0, true).await?;
        let name = |kv: &rpc::KeyValue| String::from_utf8(kv.key[prefix.len()..].to_vec()).ok();
        Ok((found.iter().filter_map(name).collect(), revision))
    }
}

/// Why a step was not taken.
#[derive(Debug)]
pub(super) enum Step {
    /// It may be tried again.
    Failed(Error),
    /// It is over.
    Ended(End),
}
