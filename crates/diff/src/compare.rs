//! Where two sides differ. Pure: what they answer and the time are inputs, findings are outputs.
//!
//! Two implementations never speak at the same moment. So an answer is *agreed* if the other side gives the same within the tolerance,
//! before or after; *passing* if it was taken back, the other side never gave it, and both gave the same answer meanwhile; and *differs* if
//! they did not. What is acted on in its turn has a longer tolerance of its own. Silence is no answer: while one side cannot
//! be heard nothing is judged, what it may have missed is never judged, and the tolerance of what stands begins anew when both are heard
//! again.

mod course;
mod pair;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::Mono;

use self::course::Course;
use self::pair::Pair;
use crate::answer::{Answer, Key, Side};
use crate::score::Score;

/// Differences about objects that are gone which are remembered, so that one is not counted twice.
const GONE: usize = 10_000;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The sides answer differently, for longer than the tolerance.
    Differs {
        /// The question.
        key: Key,
        /// What the incumbent answers; `None`: nothing, which means that nothing is wanted.
        incumbent: Option<Answer>,
        /// What the candidate answers.
        candidate: Option<Answer>,
    },
    /// Both decided the same.
    Agrees {
        /// The question.
        key: Key,
        /// What both answer.
        answer: Option<Answer>,
        /// Who was later.
        late: Side,
        /// By how much.
        lag: Duration,
    },
    /// They differed, and answer the same again.
    Settled {
        /// The question.
        key: Key,
        /// What both answer.
        answer: Option<Answer>,
        /// How long after that was told.
        after: Duration,
    },
}

/// By how much one side may be later than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// With an answer.
    pub within: Duration,
    /// With one that is acted on when its turn comes; not below `within`.
    pub turn: Duration,
}

/// The comparison of two sides.
#[derive(Debug)]
pub struct Comparison {
    tolerance: Tolerance,
    heard: [bool; 2],
    /// Both were heard at the same time once: what comes from then on are decisions, not what stood already.
    begun: bool,
    pairs: BTreeMap<Key, Pair>,
    due: BTreeSet<(Mono, Key)>,
    /// Told to differ, and over: the oldest first.
    gone: VecDeque<Key>,
    score: Score,
}

// === impl Comparison ===

impl Comparison {
    /// Compares answers with this tolerance.
    pub fn new(tolerance: Tolerance) -> Self {
        Self {
            tolerance,
            heard: [false; 2],
            begun: false,
            pairs: BTreeMap::new(),
            due: BTreeSet::new(),
            gone: VecDeque::new(),
            score: Score::default(),
        }
    }

    /// A side is heard in full, or is not.
    pub fn heard(&mut self, side: Side, is_heard: bool, now: Mono) {
        let was_judging = self.is_judging();
        self.heard[side as usize] = is_heard;
        if !self.is_judging() || was_judging {
            return;
        }
        if !self.begun {
            self.begun = true;
            let within = self.tolerance.within;
            let stands = |pair: &&Pair| pair.course(Side::Incumbent).current().is_some() && pair.is_same(within);
            self.score.standing = self.pairs.values().filter(stands).count() as u64;
        }
        let open: Vec<Key> = self.due.iter().map(|(_, key)| key.clone()).collect();
        for key in open {
            if let Some(pair) = self.pairs.get_mut(&key) {
                pair.begin_anew(now);
            }
            self.plan(&key);
            self.forget_if_over(&key);
        }
    }

    /// Both sides are heard.
    pub fn is_judging(&self) -> bool {
        self.heard.iter().all(|heard| *heard)
    }

    /// A side answers; `None`: nothing is wanted.
    pub fn answer(&mut self, side: Side, key: Key, answer: Option<Answer>, now: Mono) -> Vec<Finding> {
        let (within, is_judging, begun) = (self.tolerance.within, self.is_judging(), self.begun);
        if answer.is_none() && !self.pairs.contains_key(&key) {
            return Vec::new();
        }
        let pair = self.pairs.entry(key.clone()).or_insert_with(|| Pair::new(now));
        // What was done cannot be called off: this side stops wanting something because there is nothing left to want.
        let is_done = |side| pair.course(side).current().is_some_and(|done| done.is_final);
        if answer.is_none() && Side::BOTH.into_iter().any(is_done) {
            self.over(side, &key);
            return Vec::new();
        }
        let was_same = pair.is_same(within);
        if !pair.course_mut(side).give(answer, now, within, begun) {
            let is_same = pair.is_same(within);
            if is_same == was_same {
                return Vec::new();
            }
            // It tells now how it is done, and that is not how the other side does it; or it does not tell that any more.
            if !is_same {
                pair.course_mut(side).judge_anew(now, begun);
            }
            pair.note_apart(now, within);
            let settled = pair.settle(&key, now, within);
            self.score.settled += u64::from(settled.is_some());
            self.plan(&key);
            return settled.into_iter().collect();
        }
        let agrees = pair.find_counterpart(side, now, within).filter(|_| is_judging).map(|lag| {
            self.score.agree(side, lag);
            Finding::Agrees {
                key: key.clone(),
                answer: pair.course(side).current().cloned(),
                late: side,
                lag,
            }
        });
        pair.note_apart(now, within);
        let settled = pair.settle(&key, now, within);
        self.score.settled += u64::from(settled.is_some());
        self.plan(&key);
        self.forget_if_over(&key);
        agrees.into_iter().chain(settled).collect()
    }

    /// Notes when a question is to be judged next.
    fn plan(&mut self, key: &Key) {
        let Some(pair) = self.pairs.get_mut(key) else { return };
        let due = pair.next_due(self.tolerance);
        if due != pair.due {
            if let Some(before) = pair.due {
                self.due.remove(&(before, key.clone()));
            }
            self.due.extend(due.map(|due| (due, key.clone())));
            pair.due = due;
        }
    }

    /// The object of a question is gone: what a side answered last is what it decided, and it is not asked again.
    pub fn over(&mut self, side: Side, key: &Key) {
        if let Some(pair) = self.pairs.get_mut(key) {
            pair.course_mut(side).is_over = true;
            self.forget_if_over(key);
        }
    }

    /// What a side answers something to. Of what is missing when it says everything anew, nothing is wanted any more.
    pub fn questions(&self, side: Side) -> impl Iterator<Item = &Key> {
        self.pairs
            .iter()
            .filter(move |(_, pair)| pair.course(side).current().is_some() && !pair.course(side).is_over)
            .map(|(key, _)| key)
    }

    /// When there is something to judge; `None` while there is not.
    pub fn next_due(&self) -> Option<Mono> {
        let (due, _) = self.due.first()?;
        self.is_judging().then_some(*due)
    }

    /// Judges what is due at `now`.
    pub fn judge(&mut self, now: Mono) -> Vec<Finding> {
        let mut findings = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            let Some((_, key)) = self.due.pop_first() else { break };
            let Some(pair) = self.pairs.get_mut(&key) else { continue };
            pair.due = None;
            let judged = pair.judge(now, self.tolerance);
            self.score.passing += judged.passing;
            if let Some(stood) = judged.differs {
                if stood {
                    self.score.standing_differing += 1;
                } else {
                    self.score.differing += 1;
                }
                pair.told.get_or_insert(now);
                findings.push(Finding::Differs {
                    incumbent: pair.course(Side::Incumbent).current().cloned(),
                    candidate: pair.course(Side::Candidate).current().cloned(),
                    key: key.clone(),
                });
            }
            self.plan(&key);
            self.forget_if_over(&key);
        }
        findings
    }

    /// What was found so far.
    pub fn score(&self) -> Score {
        let waits = |pair: &&Pair| pair.courses.iter().any(Course::waits);
        let differs = |pair: &&Pair| pair.told.is_some();
        let is_open = |pair: &&Pair| pair.told.is_none() && !pair.is_same(self.tolerance.within) && !waits(pair);
        Score {
            open: self.pairs.values().filter(is_open).count() as u64,
            waiting: self.pairs.values().filter(waits).count() as u64,
            still_differing: self.pairs.values().filter(differs).count() as u64,
            ..self.score.clone()
        }
    }

    /// Nothing is kept of what is decided and gone, nor of what nobody wants anything of.
    fn forget_if_over(&mut self, key: &Key) {
        let Some(pair) = self.pairs.get(key) else { return };
        let is_quiet = pair.courses.iter().all(|course| course.current().is_none() || course.is_over);
        if !is_quiet || pair.due.is_some() {
            return;
        }
        if pair.told.is_none() || pair.courses.iter().all(|course| course.is_over) {
            self.pairs.remove(key);
        } else if !self.gone.contains(key) {
            // The other side may still say the same, too late.
            self.gone.push_back(key.clone());
            if self.gone.len() > GONE
                && let Some(oldest) = self.gone.pop_front()
            {
                self.pairs.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
