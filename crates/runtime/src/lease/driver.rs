//! Carries out what the [`Elector`] wants: requests with a deadline, one timer, and the value everybody reads.

mod kubernetes;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_model::{Mono, ResourceVersion, Shard};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::elector::{Effect, Elector, Failure, Input, Observed, Periods, State};
use super::{Leadership, Lost};
use crate::args::LeaderElectionFlags;
use crate::client::LOOK;
use crate::shutdown::chain;
use crate::{Clock, Seed};

/// What is elected, and who stands.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Leases' names, but for the shard's number: [`super::lease_name`].
    pub base: String,
    /// What is stood for.
    pub shard: Shard,
    /// Who stands: unique among all candidates and over restarts.
    pub identity: String,
    /// How long and how often.
    pub periods: Periods,
}

/// Why an election ended other than by a release.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Lease was lost: to another, or because it could not be renewed in time.
    #[error("lost the lease {namespace}/{name}")]
    Lost {
        /// The Lease's namespace.
        namespace: String,
        /// The Lease's name.
        name: String,
        /// What that means.
        source: Lost,
    },
}

/// Counts leaderships, by the name kube-controller-manager's metric has.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    status: Family<Labels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: String,
}

/// The candidates of one process for the shards of one stage: they know of each other.
#[derive(Clone)]
pub struct Candidates {
    client: Client,
    metrics: Metrics,
    clock: Clock,
    seed: Seed,
    /// One for each of them.
    seeds: Arc<Mutex<BTreeMap<String, Seed>>>,
    board: Board,
}

// === impl Candidates ===

impl fmt::Debug for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates")
            .field("board", &self.board)
            .finish_non_exhaustive()
    }
}

impl Candidates {
    /// Candidates for so many shards.
    pub fn new(client: Client, shards: u32, metrics: &Metrics, clock: &Clock, seed: &Seed) -> Self {
        Self {
            client,
            metrics: metrics.clone(),
            clock: clock.clone(),
            seed: seed.clone(),
            seeds: Arc::default(),
            board: Board::new(shards),
        }
    }

    /// Stands for election until lost or released. Spawn the future; [`Leadership`] is lost when it is dropped.
    ///
    /// `release` gives up the Lease: cancel it after whatever acts for the leader has stopped.
    pub fn elect(
        &self,
        options: Options,
        release: CancellationToken,
    ) -> (Leadership, impl Future<Output = Result<(), Error>> + Send + use<>) {
        let (state, watched) = watch::channel(State::Standby { holder: None });
        let labels = Labels { name: options.name() };
        let slack = options.periods.lease.saturating_sub(options.periods.renew_deadline);
        let asked = CancellationToken::new();
        let driver = Driver {
            api: Api::namespaced(self.client.clone(), &options.namespace),
            elector: Elector::new(options.identity.clone(), options.shard, options.periods.clone()),
            status: self.metrics.status.get_or_create(&labels).clone(),
            clock: self.clock.clone(),
            seed: self.seed_of(&options),
            board: self.board.clone(),
            asked: asked.clone(),
            last: None,
            wake: Mono::ORIGIN,
            request: None,
            state,
            options,
        };
        (Leadership::of(watched, slack, asked), driver.run(release))
    }

    /// What a candidate draws from. Who stands again draws on: else it would repeat the pauses of the last time, which are to keep
    /// candidates apart.
    fn seed_of(&self, options: &Options) -> Seed {
        let candidate = format!("lease {} {}", options.name(), options.identity);
        let mut seeds = self.seeds.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = seeds
            .entry(candidate)
            .or_insert_with_key(|candidate| self.seed.fork(candidate));
        seed.clone()
    }
}

type Request = Pin<Box<dyn Future<Output = Answer> + Send>>;

struct Answer {
    input: Input,
    lease: Option<Lease>,
}

struct Driver {
    options: Options,
    api: Api<Lease>,
    elector: Elector,
    status: Gauge,
    clock: Clock,
    seed: Seed,
    board: Board,
    /// Cancelled when another shall have the Lease.
    asked: CancellationToken,
    /// The Lease as last read: a replacement keeps what it does not know.
    last: Option<Lease>,
    wake: Mono,
    request: Option<Request>,
    state: watch::Sender<State>,
}

// === impl Options ===

impl Options {
    /// The election that these flags ask for; `service` is the Lease's name unless they name one.
    pub fn new(flags: &LeaderElectionFlags, service: &str, shard: Shard, identity: String) -> Self {
        Self {
            namespace: flags.leader_elect_resource_namespace.clone(),
            base: flags.leader_elect_resource_name.clone().unwrap_or_else(|| service.to_owned()),
            shard,
            identity,
            periods: Periods {
                lease: Duration::from_secs(flags.leader_elect_lease_duration.get().as_secs()),
                renew_deadline: flags.leader_elect_renew_deadline.get(),
                retry: flags.leader_elect_retry_period.get(),
            },
        }
    }

    /// The Lease's name.
    fn name(&self) -> String {
        super::lease_name(&self.base, self.shard.index)
    }
}

// === impl Metrics ===

impl Metrics {
    /// Metrics that are part of `metrics`.
    pub fn register(metrics: &crate::Metrics) -> Self {
        let own = Self::default();
        metrics.register("", |registry| {
            let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master";
            registry.register("leader_election_master_status", help, own.status.clone());
        });
        own
    }
}

// === impl Driver ===

impl Driver {
    async fn run(mut self, release: CancellationToken) -> Result<(), Error> {
        let mut is_released = false;
        loop {
            let input = tokio::select! {
                biased;
                () = release.cancelled(), if !is_released => { is_released = true; Input::Release }
                answer = answered(&mut self.request) => self.take(answer),
                () = tokio::time::sleep_until(self.clock.instant_of(self.wake)) => { self.wake = Mono::FAR_FUTURE; Input::Tick }
            };
            let (identity, shard) = (&self.options.identity, self.options.shard.index);
            let holds = Input::Holds(self.board.held_besides(identity, shard));
            // Only of what was just read: an old version would be refused, and asked for again at once.
            let is_read = matches!(input, Input::Got(_));
            let ask = (is_read && self.board.should_ask(identity, shard)).then_some(Input::Ask);
            let gives_up = self.board.gives_up(identity, shard);
            if gives_up {
                self.asked.cancel();
            }
            let hand_over = gives_up.then_some(Input::HandOver);
            for input in [Some(holds), hand_over, Some(input), ask].into_iter().flatten() {
                for effect in self.elector.apply(input, self.clock.now()) {
                    match effect {
                        Effect::End if is_released => return Ok(()),
                        Effect::End => return Err(self.lost()),
                        effect => self.perform(effect),
                    }
                }
            }
        }
    }

    fn take(&mut self, answer: Answer) -> Input {
        self.request = None;
        if let Input::Got(lease) = &answer.input {
            self.note(lease.as_ref());
            self.last = answer.lease;
        } else if let Input::Wrote(lease) = &answer.input {
            self.note(Some(lease));
            self.last = answer.lease;
        }
        answer.input
    }

    fn note(&self, lease: Option<&Observed>) {
        if self.asked.is_cancelled() {
            // It is on its way to another.
            return;
        }
        let holder = lease.map_or("", |lease| &*lease.record.holder);
        let wanted_by = lease.and_then(|lease| lease.wanted_by.as_deref());
        self.board.note(self.options.shard.index, holder, wanted_by);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Get => {
                let (api, name) = (self.api.clone(), self.options.name());
                self.send(async move { read(&api, &name).await });
            }
            Effect::GetLayout => {
                let (api, name) = (self.api.clone(), super::lease_name(&self.options.base, 0));
                self.send(async move { read_layout(&api, &name).await });
            }
            Effect::Create(draft) => {
                let (api, lease) = (
                    self.api.clone(),
                    kubernetes::drafted(Lease::default(), self.options.name(), draft),
                );
                self.send(async move { written(api.create(&PostParams::default(), &lease).await) });
            }
            Effect::Replace(draft, version) => {
                let lease = kubernetes::drafted(self.last.clone().unwrap_or_default(), self.options.name(), draft);
                self.replace(lease, &version);
            }
            Effect::Ask(version) => {
                let lease = kubernetes::wished(self.last.clone().unwrap_or_default(), &self.options.identity);
                self.replace(lease, &version);
            }
            Effect::Announce(state) => self.announce(state),
            Effect::Wake { at, jitter, leeway } => {
                let jitter = self.seed.below(u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX));
                let at = at + Duration::from_nanos(jitter);
                let turn = self.clock.turn_from(at, LOOK);
                self.wake = if turn <= at + leeway { turn } else { at };
            }
            Effect::End => {}
        }
    }

    fn replace(&mut self, mut lease: Lease, version: &ResourceVersion) {
        let (api, name) = (self.api.clone(), self.options.name());
        lease.metadata.resource_version = Some(version.to_string());
        self.send(async move { written(api.replace(&name, &PostParams::default(), &lease).await) });
    }

    fn send(&mut self, request: impl Future<Output = Answer> + Send + 'static) {
        // client-go's: two attempts fit into the renew deadline.
        let deadline = self.options.periods.renew_deadline / 2;
        let name = self.options.name();
        self.request = Some(Box::pin(async move {
            tokio::time::timeout(deadline, request).await.unwrap_or_else(|_| {
                tracing::warn!(lease = name, "no answer to a lease request in time");
                Answer::failed(Failure::Other)
            })
        }));
    }

    fn announce(&self, state: State) {
        let is_news = |old: &State| match (old, &state) {
            (State::Leading { epoch: old, .. }, State::Leading { epoch: new, .. }) => old != new,
            (old, new) => old != new,
        };
        let name = &self.options.name();
        self.status.set(i64::from(matches!(state, State::Leading { .. })));
        self.state.send_if_modified(|old| {
            let news = is_news(old);
            old.clone_from(&state);
            news.then(|| log(name, old)).is_some()
        });
    }

    fn lost(&self) -> Error {
        Error::Lost {
            namespace: self.options.namespace.clone(),
            name: self.options.name(),
            source: Lost,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.status.set(0);
        self.state
            .send_if_modified(|state| std::mem::replace(state, State::Lost) != State::Lost);
    }
}

fn log(lease: &str, state: &State) {
    match state {
        State::Standby { holder: Some(holder) } => tracing::info!(lease, %holder, "standing by"),
        State::Standby { holder: None } => tracing::info!(lease, "nobody leads"),
        State::Leading { epoch, .. } => tracing::info!(lease, epoch, "leading"),
        State::Lost => tracing::info!(lease, "leading no more"),
    }
}

// === impl Answer ===

impl Answer {
    fn failed(failure: Failure) -> Self {
        Self {
            input: Input::Failed(failure),
            lease: None,
        }
    }
}

async fn answered(request: &mut Option<Request>) -> Answer {
    match request {
        Some(request) => request.await,
        None => pending().await,
    }
}

async fn read(api: &Api<Lease>, name: &str) -> Answer {
    let read = |lease: Option<Lease>| Answer {
        input: Input::Got(lease.as_ref().map(kubernetes::observed)),
        lease,
    };
    get(api, name).await.map_or_else(Answer::failed, read)
}

async fn read_layout(api: &Api<Lease>, name: &str) -> Answer {
    let read = |lease: Option<Lease>| Answer {
        input: Input::GotLayout(lease.as_ref().map(kubernetes::layout)),
        lease: None,
    };
    get(api, name).await.map_or_else(Answer::failed, read)
}

/// A Lease, or that there is none.
async fn get(api: &Api<Lease>, name: &str) -> Result<Option<Lease>, Failure> {
    match api.get(name).await {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => {
            tracing::warn!(lease = name, error = %chain(&error), "cannot read the lease");
            Err(Failure::Other)
        }
    }
}

fn written(outcome: Result<Lease, kube::Error>) -> Answer {
    match outcome {
        Ok(lease) => {
            let observed = kubernetes::observed(&lease);
            if observed.version.number().is_none() {
                tracing::error!(version = %observed.version, "the lease's resourceVersion is no number: no leader can be told from an older one");
            }
            Answer {
                input: Input::Wrote(observed),
                lease: Some(lease),
            }
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            tracing::info!(code = status.code, message = %status.message, "the lease was not written: another was faster, or deleted it");
            Answer::failed(Failure::Conflict)
        }
        Err(error) => {
            tracing::warn!(error = %chain(&error), "cannot write the lease");
            Answer::failed(Failure::Other)
        }
    }
}

#[cfg(test)]
mod tests;
