//! Where two sides differ. Pure: what they answer and the time are inputs, findings are outputs.
//!
//! Two implementations never speak at the same moment. So an answer is *agreed* if the other side gives the same within the tolerance,
//! before or after; *passing* if it was taken back sooner than that, and the other side never gave it; and *differs* if it still stands
//! then and the other side answers otherwise. What is acted on in its turn has a longer tolerance of its own. Silence is no answer: while one side cannot be heard, nothing is judged, and the
//! tolerance of all that is open begins anew when both are heard again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_model::Mono;
use jiff::SignedDuration;

use crate::answer::{Answer, Key, Side};
use crate::score::Score;

/// Answers remembered of one side to one question: whoever changes its mind more often within the tolerance is compared by the latest.
const REMEMBERED: usize = 8;

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
    score: Score,
}

/// What both sides answer to one question.
#[derive(Debug)]
struct Pair {
    courses: [Course; 2],
    /// Since when they differ, if that was told.
    told: Option<Mono>,
}

/// What one side answered; the last is what it answers.
#[derive(Debug)]
struct Course {
    given: VecDeque<Given>,
    /// Nothing more will be answered: the object is gone.
    is_over: bool,
}

/// An answer that was given.
#[derive(Clone, Debug)]
struct Given {
    answer: Option<Answer>,
    from: Mono,
    until: Option<Mono>,
    /// It was compared.
    is_judged: bool,
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
            let stands = |pair: &&Pair| Side::BOTH.iter().all(|side| pair.course(*side).current().is_some());
            self.score.standing = self.pairs.values().filter(stands).count() as u64;
        }
        let open: BTreeSet<Key> = std::mem::take(&mut self.due).into_iter().map(|(_, key)| key).collect();
        for key in open {
            let Some(pair) = self.pairs.get_mut(&key) else { continue };
            for given in pair.courses.iter_mut().flat_map(|course| &mut course.given) {
                if !given.is_judged {
                    given.from = given.from.max(now);
                }
            }
            if let Some(due) = pair.next_due(self.tolerance) {
                self.due.insert((due, key));
            }
        }
    }

    /// Both sides are heard.
    pub fn is_judging(&self) -> bool {
        self.heard.iter().all(|heard| *heard)
    }

    /// A side answers; `None`: nothing is wanted.
    pub fn answer(&mut self, side: Side, key: Key, answer: Option<Answer>, now: Mono) -> Option<Finding> {
        let (tolerance, within) = (self.tolerance, self.tolerance.within);
        if answer.is_none() && !self.pairs.contains_key(&key) {
            return None;
        }
        let pair = self.pairs.entry(key.clone()).or_insert_with(|| Pair::new(now));
        // What was done cannot be called off: this side stops wanting something because there is nothing left to want.
        if answer.is_none() && pair.course(side.other()).current().is_some_and(|done| done.is_final) {
            self.over(side, &key);
            return None;
        }
        if !pair.course_mut(side).give(answer, now, within) {
            return None;
        }
        let agrees = pair.find_counterpart(side, now, within).filter(|_| self.begun).map(|lag| {
            self.score.agree(side, lag);
            Finding::Agrees {
                key: key.clone(),
                answer: pair.course(side).current().cloned(),
                late: side,
                lag,
            }
        });
        if let Some(due) = pair.next_due(tolerance) {
            self.due.insert((due, key.clone()));
        }
        let finding = pair.settle(&key, now, within);
        if finding.is_some() {
            self.score.settled += 1;
        }
        self.forget_if_over(&key);
        finding.or(agrees)
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
            self.score.passing += pair.let_pass(now, self.tolerance.within);
            let differs = pair.differ(now, self.tolerance);
            if let Some(due) = pair.next_due(self.tolerance).filter(|due| *due > now) {
                self.due.insert((due, key.clone()));
            }
            if differs {
                if pair.told.is_none() {
                    self.score.differing += 1;
                    pair.told = Some(now);
                }
                findings.push(Finding::Differs {
                    incumbent: pair.course(Side::Incumbent).current().cloned(),
                    candidate: pair.course(Side::Candidate).current().cloned(),
                    key: key.clone(),
                });
            }
            self.forget_if_over(&key);
        }
        findings
    }

    /// What was found so far.
    pub fn score(&self) -> Score {
        let waits = |pair: &&Pair| pair.courses.iter().any(Course::waits);
        let differs = |pair: &&Pair| pair.told.is_some();
        Score {
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
        let is_open = pair.next_due(self.tolerance).is_some();
        let is_quiet = pair.courses.iter().all(|course| course.current().is_none() || course.is_over);
        if is_quiet && !is_open && (pair.told.is_none() || pair.courses.iter().all(|course| course.is_over)) {
            self.pairs.remove(key);
        }
    }
}

// === impl Pair ===

impl Pair {
    fn new(now: Mono) -> Self {
        Self {
            courses: [Course::new(now), Course::new(now)],
            told: None,
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
        let found = other.given.iter_mut().enumerate().rev().find(|(place, given)| {
            let is_recent = given.until.is_none_or(|until| until + within >= now);
            let is_free = *place == last || !given.is_judged;
            is_recent && is_free && same(given.answer.as_ref(), answer.as_ref(), within)
        });
        let (_, counterpart) = found?;
        let was_open = !counterpart.is_judged;
        counterpart.is_judged = true;
        let from = counterpart.from;
        if let Some(given) = self.course_mut(side).given.back_mut() {
            given.is_judged = true;
        }
        was_open.then(|| now.saturating_since(from))
    }

    /// Answers that were taken back before they could be compared; returns how many.
    fn let_pass(&mut self, now: Mono, within: Duration) -> u64 {
        let mut passing = 0;
        for given in self.courses.iter_mut().flat_map(|course| &mut course.given) {
            if !given.is_judged && given.until.is_some_and(|until| until + within <= now) {
                given.is_judged = true;
                passing += u64::from(given.answer.is_some());
            }
        }
        passing
    }

    /// True if an answer stands for long enough, and the other side's is another one; it is judged by that.
    fn differ(&mut self, now: Mono, tolerance: Tolerance) -> bool {
        let is_same = self.is_same(tolerance.within);
        let mut found = false;
        for given in self.courses.iter_mut().filter_map(|course| course.given.back_mut()) {
            if !given.is_judged && given.due(tolerance) <= now {
                given.is_judged = true;
                found |= !is_same;
            }
        }
        if found {
            // Both are told.
            for given in self.courses.iter_mut().filter_map(|course| course.given.back_mut()) {
                given.is_judged = true;
            }
        }
        found
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
    fn give(&mut self, answer: Option<Answer>, now: Mono, within: Duration) -> bool {
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
