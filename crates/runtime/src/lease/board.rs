//! What a process knows of all the Leases of a stage's shards, and who should have which.
//!
//! Any replica takes whatever shard is free, so that none waits for long. What that leaves uneven is evened out afterwards: a replica
//! that leads at least two fewer than another asks for one of its shards, in the Lease; whoever is asked stops working on that shard,
//! then gives its Lease up. Nobody is ever pushed out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The Leases of one stage's shards, as a process sees them; cloning it gives the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    places: Arc<Mutex<Vec<Place>>>,
}

/// One shard's Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// Empty if nobody holds it.
    holder: String,
    /// Empty if nobody asked for it.
    wanted_by: String,
}

// === impl Board ===

impl Board {
    /// Nothing is known of the Leases of so many shards.
    pub(super) fn new(shards: u32) -> Self {
        let places = (0..shards).map(|_| Place::default()).collect();
        Self {
            places: Arc::new(Mutex::new(places)),
        }
    }

    /// Takes note of a Lease.
    pub(super) fn note(&self, shard: u32, holder: &str, wanted_by: Option<&str>) {
        if let Some(place) = self.lock().get_mut(shard as usize) {
            holder.clone_into(&mut place.holder);
            wanted_by.unwrap_or_default().clone_into(&mut place.wanted_by);
        }
    }

    /// How many shards `identity` leads besides `shard`.
    pub(super) fn held_besides(&self, identity: &str, shard: u32) -> usize {
        let places = self.lock();
        let others = places.iter().enumerate().filter(|(number, _)| *number != shard as usize);
        others.filter(|(_, place)| place.holder == identity).count()
    }

    /// Should `identity` ask for `shard`?
    pub(super) fn should_ask(&self, identity: &str, shard: u32) -> bool {
        wanted(&self.lock(), identity) == Some(shard as usize)
    }

    /// Should `identity` give `shard` up for the one who asks? Whoever is told so counts as not holding it from then on, so that of two
    /// who ask at once only one empties it.
    pub(super) fn gives_up(&self, identity: &str, shard: u32) -> bool {
        let mut places = self.lock();
        let gives = gives(&places, identity, shard as usize);
        if let Some(place) = places.get_mut(shard as usize).filter(|_| gives) {
            place.holder.clear();
        }
        gives
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        // Whoever panicked while holding it was a bug; what is known of each Lease is still what was seen last.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shard to ask for: the last one of whoever leads most, if that is two more than we lead. One at a time.
fn wanted(places: &[Place], identity: &str) -> Option<usize> {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places.iter().filter(|place| !place.holder.is_empty()) {
        *held.entry(&place.holder).or_default() += 1;
    }
    let ours = held.get(identity).copied().unwrap_or(0);
    let (most, count) = held.into_iter().max_by_key(|(_, count)| *count)?;
    let asks_already = places
        .iter()
        .any(|place| place.wanted_by == identity && place.holder != identity);
    if asks_already || count < ours + 2 {
        return None;
    }
    places
        .iter()
        .rposition(|place| place.holder == most && place.wanted_by.is_empty())
}

/// It is held, somebody else wants it, and it is not the only one.
fn gives(places: &[Place], identity: &str, shard: usize) -> bool {
    let held = places.iter().filter(|place| place.holder == identity).count();
    let is_wanted = |place: &Place| place.holder == identity && !place.wanted_by.is_empty() && place.wanted_by != identity;
    held >= 2 && places.get(shard).is_some_and(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places from texts such as `a` (held by a), `a<b` (and wanted by b), and the empty one.
    fn mk_places(texts: &[&str]) -> Vec<Place> {
        let place = |text: &&str| {
            let (holder, wanted_by) = text.split_once('<').unwrap_or((text, ""));
            Place {
                holder: holder.to_owned(),
                wanted_by: wanted_by.to_owned(),
            }
        };
        texts.iter().map(place).collect()
    }

    #[test]
    fn whoever_leads_two_fewer_asks_for_one() {
        for (places, wants) in [
            (&["a", "a"][..], Some(1)),
            (&["a", "a", "a", "me"], Some(2)),
            (&["a", "me", "a"], None),
            (&["a", "b"], None),
            (&["me", "me"], None),
            (&["a", "a<me"], None),
            (&["a", "a<b"], Some(0)),
            (&["a<b", "a<c"], None),
            (&["b", "a", "", "a"], Some(3)),
            (&["", ""], None),
            (&[], None),
        ] {
            assert_eq!(wanted(&mk_places(places), "me"), wants, "{places:?}");
        }
    }

    #[test]
    fn only_what_is_wanted_and_not_the_last_is_given_up() {
        for (places, shard, given) in [
            (&["me", "me<b"][..], 1, true),
            (&["me", "me<b"], 0, false),
            (&["a", "me<b"], 1, false),
            (&["me", "me<me"], 1, false),
            (&["me", "a<b"], 1, false),
            (&["me", "me"], 2, false),
        ] {
            assert_eq!(gives(&mk_places(places), "me", shard), given, "{places:?} {shard}");
        }
    }

    #[test]
    fn two_who_ask_at_once_do_not_empty_a_replica() {
        let board = Board::new(2);
        board.note(0, "me", Some("a"));
        board.note(1, "me", Some("b"));
        assert_eq!((board.held_besides("me", 0), board.held_besides("a", 0)), (1, 0));
        assert!(board.gives_up("me", 1));
        assert!(!board.gives_up("me", 0));
    }

    /// Whatever the beginning, asking and giving lead to an even division, in a bounded number of hand-overs.
    #[test]
    fn asking_and_giving_ends_even() {
        use proptest::prelude::*;
        let names = ["a", "b", "c", "d"];
        proptest!(|(holders in proptest::collection::vec(0_usize..4, 0..12), live in 1_usize..5)| {
            let mut places: Vec<Place> = holders.iter().map(|holder| Place { holder: names[holder % live].to_owned(), ..Place::default() }).collect();
            for _ in 0..places.len() * live {
                let Some((name, shard)) = names[..live].iter().find_map(|name| Some((name, wanted(&places, name)?))) else { break };
                places[shard].wanted_by = (*name).to_owned();
                let giver = places[shard].holder.clone();
                prop_assert!(gives(&places, &giver, shard));
                places[shard] = Place { holder: (*name).to_owned(), ..Place::default() };
            }
            let held = |name: &&&str| places.iter().filter(|place| place.holder == ***name).count();
            let counts: Vec<usize> = names[..live].iter().map(|name| held(&name)).collect();
            let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
            prop_assert!(most <= least + 1, "{counts:?}");
        });
    }
}
