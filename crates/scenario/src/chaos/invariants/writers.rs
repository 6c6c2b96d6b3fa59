//! Who writes what.

use bailiff_model::taint::{Effect, Taint};

use super::super::story::Terms;
use super::super::timeline::{Change, Node, Object, Pod, PodNow, Timeline};
use super::{Verdict, by, by_a_stage};
use crate::StageName;

/// Design §3.
pub(super) fn fields_have_one_writer(timeline: &Timeline, _terms: &Terms) -> Verdict {
    let mut verdict = Verdict::default();
    timeline.walk(|world, change| {
        if !by_a_stage(change) {
            return;
        }
        let (written, who): (Vec<&str>, &str) = match &change.object {
            Object::Node(node) => match world.nodes.get(&node.name) {
                Some(known) => node_fields(&known.node, node),
                None => (vec!["a new node"], ""),
            },
            Object::Pod(pod) => pod_fields(world.pods.get(&pod.uid), pod, change),
            Object::Aside | Object::Said { .. } => return,
            Object::DaemonSet(_) => (vec!["a DaemonSet"], StageName::DaemonsetSyncer.as_str()),
            // What the API server books there when it allows an eviction.
            Object::Budget(_) => (vec!["a budget"], StageName::ZoneEvictor.as_str()),
            Object::Pauses(_) => (vec!["a pause"], ""),
            Object::Other(what) if what.starts_with("controllerrevisions") => {
                (vec!["the history of a DaemonSet"], StageName::DaemonsetSyncer.as_str())
            }
            Object::Other(what) => {
                verdict.broken(change.at, format!("the {} writes {what}", change.actor));
                return;
            }
        };
        // Going for good is the other half of a deletion that is judged already.
        if let Object::Pod(pod) = &change.object
            && change.is_gone
            && world.pods.get(&pod.uid).is_some_and(|known| known.pod.is_terminating)
        {
            return;
        }
        verdict.premises += 1;
        if *change.actor != *who || written.len() > 1 && who.is_empty() {
            verdict.broken(
                change.at,
                format!("the {} writes {}, which is not its own", change.actor, written.join(", ")),
            );
        }
    });
    verdict
}

/// What changed of a node, and whose it is; nobody's if it is of several.
fn node_fields(before: &Node, after: &Node) -> (Vec<&'static str>, &'static str) {
    let taints = |node: &Node, effect| -> Vec<Taint> {
        let mut taints: Vec<Taint> = node.taints.iter().filter(|taint| taint.effect == effect).cloned().collect();
        taints.sort();
        taints
    };
    let mut fields = Vec::new();
    if before.ready != after.ready {
        fields.push(("Ready", StageName::NodeHealthMonitor));
    }
    if taints(before, Effect::NoSchedule) != taints(after, Effect::NoSchedule) {
        fields.push(("NoSchedule taints", StageName::TaintManager));
    }
    if before.labels != after.labels {
        fields.push(("labels", StageName::TaintManager));
    }
    if taints(before, Effect::NoExecute) != taints(after, Effect::NoExecute) {
        fields.push(("NoExecute taints", StageName::ZoneEvictor));
    }
    owner_of(&fields, StageName::NodeHealthMonitor)
}

fn pod_fields(before: Option<&PodNow>, after: &Pod, change: &Change) -> (Vec<&'static str>, &'static str) {
    let Some(PodNow { pod: before, .. }) = before else {
        return (vec!["a new pod"], StageName::DaemonsetSyncer.as_str());
    };
    let mut fields = Vec::new();
    if before.ready != after.ready {
        fields.push(("Ready", StageName::TaintManager));
    }
    if before.is_target != after.is_target {
        fields.push(("DisruptionTarget", StageName::ZoneEvictor));
    }
    if before.daemon_of != after.daemon_of {
        fields.push(("the owner", StageName::DaemonsetSyncer));
    }
    if (change.is_gone || after.is_terminating) && !before.is_terminating {
        // A daemon pod is its DaemonSet's to delete; it tolerates what isolates nodes, but not every operator's taint.
        let is_own = before.daemon_of.is_some() && by(change, StageName::DaemonsetSyncer);
        let owner = if is_own {
            StageName::DaemonsetSyncer
        } else {
            StageName::ZoneEvictor
        };
        fields.push(("the deletion", owner));
    }
    owner_of(&fields, StageName::ZoneEvictor)
}

/// The owner of all these fields. What changes none of them, such as a message or a time, is taken for `otherwise`'s.
fn owner_of(fields: &[(&'static str, StageName)], otherwise: StageName) -> (Vec<&'static str>, &'static str) {
    let names = fields.iter().map(|(name, _)| *name).collect();
    let mut owners = fields.iter().map(|(_, owner)| *owner);
    let first = owners.next().unwrap_or(otherwise);
    let is_one = owners.all(|owner| owner == first);
    (names, if is_one { first.as_str() } else { "" })
}
