//! Makes up stories.

mod deeds;

use std::time::Duration;

use bailiff_model::{EvictionMode, HoldScope, NodeName, Profile};
use bailiff_runtime::Seed;
use jiff::SignedDuration;

use super::{ANEW, BLIND, Deed, Method, PROMPT, STILL, Story, Terms};
use crate::StageName;
use crate::chaos::faults::{Cut, Storm};
use crate::chaos::timeline::MEMORY;

/// When the first thing happens: the cluster is up and quiet by then.
const QUIET: Duration = Duration::from_secs(12);
/// For how long things happen.
const TROUBLE: Duration = Duration::from_secs(90);
/// How long it takes at most, once nothing happens any more, until everything that follows has happened: graces, queues, the longest
/// toleration and the backoff of what failed.
const SETTLING: Duration = Duration::from_secs(150);
/// Tolerations of pods, in seconds; `None` is for ever.
const TOLERATIONS: [Option<i64>; 6] = [Some(0), Some(3), Some(10), Some(30), None, Some(-1)];

/// What a story is about besides what happens in all of them. They take turns, so that each has its share of any run of seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// Nothing but that nodes move to other zones.
    Plain,
    /// Stages start with clocks that are wrong.
    WrongClocks,
    /// People pause and resume.
    Pauses,
    /// Leases that stop together are held.
    Losses,
    /// A kube-controller-manager does our duties.
    Rival,
    /// Evictions ask a budget.
    Budgets,
    /// One stage alone is cut off from something.
    Partitions,
    /// One image after the other.
    Rollouts,
    /// Replicas share out the shards of stages, die, and divide them anew.
    Shards,
}

const THEMES: [Theme; 9] = [
    Theme::Plain,
    Theme::WrongClocks,
    Theme::Pauses,
    Theme::Losses,
    Theme::Rival,
    Theme::Budgets,
    Theme::Partitions,
    Theme::Rollouts,
    Theme::Shards,
];

/// The story of this seed.
pub(super) fn write(seed: u64) -> Story {
    Author::new(seed).write()
}

/// Makes up a story.
struct Author {
    seed: u64,
    theme: Theme,
    draw: Seed,
    nodes: Vec<(String, String)>,
    zones: u64,
    deeds: Vec<(Duration, Deed)>,
    pods: u64,
    images: u64,
    /// What a restart without memory has to go by is a wall clock: who steps clocks does not also lose the bus. With its memory no
    /// clock has to be right.
    steps_clocks: bool,
}

impl Author {
    fn new(seed: u64) -> Self {
        let draw = Seed::new(seed).fork("story");
        let zones = 1 + draw.below(3);
        let mut nodes = Vec::new();
        for zone in 0..zones {
            for node in 0..=draw.below(4) {
                nodes.push((format!("z{zone}-n{node}"), format!("z{zone}")));
            }
        }
        let theme = THEMES[(seed % THEMES.len() as u64) as usize];
        let steps_clocks = match theme {
            Theme::WrongClocks => true,
            // A stage that starts with a clock that is ahead takes a pause for over (docs/operations.md).
            Theme::Pauses => false,
            _ => draw.below(2) == 0,
        };
        Self {
            seed,
            theme,
            nodes,
            zones,
            deeds: Vec::new(),
            pods: 0,
            images: 1,
            steps_clocks,
            draw,
        }
    }

    fn write(mut self) -> Story {
        let terms = self.terms();
        for (node, _) in self.nodes.clone() {
            for _ in 0..=self.draw.below(3) {
                let deed = self.new_pod(node.clone());
                self.deeds.push((Duration::from_secs(3), deed));
            }
        }
        for _ in 0..(4 + self.draw.below(10)) {
            let at = self.moment();
            self.trouble(at);
        }
        for _ in 0..(1 + self.draw.below(4)) {
            let at = self.moment();
            self.trouble_of_theme(at);
        }
        if self.theme == Theme::Rival {
            // What a stage cannot see holds it not: neither what was said while it was gone, nor what it missed.
            let blinds = |deed: &Deed| matches!(deed, Deed::Kill(..) | Deed::Storm(_));
            self.deeds.retain(|(_, deed)| !blinds(deed));
        }
        self.heal();
        let end = QUIET + TROUBLE + SETTLING + STILL;
        for (nth, stage) in (0..).zip(StageName::ALL) {
            let at = end - ANEW + Duration::from_millis(300 * nth);
            let (gone, deed) = match self.divided(&terms, stage) {
                // The Leases of those that are killed would have to run out first.
                Some(shards) => (Duration::ZERO, Deed::Divide(stage, shards)),
                None => (Duration::from_secs(2), Deed::Kill(stage, Duration::from_secs(2))),
            };
            self.deeds.push((at - gone, deed));
        }
        self.deeds.sort_by_key(|(at, _)| *at);
        let terms = self.ages(terms);
        Story {
            seed: self.seed,
            terms,
            nodes: self.nodes,
            deeds: self.deeds,
            end,
        }
    }

    /// How old what stages act on may be, given what happens.
    fn ages(&self, terms: Terms) -> Terms {
        let any = |is_such: fn(&Deed) -> bool| self.deeds.iter().any(|(_, deed)| is_such(deed));
        let is_late = any(|deed| matches!(deed, Deed::Storm(storm) if *storm != Storm::default()) || matches!(deed, Deed::Cut(..)));
        let latency = if is_late { MEMORY } else { PROMPT };
        Terms {
            latency,
            // A watch that is not answered is noticed after half a minute, one that is silent after a whole one.
            blindness: if is_late { BLIND } else { PROMPT },
            ..terms
        }
    }

    fn terms(&self) -> Terms {
        // Not 1.0: in upstream's profile a zone that was stopped stays so at exactly that (NL-083).
        let rate = [0.05, 0.2, 0.5, 1.5, 5.0][self.draw.below(5) as usize];
        let is_node = self.draw.below(4) == 0;
        let is_upstream = self.draw.below(3) == 0;
        Terms {
            rate,
            mode: if is_node { EvictionMode::Node } else { EvictionMode::Taint },
            profile: if is_upstream { Profile::Upstream } else { Profile::Bailiff },
            method: match self.theme {
                Theme::Budgets if self.draw.below(2) == 0 => Method::Evict,
                Theme::Budgets => Method::EvictThenDelete(Duration::from_secs(20)),
                _ => Method::Delete,
            },
            holds_losses: self.theme == Theme::Losses,
            rollout: match self.theme {
                Theme::Rollouts => [(1, 0), (2, 0), (0, 1), (0, 2)][self.draw.below(4) as usize],
                _ => (1, 0),
            },
            shards: match self.theme {
                Theme::Shards => Some(StageName::ALL.map(|_| self.shards())),
                _ => None,
            },
            ..Terms::default()
        }
    }

    fn moment(&self) -> Duration {
        QUIET + Duration::from_millis(self.draw.below(TROUBLE.as_millis() as u64))
    }

    fn span(&self) -> Duration {
        Duration::from_millis(500 + self.draw.below(40_000))
    }

    fn node(&self) -> (String, String) {
        self.nodes[self.draw.below(self.nodes.len() as u64) as usize].clone()
    }

    fn zone(&self) -> (String, Vec<String>) {
        let zone = format!("z{}", self.draw.below(self.zones));
        let nodes = self.nodes.iter().filter(|(_, of)| *of == zone).map(|(node, _)| node.clone());
        (zone.clone(), nodes.collect())
    }

    fn stage(&self) -> StageName {
        StageName::ALL[self.draw.below(4) as usize]
    }

    fn new_pod(&mut self, node: String) -> Deed {
        self.pods += 1;
        let tolerates = TOLERATIONS[self.draw.below(TOLERATIONS.len() as u64) as usize];
        Deed::CreatePod {
            name: format!("app-{}", self.pods),
            node,
            tolerates,
        }
    }

    /// Something at `at`, and what ends it.
    fn trouble(&mut self, at: Duration) {
        let later = at + self.span();
        match self.draw.below(16) {
            0..=2 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 1),
            3 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 2),
            4 => self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), 3),
            5 => self.both(
                at,
                later,
                |nodes| (Deed::Ready(nodes.clone(), false), Deed::Ready(nodes, true)),
                1,
            ),
            6..=8 => self.taint(at, later),
            9 => {
                let (node, zone) = self.node();
                self.deeds.push((at, Deed::DeleteNode(node.clone())));
                self.deeds
                    .push((later.min(at + Duration::from_secs(9)), Deed::CreateNode(node, zone)));
            }
            10 => {
                let (node, _) = self.node();
                let deed = self.new_pod(node);
                self.deeds.push((at, deed));
                let victim = format!("app-{}", 1 + self.draw.below(self.pods));
                self.deeds.push((later, Deed::DeletePod(victim)));
            }
            11 => {
                self.images += 1;
                self.deeds.push((at, Deed::Image(self.images)));
            }
            12 | 13 => self.deeds.push((at, Deed::Kill(self.stage(), self.span()))),
            14 if self.steps_clocks => {
                let by = SignedDuration::from_secs(self.draw.below(7200) as i64 - 3600);
                self.deeds.push((at, Deed::Step(self.stage(), by)));
            }
            14 if self.draw.below(2) == 0 => self.deeds.push((at, Deed::Disconnect)),
            14 => self.deeds.push((at, Deed::KillBus(self.span()))),
            _ => {
                let some = |most: u64| self.draw.below(most);
                let storm = Storm {
                    refused: some(200),
                    unanswered: some(60),
                    unheard: some(60),
                    slow: some(200),
                    late: some(200),
                    cut: some(60),
                    twice: some(100),
                };
                self.deeds.push((at, Deed::Storm(storm)));
                self.deeds.push((later, Deed::Storm(Storm::default())));
            }
        }
    }

    /// What the theme of the story adds.
    fn trouble_of_theme(&mut self, at: Duration) {
        let later = at + self.span();
        match self.theme {
            Theme::WrongClocks => self.wrong_clock(at, later),
            Theme::Pauses => self.pause(at, later),
            Theme::Losses => {
                let whom = 2 + self.draw.below(2) as u8;
                self.both(at, later, |nodes| (Deed::Silence(nodes.clone()), Deed::Return(nodes)), whom);
            }
            Theme::Rival => {
                // So early that its hold ends while there is still something to do.
                let at = QUIET + (at - QUIET) / 6;
                self.deeds
                    .push((at, Deed::Rival(Duration::from_secs(5 + self.draw.below(7)))));
                let (node, _) = self.node();
                let soon = at + Duration::from_millis(self.draw.below(10_000));
                self.deeds.push((soon, Deed::Silence(vec![node])));
            }
            Theme::Budgets => {
                let least = 1 + self.draw.below(self.pods) as usize;
                self.deeds.push((at, Deed::Budget(least)));
                self.taint(at + Duration::from_secs(self.draw.below(20)), later);
            }
            Theme::Partitions => self.cut(at, later),
            Theme::Rollouts => self.rollout(at),
            Theme::Shards => {
                let deed = match self.draw.below(2) {
                    0 => Deed::Divide(self.stage(), self.shards()),
                    _ => Deed::KillReplica(self.stage(), self.shards() - 1, self.span()),
                };
                self.deeds.push((at, deed));
                let zone = self.zone().1;
                self.deeds
                    .push((at - Duration::from_secs(self.draw.below(8)), Deed::Silence(zone.clone())));
                self.deeds.push((later, Deed::Return(zone)));
            }
            Theme::Plain => self.relabel(at),
        }
    }

    /// Into how many shards a stage is divided in the end.
    fn divided(&self, terms: &Terms, stage: StageName) -> Option<u32> {
        let first = StageName::ALL.into_iter().zip(terms.shards?).find(|(name, _)| *name == stage);
        let divisions = self.deeds.iter().filter_map(|(at, deed)| match deed {
            Deed::Divide(name, shards) if *name == stage => Some((*at, *shards)),
            _ => None,
        });
        let last = divisions.max_by_key(|(at, _)| *at);
        last.map(|(_, shards)| shards).or(first.map(|(_, shards)| shards))
    }

    fn shards(&self) -> u32 {
        1 + self.draw.below(3) as u32
    }

    fn scope(&self) -> HoldScope {
        match self.draw.below(3) {
            0 => HoldScope::All,
            1 => HoldScope::Zone(format!("r:{}", self.zone().0).parse().expect("a region and a zone")),
            _ => HoldScope::Node(NodeName::from(self.node().0)),
        }
    }

    /// Of a taint that came while no taint-manager ran only `timeAdded` tells, which the next one judges by its own clock
    /// (docs/operations.md): who steps clocks sets no taint then.
    fn spare_the_unseen(&mut self) {
        const START: Duration = Duration::from_secs(1);
        let deaths: Vec<_> = self
            .deeds
            .iter()
            .filter_map(|(when, deed)| match deed {
                Deed::Kill(StageName::TaintManager, gone) => Some(*when..*when + *gone + START),
                _ => None,
            })
            .collect();
        let is_unseen = |when: &Duration| deaths.iter().any(|death| death.contains(when));
        self.deeds
            .retain(|(when, deed)| !(matches!(deed, Deed::Taint { .. }) && is_unseen(when)));
    }

    /// At the end everything is well again, except for nodes that stay silent.
    fn heal(&mut self) {
        let at = QUIET + TROUBLE + Duration::from_secs(1);
        self.deeds.retain(|(when, _)| *when < at);
        if self.steps_clocks {
            self.spare_the_unseen();
        }
        let all: Vec<String> = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let deleted: Vec<(String, String)> = self
            .nodes
            .iter()
            .filter(|(node, _)| {
                self.deeds
                    .iter()
                    .any(|(_, deed)| matches!(deed, Deed::DeleteNode(one) if one == node))
            })
            .cloned()
            .collect();
        for (node, zone) in deleted {
            self.deeds.push((at, Deed::CreateNode(node, zone)));
        }
        self.deeds.push((at, Deed::Storm(Storm::default())));
        for (stage, cut) in self.cuts() {
            self.deeds.push((at, Deed::Mend(stage, cut)));
        }
        if self.theme == Theme::Pauses {
            self.deeds.push((at, Deed::ForgetPauses));
        }
        self.deeds.push((at, Deed::Ready(all.clone(), true)));
        self.deeds.push((at, Deed::Return(all)));
        if self.draw.below(2) == 0 {
            let (node, _) = self.node();
            self.deeds.push((at + Duration::from_secs(1), Deed::Silence(vec![node])));
        }
    }

    fn cuts(&self) -> Vec<(StageName, Cut)> {
        let cuts = self.deeds.iter().filter_map(|(_, deed)| match deed {
            Deed::Cut(stage, cut) => Some((*stage, *cut)),
            _ => None,
        });
        cuts.collect()
    }
}
