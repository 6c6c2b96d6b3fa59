//! The history of a DaemonSet: one request at a time is sent for its next step, and what comes of it is current (DS-150 to DS-162).
//! Which step is next is [`crate::history`]'s.

use std::sync::Arc;

use bailiff_model::{Profile, Wall};

use super::{Cx, Op, Set};
use crate::effect::{Answer, Effect, FailureKind, Urgency};
use crate::history::{self, Current, Ended, Next, Step, View};
use crate::template::Blueprint;

impl Set {
    /// Revisions that concern it came, changed or went.
    pub(crate) fn revisions_changed(&mut self) {
        // Somebody else may have made the one that we did not ask for: kube-controller-manager, beside an observer. A pause that a server
        // asked for is kept.
        if self.history.is_unsent {
            self.history.retry.reconsider();
        }
        self.history_dirty = true;
        self.surplus_dirty = true;
    }

    /// True if the revision of this uid is current, though it is not ours.
    pub(crate) fn borrows(&self, uid: &str) -> bool {
        self.history.borrows(uid)
    }

    /// The current revision is known and as it should be.
    pub(crate) const fn is_settled(&self) -> bool {
        self.settled
    }

    fn view(&self, profile: Profile) -> View<'_> {
        View {
            ds: &self.ds,
            pods_by_hash: &self.pods_by_hash,
            relabel_all: profile == Profile::Upstream,
        }
    }

    /// Asks for the next step of the history, or takes its outcome.
    pub(super) fn advance_history(&mut self, cx: &mut Cx<'_>) {
        if !self.history_dirty || !self.history.retry.is_open(cx.now.mono) {
            return;
        }
        if self.history.busy {
            // What may be superfluous no longer is not deleted, and holds nothing up.
            cx.out.effects.extend(self.history.cleaning.take().map(Effect::CallOff));
            return;
        }
        self.history_dirty = false;
        let mut history = std::mem::take(&mut self.history);
        let next = history.next(&self.view(cx.profile), cx.world.revisions(&self.ds.namespace));
        self.history = history;
        match next {
            Next::Settled(current) => {
                self.history.retry.reset();
                self.settle(current, cx.now.wall);
            }
            Next::Ask(step, request) => {
                self.settled = false;
                self.history.busy = true;
                cx.out.send(&self.owner, Urgency::Missing, request, Op::History(step));
            }
            Next::Relabel { from, to } => {
                self.settled = false;
                self.relabel(&from, &to, cx);
            }
        }
    }

    /// This revision is current, and as it should be.
    fn settle(&mut self, current: Current, now: Wall) {
        self.settled = true;
        match &self.current {
            Some(known) if known.name == current.name => {}
            // One of long ago may be current again: a rollback.
            Some(_) => {
                self.since = now.max(current.created);
                self.creates.start_anew();
            }
            None => self.since = current.created,
        }
        if self.current.as_ref() == Some(&current) && !self.rules_changed {
            return;
        }
        let blueprint = Blueprint::new(&self.owner, &self.ds.template, self.ds.template_generation, &current.hash);
        // A pod without labels cannot be (DS-096): the selector would match everything.
        self.blueprint = blueprint.ok().map(Arc::new);
        self.current = Some(current);
        self.rules_changed = true;
        self.report.dirty = true;
    }

    /// Deletes a superfluous revision, if there is one (DS-161).
    pub(super) fn clean_history(&mut self, cx: &mut Cx<'_>) {
        if !self.surplus_dirty || self.history.busy || !self.history.clean_retry.is_open(cx.now.mono) {
            return;
        }
        match history::surplus(&self.view(cx.profile), cx.world.revisions(&self.ds.namespace)) {
            Some((step, request)) => {
                self.history.busy = true;
                let id = cx.out.send(&self.owner, Urgency::Routine, request, Op::History(step));
                self.history.cleaning = Some(id);
            }
            None => self.surplus_dirty = false,
        }
    }

    /// A step was answered.
    pub(super) fn history_answered(&mut self, step: &Step, answer: &Answer, cx: &Cx<'_>) {
        self.history.busy = false;
        self.history.cleaning = None;
        self.history.is_unsent = matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::NotSent);
        self.history_dirty = true;
        self.surplus_dirty = true;
        let (ended, pause) = match answer {
            Answer::Done | Answer::Created { .. } | Answer::Pod(_) => (Ended::Done, None),
            // One that is gone by now is nothing to go by.
            Answer::Revision(revision) if *step == Step::ReadExisting && !cx.world.has_revision(revision) => (Ended::Failed, None),
            Answer::Revision(revision) => (Ended::Revision(revision), None),
            Answer::DaemonSet(ds) => (Ended::DaemonSet(ds), None),
            Answer::Failed(failure) => {
                let ended = match failure.kind {
                    FailureKind::AlreadyExists => Ended::AlreadyExists,
                    FailureKind::NotFound => Ended::NotFound,
                    FailureKind::Invalid => Ended::Invalid,
                    _ => Ended::Failed,
                };
                (ended, failure.retry_after)
            }
        };
        if matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::CalledOff) {
            return;
        }
        let is_done = self.history.ended(&self.ds, step, ended);
        match step {
            Step::Clean { .. } if is_done => self.history.clean_retry.reset(),
            Step::Clean { .. } => drop(self.history.clean_retry.fail(cx.now.mono, pause)),
            _ if is_done => {}
            _ => drop(self.history.retry.fail(cx.now.mono, pause)),
        }
    }
}
