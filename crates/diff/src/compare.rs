//! Where two sides differ. Pure: what they answer and the time are inputs, findings are outputs.
//!
//! Two implementations never speak at the same moment. So an answer is *agreed* if the other side gives the same within the tolerance,
//! before or after; *passing* if it was taken back, the other side never gave it, and both gave the same answer meanwhile; and *differs* if
//! they did not. What is acted on in its turn has a longer tolerance of its own. Silence is no answer: while one side cannot
//! be heard nothing is judged, what it may have missed is never judged, and the tolerance of what stands begins anew when both are heard
//! again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::Mono;
use jiff::SignedDuration;

use crate::answer::{Answer, Key, Side};
use crate::score::Score;

/// Answers remembered of one side to one question: whoever changes its mind more often within the tolerance is compared by the latest.
const REMEMBERED: usize = 32;

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
        /// How long they differed.
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

/// What both sides answer to one question.
#[derive(Debug)]
struct Pair {
    courses: [Course; 2],
    /// Since when they differ, if that was told.
    told: Option<Mono>,
    /// Since when they answer differently, without a moment in which they did not.
    apart: Option<Mono>,
    /// When it is to be judged.
    due: Option<Mono>,
}

/// What one side answered; the last is what it answers.
#[derive(Debug)]
struct Course {
    given: VecDeque<Given>,
    /// Nothing more will be answered: the object is gone.
    is_over: bool,
}

/// What a judgement found.
#[derive(Debug)]
struct Judged {
    /// Answers that were taken back before they could be compared.
    passing: u64,
    /// The sides differ; whether they did before both were heard.
    differs: Option<bool>,
}

/// An answer that was given.
#[derive(Clone, Debug)]
struct Given {
    answer: Option<Answer>,
    from: Mono,
    until: Option<Mono>,
    /// It was compared.
    is_judged: bool,
    /// It was given before both were heard.
    stood: bool,
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
        if !pair.course_mut(side).give(answer, now, within, begun) {
            return Vec::new();
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
        pair.apart = if pair.is_same(within) {
            None
        } else {
            pair.apart.or(Some(now))
        };
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

    /// What both sides answer differently, and for how long that was told.
    pub fn differing(&self) -> impl Iterator<Item = &Key> {
        self.pairs.iter().filter(|(_, pair)| pair.told.is_some()).map(|(key, _)| key)
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

// === impl Pair ===

impl Pair {
    fn new(now: Mono) -> Self {
        Self {
            courses: [Course::new(now), Course::new(now)],
            told: None,
            apart: None,
            due: None,
        }
    }

    fn course(&self, side: Side) -> &Course {
        &self.courses[side as usize]
    }

    fn course_mut(&mut self, side: Side) -> &mut Course {
        &mut self.courses[side as usize]
    }

    fn is_same(&self, within: Duration) -> bool {
        same(self.courses[0].current(), self.courses[1].current(), within)
    }

    /// When the first of its answers is to be judged, of those that are not.
    fn next_due(&self, tolerance: Tolerance) -> Option<Mono> {
        let given = self.courses.iter().flat_map(|course| &course.given);
        given.filter(|given| !given.is_judged).map(|given| given.due(tolerance)).min()
    }

    /// Holds what `side` just answered against what the other side answers, or answered a moment ago and took back unheard. Returns
    /// by how much it came later, where both answers find their counterpart by it.
    fn find_counterpart(&mut self, side: Side, now: Mono, within: Duration) -> Option<Duration> {
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
    fn begin_anew(&mut self, now: Mono) {
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
    fn judge(&mut self, now: Mono, tolerance: Tolerance) -> Judged {
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
    fn settle(&mut self, key: &Key, now: Mono, within: Duration) -> Option<Finding> {
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

// === impl Course ===

impl Course {
    /// Nothing was answered yet, which is the same as that nothing is wanted.
    fn new(now: Mono) -> Self {
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

    fn current(&self) -> Option<&Answer> {
        self.given.back().and_then(|given| given.answer.as_ref())
    }

    /// What it answers is to be acted on in its turn.
    fn waits(&self) -> bool {
        self.given.back().is_some_and(|given| !given.is_judged) && self.current().is_some_and(|answer| answer.in_turn)
    }

    /// Takes an answer; returns false if it is the one that was given already, whatever else is said with it.
    fn give(&mut self, answer: Option<Answer>, now: Mono, within: Duration, begun: bool) -> bool {
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
    fn due(&self, tolerance: Tolerance) -> Mono {
        match (self.until, &self.answer) {
            (Some(until), _) => until + tolerance.within,
            (None, Some(answer)) if answer.in_turn => self.from + tolerance.turn,
            (None, _) => self.from + tolerance.within,
        }
    }
}

/// Two answers say the same.
fn same(one: Option<&Answer>, other: Option<&Answer>, within: Duration) -> bool {
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
            is_close && one.says == other.says
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests;
