//! Why an act that is decided does not happen at the moment.
//!
//! What health causes needs `node-health` and `eviction-intents`, complete and live; an eviction for a hand-made taint needs only
//! `eviction-intents`. Both need fresh watches. Every hold ends by itself when its reason does.

mod monitored;

use bailiff_model::intent::{EvictionCause, PodEviction};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds, NodeName, Now, Profile, ReadyStatus, Toleration, Topic, Wall, Zone};

use super::Evictor;
use crate::config::AcceptIntents;
use crate::judge::is_caused_by_health;
use crate::span::Why;

pub(super) use monitored::Monitored;

/// What holds depend on. A change of it is the one thing that is looked at for everything that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gates {
    begun: bool,
    api_fresh: bool,
    health: (bool, bool),
    intents: (bool, bool),
    all_down: (bool, bool),
    daemon_sets: bool,
    external_changes: u64,
}

/// Why something must wait: a hold, but for when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// One of few.
    pub(super) reason: HoldReason,
    /// One sentence for people.
    pub(super) detail: String,
    /// When it ends unless something changes, where that is known. It does not move as time passes, or it would be news each time.
    pub(super) until: Option<Wall>,
}

// === impl Gates ===

impl Gates {
    /// Every node's health was known when they were looked at last.
    pub(super) const fn had_all_health(&self) -> bool {
        self.health.0
    }
}

// === impl Reason ===

impl Reason {
    /// One of which nobody knows when it ends.
    pub(super) fn new(reason: HoldReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            until: None,
        }
    }

    /// The hold that began then.
    pub(super) fn since(self, since: Wall) -> Hold {
        Hold {
            reason: self.reason,
            detail: self.detail,
            since,
            until: self.until,
        }
    }
}

impl From<&Hold> for Reason {
    fn from(hold: &Hold) -> Self {
        Self {
            reason: hold.reason,
            detail: hold.detail.clone(),
            until: hold.until,
        }
    }
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Self {
        Self::held(reason.reason, reason.detail)
    }
}

// === impl Evictor ===

impl Evictor {
    pub(super) fn brake(&mut self, holds: Holds) {
        let observing = holds.get(&HoldScope::All, HoldReason::Observing).cloned();
        let others = holds.iter().filter(|(_, hold)| hold.reason != HoldReason::Observing);
        let external: Holds = others.map(|(scope, hold)| (scope.clone(), hold.clone())).collect();
        if (&self.external, &self.observing) != (&external, &observing) {
            (self.external, self.observing) = (external, observing);
            self.external_changes += 1;
        }
    }

    /// An observer says what would keep it from acting if it were none, and only where nothing would that it observes.
    pub(super) fn observer_hold(&self) -> Option<Reason> {
        self.observing.as_ref().map(Reason::from)
    }

    /// A health record of the node held its zone `before`, or does so by now.
    pub(super) fn monitor_holds(&mut self, name: &NodeName, before: Option<Zone>, after: Option<(Zone, Hold)>) {
        let left = before.filter(|zone| after.as_ref().is_none_or(|(home, _)| home != zone));
        let news = left
            .map(|zone| (zone, None))
            .into_iter()
            .chain(after.map(|(zone, hold)| (zone, Some(hold))));
        for (zone, hold) in news {
            let told = |holds: &Self| holds.monitor_hold(&zone).map(|hold| (hold.reason, hold.until));
            let before = told(self);
            let monitored = self.held_by_monitor.entry(zone.clone()).or_default();
            monitored.set(name, hold);
            if monitored.is_empty() {
                self.held_by_monitor.remove(&zone);
            }
            self.external_changes += u64::from(before != told(self));
        }
    }

    fn monitor_hold(&self, zone: &Zone) -> Option<Reason> {
        self.held_by_monitor.get(zone)?.last().map(Reason::from)
    }

    /// Looks again at everything that waits, if a gate opened or closed.
    pub(super) fn check_gates(&mut self, now: Now) {
        let state = |topic| (self.is_complete(topic), self.topics.is_live(topic, now.mono));
        let gates = Gates {
            begun: self.begun,
            api_fresh: self.api_fresh,
            health: state(Topic::NodeHealth),
            intents: state(Topic::EvictionIntents),
            all_down: (self.all_down, self.all_down_for_brake),
            daemon_sets: self.daemon_sets.are_known(),
            external_changes: self.external_changes,
        };
        if gates != self.gates {
            let externals_changed = gates.external_changes != self.gates.external_changes;
            self.gates = gates;
            self.changed_zones.extend(self.zones.keys().cloned());
            self.touched.append(&mut self.blocked);
            if externals_changed {
                self.touch_waiting();
            }
            self.call_off_taints();
            self.pods.look_again_at_gates();
        }
        for zone in self.changed_zones.clone() {
            self.hold_zone(&zone, now);
        }
    }

    pub(super) fn external_for_node(&self, name: &NodeName) -> Option<Reason> {
        self.external.on_name(name).map(Reason::from)
    }

    fn external_for_zone(&self, zone: &Zone) -> Option<Reason> {
        self.external.on_zone(zone).map(Reason::from)
    }

    fn api_hold(&self) -> Option<Reason> {
        (!self.gates.api_fresh).then(|| Reason::new(HoldReason::ApiStale, "the watch on nodes is not fresh"))
    }

    fn topic_hold(&self, topic: Topic, (complete, live): (bool, bool)) -> Option<Reason> {
        if !complete {
            let detail = format!("not every shard of topic {topic} is complete");
            return Some(Reason::new(HoldReason::Incomplete, detail));
        }
        (!live).then(|| Reason::new(HoldReason::Stale, self.topics.why_not_live(topic)))
    }

    /// Why nothing that health causes may happen in `zone`, rates apart.
    pub(super) fn health_hold(&self, zone: &Zone) -> Option<Reason> {
        self.external_for_zone(zone)
            .or_else(|| self.monitor_hold(zone))
            .or_else(|| self.api_hold())
            .or_else(|| self.topic_hold(Topic::NodeHealth, self.gates.health))
            .or_else(|| self.topic_hold(Topic::EvictionIntents, self.gates.intents))
    }

    pub(super) fn all_down_hold(&self) -> Option<Reason> {
        let detail = match self.gates.all_down {
            (true, _) => "no voting node is ready",
            (false, true) => "no voting node is ready that is not late",
            (false, false) => return None,
        };
        Some(Reason::new(HoldReason::AllZonesDisrupted, detail))
    }

    /// Why nothing is done to the node on a health record or a wish that is not the newest.
    pub(super) fn unreadable_hold(&self, name: &NodeName) -> Option<Reason> {
        let health = self.topics.why_not_readable(Topic::NodeHealth, name.to_string());
        let why = health.or_else(|| self.topics.why_not_readable(Topic::EvictionIntents, format!("node/{name}")));
        why.map(|why| Reason::new(HoldReason::OutdatedIntent, why))
    }

    fn unreadable_pod_hold(&self, intent: &PodEviction) -> Option<Reason> {
        let key = format!("pod/{}", intent.pod.uid);
        let why = self.topics.why_not_readable(Topic::EvictionIntents, key)?;
        Some(Reason::new(HoldReason::OutdatedIntent, why))
    }

    /// Why the pod may not be evicted now. `tolerations` are its own, if it was read.
    pub(super) fn pod_hold(&self, intent: &PodEviction, tolerations: Option<&[Toleration]>) -> Option<Reason> {
        let name = &intent.node.name;
        let zone = self.zone_of(name, &intent.zone);
        let facts = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        let by_health = self.config.duties.node_lifecycle && is_caused_by_health(intent, facts, tolerations);
        self.external_for_node(name)
            .or_else(|| {
                if by_health {
                    self.health_hold(zone)
                } else {
                    self.hand_made_hold(zone)
                }
            })
            .or_else(|| {
                (by_health && self.config.profile == Profile::Bailiff)
                    .then(|| self.all_down_hold())
                    .flatten()
            })
            .or_else(|| by_health.then(|| self.unreadable_hold(name)).flatten())
            .or_else(|| self.unreadable_pod_hold(intent))
            .or_else(|| by_health.then(|| self.ready_again_hold(intent)).flatten())
            .or_else(|| {
                (*intent.cause == EvictionCause::Node)
                    .then(|| self.daemon_sets_hold().or_else(|| self.node_mode_hold(name)))
                    .flatten()
            })
            .or_else(|| self.observer_hold())
    }

    /// A node that says that it is Ready is about to lose its health taints (NL-074): what they cause waits until it has lost them, or
    /// says otherwise. In node mode such intents are refused. Upstream evicts for any taint that stands (TE-052).
    ///
    /// That the monitor says so counts as much: a watch of ours that is half-open is fresh for a while, and shows a node as it was. Then
    /// a read decides ([`Self::ask_if_ready`]), so that this hold ends.
    fn ready_again_hold(&self, intent: &PodEviction) -> Option<Reason> {
        let node = self.nodes.get(&intent.node.name)?;
        let facts = node.facts.as_ref().filter(|facts| facts.uid == intent.node.uid)?;
        let by_node = *intent.cause == EvictionCause::Node;
        let judged = by_node || self.config.profile == Profile::Bailiff;
        if self.config.accept != AcceptIntents::Justified || !judged {
            return None;
        }
        let tainted = facts.health_taints().next().is_some();
        let detail = if facts.ready == ReadyStatus::True && tainted && !by_node {
            format!("node {} says that it is Ready", facts.name)
        } else if node.is_ready_elsewhere() {
            format!("the monitor says that node {} is Ready", facts.name)
        } else {
            return None;
        };
        Some(Reason::new(HoldReason::OutdatedIntent, detail))
    }

    /// Asks for a read of a node that holds its pods because the monitor says that it is Ready.
    pub(super) fn ask_if_ready(&mut self, name: &NodeName) {
        if self.nodes.get(name).is_some_and(|node| node.is_ready_elsewhere()) {
            self.confirm_node(name);
        }
    }

    fn hand_made_hold(&self, zone: &Zone) -> Option<Reason> {
        self.external_for_zone(zone)
            .or_else(|| self.api_hold())
            .or_else(|| self.topic_hold(Topic::EvictionIntents, self.gates.intents))
    }
}
