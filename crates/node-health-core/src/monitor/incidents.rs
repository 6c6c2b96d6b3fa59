//! Where incidents open and close, and what is told of that.

use bailiff_model::{NodeName, Now, TraceContext, Verdict};

use super::Monitor;
use crate::effect::{Effect, Measurement};
use crate::incident::{Closing, Incident, Opening, Outcome};
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
            Verdict::Healthy => Self::close_incident(name, node, Outcome::Recovered, now, out),
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
        let began = node.sign.map_or(node.count.wall, |sign| sign.wall);
        let trace = TraceContext::incident(&node.uid, began);
        node.incident = Some(Box::new(Incident { trace, began }));
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
        let Incident { trace, began } = *node.incident.take()?;
        out.push(Effect::Measure(Measurement::Closed(Closing {
            node: node.reference(name),
            trace,
            began,
            closed: now.wall,
            was: node.said,
            outcome,
        })));
        Some(trace)
    }
}
