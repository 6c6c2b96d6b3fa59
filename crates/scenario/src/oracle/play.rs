//! Plays a scenario: one world, one cluster, the same things at the same times.

mod requests;
mod rig;
mod steps;
mod takeover;

use std::num::NonZeroUsize;
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{Change, Observation};

use super::differences::{self, Accepted, Profile};
use super::file::{Activation, Scenario};
use super::observe::{Kind, Observed, What, Write, observe};
use super::sut::{Controllers, Setup, USER};
use super::{Difference, compare, placeholders};
use crate::{StageOptions, parallel, world};
use rig::Rig;

pub use takeover::{take_over, take_over_all, writes};

/// From the start of the kubelets to that of the controllers.
const HEAD_START: Duration = Duration::from_millis(600);
/// Objects are made in the second half of a second, so that the controllers' first writes bear another one, as they did when it was
/// recorded: `<now>` in an object knows whole seconds.
const SECOND_HALF: Duration = Duration::from_millis(500);
/// The controllers show that they work within a second; what takes so long does not come.
const ACTIVATION: Duration = Duration::from_secs(60);
/// How often it is looked whether they do.
const GLANCE: Duration = Duration::from_millis(1);

/// What came of playing a scenario.
#[derive(Clone, Debug)]
pub struct Played {
    /// What was seen.
    pub observed: Observed,
    /// Where that is not as expected.
    pub differences: Vec<Difference>,
    /// Where the recording is not expected to be met.
    pub accepted: Vec<Accepted>,
}

/// Why a scenario could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stages do not take its flags.
    #[error("flags: {0}")]
    Flags(String),
    /// The API refused an object.
    #[error("the API refused {what} with {code}: {message}")]
    Refused {
        /// The request.
        what: String,
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// A kind or resource that the API does not have.
    #[error("the API has no {0}")]
    Unserved(String),
    /// A step cannot be done.
    #[error("step at {at} s")]
    Step {
        /// Its time.
        at: f64,
        /// Why.
        source: Box<Error>,
    },
    /// A placeholder stands for nothing.
    #[error(transparent)]
    Placeholder(#[from] placeholders::Error),
    /// The kubelets do not run.
    #[error(transparent)]
    Kubelets(#[from] bailiff_sandbox::driver::Stopped),
    /// The controllers never showed that they work.
    #[error("time zero did not come within {} s: {what}", ACTIVATION.as_secs())]
    Inactive {
        /// What is missing.
        what: String,
    },
    /// A stage ended by itself.
    #[error("{stage} ended by itself: {why}")]
    Ended {
        /// Which.
        stage: &'static str,
        /// Why.
        why: String,
    },
    /// Its difference file cannot be applied.
    #[error(transparent)]
    Differences(#[from] differences::Error),
}

/// Plays a scenario in a world of its own, on this thread, and compares.
///
/// # Errors
/// It could not be played to its end.
pub fn play(scenario: &Scenario, profile: Profile, seed: u64) -> Result<Played, Error> {
    let (expected, accepted) = differences::expected(scenario, profile)?;
    let observed = world::run(async |clock| run(scenario, profile, clock, Seed::new(seed)).await)?;
    Ok(Played {
        differences: compare(&expected, &observed),
        observed,
        accepted,
    })
}

async fn run(scenario: &Scenario, profile: Profile, clock: Clock, seed: Seed) -> Result<Observed, Error> {
    let (mut rig, options) = set_up(scenario, profile, &clock, &seed).await?;
    let setup = Setup {
        sandbox: rig.sandbox.clone(),
        clock: clock.clone(),
        seed,
        stages: scenario.stages(),
        options,
    };
    rig.controllers.push(Controllers::start(&setup, 1));
    let zero = activated(scenario, &rig).await?;
    let mut steps: Vec<_> = scenario.steps.iter().collect();
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    for step in steps {
        sleep_until(&clock, zero, step.at).await;
        let done = rig.step(&step.action, &setup).await;
        done.map_err(|error| Error::Step {
            at: step.at,
            source: Box::new(error),
        })?;
    }
    watch_to_the_end(scenario, &mut rig, zero).await
}

/// A cluster with its objects and kubelets, at the moment at which the controllers start, and with which flags they do.
async fn set_up(scenario: &Scenario, profile: Profile, clock: &Clock, seed: &Seed) -> Result<(Rig, StageOptions), Error> {
    let options = StageOptions::parse(scenario.stage_flags(profile)).map_err(|refusal| Error::Flags(refusal.to_string()))?;
    tokio::time::sleep(SECOND_HALF).await;
    let mut rig = Rig::new(scenario, clock, seed);
    rig.fill(scenario).await?;
    rig.start_kubelets(&scenario.kubelet).await?;
    tokio::time::sleep(HEAD_START).await;
    Ok((rig, options))
}

/// Waits for the end, and tells what was seen until then.
async fn watch_to_the_end(scenario: &Scenario, rig: &mut Rig, zero: Mono) -> Result<Observed, Error> {
    let end = scenario.duration.get();
    sleep_until(&rig.clock, zero, end).await;
    if let Some((stage, why)) = rig.controllers.iter_mut().find_map(Controllers::ended) {
        return Err(Error::Ended {
            stage: stage.as_str(),
            why,
        });
    }
    let history = rig.sandbox.history();
    let writes = history.iter().filter_map(|seen| write(seen, zero));
    Ok(observe(writes, end, &scenario.interchangeable))
}

/// Waits for time zero.
async fn activated(scenario: &Scenario, rig: &Rig) -> Result<Mono, Error> {
    let start = rig.clock.now().mono;
    loop {
        let missing = scenario.activation.iter().find_map(|one| match one {
            Activation::Daemonset => rig.canary_missing(),
            Activation::NodeLabel => rig.label_missing(&scenario.objects),
        });
        let now = rig.clock.now().mono;
        match missing {
            None => return Ok(now),
            Some(what) if now.saturating_since(start) >= ACTIVATION => return Err(Error::Inactive { what }),
            Some(_) => tokio::time::sleep(GLANCE).await,
        }
    }
}

async fn sleep_until(clock: &Clock, zero: Mono, at: f64) {
    tokio::time::sleep_until(clock.instant_of(zero + Duration::from_secs_f64(at))).await;
}

/// An entry of the API's history, if it is about something that is recorded.
fn write(seen: &Observation, zero: Mono) -> Option<Write> {
    let kind = match &*seen.resource {
        "nodes" => Kind::Node,
        "pods" => Kind::Pod,
        "daemonsets.apps" => Kind::DaemonSet,
        "controllerrevisions.apps" => Kind::ControllerRevision,
        "events" => Kind::Event,
        _ => return None,
    };
    let at = seen.at.mono.since_origin().as_secs_f64();
    Some(Write {
        t: at - zero.since_origin().as_secs_f64(),
        by_controllers: &*seen.actor == USER,
        kind,
        what: match seen.event.change {
            Change::Added => What::Created,
            Change::Modified => What::Changed,
            Change::Deleted => What::Gone,
        },
        object: seen.event.object.value(),
        previous: seen.event.previous.as_ref().map(|object| object.value()),
    })
}

/// Plays `scenarios`, at most `jobs` at a time, and tells what came of each, in their order.
pub fn play_all(
    scenarios: &[Scenario],
    profile: Profile,
    seed: u64,
    jobs: NonZeroUsize,
    done: impl FnMut(usize, Result<Played, Error>),
) {
    parallel::each(scenarios, jobs, |scenario| play(scenario, profile, seed), done);
}
