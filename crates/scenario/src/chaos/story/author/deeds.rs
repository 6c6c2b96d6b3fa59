//! What happens in stories, one deed and what belongs to it at a time.

use std::time::Duration;

use jiff::SignedDuration;

use super::super::{Deed, Terms};
use super::Author;
use crate::StageName;
use crate::chaos::faults::Cut;

impl Author {
    /// Something that would be harmful, in a pause or right before it.
    pub(super) fn pause(&mut self, at: Duration, later: Duration) {
        if self.draw.below(4) == 0 {
            self.deeds.push((at, Deed::Scribble));
            self.deeds.push((later, Deed::ForgetPauses));
        } else {
            let scope = self.scope();
            self.deeds
                .push((at, Deed::Pause(scope.clone(), Duration::from_secs(5 + self.draw.below(40)))));
            if self.draw.below(3) == 0 {
                self.deeds.push((later, Deed::Resume(scope)));
            }
        }
        let when = (at + Duration::from_secs(self.draw.below(10))).saturating_sub(Duration::from_secs(5));
        if self.draw.below(2) == 0 {
            self.both(when, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 2);
        } else {
            self.taint(when, later);
        }
    }

    /// One stage loses one of the things it lives by.
    pub(super) fn cut(&mut self, at: Duration, later: Duration) {
        let stage = self.stage();
        let cut = Cut::ALL[self.draw.below(Cut::ALL.len() as u64) as usize];
        // Longer than it takes to find out.
        let later = if cut == Cut::Events {
            at + Duration::from_secs(70)
        } else {
            later
        };
        self.deeds.push((at, Deed::Cut(stage, cut)));
        self.deeds.push((later, Deed::Mend(stage, cut)));
    }

    /// Another image in the middle of things, and what disturbs a rollout.
    pub(super) fn rollout(&mut self, at: Duration) {
        self.images += 1;
        self.deeds.push((at, Deed::Image(self.images)));
        let soon = at + Duration::from_millis(self.draw.below(4_000));
        match self.draw.below(5) {
            0 => self
                .deeds
                .push((soon, Deed::Kill(StageName::DaemonsetSyncer, Duration::from_secs(1)))),
            1 => {
                self.images += 1;
                self.deeds.push((soon, Deed::Image(self.images)));
            }
            2 => self.deeds.push((soon, Deed::Release(self.node().0))),
            3 => self.deeds.push((soon, Deed::DeleteDaemon(self.node().0))),
            _ => {
                let node = self.node().0;
                self.deeds.push((soon, Deed::Silence(vec![node.clone()])));
                self.deeds.push((soon + self.span(), Deed::Return(vec![node])));
            }
        }
    }

    /// A node moves to another zone, and mostly it is not well then.
    pub(super) fn relabel(&mut self, at: Duration) {
        let (node, _) = self.node();
        let zone = format!("z{}", self.draw.below(self.zones + 1));
        self.deeds.push((at, Deed::Relabel(node.clone(), zone)));
        if self.draw.below(3) > 0 {
            let before = at.saturating_sub(Duration::from_millis(self.draw.below(12_000)));
            self.deeds.push((before, Deed::Silence(vec![node.clone()])));
            self.deeds.push((at + self.span(), Deed::Return(vec![node])));
        }
    }

    /// A deed and its opposite, for one node (1), a zone (2) or everything (3).
    pub(super) fn both(&mut self, at: Duration, later: Duration, deeds: impl Fn(Vec<String>) -> (Deed, Deed), whom: u8) {
        let nodes = match whom {
            1 => vec![self.node().0],
            2 => self.zone().1,
            _ => self.nodes.iter().map(|(node, _)| node.clone()).collect(),
        };
        let (deed, opposite) = deeds(nodes);
        self.deeds.push((at, deed));
        self.deeds.push((later, opposite));
    }

    /// While toleration times run, or nodes wait for their turn, a clock is stepped by an hour and its stage dies: the next one begins
    /// with the wrong clock.
    pub(super) fn wrong_clock(&mut self, at: Duration, later: Duration) {
        let stage = match self.draw.below(3) {
            0 => StageName::TaintManager,
            1 => StageName::ZoneEvictor,
            _ => self.stage(),
        };
        let wait = Duration::from_millis(500 + self.draw.below(7_000));
        let when = if stage == StageName::TaintManager {
            self.taint(at, later);
            at + wait
        } else {
            self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 2);
            at + Terms::default().grace + wait
        };
        let hours = if self.draw.below(2) == 0 { 1 } else { -1 };
        self.deeds.push((when, Deed::Step(stage, SignedDuration::from_hours(hours))));
        let gone = Duration::from_millis(200 + self.draw.below(2_000));
        self.deeds.push((when, Deed::Kill(stage, gone)));
    }

    pub(super) fn taint(&mut self, at: Duration, later: Duration) {
        let (node, _) = self.node();
        let later = later.max(at + Duration::from_secs(1));
        let key = format!("example.com/{}", ["a", "b"][self.draw.below(2) as usize]);
        let taint = |value: &str| Deed::Taint {
            node: node.clone(),
            key: key.clone(),
            value: value.to_owned(),
        };
        self.deeds.push((at, taint("1")));
        if self.draw.below(3) == 0 {
            self.deeds.push((at + (later - at) / 2, taint("2")));
        }
        if self.draw.below(3) > 0 {
            self.deeds.push((later, Deed::Untaint { node, key }));
        }
    }
}
