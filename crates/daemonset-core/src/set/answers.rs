//! What the answer to a request means.

use std::sync::Arc;

use bailiff_model::{About, NodeName, PodName, PodUid};

pub(crate) use super::claims::Kind;
use super::creates::Lane;
use super::{Cx, Set};
use crate::effect::{Answer, FailureKind};
use crate::history::Step;

/// What a request was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A pod for this node.
    CreatePod { node: NodeName, name: PodName, lane: Lane },
    /// A pod, and what Events about the request name.
    Pod {
        uid: PodUid,
        name: PodName,
        about: About,
        kind: Kind,
    },
    /// To know whether pods may be adopted.
    ReadForPods,
    /// A step of the history.
    History(Step),
    /// The status.
    WriteStatus,
}

impl Op {
    /// The pod that is deleted by it, and its node.
    pub(crate) fn deletes(&self) -> Option<(&PodUid, &NodeName)> {
        match self {
            Self::Pod {
                uid,
                about: About { node: Some(node), .. },
                kind: Kind::Delete,
                ..
            } => Some((uid, node)),
            _ => None,
        }
    }

    /// The revision that is gone by this answer, as name and uid.
    pub(crate) fn deleted_revision(&self, answer: &Answer) -> Option<(Arc<str>, Arc<str>)> {
        let is_missing = matches!(answer, Answer::Failed(failure) if failure.kind == FailureKind::NotFound);
        let is_gone = is_missing || *answer == Answer::Done;
        match self {
            Self::History(Step::Delete { name, uid } | Step::Clean { name, uid }) if is_gone => Some((name.clone(), uid.clone())),
            Self::History(Step::Change { name, uid } | Step::Release { name, uid }) if is_missing => {
                Some((name.clone(), uid.clone()))
            }
            _ => None,
        }
    }
}

impl Set {
    /// Takes an answer. Objects in it are known to the world already.
    pub(crate) fn answered(&mut self, op: &Op, answer: &Answer, cx: &mut Cx<'_>) {
        match op {
            Op::CreatePod { node, name, lane } => self.create_answered((node, name, *lane), answer, cx),
            Op::Pod { uid, name, about, kind } => self.pod_answered((uid, name, about), *kind, answer, cx),
            Op::ReadForPods => self.read_for_pods(answer, cx),
            Op::History(step) => self.history_answered(step, answer, cx),
            Op::WriteStatus => self.status_answered(answer, cx.now.mono),
        }
    }
}
