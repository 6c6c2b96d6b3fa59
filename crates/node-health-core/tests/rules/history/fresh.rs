//! A monitor that starts, beside one that lived through a history.

use std::collections::BTreeMap;

use bailiff_model::{Holds, NodeHealth, NodeName, Verdict};
use bailiff_node_health_core::{Inherited, Input, Measurement, Summary};

use super::{FATES, Fate, History, NAMES};
use crate::support::name;

/// What the records say, the verdicts among that, and the sizes.
type Said = (Vec<String>, BTreeMap<NodeName, Verdict>, Summary);

// === impl History ===

impl History {
    fn verdicts(&self) -> BTreeMap<NodeName, Verdict> {
        self.world
            .topic
            .iter()
            .map(|(name, record)| (name.clone(), record.health.verdict))
            .collect()
    }

    /// Nothing is kept of nodes that are gone, and nothing waits.
    fn check_nothing_kept(&self) {
        let kept = format!("{:?}", self.world.monitor);
        for node in NAMES.iter().filter(|node| !self.world.nodes.contains_key(&name(node))) {
            assert!(
                self.world.leases.contains_key(&name(node)) || !kept.contains(node),
                "{node}: {kept}"
            );
        }
        let summary = self.world.monitor.summary();
        assert_eq!((summary.waiting, summary.under_way), (0, 0));
    }

    /// Everything arrives, and everybody renews or stays silent: a monitor that starts then has the same to say, and nothing to write.
    pub(super) fn check_like_fresh(&mut self) {
        self.settle();
        if !self.leading {
            self.lead();
        }
        self.settle();
        // A hold on a node may outlive the node: that is not the monitor's to forget.
        if !self.dice.one_in(4) || self.world.holds.on_everything().is_none() {
            self.world.hold(Holds::NONE);
        }
        let gone: Vec<_> = NAMES
            .iter()
            .filter(|node| !self.world.nodes.contains_key(&name(node)))
            .collect();
        for node in gone {
            self.delete_lease(node);
        }
        let fates: BTreeMap<NodeName, Fate> = self
            .world
            .nodes
            .keys()
            .cloned()
            .map(|name| (name, FATES[self.dice.below(FATES.len())]))
            .collect();
        self.live(&fates);
        self.check_nothing_kept();
        let before = (self.told(&fates), self.verdicts(), self.world.monitor.summary());
        self.check_start(&fates, &before, true);
        self.check_start(&fates, &before, false);
    }

    /// Another monitor starts, with the records or without them.
    fn check_start(&mut self, fates: &BTreeMap<NodeName, Fate>, before: &Said, keeps_topic: bool) {
        let (records, verdicts, summary) = before;
        self.world.told.clear();
        self.world.story();
        self.base = self.time - 1.0;
        if !keeps_topic {
            self.world.topic.clear();
        }
        self.world.replace(self.config);
        self.world.give(Input::Braked(self.world.holds.clone()));
        self.lead();
        self.list_nodes();
        self.list_leases();
        self.settle();
        if keeps_topic && !self.clocks_disagree {
            assert_eq!(self.verdicts(), *verdicts, "{fates:?}");
        }
        self.live(fates);
        let story = self.world.story();
        if keeps_topic {
            assert_eq!(self.told(fates), *records, "{fates:?}");
            assert!(!story.iter().any(|line| line.contains(" write ")), "{story:#?}");
            // Of incidents there is nothing new. A late one that is taken for one that spoke, as clocks disagree, ends one.
            let is_level =
                |told: &Measurement| matches!(told, Measurement::NoLongerEverythingDown { .. } | Measurement::EverythingDown);
            let told = &self.world.told;
            assert!(
                self.clocks_disagree || told.iter().all(|(_, told)| is_level(told)),
                "{told:#?}"
            );
        }
        assert_eq!(self.verdicts(), *verdicts, "{fates:?}");
        let mut now = self.world.monitor.summary();
        let mut told = self.world.topic.values().chain(self.others.values());
        if told.all(|record| record.health.excluded_from_disruption) {
            // Without a vote it stays as it was (NL-096).
            now.everything_down = summary.everything_down;
        }
        assert_eq!(now, *summary, "{fates:?}");
        self.check_nothing_kept();
    }

    /// What the records say, without what is only told with the next change.
    fn told(&self, fates: &BTreeMap<NodeName, Fate>) -> Vec<String> {
        let is_silent = |name: &NodeName| fates.get(name) == Some(&Fate::Silent);
        let tell = |(name, record): (&NodeName, &Inherited)| {
            let NodeHealth {
                node,
                zone,
                excluded_from_disruption: excluded,
                ready,
                verdict,
                last_sign_of_life,
                late_since,
                counted_from,
                grace,
                held,
                ..
            } = &*record.health;
            // Only what these say of it is inherited, with the moments of clocks, unless it spoke since.
            let is_late = matches!(verdict, Verdict::Late | Verdict::Unreachable);
            let renewed = self.world.leases.get(name).and_then(|lease| lease.renewed);
            let spoke = renewed.is_some() && renewed != last_sign_of_life.and_then(|sign| sign.renew_time);
            let is_told = is_silent(name) && !self.clocks_disagree && is_late && !spoke;
            // Whoever starts may take a late one for one that spoke, if clocks disagree, and finds it late anew.
            let is_anew = self.clocks_disagree && *verdict == Verdict::Late;
            let late_since = late_since.filter(|_| !is_anew);
            let silence = is_told.then_some((last_sign_of_life.map(|sign| (sign.time, sign.signal)), counted_from));
            format!(
                "{name} {} {zone} {excluded} {ready:?} {verdict:?} {late_since:?} {grace:?} {held:?} {silence:?} {:?}",
                node.uid,
                // The last of an incident has its trace, and is no part of one.
                record.trace.filter(|_| *verdict != Verdict::Healthy && !is_anew)
            )
        };
        self.world.topic.iter().map(tell).collect()
    }
}
