//! What kept the stages and the bus from doing, hearing and saying what they otherwise would, by the story.

use std::time::Duration;

use bailiff_model::Mono;
use jiff::SignedDuration;

use crate::StageName;
use crate::chaos::faults::{Cut, Storm};
use crate::chaos::story::{BLIND, Deed, Story};

/// Until another replica has the Leases of one that is gone: they run out after 15 s, and are looked at every few seconds.
const LEASES: Duration = Duration::from_secs(25);
/// Until the replicas of a stage are replaced, which give their Leases back, one after the other. Where they divide the work anew, they
/// wait until those of another layout have surely stopped, as long as a Lease lasts.
const ROLL: Duration = Duration::from_secs(8);
/// A watch that could not be opened, or a list that could not be read, is tried again after a pause of up to so long.
const PAUSE: Duration = Duration::from_secs(30);
/// Until a stage that starts has heard everything, and said what it makes of it.
const START: Duration = Duration::from_secs(5);

/// A time in which something was not whole.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// `None`: every stage.
    stage: Option<StageName>,
    from: Mono,
    until: Mono,
}

/// All of it.
#[derive(Clone, Debug)]
pub(in crate::chaos) struct Trouble {
    spans: Vec<Span>,
    /// When the bus lost its memory.
    losses: Vec<Mono>,
    /// By how much the clocks of stages were ever wrong.
    steps: Vec<(StageName, SignedDuration)>,
    rivals: Vec<Mono>,
    /// Nodes that were silent, from when until when.
    silences: Vec<(String, Mono, Mono)>,
}

// === impl Trouble ===

impl Trouble {
    /// Of a story that began at `began`.
    pub(in crate::chaos) fn of(story: &Story, began: Mono) -> Self {
        let mut trouble = Self {
            spans: Vec::new(),
            losses: Vec::new(),
            steps: Vec::new(),
            rivals: Vec::new(),
            silences: Vec::new(),
        };
        for (nth, (at, deed)) in story.deeds.iter().enumerate() {
            let at = began + *at;
            let ends = |is_end: &dyn Fn(&Deed) -> bool| {
                let end = story.deeds[nth + 1..].iter().find(|(_, later)| is_end(later));
                began + end.map_or(story.end, |(at, _)| *at)
            };
            let (stage, until) = match deed {
                // Of several replicas none has the Leases of those that are gone at once.
                Deed::Kill(stage, gone) if story.terms.shards.is_some() => (Some(*stage), at + *gone + LEASES),
                Deed::Kill(stage, gone) => (Some(*stage), at + *gone + START),
                Deed::KillReplica(stage, _, gone) => (Some(*stage), at + *gone + LEASES),
                Deed::Divide(stage, shards) if shards_before(story, nth, *stage) == Some(*shards) => (Some(*stage), at + ROLL),
                Deed::Divide(stage, _) => (Some(*stage), at + LEASES),
                Deed::KillBus(gone) => (None, at + *gone + START),
                Deed::Disconnect => (None, at + START),
                Deed::Storm(storm) if *storm != Storm::default() => (None, ends(&|later| matches!(later, Deed::Storm(_))) + START),
                Deed::Cut(stage, cut) => {
                    let mended = ends(&|later| *later == Deed::Mend(*stage, *cut));
                    // A watch that fell silent stays so until that is noticed.
                    let noticed = if matches!(cut, Cut::Reads | Cut::Events) {
                        BLIND
                    } else {
                        START
                    };
                    (Some(*stage), mended + noticed)
                }
                Deed::Silence(nodes) => {
                    for node in nodes {
                        let is_end = |later: &Deed| matches!(later, Deed::Return(back) if back.contains(node));
                        trouble.silences.push((node.clone(), at, ends(&is_end)));
                    }
                    continue;
                }
                Deed::Step(stage, by) => {
                    trouble.step(*stage, *by);
                    continue;
                }
                Deed::Rival(_) => {
                    trouble.rivals.push(at);
                    continue;
                }
                _ => continue,
            };
            trouble.spans.push(Span { stage, from: at, until });
        }
        trouble.losses = losses(story).map(|at| began + at).collect();
        trouble
    }

    /// Adds that a stage waited for an answer to a watch or a list that never came: what it does not hear is no fault of what it tells.
    pub(in crate::chaos) fn waited(&mut self, stage: StageName, from: Mono, until: Mono) {
        self.spans.push(Span {
            stage: Some(stage),
            from,
            until: until + PAUSE,
        });
    }

    /// Every sum of steps is a way in which the clock may be wrong.
    fn step(&mut self, stage: StageName, by: SignedDuration) {
        let before = self.steps.iter().rev().find(|(of, _)| *of == stage);
        let sum = before.map_or(SignedDuration::ZERO, |(_, sum)| *sum) + by;
        self.steps.push((stage, sum));
    }

    /// True if something kept the stage from its work within this time.
    pub(in crate::chaos) fn is_amid(&self, stage: StageName, from: Mono, to: Mono) -> bool {
        let of_stage = |span: &&Span| span.stage.is_none_or(|of| of == stage);
        self.spans
            .iter()
            .filter(of_stage)
            .any(|span| span.from <= to && span.until >= from)
    }

    /// The same for any of those that decide about pods.
    pub(in crate::chaos) fn is_any_amid(&self, from: Mono, to: Mono) -> bool {
        StageName::ALL[..3].iter().any(|stage| self.is_amid(*stage, from, to))
    }

    /// When the bus lost its memory last, until then.
    pub(super) fn memory_lost(&self, at: Mono) -> Option<Mono> {
        self.losses.iter().copied().filter(|loss| *loss < at).max()
    }

    /// The moments right before the bus loses its memory.
    pub(in crate::chaos) fn losses(&self) -> &[Mono] {
        &self.losses
    }

    /// How far ahead the stage's clock may have been.
    pub(super) fn offsets(&self, stage: StageName) -> impl Iterator<Item = SignedDuration> {
        let steps = self.steps.iter().filter(move |(of, _)| *of == stage);
        std::iter::once(SignedDuration::ZERO).chain(steps.map(|(_, sum)| *sum))
    }

    /// True if the kubelet of this node was silent.
    pub(super) fn is_silent(&self, node: &str, at: Mono) -> bool {
        let mut of_node = self.silences.iter().filter(|(name, ..)| name == node);
        of_node.any(|(_, from, until)| *from <= at && at <= *until)
    }

    /// True if a rival may be held to be there.
    pub(super) fn had_rival(&self, at: Mono) -> bool {
        self.rivals.iter().any(|from| *from <= at)
    }
}

/// Into how many shards the stage is divided before this deed.
fn shards_before(story: &Story, nth: usize, stage: StageName) -> Option<u32> {
    let divided = story.deeds[..nth].iter().rev().find_map(|(_, deed)| match deed {
        Deed::Divide(of, shards) if *of == stage => Some(*shards),
        _ => None,
    });
    let at_first = || {
        StageName::ALL
            .into_iter()
            .zip(story.terms.shards?)
            .find(|(of, _)| *of == stage)
    };
    divided.or_else(|| at_first().map(|(_, shards)| shards))
}

/// When the bus forgets: when it dies, and when it is started once more while it runs.
fn losses(story: &Story) -> impl Iterator<Item = Duration> {
    let deaths = story.deeds.iter().filter_map(|(at, deed)| match deed {
        Deed::KillBus(gone) => Some([(*at, false), (*at + *gone, true)]),
        _ => None,
    });
    let mut turns: Vec<(Duration, bool)> = deaths.flatten().collect();
    turns.sort();
    let mut was_up = true;
    turns.into_iter().filter_map(move |(at, is_start)| {
        let forgets = was_up;
        was_up = is_start;
        forgets.then_some(at)
    })
}
