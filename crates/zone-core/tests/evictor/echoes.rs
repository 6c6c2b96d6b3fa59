//! Our own words come back by the bus, late, and more than one of them may be on its way.

use std::collections::VecDeque;
use std::time::Duration;

use bailiff_model::{Mono, Revision, Topic};
use bailiff_zone_core::{Input, Record};

use crate::world::{World, mk_config, secs};

const SIX: [(&str, &str); 6] = [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a"), ("n5", "a"), ("n6", "a")];

/// How often a [`Slow`] world is looked at.
const STEP: Duration = Duration::from_millis(50);

/// A world in which requests, and what is said of zone `a`, take their time.
struct Slow {
    world: World,
    request: Duration,
    echo: Duration,
    /// What was said, and when it comes back.
    on_its_way: VecDeque<(Mono, Record)>,
    /// The newest word that was taken note of.
    heard: Option<Revision>,
    /// When the oldest request is answered.
    answered_at: Option<Mono>,
}

impl Slow {
    fn new(request: u64, echo: u64) -> Self {
        let mut world = World::new(mk_config(|_| ()), &SIX);
        world.is_slow = true;
        Self {
            world,
            request: Duration::from_millis(request),
            echo: Duration::from_millis(echo),
            on_its_way: VecDeque::new(),
            heard: None,
            answered_at: None,
        }
    }

    fn pass(&mut self, by: Duration) {
        let end = self.world.now.mono + by;
        while self.world.now.mono < end {
            self.listen();
            self.world.pass(STEP);
            let now = self.world.now.mono;
            while let Some((_, echo)) = self.on_its_way.pop_front_if(|(at, _)| *at <= now) {
                // Not what the bus holds: that may be newer.
                self.world.tell(Input::Changes {
                    records: vec![echo],
                    shards: Vec::new(),
                });
                self.listen();
            }
            if self.answered_at.is_some_and(|at| at <= now) {
                self.answered_at = None;
                self.world.answer_first();
            }
        }
    }

    /// Takes note of what was said and asked for.
    fn listen(&mut self) {
        let now = self.world.now.mono;
        let said = &self.world.bus[&(Topic::EvictionOutcomes, "zone/:a".to_owned())];
        let revision = Some(said.origin.revision);
        if self.heard < revision {
            self.heard = revision;
            self.on_its_way.push_back((now + self.echo, said.clone()));
        }
        if !self.world.unanswered.is_empty() {
            self.answered_at.get_or_insert(now + self.request);
        }
    }
}

/// NL-081: the bus is slower than the API, so that the word of the grant is still on its way when that of its end is said. Neither is
/// another's grant, to be answered by a third word; that would take the token for as long as they follow each other.
#[test]
fn words_that_follow_each_other_round_take_no_token() {
    for (request, echo) in [(50, 100), (100, 300), (300, 100), (1000, 3000), (3000, 1000)] {
        let mut slow = Slow::new(request, echo);
        slow.world.fall_silent(&["n1", "n2", "n3"]);
        slow.pass(secs(60));
        let isolated = slow.world.isolated().len();
        assert_eq!(isolated, 3, "requests take {request} ms, echoes {echo} ms");
        let published = slow.world.published;
        slow.pass(secs(60));
        assert_eq!(slow.world.published, published, "nothing is left to say");
    }
}

/// NL-065, NL-081: the same grant is told twice, by a clock that was touched between. That is one grant.
#[test]
fn a_grant_that_was_told_by_another_clock_is_the_same() {
    for seconds in [-300, -1, 1, 300] {
        let mut slow = Slow::new(0, 1500);
        slow.world.fall_silent(&["n1", "n2"]);
        slow.pass(secs(1));
        slow.world.step_clock(seconds);
        slow.world.fall_silent(&["n3"]);
        slow.pass(secs(60));
        let moments: Vec<u64> = slow.world.isolations().iter().map(|(_, at)| *at).collect();
        assert_eq!(moments, [0, 10, 20], "{seconds} s");
    }
}
