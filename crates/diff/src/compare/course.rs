//! What one side answered to one question, and until when.

use std::collections::VecDeque;
use std::time::Duration;

use bailiff_model::Mono;
use jiff::SignedDuration;

use super::Tolerance;
use crate::answer::Answer;

/// Answers remembered of one side to one question: whoever changes its mind more often within the tolerance is compared by the latest.
const REMEMBERED: usize = 32;

/// What one side answered; the last is what it answers.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) given: VecDeque<Given>,
    /// Nothing more will be answered: the object is gone.
    pub(super) is_over: bool,
}

/// An answer that was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) answer: Option<Answer>,
    /// Since when it counts: given, or heard by both sides again.
    pub(super) from: Mono,
    /// When it was taken back, if it was.
    pub(super) until: Option<Mono>,
    /// It was compared.
    pub(super) is_judged: bool,
    /// It was given before both were heard.
    pub(super) stood: bool,
}

// === impl Course ===

impl Course {
    /// Nothing was answered yet, which is the same as that nothing is wanted.
    pub(super) fn new(now: Mono) -> Self {
        let nothing = Given {
            answer: None,
            from: now,
            until: None,
            is_judged: true,
            stood: false,
        };
        Self {
            given: VecDeque::from([nothing]),
            is_over: false,
        }
    }

    pub(super) fn current(&self) -> Option<&Answer> {
        self.given.back().and_then(|given| given.answer.as_ref())
    }

    /// What it answers is to be acted on in its turn.
    pub(super) fn waits(&self) -> bool {
        self.given.back().is_some_and(|given| !given.is_judged) && self.current().is_some_and(|answer| answer.in_turn)
    }

    /// What was found of its answer does not hold any more: it is to be judged as if it was given now.
    pub(super) fn judge_anew(&mut self, now: Mono, begun: bool) {
        if let Some(last) = self.given.back_mut() {
            (last.from, last.is_judged, last.stood) = (now, false, !begun);
        }
    }

    /// Takes an answer; returns false if it is the one that was given already, whatever else is said with it.
    pub(super) fn give(&mut self, answer: Option<Answer>, now: Mono, within: Duration, begun: bool) -> bool {
        if self.current().is_some_and(|current| current.is_final) {
            return false;
        }
        self.is_over = false;
        let waited = self.waits();
        if let Some(last) = self.given.back_mut() {
            if same(last.answer.as_ref(), answer.as_ref(), Duration::ZERO) {
                last.answer = answer;
                // Its turn has come: the tolerance begins.
                let begins = waited && !last.answer.as_ref().is_some_and(|answer| answer.in_turn);
                if begins {
                    last.from = now;
                }
                return begins;
            }
            last.until = Some(now);
        }
        self.given
            .retain(|given| !given.is_judged || given.until.is_some_and(|until| until + within >= now));
        if self.given.len() == REMEMBERED {
            self.given.pop_front();
        }
        self.given.push_back(Given {
            answer,
            from: now,
            until: None,
            is_judged: false,
            stood: !begun,
        });
        true
    }
}

// === impl Given ===

impl Given {
    /// When it is judged unless the other side gives the same.
    pub(super) fn due(&self, tolerance: Tolerance) -> Mono {
        match (self.until, &self.answer) {
            (Some(until), _) => until + tolerance.within,
            (None, Some(answer)) if answer.in_turn => self.from + tolerance.turn,
            (None, _) => self.from + tolerance.within,
        }
    }
}

/// Two answers say the same.
pub(super) fn same(one: Option<&Answer>, other: Option<&Answer>, within: Duration) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            let is_close = match (one.at, other.at) {
                (Some(one), Some(other)) => {
                    let within = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
                    one.duration_since(other).abs() <= within
                }
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            let is_done_alike = one.how.is_none() || other.how.is_none() || one.how == other.how;
            is_close && is_done_alike && one.says == other.says
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}
