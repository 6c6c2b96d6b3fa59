//! What both sides answer to one question.

use std::time::Duration;

use bailiff_model::Mono;

use super::course::{Course, same};
use super::{Finding, Tolerance};
use crate::answer::{Key, Side};

/// What both sides answer to one question.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) courses: [Course; 2],
    /// When it was told that they differ, if it was and they still do.
    pub(super) told: Option<Mono>,
    /// Since when they answer differently, without a moment in which they did not.
    apart: Option<Mono>,
    /// When it is to be judged.
    pub(super) due: Option<Mono>,
}

/// What a judgement found.
#[derive(Debug)]
pub(super) struct Judged {
    /// Answers that were taken back before they could be compared.
    pub(super) passing: u64,
    /// The sides differ; whether they did before both were heard.
    pub(super) differs: Option<bool>,
}

// === impl Pair ===

impl Pair {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            courses: [Course::new(now), Course::new(now)],
            told: None,
            apart: None,
            due: None,
        }
    }

    pub(super) fn course(&self, side: Side) -> &Course {
        &self.courses[side as usize]
    }

    pub(super) fn course_mut(&mut self, side: Side) -> &mut Course {
        &mut self.courses[side as usize]
    }

    pub(super) fn is_same(&self, within: Duration) -> bool {
        same(self.courses[0].current(), self.courses[1].current(), within)
    }

    /// Notes whether they answer differently, and since when.
    pub(super) fn note_apart(&mut self, now: Mono, within: Duration) {
        self.apart = if self.is_same(within) {
            None
        } else {
            self.apart.or(Some(now))
        };
    }

    /// When the first of its answers is to be judged, of those that are not.
    pub(super) fn next_due(&self, tolerance: Tolerance) -> Option<Mono> {
        let given = self.courses.iter().flat_map(|course| &course.given);
        given.filter(|given| !given.is_judged).map(|given| given.due(tolerance)).min()
    }

    /// Holds what `side` just answered against what the other side answers, or answered a moment ago and took back unheard. Returns
    /// by how much it came later, where both answers find their counterpart by it.
    pub(super) fn find_counterpart(&mut self, side: Side, now: Mono, within: Duration) -> Option<Duration> {
        let answer = self.course(side).current().cloned();
        let other = self.course_mut(side.other());
        let last = other.given.len().saturating_sub(1);
        // Whoever follows repeats in order: the oldest that was not repeated yet comes first.
        let found = other.given.iter().enumerate().position(|(place, given)| {
            let is_recent = given.until.is_none_or(|until| until + within >= now);
            let is_free = place == last || !given.is_judged;
            is_recent && is_free && same(given.answer.as_ref(), answer.as_ref(), within)
        })?;
        let counterpart = &mut other.given[found];
        let was_open = !counterpart.is_judged;
        counterpart.is_judged = true;
        let from = counterpart.from;
        // It was taken back, and what came after it was held against what this side said before: that is to be seen again.
        if found != last
            && !answer.as_ref().is_some_and(|answer| answer.is_final)
            && let Some(given) = other.given.back_mut()
        {
            given.is_judged = false;
            given.from = now;
        }
        if let Some(given) = self.course_mut(side).given.back_mut() {
            given.is_judged = true;
        }
        was_open.then(|| now.saturating_since(from))
    }

    /// What one side may have missed is not judged, and what stands begins anew.
    pub(super) fn begin_anew(&mut self, now: Mono) {
        self.apart = self.apart.map(|_| now);
        let is_alone = |pair: &Self, side: Side| {
            let other = pair.course(side.other());
            other.given.len() == 1 && other.current().is_none()
        };
        for side in Side::BOTH {
            let is_alone = is_alone(self, side);
            let course = self.course_mut(side);
            let is_past = is_alone && (course.is_over || course.current().is_some_and(|answer| answer.is_final));
            for given in &mut course.given {
                given.is_judged |= is_past || given.until.is_some();
                if !given.is_judged {
                    given.from = given.from.max(now);
                }
            }
        }
    }

    /// Judges what is due: what was taken back in time, and what stands.
    pub(super) fn judge(&mut self, now: Mono, tolerance: Tolerance) -> Judged {
        let is_same = self.is_same(tolerance.within);
        let is_apart = self.apart.is_some_and(|since| since + tolerance.within <= now);
        let waits = self.courses.iter().any(Course::waits);
        let (mut passing, mut differs) = (0, None);
        for given in self.courses.iter_mut().flat_map(|course| &mut course.given) {
            if given.is_judged || given.due(tolerance) > now {
                continue;
            }
            given.is_judged = true;
            if is_same || (given.until.is_some() && (waits || !is_apart)) {
                passing += u64::from(given.until.is_some() && given.answer.is_some());
            } else {
                differs = Some(differs.unwrap_or(true) && given.stood);
            }
        }
        if differs.is_some() {
            // Both are told.
            for given in self.courses.iter_mut().flat_map(|course| &mut course.given) {
                given.is_judged = true;
            }
        }
        Judged { passing, differs }
    }

    /// They differed, and do not any more.
    pub(super) fn settle(&mut self, key: &Key, now: Mono, within: Duration) -> Option<Finding> {
        if self.told.is_none() || !self.is_same(within) {
            return None;
        }
        let since = self.told.take()?;
        Some(Finding::Settled {
            key: key.clone(),
            answer: self.course(Side::Incumbent).current().cloned(),
            after: now.saturating_since(since),
        })
    }
}
