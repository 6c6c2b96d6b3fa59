//! What `bailiff explain` answers about pods, held against what the API's history says happened to them, and why.
//!
//! Of every pod that was evicted, held or spared its fate is asked: while it is threatened and nothing moves, before the bus loses its
//! memory, and in the end. The history alone says what the fate is, with taints, times, and what stood in the way; the answer must
//! say the same. Where it cannot, because what would be needed was lost or never heard, the story says so, and it is counted as excused.

mod gone;
mod lives;
mod reasons;
mod standing;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Mono, Wall};
use serde_json::Value;

use super::story::{BLIND, Terms};
use super::timeline::Timeline;
use crate::StageName;
use crate::answers::{Answer, Subject};

use lives::{Lives, PodLife};
pub(super) use trouble::Trouble;

/// For so long nothing that a fate depends on may have changed before it is asked for: what is decided of it is said by then.
pub(super) const SETTLED: Duration = Duration::from_secs(3);
/// Times of records and of the API have whole seconds here and there, and a decision takes its moment.
const MOMENT: Duration = Duration::from_millis(1200);

/// A question, and its answer.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) at: Mono,
    /// By the clock of the API, at the same time.
    pub(super) wall: Wall,
    pub(super) subject: Subject,
    pub(super) answer: Answer,
    /// The bus says that every stage that decides about pods is live, and has said everything.
    pub(super) is_live: bool,
}

/// What came of comparing answers with the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Answers that agree, by what became of the pod.
    pub agreed: BTreeMap<String, u64>,
    /// Answers that could not be right, by why.
    pub excused: BTreeMap<&'static str, u64>,
    /// What was asked and not compared, by why: of these pods there is nothing to tell at that moment.
    pub aside: BTreeMap<&'static str, u64>,
    /// Answers that disagree, a sentence each.
    pub wrong: Vec<String>,
}

/// What came of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    Agreed(String),
    Excused(&'static str),
    Aside(&'static str),
    Wrong(String),
}

/// What a question is judged by.
struct Judge<'a> {
    lives: &'a Lives,
    trouble: &'a Trouble,
    terms: &'a Terms,
    given_up: &'a BTreeSet<String>,
}

/// A question about a pod whose life is known.
#[derive(Clone, Copy)]
struct Case<'a> {
    at: Mono,
    wall: Wall,
    life: &'a PodLife,
    subject: &'a Subject,
    answer: &'a Answer,
    is_live: bool,
}

// === impl Agreement ===

impl Agreement {
    /// Compares all answers of a run with its history.
    pub(super) fn of(questions: &[Question], timeline: &Timeline, terms: &Terms, trouble: &Trouble) -> Self {
        let lives = Lives::of(timeline);
        let judge = Judge {
            lives: &lives,
            trouble,
            terms,
            given_up: &timeline.given_up,
        };
        let mut agreement = Self::default();
        let mut asked = BTreeSet::new();
        for question in questions {
            asked.insert(&question.subject.uid);
            let Some(life) = lives.pods.get(&question.subject.uid) else {
                agreement
                    .wrong
                    .push(format!("{} is unknown to the history", question.subject.name));
                continue;
            };
            let case = Case {
                at: question.at,
                wall: question.wall,
                life,
                subject: &question.subject,
                answer: &question.answer,
                is_live: question.is_live,
            };
            agreement.add(&case, judge.judge(&case));
        }
        for (uid, life) in &lives.pods {
            if life.bound_at().is_some() && !asked.contains(uid) {
                agreement.wrong.push(format!("nobody asked about the pod of uid {uid}"));
            }
        }
        agreement
    }

    fn add(&mut self, case: &Case<'_>, finding: Finding) {
        match finding {
            Finding::Agreed(kind) => *self.agreed.entry(kind).or_default() += 1,
            Finding::Excused(why) => *self.excused.entry(why).or_default() += 1,
            Finding::Aside(why) => *self.aside.entry(why).or_default() += 1,
            Finding::Wrong(what) => {
                let (at, name) = (case.at.since_origin().as_secs_f64(), &case.subject.name);
                self.wrong.push(format!(
                    "{at:.3} s: of {name} on {} {what}; the answer:\n{}",
                    case.subject.node,
                    case.answer.text()
                ));
            }
        }
    }

    /// Adds what another run came to; what is wrong is told with the run.
    pub(super) fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.agreed {
            *self.agreed.entry(kind.clone()).or_default() += count;
        }
        for (kind, count) in &other.excused {
            *self.excused.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.aside {
            *self.aside.entry(kind).or_default() += count;
        }
    }

    /// What was counted, a line each.
    pub fn lines(&self) -> Vec<String> {
        let agreed = self
            .agreed
            .iter()
            .map(|(kind, count)| format!("{count:>6} × explained: {kind}"));
        let excused = self
            .excused
            .iter()
            .map(|(why, count)| format!("{count:>6} not explained: {why}"));
        let aside = self
            .aside
            .iter()
            .map(|(why, count)| format!("{count:>6} nothing to explain: {why}"));
        agreed.chain(excused).chain(aside).collect()
    }

    /// The share of answers that could not be right, of all that were compared.
    pub fn excused_share(&self) -> f64 {
        let sum = |counts: &mut dyn Iterator<Item = &u64>| counts.sum::<u64>() as f64;
        let excused = sum(&mut self.excused.values());
        excused / (excused + sum(&mut self.agreed.values())).max(1.0)
    }
}

// === impl Judge ===

impl Judge<'_> {
    fn judge(&self, case: &Case<'_>) -> Finding {
        if case.life.bound_at().is_none_or(|bound| bound > case.at) {
            return Finding::Aside("it was on no node");
        }
        let found = match case.life.deleted_by(case.at) {
            Some((when, true)) => self.evicted(case, when),
            Some((when, false)) => self.deleted_by_others(case, when),
            None => self.standing(case).or_else(|wrong| self.excuse(case, wrong)),
        };
        found.unwrap_or_else(Finding::Wrong)
    }

    /// What a pod waits for is not known while a stage waits for an answer that never comes, which it finds out in time.
    fn excuse(&self, case: &Case<'_>, wrong: String) -> Result<Finding, String> {
        let is_broken = || self.trouble.is_any_amid(case.at.saturating_sub(BLIND), case.at);
        if !case.is_live && is_broken() {
            return Ok(Finding::Excused("a stage is not live, and the bus says so"));
        }
        Err(wrong)
    }

    /// How old what a stage goes by may be.
    fn slack(&self) -> Duration {
        self.terms.blindness + MOMENT
    }

    /// The moments that a time of a record about the pod may mean, given how wrong the clock of its stage may have been.
    fn moments(&self, case: &Case<'_>, stage: StageName, time: &Value) -> Vec<Mono> {
        let Some(told) = time.as_str().and_then(|text| text.parse::<Wall>().ok()) else {
            return Vec::new();
        };
        let moment = |offset| {
            let after = case.wall.duration_since(told) + offset;
            match Duration::try_from(after) {
                // None before anything was: the clock was not that wrong then.
                Ok(before) => (before <= case.at.since_origin()).then(|| case.at.saturating_sub(before)),
                Err(_) => Some(case.at + after.unsigned_abs()),
            }
        };
        let bound = case.life.bound_at().unwrap_or(case.at);
        let moments = self.trouble.offsets(stage).filter_map(moment);
        moments.filter(|moment| *moment + MOMENT >= bound).collect()
    }
}

/// True if it is in this time, give or take a moment.
fn is_within(moment: Mono, from: Mono, to: Mono) -> bool {
    moment + MOMENT >= from && moment <= to + MOMENT
}

#[cfg(test)]
mod tests;
