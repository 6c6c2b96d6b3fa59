//! Orphans become members only by the word of the live DaemonSet (DS-063, DS-191).

use super::Kind;
use crate::effect::{Answer, Request, Urgency};
use crate::set::{BURST, Cx, Op, Out, Set};

impl Set {
    /// One batch after the other: the live DaemonSet is read before each (DS-063).
    pub(super) fn adopt(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.claims.allowed) {
            for uid in std::mem::take(&mut self.claims.candidates) {
                if let Some(pod) = cx.world.pod(&uid) {
                    let (name, uid) = (pod.name.clone(), uid);
                    self.work_on(pod, Kind::Adopt, Request::AdoptPod { name, uid }, cx);
                }
            }
        }
        let is_busy = self.claims.reading || self.claims.claiming > 0;
        if is_busy || self.claims.orphans.is_empty() || !self.claims.retry.is_open(cx.now.mono) {
            return;
        }
        let candidates = std::iter::from_fn(|| self.claims.orphans.pop_first()).take(BURST).collect();
        self.claims.candidates = candidates;
        self.claims.reading = true;
        cx.out
            .send(&self.owner, Urgency::Missing, Request::ReadDaemonSet, Op::ReadForPods);
    }

    /// The DaemonSet was read before pods are adopted (DS-063, DS-191).
    pub(in crate::set) fn read_for_pods(&mut self, answer: &Answer, cx: &Cx<'_>) {
        self.claims.reading = false;
        match answer {
            Answer::DaemonSet(live) if live.uid == self.ds.uid && !live.deleting => {
                self.claims.retry.reset();
                // What is held goes by a later read.
                self.claims.allowed = cx.held.is_none();
            }
            Answer::Failed(failure) => drop(self.claims.retry.fail(cx.now.mono, failure.retry_after)),
            _ => drop(self.claims.retry.fail(cx.now.mono, None)),
        }
        if !self.claims.allowed {
            self.claims.orphans.append(&mut self.claims.candidates);
        }
    }

    /// What was decided may be of the past: adoptions that were allowed are asked about once more when it is not, and what was not sent is
    /// taken back. Nobody sees meanwhile whether the DaemonSet goes, and what one that is gone has adopted goes with it; nor whether its
    /// rollout is paused, or another one by now.
    pub(in crate::set) fn hold_back(&mut self, out: &mut Out) {
        self.claims.allowed = false;
        self.claims.orphans.append(&mut self.claims.candidates);
        self.call_off_all(out);
    }
}
