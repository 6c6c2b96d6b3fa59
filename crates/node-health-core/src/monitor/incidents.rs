//! Where incidents open and close, what keeps them from going on, and what is told of that.

use std::sync::Arc;

use bailiff_model::{NodeName, Now, ReadyStatus, TraceContext, Verdict, Wall};

use super::Monitor;
use crate::effect::{Effect, Measurement};
use crate::incident::{Closing, Incident, Opening, Outcome, Part, Passage, Refusal, Request, Trouble, Wait};
use crate::node::Node;

impl Monitor {
    /// The trace that a record of this verdict belongs to: it opens the node's incident, goes on with it, or is the last of it.
    pub(super) fn follow_incident(
        name: &NodeName,
        node: &mut Node,
        verdict: Verdict,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Option<TraceContext> {
        match verdict {
            Verdict::Healthy => {
                let recounted = node.incident.as_ref().is_some_and(|incident| incident.recounted);
                let outcome = if recounted { Outcome::Recounted } else { Outcome::Recovered };
                Self::close_incident(name, node, outcome, now, out)
            }
            Verdict::NoStatus => node.trace(),
            Verdict::Late | Verdict::NotReady | Verdict::Unreachable => Some(Self::incident(name, node, verdict, now, out)),
        }
    }

    /// The trace of the incident that a node is in. If it is in none, `verdict` opens one; it began with the last sign of life before it
    /// and keeps its trace to the end.
    pub(super) fn incident(name: &NodeName, node: &mut Node, verdict: Verdict, now: Now, out: &mut Vec<Effect>) -> TraceContext {
        if let Some(trace) = node.trace() {
            return trace;
        }
        let began = node.sign.map_or(node.count.wall, |sign| sign.wall).wall();
        let trace = TraceContext::incident(&node.uid, began);
        node.incident = Some(Box::new(Incident::new(trace, began)));
        out.push(Effect::Measure(Measurement::Opened(Opening {
            node: node.reference(name),
            trace,
            began,
            opened: now.wall,
            verdict,
        })));
        trace
    }

    /// The incident of a node is over, if it is in one; answers its trace.
    pub(super) fn close_incident(
        name: &NodeName,
        node: &mut Node,
        outcome: Outcome,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Option<TraceContext> {
        Self::end_delays(name, node, outcome, now, out);
        let Incident { trace, began, said, .. } = *node.incident.take()?;
        out.push(Effect::Measure(Measurement::Closed(Closing {
            node: node.reference(name),
            trace,
            began,
            closed: now.wall,
            was: node.said.or(said),
            outcome,
        })));
        Some(trace)
    }

    /// A silent node is neither read nor written, because of a hold. Found again, it changes nothing.
    pub(super) fn note_held(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let Some(hold) = self.hold_on(name) else { return };
        let Some(incident) = self.nodes.get(name).and_then(|node| node.incident.as_ref()) else {
            return;
        };
        let known = incident.wait.as_ref();
        if known.is_some_and(|wait| (wait.reason, &wait.detail) == (hold.reason, &hold.detail)) {
            return;
        }
        let wait = Wait {
            reason: hold.reason,
            detail: hold.detail.clone(),
            since: now.wall,
        };
        let Some(node) = self.nodes.get_mut(name) else { return };
        Self::end_hold(name, node, Outcome::Replaced, now, out);
        if let Some(incident) = &mut node.incident {
            incident.wait = Some(wait);
        }
    }

    /// A request about a silent node, made at `asked`, came to nothing.
    pub(super) fn note_refused(&mut self, name: &NodeName, refused: Refused, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(incident) = &mut node.incident else { return };
        let Refused {
            request,
            refusal,
            detail,
            asked,
        } = refused;
        if let Some(known) = &mut incident.trouble
            && (known.request, known.refusal) == (request, refusal)
        {
            known.attempts = known.attempts.saturating_add(1);
            known.detail = detail;
            return;
        }
        Self::end_trouble(name, node, now, out);
        if let Some(incident) = &mut node.incident {
            incident.trouble = Some(Trouble {
                request,
                refusal,
                detail,
                since: asked,
                attempts: 1,
            });
        }
    }

    /// Nothing keeps the incident of a node from going on any more, if anything did.
    pub(super) fn end_delays(name: &NodeName, node: &mut Node, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        if node.incident.is_some() {
            Self::end_hold(name, node, outcome, now, out);
            Self::end_trouble(name, node, now, out);
        }
    }

    /// No hold does any more.
    pub(super) fn end_hold(name: &NodeName, node: &mut Node, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        let wait = node.incident.as_mut().and_then(|incident| incident.wait.take());
        let Some(Wait { reason, detail, since }) = wait else { return };
        let what = Part::Held { reason, detail, outcome };
        pass(name, node, since, now, what, out);
    }

    /// Reads succeed.
    pub(super) fn end_failed_reads(name: &NodeName, node: &mut Node, now: Now, out: &mut Vec<Effect>) {
        let trouble = node.incident.as_ref().and_then(|incident| incident.trouble.as_ref());
        if trouble.is_some_and(|trouble| trouble.request == Request::Read) {
            Self::end_trouble(name, node, now, out);
        }
    }

    fn end_trouble(name: &NodeName, node: &mut Node, now: Now, out: &mut Vec<Effect>) {
        let trouble = node.incident.as_mut().and_then(|incident| incident.trouble.take());
        let Some(Trouble {
            request,
            refusal,
            detail,
            since,
            attempts,
        }) = trouble
        else {
            return;
        };
        let what = Part::Refused {
            request,
            refusal,
            detail,
            attempts,
        };
        pass(name, node, since, now, what, out);
    }

    /// The grace of a node is counted anew, just before it is (NL-099).
    pub(super) fn note_recounted(name: &NodeName, node: &mut Node, now: Now, out: &mut Vec<Effect>) {
        Self::end_delays(name, node, Outcome::Recounted, now, out);
        pass(name, node, node.count.wall.wall(), now, Part::Recounted, out);
        // What was late is not any more; a verdict that stands does.
        if let Some(incident) = &mut node.incident {
            incident.recounted = node.ready.status == ReadyStatus::True;
        }
    }
}

/// A request that came to nothing.
pub(super) struct Refused {
    pub(super) request: Request,
    pub(super) refusal: Refusal,
    pub(super) detail: Arc<str>,
    pub(super) asked: Wall,
}

fn pass(name: &NodeName, node: &Node, start: Wall, now: Now, what: Part, out: &mut Vec<Effect>) {
    let Some(trace) = node.trace() else { return };
    out.push(Effect::Measure(Measurement::Passed(Passage {
        node: node.reference(name),
        trace,
        start,
        end: now.wall,
        what,
    })));
}
