//! Many runs, and what they come to together.

use std::collections::BTreeMap;
use std::ops::Range;

use super::agreement::Agreement;
use super::invariants::{self, Verdict};
use super::play::{Ended, play};
use super::story::Story;
use crate::fixture::Error;
use crate::parallel;

/// What is said of an answer that does not agree.
const AGREEMENT: &str = "what is explained agrees with what the API says happened";

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// Runs.
    pub runs: u64,
    /// Premises of each invariant, in all runs together.
    pub premises: BTreeMap<&'static str, u64>,
    /// What upstream would do as well, in its profile.
    pub excused: BTreeMap<&'static str, u64>,
    /// What `bailiff explain` answered about pods, held against what happened to them; what disagrees is among the failures.
    pub agreement: Agreement,
    /// What went wrong, by seed: one sentence each.
    pub failures: BTreeMap<u64, Vec<String>>,
}

// === impl Campaign ===

impl Campaign {
    /// Plays the stories of these seeds, on as many threads as there are processors; `told` hears of every run that ended.
    ///
    /// # Errors
    /// A cluster could not be set up.
    pub fn play(seeds: Range<u64>, mut told: impl FnMut(u64)) -> Result<Self, Error> {
        let seeds: Vec<u64> = seeds.collect();
        let mut campaign = Ok(Self::default());
        let work = |seed: &u64| play(&Story::from_seed(*seed));
        parallel::each(&seeds, parallel::jobs(), work, |nth, ended| {
            match (&mut campaign, ended) {
                (Ok(campaign), Ok(ended)) => campaign.add(seeds[nth], ended),
                (Ok(_), Err(error)) => campaign = Err(error),
                (Err(_), _) => {}
            }
            told(seeds[nth]);
        });
        campaign
    }

    fn add(&mut self, seed: u64, ended: Ended) {
        self.runs += 1;
        let failures = ended.failures();
        self.agreement.merge(&ended.agreement);
        for (name, Verdict { premises, excused, .. }) in ended.verdicts {
            *self.premises.entry(name).or_default() += premises;
            if excused > 0 {
                *self.excused.entry(name).or_default() += excused;
            }
        }
        if !failures.is_empty() {
            self.failures.insert(seed, failures);
        }
    }

    /// Invariants that nothing could have broken: they proved nothing.
    pub fn idle(&self) -> Vec<&'static str> {
        let names = invariants::ALL.iter().map(|invariant| invariant.name);
        names
            .filter(|name| self.premises.get(name).is_none_or(|count| *count == 0))
            .collect()
    }
}

// === impl Ended ===

impl Ended {
    /// What went wrong, one sentence each.
    pub fn failures(&self) -> Vec<String> {
        let broken = self.verdicts.iter().flat_map(|(name, verdict)| {
            let violations = verdict.violations.iter();
            violations.map(move |violation| format!("{name}: {violation}"))
        });
        let ended = self
            .stages_ended
            .iter()
            .map(|stage| format!("the {} ended by itself", stage.as_str()));
        let wrong = self.agreement.wrong.iter().map(|wrong| format!("{AGREEMENT}: {wrong}"));
        broken.chain(ended).chain(wrong).collect()
    }
}
