//! One fault at every place of a situation.

use std::time::Duration;

use super::boundary::Boundary;
use super::play::{Ended, play_with};
use super::situations::Situation;
use crate::StageName;
use crate::fixture::Error;
use crate::parallel;

/// What came of one situation.
#[derive(Clone, Debug, Default)]
pub struct Enumerated {
    /// How many places there were, each played once.
    pub places: usize,
    /// What went wrong, by place.
    pub failures: Vec<(Boundary, Vec<String>)>,
}

impl Enumerated {
    /// Plays a situation once undisturbed, and once for every place of a fault, as far as it is one of these
    /// stages'.
    ///
    /// # Errors
    /// A cluster could not be set up.
    pub fn play(situation: &Situation, stages: &[StageName]) -> Result<Self, Error> {
        let calm = play_with(&situation.story, None)?;
        let mut places = Boundary::all(&calm.counts);
        places.retain(|place| stages.contains(&place.stage()));
        let mut failures = Vec::new();
        let mut stopped = None;
        let work = |place: &Boundary| disturb(situation, &calm, *place);
        parallel::each(&places, parallel::jobs(), work, |nth, found| match found {
            Ok(found) if found.is_empty() => {}
            Ok(found) => failures.push((places[nth], found)),
            Err(error) => stopped = Some(error),
        });
        if let Some(error) = stopped {
            return Err(error);
        }
        Ok(Self {
            places: places.len(),
            failures,
        })
    }
}

/// What is wrong after a fault at this place: broken invariants, and an end that differs from the undisturbed one.
fn disturb(situation: &Situation, calm: &Ended, place: Boundary) -> Result<Vec<String>, Error> {
    let moment = match place {
        Boundary::BeforeRecord(stage, nth) => calm.moment_of(stage, nth),
        _ => Duration::ZERO,
    };
    let ended = play_with(&situation.story, Some((place, moment)))?;
    let mut failures = ended.failures();
    failures.extend(calm.state.differences(&ended.state));
    Ok(failures)
}
