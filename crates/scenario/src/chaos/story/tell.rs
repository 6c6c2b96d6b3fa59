//! Stories as people read them.

use std::fmt;

use super::{Deed, Story};
use crate::chaos::Storm;

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.terms.flags().join(" "))?;
        let nodes: Vec<String> = self.nodes.iter().map(|(node, zone)| format!("{node} in {zone}")).collect();
        writeln!(f, "nodes {}", nodes.join(", "))?;
        let (unavailable, surge) = self.terms.rollout;
        writeln!(f, "DaemonSet with maxUnavailable {unavailable} and maxSurge {surge}")?;
        for (at, deed) in &self.deeds {
            writeln!(f, "{:>7.2} s  {deed}", at.as_secs_f64())?;
        }
        write!(f, "{:>7.2} s  the end", self.end.as_secs_f64())
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(nodes) => write!(f, "{} fall silent", nodes.join(", ")),
            Self::Return(nodes) => write!(f, "{} come back", nodes.join(", ")),
            Self::Ready(nodes, ready) => write!(
                f,
                "{} say that they are {}ready",
                nodes.join(", "),
                if *ready { "" } else { "not " }
            ),
            Self::Taint { node, key, value } => write!(f, "{node} gets taint {key}={value}:NoExecute"),
            Self::Untaint { node, key } => write!(f, "{node} loses its taint {key}"),
            Self::DeleteNode(node) => write!(f, "{node} is deleted"),
            Self::CreateNode(node, zone) => write!(f, "{node} is created in {zone}"),
            Self::Relabel(node, zone) => write!(f, "{node} moves to {zone}"),
            Self::CreatePod { name, node, tolerates } => match tolerates {
                Some(seconds) => write!(f, "pod {name} is created on {node}, tolerating everything for {seconds} s"),
                None => write!(f, "pod {name} is created on {node}, tolerating everything"),
            },
            Self::DeletePod(name) => write!(f, "pod {name} is deleted"),
            Self::Image(version) => write!(f, "the DaemonSet gets image v{version}"),
            Self::KillReplica(stage, number, span) => write!(f, "replica {number} of the {} dies for {span:?}", stage.as_str()),
            Self::Divide(stage, shards) => write!(f, "the {} is replaced by one of {shards} shards", stage.as_str()),
            Self::Kill(stage, span) => write!(f, "the {} dies for {span:?}", stage.as_str()),
            Self::KillBus(span) => write!(f, "the bus dies for {span:?}, and forgets"),
            Self::Disconnect => f.write_str("the connections to the bus break"),
            Self::Step(stage, by) => write!(f, "the clock of the {} is stepped by {by:#}", stage.as_str()),
            Self::Storm(storm) if *storm == Storm::default() => f.write_str("the API server is well"),
            Self::Storm(storm) => write!(f, "the API server is like this: {storm:?}"),
            Self::Cut(stage, cut) => write!(f, "the {} loses {}", stage.as_str(), cut.as_str()),
            Self::Mend(stage, cut) => write!(f, "the {} has {} again", stage.as_str(), cut.as_str()),
            Self::Pause(scope, span) => write!(f, "{scope} is paused for {span:?}"),
            Self::Resume(scope) => write!(f, "{scope} is resumed"),
            Self::Scribble => f.write_str("the ConfigMap of pauses becomes unreadable"),
            Self::ForgetPauses => f.write_str("the ConfigMap of pauses is deleted"),
            Self::Rival(span) => write!(f, "a rival acts for {span:?}"),
            Self::Budget(least) => write!(f, "a budget wants {least} application pods"),
            Self::Release(node) => write!(f, "the daemon pod of {node} is taken out of the selector"),
            Self::DeleteDaemon(node) => write!(f, "the daemon pod of {node} is deleted by hand"),
        }
    }
}
