//! Places of subscribers, and of unread answers: so many, the last of which are not for whoever holds many already.
//!
//! A stage that finds no place knows nothing, and whatever depends on it is held. So nobody takes every place, by mistake or by intent;
//! and nobody has to say beforehand who needs how many.

use std::collections::BTreeMap;

/// Places of subscribers in all. For each shard the node-health-monitor and the zone-evictor take one; the daemonset-syncer one until it
/// knows what was said before it; the taint-manager one, and a second one until then. With the most shards that are allowed, which are
/// 256, those are 1,280 while all begin, and 768 afterwards. No stage has more than 512, so none is told that the rest is for others; and
/// over plain text, where all may come from one machine and be one party, that gets 1,536. What is left is for people, and for places of
/// the dead, which come back after some ten seconds: where all shards of all stages fail over at once, a few may have to wait for that. A
/// place costs a bookmark every two seconds, and room for the longest message that went through it: some 16 KiB.
pub(super) const MOST: usize = 2_048;
/// One of so many parts of all places is kept back for those who hold less than such a part: two places for each of 256 shards.
const PARTS: usize = 4;

/// Who holds how many places. Whoever holds none is not in it, so it is as large as the bound allows.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: usize,
    by_party: BTreeMap<String, usize>,
}

/// There is no place for one more. The caller is told: of the others it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    /// For anybody.
    #[error("all {most} are taken, {held} of them by {party}: wait, or end those that nobody needs")]
    All {
        /// The bound.
        most: usize,
        /// Who asked.
        party: String,
        /// How many it holds.
        held: usize,
    },
    /// For whoever holds many.
    #[error(
        "the last {kept_back} of {most} are for those who hold fewer than {kept_back}, and {party} holds {held}: end those that nobody \
         needs"
    )]
    KeptBack {
        /// The bound of all.
        most: usize,
        /// How many of them are kept back.
        kept_back: usize,
        /// Who asked.
        party: String,
        /// How many it holds.
        held: usize,
    },
}

/// Whether there is a place for one more of `party`, which holds `held` of the `taken`.
fn decide(most: usize, taken: usize, party: &str, held: usize) -> Result<(), Full> {
    let kept_back = most / PARTS;
    if taken >= most {
        let party = party.to_owned();
        return Err(Full::All { most, party, held });
    }
    if taken >= most - kept_back && held >= kept_back {
        let party = party.to_owned();
        return Err(Full::KeptBack {
            most,
            kept_back,
            party,
            held,
        });
    }
    Ok(())
}

// === impl Places ===

impl Places {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            taken: 0,
            by_party: BTreeMap::new(),
        }
    }

    /// Whether one could be taken now.
    pub(super) fn check(&self, party: &str) -> Result<(), Full> {
        decide(self.most, self.taken, party, self.held_by(party))
    }

    /// Takes a place. Costs the same however many are taken.
    pub(super) fn take(&mut self, party: &str) -> Result<(), Full> {
        self.check(party)?;
        self.taken += 1;
        *self.by_party.entry(party.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Gives one back that was taken.
    pub(super) fn leave(&mut self, party: &str) {
        let Some(held) = self.by_party.get_mut(party) else { return };
        *held -= 1;
        self.taken -= 1;
        if *held == 0 {
            self.by_party.remove(party);
        }
    }

    /// Who holds most, and how many those are: for whoever runs the bus.
    pub(super) fn greatest(&self) -> Option<(&str, usize)> {
        let greatest = self.by_party.iter().max_by_key(|(_, held)| **held);
        greatest.map(|(party, held)| (party.as_str(), *held))
    }

    fn held_by(&self, party: &str) -> usize {
        self.by_party.get(party).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_quarter_is_for_whoever_holds_less_than_a_quarter() {
        let (none, all, kept_back) = ("", "all", "the last");
        for (most, taken, held, wanted) in [
            (MOST, 0, 0, none),
            (MOST, 1_535, 1_535, none),
            (MOST, 1_536, 1_536, kept_back),
            (MOST, 1_536, 512, kept_back),
            (MOST, 1_536, 511, none),
            (MOST, 2_047, 0, none),
            (MOST, 2_047, 511, none),
            (MOST, 2_048, 0, all),
            (MOST, 2_048, 1_536, all),
            // Of few places none are kept back.
            (3, 2, 2, none),
            (3, 3, 0, all),
            (0, 0, 0, all),
            (4, 3, 1, kept_back),
            (4, 3, 0, none),
        ] {
            let refused = decide(most, taken, "a", held)
                .err()
                .map_or_else(String::new, |full| full.to_string());
            let is_wanted = refused.starts_with(wanted) && refused.is_empty() == wanted.is_empty();
            assert!(is_wanted, "{held} of {taken} of {most}: {refused:?}");
        }
    }

    const STAGES: [&str; 4] = ["monitor", "manager", "evictor", "syncer"];

    /// In whatever order they come: stage by stage, or shard by shard.
    #[test]
    fn four_stages_of_256_shards_fit_in_with_two_places_for_each() {
        let by_stage = STAGES.into_iter().flat_map(|stage| [stage; 512]);
        let by_shard = (0..512).flat_map(|_| STAGES);
        for order in [by_stage.collect::<Vec<_>>(), by_shard.collect()] {
            let mut places = Places::new(MOST);
            for stage in order {
                places.take(stage).expect("a place");
            }
            for party in STAGES.into_iter().chain(["other"]) {
                assert!(matches!(places.take(party), Err(Full::All { .. })), "{party}");
            }
        }
    }

    /// What they really take, over plain text and from one machine: the taint-manager two for a shard, the others one.
    #[test]
    fn four_stages_of_256_shards_fit_in_though_they_are_one_party() {
        let mut places = Places::new(MOST);
        for _ in 0..256 {
            for _ in 0..5 {
                places.take("10.0.0.1").expect("a place");
            }
        }
        let more = (0..).take_while(|_| places.take("10.0.0.1").is_ok()).count();
        assert_eq!(more, 256, "for people beside them");
        places.take("10.0.0.2").expect("and some for others");
    }

    #[test]
    fn whoever_takes_all_it_gets_leaves_places_for_others_and_is_told_so() {
        let mut places = Places::new(8);
        let greedy = (0..).take_while(|_| places.take("greedy").is_ok()).count();
        assert_eq!(greedy, 6);
        let refused = places.take("greedy").expect_err("the rest is for others").to_string();
        assert_eq!(
            refused,
            "the last 2 of 8 are for those who hold fewer than 2, and greedy holds 6: end those that nobody needs"
        );
        places.take("a").expect("a place");
        places.take("b").expect("a place");
        let refused = places.take("a").expect_err("all are taken").to_string();
        assert_eq!(
            refused,
            "all 8 are taken, 1 of them by a: wait, or end those that nobody needs"
        );
        assert_eq!(places.greatest(), Some(("greedy", 6)));
        places.leave("greedy");
        places.take("c").expect("the place that came back");
        places.leave("a");
        assert!(!places.by_party.contains_key("a"), "nobody is remembered who left");
        places.leave("a");
        assert_eq!(places.taken, 7, "what was not taken is not given back");
        let mut none = Places::new(0);
        let refused = none.take("a").expect_err("there are none").to_string();
        assert_eq!(refused.split(',').next(), Some("all 0 are taken"));
        assert_eq!(none.greatest(), None);
    }

    proptest! {
        /// Whoever comes and goes in whatever order: the bound holds, nobody has more than three quarters, and whoever holds less than one
        /// is refused only when all places are taken, which takes two.
        #[test]
        fn nobody_keeps_out_whoever_holds_little(
            most in 0_usize..40,
            steps in prop::collection::vec((0_usize..4, prop::bool::weighted(0.8)), 0..200),
        ) {
            let mut places = Places::new(most);
            let quarter = most / 4;
            for (party, comes) in steps {
                let party = format!("party-{party}");
                let held = places.held_by(&party);
                if !comes {
                    places.leave(&party);
                } else if places.take(&party).is_err() && held < quarter.max(1) {
                    prop_assert_eq!(places.taken, most);
                    prop_assert!(quarter == 0 || places.by_party.len() > 1, "{:?}", places);
                }
                prop_assert!(places.taken <= most);
                prop_assert_eq!(places.taken, places.by_party.values().sum::<usize>());
                prop_assert!(places.by_party.values().all(|held| *held <= most - quarter), "{:?}", places);
            }
        }
    }
}
