//! Whether a program is a stage: it is run as one, against an API server and a bus made for it, and judged by what it does.
//!
//! A *suite* is what one stage is held to: items, and the situations that put them to the test. A *situation* has a *stand* of its
//! own, with kubelets, stand-ins for the stages before, and the program. Judged is behaviour, as API server and bus show it: nothing
//! here knows how a stage is built, or in which language.
//!
//! That something does not happen is judged when something else, which comes after it, has happened: nothing waits for silence.

mod acts;
pub mod candidate;
mod gate;
mod item;
mod report;
mod say;
mod stages;
mod stand;
mod timeline;
mod upstream;
mod writes;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bailiff_model::Topic;
use bailiff_runtime::Seed;
use futures::StreamExt as _;
use futures::future::BoxFuture;

pub use item::{Item, Level};
use report::Findings;
pub use report::{Report, Verdict};
pub use stand::Error;
use stand::{Premises, Setting, Stand, Stop};

/// What a stage is held to.
#[derive(Debug)]
pub struct Suite {
    /// The stage.
    pub stage: &'static str,
    /// Topics that it reads, and that a stand-in publishes.
    reads: &'static [Topic],
    /// Everything it is held to.
    pub items: &'static [&'static Item],
    situations: &'static [Situation],
    /// Situations that are played only where they are named: trials of the suite itself. What must not come before its time has a time
    /// here that is so far off that whoever does it too early is found out on the slowest machine, and that nobody waits for.
    trials: &'static [Situation],
}

/// Something that happens to a cluster, and what a stage makes of it.
#[derive(Debug)]
struct Situation {
    /// Unique within the stage; part of a file's name.
    name: &'static str,
    setting: Setting,
    /// What it puts to the test.
    items: &'static [&'static Item],
    play: fn(&mut Stand) -> BoxFuture<'_, Result<(), Stop>>,
}

/// What is judged, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Only these situations; all by which a program is judged, if there are none.
    pub only: Vec<String>,
    /// How long the program may take to do what is required, beside what it has to wait for: a grace, a toleration, its turn.
    pub patience: Duration,
    /// How many situations are played at a time.
    pub jobs: usize,
    /// Where the program's logs are kept, one for each situation.
    pub logs: PathBuf,
}

/// Told of each situation that is over.
pub trait Progress {
    /// `done` of `total` situations are over, the last of them this one.
    fn over(&mut self, situation: &str, done: usize, total: usize);
}

/// Says nothing of it.
impl Progress for () {
    fn over(&mut self, _: &str, _: usize, _: usize) {}
}

impl Suite {
    /// The suite of a stage, by the name of its program.
    pub fn of(stage: &str) -> Option<&'static Self> {
        Self::all().find(|suite| suite.stage == stage)
    }

    /// The suites of all stages, in the order of the pipeline.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        stages::SUITES.into_iter()
    }

    /// Names of the situations that a program is judged by.
    pub fn situations(&self) -> impl Iterator<Item = &'static str> {
        self.situations.iter().map(|situation| situation.name)
    }

    /// What is judged: all items, or those that the chosen situations test.
    fn judged(&self, options: &Options) -> Vec<&'static Item> {
        let tested: BTreeSet<&str> = self
            .chosen(options)
            .flat_map(|situation| situation.items)
            .map(|item| item.id)
            .collect();
        let items = self.items.iter().copied();
        items
            .filter(|item| options.only.is_empty() || tested.contains(item.id))
            .collect()
    }

    fn chosen(&self, options: &Options) -> impl Iterator<Item = &'static Situation> {
        let is_named = |situation: &&Situation| options.only.iter().any(|name| name == situation.name);
        let is_chosen = move |situation: &&Situation| options.only.is_empty() || is_named(situation);
        self.situations
            .iter()
            .filter(is_chosen)
            .chain(self.trials.iter().filter(is_named))
    }

    /// Judges a program. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When a situation cannot be set up, or the program cannot be started.
    pub async fn judge(&self, options: &Options, seed: &Seed, progress: &mut dyn Progress) -> Result<Report, Error> {
        let premises = Premises {
            command: options.command.clone(),
            patience: options.patience,
            logs: options.logs.clone(),
        };
        let chosen: Vec<&Situation> = self.chosen(options).collect();
        let total = chosen.len();
        let plays = chosen.into_iter().map(|situation| {
            let premises = &premises;
            async move { (situation.name, situation.judge(self.reads, premises, seed).await) }
        });
        let mut plays = futures::stream::iter(plays).buffer_unordered(options.jobs.max(1));
        let (mut findings, mut done) = (Findings::default(), 0);
        while let Some((name, found)) = plays.next().await {
            findings.join(found?);
            done += 1;
            progress.over(name, done, total);
        }
        let command = options.command.iter().map(|word| word.to_string_lossy().into_owned());
        Ok(Report {
            stage: self.stage,
            command: command.collect(),
            items: findings.of(&self.judged(options)),
        })
    }
}

impl Situation {
    async fn judge(&self, reads: &[Topic], premises: &Premises, seed: &Seed) -> Result<Findings, Error> {
        let mut stand = Stand::set_up(self.name, &self.setting, reads, premises, seed).await?;
        let ended = match (self.play)(&mut stand).await {
            Ok(()) => "it ended before this was tested".to_owned(),
            Err(Stop(why)) => format!("it did not come so far: {why}"),
        };
        for item in self.items {
            stand.findings.miss(item, &format!("situation {}: {ended}", self.name));
        }
        Ok(stand.take_down().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_a_suite_is_tested_by_a_situation_and_has_a_name_of_its_own() {
        for suite in Suite::all() {
            let names: BTreeSet<&str> = suite.items.iter().map(|item| item.id).collect();
            assert_eq!(names.len(), suite.items.len(), "{}: a name is there twice", suite.stage);
            let tested: BTreeSet<&str> = suite
                .situations
                .iter()
                .flat_map(|one| one.items)
                .map(|item| item.id)
                .collect();
            assert_eq!(tested, names, "{}", suite.stage);
            let trials = suite.trials.iter().map(|trial| trial.name);
            let situations: BTreeSet<&str> = suite.situations().chain(trials).collect();
            assert_eq!(
                situations.len(),
                suite.situations.len() + suite.trials.len(),
                "{}: a situation is there twice",
                suite.stage
            );
        }
    }
}
