//! Writing the status (DS-142 to DS-148).

use std::time::Duration;

use bailiff_model::Mono;

use super::{Cx, Op, Set};
use crate::effect::{Answer, Request, Urgency};
use crate::retry::Retry;

/// How long a status waits for requests under way, so that one write tells the outcome of a batch, as upstream's pass does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The status write that is under way or due.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    in_flight: bool,
    pub(super) retry: Retry,
    /// When a status that waits is written at the latest.
    pub(super) due: Option<Mono>,
}

impl Set {
    /// Writes counters and observed generation if they differ from what is stored (DS-145).
    pub(super) fn write_status(&mut self, cx: &mut Cx<'_>) {
        let counts = self.tally.counts();
        let (known, generation) = (&self.ds.status, self.ds.generation);
        if known.counts == counts && known.observed_generation >= generation {
            self.status.due = None;
            return;
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
        let request = Request::WriteStatus {
            counts,
            observed_generation,
        };
        cx.out.send(&self.owner, Urgency::Routine, request, Op::WriteStatus);
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
