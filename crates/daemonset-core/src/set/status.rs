//! Writing the status (DS-142 to DS-148).

use std::time::Duration;

use bailiff_model::Mono;
use bailiff_model::rollout::WhyNot;

use super::{Cx, Op, Set};
use crate::effect::{Answer, ConditionChange, Request, Urgency};
use crate::facts::Condition;
use crate::retry::Retry;

/// How long a status waits for requests under way, so that one write tells the outcome of a batch, as upstream's pass does.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shortest time between two status writes for the sake of the condition alone: its text changes more often than any counter.
const TELL: Duration = Duration::from_secs(10);

/// The status write that is under way or due.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    in_flight: bool,
    pub(super) retry: Retry,
    /// When a status that waits is written at the latest.
    pub(super) due: Option<Mono>,
    /// When the condition was written last.
    told: Option<Mono>,
    /// When it may be written again, if it is to be.
    pub(super) tell: Option<Mono>,
}

impl Set {
    /// Writes counters and observed generation if they differ from what is stored (DS-145).
    pub(super) fn write_status(&mut self, cx: &mut Cx<'_>) {
        let counts = self.tally.counts();
        let (known, generation) = (&self.ds.status, self.ds.generation);
        let condition = self.condition_change(cx);
        self.status.tell = None;
        if known.counts == counts && known.observed_generation >= generation {
            let tell = self.status.told.map(|told| told + TELL).filter(|at| cx.now.mono < *at);
            if condition.is_none() || tell.is_some() {
                self.status.due = None;
                self.status.tell = tell.filter(|_| condition.is_some());
                return;
            }
        }
        if self.status.in_flight || !self.status.retry.is_open(cx.now.mono) {
            return;
        }
        let is_busy = self.creates.are_under_way() || self.deletes.in_flight > 0;
        let due = *self.status.due.get_or_insert(cx.now.mono + PATIENCE);
        if is_busy && cx.now.mono < due {
            return;
        }
        self.status.due = None;
        self.status.in_flight = true;
        let observed_generation = generation.max(known.observed_generation);
        if condition.is_some() {
            self.status.told = Some(cx.now.mono);
        }
        let request = Request::WriteStatus {
            counts,
            observed_generation,
            condition,
        };
        cx.out.send(&self.owner, Urgency::Routine, request, Op::WriteStatus);
    }

    /// What has to change of our condition.
    fn condition_change(&self, cx: &Cx<'_>) -> Option<ConditionChange> {
        let known = self.ds.condition.as_deref();
        if !self.policy.conditions {
            return known.map(|_| ConditionChange::Remove);
        }
        let mut condition = condition(&self.reasons_in_condition(cx));
        let known = known.filter(|known| known.complete == condition.complete);
        if known.is_some_and(|known| known.reason == condition.reason && known.message == condition.message) {
            return None;
        }
        condition.since = known.and_then(|known| known.since).or(Some(cx.now.wall));
        Some(ConditionChange::Set(condition))
    }

    /// Nodes by reason. A record says beside them what holds everything; a condition has no other place for it.
    fn reasons_in_condition(&self, cx: &Cx<'_>) -> Vec<(WhyNot, u32)> {
        let mut reasons = self.reasons_told();
        let waiting = reasons.iter_mut().find(|(reason, _)| *reason == WhyNot::WaitingForBudget);
        if let Some((reason, _)) = waiting.filter(|_| cx.holds.on_everything().is_some()) {
            *reason = WhyNot::Held;
        }
        reasons
    }

    /// A status write was answered. It is computed again before another try (DS-238).
    pub(super) fn status_answered(&mut self, answer: &Answer, now: Mono) {
        self.status.in_flight = false;
        match answer {
            Answer::Failed(failure) => drop(self.status.retry.fail(now, failure.retry_after)),
            _ => self.status.retry.reset(),
        }
    }
}

/// The condition of a rollout, in short the reason of most nodes.
fn condition(reasons: &[(WhyNot, u32)]) -> Condition {
    let most = reasons.iter().rev().max_by_key(|(_, nodes)| *nodes);
    let (reason, message) = match most {
        None => (
            "Complete".to_owned(),
            "every node has an available pod of the current revision".to_owned(),
        ),
        Some((reason, _)) => {
            let counts: Vec<String> = reasons
                .iter()
                .map(|(reason, nodes)| format!("{} {nodes}", reason.as_str()))
                .collect();
            let message = format!(
                "nodes without an available pod of the current revision: {}",
                counts.join(", ")
            );
            (in_camel_case(reason.as_str()), message)
        }
    };
    Condition {
        complete: most.is_none(),
        reason,
        message,
        since: None,
    }
}

/// `WaitingForBudget` of `waiting_for_budget`, as the API wants reasons.
fn in_camel_case(text: &str) -> String {
    let capitalised = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    text.split('_').map(capitalised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The annotation `rollout-conditions`.
    #[test]
    fn a_condition_tells_the_reason_of_most_nodes_and_counts_all() {
        let complete = condition(&[]);
        assert_eq!((complete.complete, complete.reason.as_str()), (true, "Complete"));
        let told = condition(&[(WhyNot::NodeBadAfter, 2), (WhyNot::WaitingForBudget, 7), (WhyNot::Image, 7)]);
        assert_eq!((told.complete, told.reason.as_str()), (false, "WaitingForBudget"));
        assert_eq!(
            told.message,
            "nodes without an available pod of the current revision: node_bad_after 2, waiting_for_budget 7, image 7"
        );
    }
}
