//! Carries out what the [`Elector`] wants: requests with a deadline, one timer, and the value everybody reads.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use bailiff_model::{Mono, ResourceVersion};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::elector::{Effect, Elector, Failure, Input, Observed, Periods, Record, State, Version};
use super::{Leadership, Lost};
use crate::args::LeaderElectionFlags;
use crate::shutdown::chain;
use crate::{Clock, Seed};

/// What is elected, and who stands.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name: [`super::lease_name`].
    pub name: String,
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

/// Stands for election until lost or released. Spawn the future; [`Leadership`] is lost when it is dropped.
///
/// `release` gives up the Lease: cancel it after whatever acts for the leader has stopped.
pub fn elect(
    client: Client,
    options: Options,
    metrics: &Metrics,
    clock: &Clock,
    seed: &Seed,
    release: CancellationToken,
) -> (Leadership, impl Future<Output = Result<(), Error>> + Send + use<>) {
    let (state, watched) = watch::channel(State::Standby { holder: None });
    let labels = Labels {
        name: options.name.clone(),
    };
    let slack = options.periods.lease.saturating_sub(options.periods.renew_deadline);
    let driver = Driver {
        api: Api::namespaced(client, &options.namespace),
        elector: Elector::new(options.identity.clone(), options.periods.clone()),
        status: metrics.status.get_or_create(&labels).clone(),
        clock: clock.clone(),
        seed: seed.fork(&format!("lease {} {}", options.name, options.identity)),
        last: None,
        wake: Mono::ORIGIN,
        request: None,
        state,
        options,
    };
    (Leadership::of(watched, slack), driver.run(release))
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
    /// The Lease as last read: a replacement keeps what it does not know.
    last: Option<Lease>,
    wake: Mono,
    request: Option<Request>,
    state: watch::Sender<State>,
}

// === impl Options ===

impl Options {
    /// The election that these flags ask for; `service` is the Lease's name unless they name one.
    pub fn new(flags: &LeaderElectionFlags, service: &str, shard: u32, identity: String) -> Self {
        let base = flags.leader_elect_resource_name.as_deref().unwrap_or(service);
        Self {
            namespace: flags.leader_elect_resource_namespace.clone(),
            name: super::lease_name(base, shard),
            identity,
            periods: Periods {
                lease: Duration::from_secs(flags.leader_elect_lease_duration.get().as_secs()),
                renew_deadline: flags.leader_elect_renew_deadline.get(),
                retry: flags.leader_elect_retry_period.get(),
            },
        }
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
            for effect in self.elector.apply(input, self.clock.now()) {
                match effect {
                    Effect::End if is_released => return Ok(()),
                    Effect::End => return Err(self.lost()),
                    effect => self.perform(effect),
                }
            }
        }
    }

    fn take(&mut self, answer: Answer) -> Input {
        self.request = None;
        if !matches!(answer.input, Input::Failed(_)) {
            self.last = answer.lease;
        }
        answer.input
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Get => {
                let (api, name) = (self.api.clone(), self.options.name.clone());
                self.send(async move { read(&api, &name).await });
            }
            Effect::Create(record) => {
                let (api, mut lease) = (self.api.clone(), Lease::default());
                lease.metadata.name = Some(self.options.name.clone());
                lease.spec = Some(spec_of(record, LeaseSpec::default()));
                self.send(async move { written(api.create(&PostParams::default(), &lease).await) });
            }
            Effect::Replace(record, version) => {
                let (api, name) = (self.api.clone(), self.options.name.clone());
                let mut lease = self.last.clone().unwrap_or_default();
                lease.metadata.resource_version = Some(version.0.to_string());
                lease.spec = Some(spec_of(record, lease.spec.take().unwrap_or_default()));
                self.send(async move { written(api.replace(&name, &PostParams::default(), &lease).await) });
            }
            Effect::Announce(state) => self.announce(state),
            Effect::Wake { at, jitter } => {
                let jitter = self.seed.below(u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX));
                self.wake = at + Duration::from_nanos(jitter);
            }
            Effect::End => {}
        }
    }

    fn send(&mut self, request: impl Future<Output = Answer> + Send + 'static) {
        // client-go's: two attempts fit into the renew deadline.
        let deadline = self.options.periods.renew_deadline / 2;
        let name = self.options.name.clone();
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
        let name = &self.options.name;
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
            name: self.options.name.clone(),
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
    let outcome = match api.get(name).await {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(lease) => Answer {
            input: Input::Got(lease.as_ref().map(observed_of)),
            lease,
        },
        Err(error) => {
            tracing::warn!(lease = name, error = %chain(&error), "cannot read the lease");
            Answer::failed(Failure::Other)
        }
    }
}

fn written(outcome: Result<Lease, kube::Error>) -> Answer {
    match outcome {
        Ok(lease) => {
            let observed = observed_of(&lease);
            if observed.version.number().is_none() {
                tracing::error!(version = %observed.version.0, "the lease's resourceVersion is no number: no leader can be told from an older one");
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

fn observed_of(lease: &Lease) -> Observed {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Observed {
        record: Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds.unwrap_or(0)),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
        },
        version: Version(ResourceVersion::from(lease.resource_version().unwrap_or_default().as_str())),
    }
}

fn spec_of(record: Record, keep: LeaseSpec) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(record.holder),
        lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
        acquire_time: record.acquired.map(MicroTime),
        renew_time: record.renewed.map(MicroTime),
        lease_transitions: Some(record.transitions),
        ..keep
    }
}

#[cfg(test)]
mod tests;
