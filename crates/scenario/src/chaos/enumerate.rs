//! One fault at every place of a situation.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::boundary::Boundary;
use super::play::{Ended, play, play_with};
use super::situations::Situation;
use crate::fixture::Error;

/// What came of one situation.
#[derive(Clone, Debug, Default)]
pub struct Enumerated {
    /// How many places there were, each played once.
    pub places: usize,
    /// What went wrong, by place.
    pub failures: Vec<(Boundary, Vec<String>)>,
}

impl Enumerated {
    /// Plays a situation once undisturbed, and once for every place of a fault.
    ///
    /// # Errors
    /// A cluster could not be set up.
    pub fn play(situation: &Situation) -> Result<Self, Error> {
        let calm = play(&situation.story)?;
        let places = Boundary::all(&calm.places());
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Ok(Vec::new()));
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(place) = places.get(index) else { return };
                let found = disturb(situation, &calm, *place);
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                match (&mut *failures, found) {
                    (Ok(failures), Ok(found)) if !found.is_empty() => failures.push((*place, found)),
                    (Ok(_), Ok(_)) | (Err(_), _) => {}
                    (Ok(_), Err(error)) => *failures = Err(error),
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        failures.sort_by_key(|(place, _)| places.iter().position(|one| one == place));
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
