//! Pods that went, or are on their way out.

use std::collections::BTreeSet;

use bailiff_model::{EvictionMode, Mono};
use serde_json::Value;

use super::lives::{is_down, no_execute};
use super::{Case, Finding, Judge, MOMENT, SETTLED, is_within};
use crate::StageName;

/// Records of a key that the bus keeps.
const KEPT: usize = 16;

impl Judge<'_> {
    /// The zone-evictor deleted it.
    pub(super) fn evicted(&self, case: &Case<'_>, when: Mono) -> Result<Finding, String> {
        if when + SETTLED > case.at {
            return Ok(Finding::Aside("it is going at this moment"));
        }
        let lost = self.trouble.memory_lost(case.at);
        if lost.is_some_and(|lost| when + SETTLED <= lost) {
            return Ok(Finding::Aside("it was asked for before the bus lost its memory"));
        }
        if lost.is_some_and(|lost| when <= lost) {
            return Ok(Finding::Excused("the bus lost its memory moments after it went"));
        }
        if let Some(excuse) = self.check_deleted(case, when)? {
            return Ok(Finding::Excused(excuse));
        }
        let wishes: Vec<&Value> = case
            .answer
            .past("podEviction")
            .filter(|wish| wish["state"] == "due")
            .collect();
        let checked: Vec<Result<&str, String>> = wishes.iter().map(|wish| self.check_wish(case, wish, when)).collect();
        if let Some(kind) = checked.iter().rev().find_map(|result| result.as_ref().ok()) {
            let waited = self.check_wait(case, &wishes, when)?;
            return Ok(Finding::Agreed(format!("{kind}{waited}")));
        }
        let due = self
            .lives
            .due(case.life, when, self.terms.profile)
            .map_or(when, |(due, _)| due);
        if lost.is_some_and(|lost| due <= lost + self.slack()) {
            return Ok(Finding::Excused("the bus lost its memory after it was due"));
        }
        if case.answer.past("podEviction").count() >= KEPT {
            return Ok(Finding::Excused("the bus keeps 16 records of a key"));
        }
        let why = checked.into_iter().rev().find_map(Result::err);
        let why = why.unwrap_or_else(|| "nobody is said to have wanted it to go".to_owned());
        Err(format!("the zone-evictor deleted it at {:.3} s, and {why}", seconds(when)))
    }

    /// It is said that it was deleted, and when. An excuse, if that could not be heard.
    fn check_deleted(&self, case: &Case<'_>, when: Mono) -> Result<Option<&'static str>, String> {
        let outcomes: Vec<&Value> = case.answer.past("podOutcome").collect();
        // One that terminates for long may be deleted again (TE-077): what counts is what is said of the first time.
        let mut deletions = outcomes.iter().filter(|outcome| outcome["state"] == "deleted").peekable();
        if deletions.peek().is_some() {
            let mut moments = deletions.flat_map(|outcome| self.moments(case, StageName::ZoneEvictor, &outcome["since"]));
            return if moments.any(|moment| is_within(moment, when, when + self.slack())) {
                Ok(None)
            } else {
                Err(format!(
                    "it went at {:.3} s, which is not when it is said to have been deleted",
                    seconds(when)
                ))
            };
        }
        let state = outcomes
            .last()
            .map_or("nothing", |outcome| outcome["state"].as_str().unwrap_or_default());
        if self.trouble.is_amid(StageName::ZoneEvictor, when, when + self.slack()) {
            return Ok(Some("the zone-evictor did not hear that it was deleted"));
        }
        Err(format!(
            "the zone-evictor deleted it at {:.3} s, and what is said is {state}",
            seconds(when)
        ))
    }

    /// The wish is for this pod, on its node, for what the API had at the time when it was decided, and not before its time.
    fn check_wish(&self, case: &Case<'_>, wish: &Value, when: Mono) -> Result<&'static str, String> {
        if wish["node"]["name"] != *case.subject.node {
            return Err(format!("the wish is about node {}", wish["node"]["name"]));
        }
        if wish["pod"]["uid"] != *case.subject.uid {
            return Err(format!("the wish is about the pod of uid {}", wish["pod"]["uid"]));
        }
        let decided = self.moments(case, StageName::TaintManager, &wish["decidedAt"]);
        let decided: Vec<Mono> = decided.into_iter().filter(|at| *at <= when + MOMENT).collect();
        if decided.is_empty() {
            return Err("the wish came after that".to_owned());
        }
        if self.terms.mode == EvictionMode::Node {
            return match wish["trigger"].as_str() {
                Some("node") => Ok("evicted with its node"),
                other => Err(format!("the trigger of the wish is {other:?}")),
            };
        }
        let is_so = |at: &Mono| self.has_taints(case, wish, *at);
        if !decided.iter().any(is_so) {
            return Err("the node did not have the taints that it is said to have gone for".to_owned());
        }
        self.check_due(case, wish, when)
    }

    /// True if the node had exactly these taints when that was decided, or as long before as it may take to be seen.
    pub(super) fn has_taints(&self, case: &Case<'_>, wish: &Value, at: Mono) -> bool {
        let said = taints(wish);
        let from = at.saturating_sub(self.slack());
        self.lives.taint_sets(&case.subject.node, from, at + MOMENT).contains(&said)
    }

    fn check_due(&self, case: &Case<'_>, wish: &Value, when: Mono) -> Result<&'static str, String> {
        let due = self.moments(case, StageName::TaintManager, &wish["dueAt"]);
        if !due.iter().any(|due| *due <= when + MOMENT) {
            return Err("it went before it is said to have been due".to_owned());
        }
        let decided = self.moments(case, StageName::TaintManager, &wish["decidedAt"]);
        let by_api = decided.into_iter().chain([when]).filter_map(|at| {
            let before = at.saturating_sub(self.slack());
            let known = self.lives.due(case.life, at, self.terms.profile);
            known.or_else(|| self.lives.due(case.life, before, self.terms.profile))
        });
        let earliest = by_api.map(|(first, _)| first).min();
        if earliest.is_some_and(|first| !due.iter().any(|due| *due + MOMENT >= first)) {
            return Err("it is said to have been due before it was".to_owned());
        }
        match wish["trigger"].as_str() {
            Some("untolerated") => Ok("evicted at once"),
            Some("expired") => Ok("evicted when its time was over"),
            other => Err(format!("the trigger of the wish is {other:?}")),
        }
    }

    /// If it went long after it was due, something is said to have stood in the way. What, or nothing if it went in time.
    fn check_wait(&self, case: &Case<'_>, wishes: &[&Value], when: Mono) -> Result<String, String> {
        let decided = wishes
            .iter()
            .flat_map(|wish| self.moments(case, StageName::TaintManager, &wish["decidedAt"]));
        let Some(first) = decided.filter(|at| *at <= when + MOMENT).min() else {
            return Ok(String::new());
        };
        // A wish that could not be told, or heard, waited for that.
        let is_amid = |stage| self.trouble.is_amid(stage, first, when);
        if when.saturating_since(first) <= SETTLED || is_amid(StageName::TaintManager) || is_amid(StageName::ZoneEvictor) {
            return Ok(String::new());
        }
        let reasons: BTreeSet<String> = case.answer.past("podOutcome").filter_map(reason).collect();
        if reasons.is_empty() {
            return Err(format!(
                "was due at {:.3} s and went at {:.3} s, and nothing is said to have held it",
                seconds(first),
                seconds(when)
            ));
        }
        Ok(format!(", after it was {}", Vec::from_iter(reasons).join(" and ")))
    }

    /// Somebody else deleted it.
    pub(super) fn deleted_by_others(&self, case: &Case<'_>, when: Mono) -> Result<Finding, String> {
        let is_said = |kind| case.answer.past(kind).next().is_some();
        if !self.was_threatened(case, when) && !is_said("podEviction") && !is_said("podOutcome") {
            return Ok(Finding::Aside("nobody wanted it to go"));
        }
        if self.trouble.memory_lost(case.at).is_some_and(|lost| when + SETTLED <= lost) {
            return Ok(Finding::Aside("it was asked for before the bus lost its memory"));
        }
        let gone = case.life.gone.filter(|gone| *gone <= case.at);
        if case.at.saturating_since(gone.unwrap_or(when)) < SETTLED {
            return Ok(Finding::Aside("it is going at this moment"));
        }
        let state = case
            .answer
            .present("podOutcome")
            .map(|outcome| outcome["state"].as_str().unwrap_or_default());
        match state {
            None | Some("cancelled" | "gone" | "refused") => {}
            Some("deleted") => self.check_deleted_again(case, when, gone.unwrap_or(case.at))?,
            Some(_) if gone.is_none() => {}
            Some(other) if !self.is_lately_troubled(case.at) => {
                return Err(format!(
                    "somebody deleted it at {:.3} s, it is gone, and it is said to be {other}",
                    seconds(when)
                ));
            }
            Some(_) => return Ok(Finding::Excused("a stage that would have said so was not whole")),
        }
        let wish = case
            .answer
            .present("podEviction")
            .map(|wish| wish["state"].as_str().unwrap_or_default());
        if gone.is_some() && matches!(wish, Some("due" | "scheduled")) {
            if self.is_lately_troubled(case.at) {
                return Ok(Finding::Excused("a stage that would have said so was not whole"));
            }
            return Err("it is gone, and still wanted to go".to_owned());
        }
        let and = if state == Some("deleted") {
            ", and evicted when it was due"
        } else {
            ""
        };
        Ok(Finding::Agreed(format!("deleted by others{and}")))
    }

    /// A pod on its way out is deleted once more when it is due.
    fn check_deleted_again(&self, case: &Case<'_>, when: Mono, until: Mono) -> Result<(), String> {
        if self.terms.mode == EvictionMode::Node {
            return Ok(());
        }
        let moments = self.lives.moments(&case.subject.node, when, until);
        let ends = moments.iter().copied().skip(1).chain([until + self.slack()]);
        for (from, to) in moments.iter().zip(ends) {
            if self
                .lives
                .due(case.life, *from, self.terms.profile)
                .is_some_and(|(first, _)| first <= to + MOMENT)
            {
                return Ok(());
            }
        }
        Err("somebody else deleted it, it was not due, and it is said to be deleted".to_owned())
    }

    /// True if somebody may have wanted it to go before then.
    pub(super) fn was_threatened(&self, case: &Case<'_>, until: Mono) -> bool {
        let Some(bound) = case.life.bound_at() else { return false };
        self.lives
            .states(&case.subject.node, bound, until)
            .any(|node| is_down(node) || no_execute(node).next().is_some())
    }

    /// True if a stage that decides about pods was not whole lately.
    pub(super) fn is_lately_troubled(&self, at: Mono) -> bool {
        self.trouble.is_any_amid(at.saturating_sub(SETTLED), at)
    }
}

/// The taints that a wish names.
pub(super) fn taints(wish: &Value) -> BTreeSet<String> {
    let taints = wish["cause"]["taints"].as_array().into_iter().flatten();
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    taints
        .map(|taint| format!("{}={}", text(&taint["key"]), text(&taint["value"])))
        .collect()
}

/// What an outcome says that stood in the way, if it does.
fn reason(outcome: &Value) -> Option<String> {
    match outcome["state"].as_str()? {
        "held" => Some(format!("held ({})", outcome["held"]["reason"].as_str()?)),
        "blocked" => Some("blocked by a budget".to_owned()),
        "evicting" if outcome["failedAttempts"].as_u64()? > 0 => Some("tried in vain".to_owned()),
        "refused" => Some("refused".to_owned()),
        "cancelled" => Some("called off".to_owned()),
        _ => None,
    }
}

fn seconds(at: Mono) -> f64 {
    at.since_origin().as_secs_f64()
}
