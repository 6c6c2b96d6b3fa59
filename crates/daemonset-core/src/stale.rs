//! Why nothing may be written: watches that are not fresh.

use std::collections::BTreeMap;

use bailiff_model::{Hold, HoldReason, Namespace, Wall};

use crate::effect::Watched;
use crate::scopes::Scopes;

/// Why each watch that is not fresh is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stale(BTreeMap<Watched, Hold>);

impl Stale {
    /// A watch is not fresh any more.
    pub(crate) fn note(&mut self, watch: Watched, reason: &str, now: Wall) {
        let hold = Hold {
            reason: HoldReason::ApiStale,
            detail: format!("the watch of {watch} is stale: {reason}"),
            since: self.0.get(&watch).map_or(now, |hold| hold.since),
            until: None,
        };
        self.0.insert(watch, hold);
    }

    /// A watch is fresh again, or nobody needs it.
    pub(crate) fn clear(&mut self, watch: &Watched) {
        self.0.remove(watch);
    }

    /// Why nothing may be written for DaemonSets of a namespace: a decision needs its pods and the three other watches, and the one that
    /// is stale longest is the one to look at.
    pub(crate) fn over(&self, namespace: &Namespace, scopes: &Scopes) -> Option<&Hold> {
        let concerns = |watch: &Watched| match watch {
            Watched::Pods(scope) => scopes.serves(scope, namespace),
            Watched::DaemonSets | Watched::Revisions | Watched::Nodes => true,
        };
        let stale = self.0.iter().filter(|(watch, _)| concerns(watch));
        stale.map(|(_, hold)| hold).min_by_key(|hold| hold.since)
    }
}
