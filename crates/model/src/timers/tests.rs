//! Held against an ordered set, which does the same at a higher price.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn mono(nanos: u64) -> Mono {
    Mono::from_origin(Duration::from_nanos(nanos))
}

/// What is done, of places and of nanoseconds from the present on.
#[derive(Clone, Debug)]
enum Step {
    Set(Place, u64),
    Clear(Place),
    /// Time passes, and what is due is taken.
    Pass(u64),
    /// The place goes, and the last one is there from then on.
    Remove(Place),
}

/// Deadlines at the present, in the same tick, and at every distance; few enough that some are at the same time.
fn mk_span() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..4_u64,
        (0..8_u64).prop_map(|ticks| ticks << TICK),
        (0..50_u32, 0..3_u64).prop_map(|(bits, more)| (1 << bits) + more),
    ]
}

fn mk_step() -> impl Strategy<Value = Step> {
    let place = 0..12_u32;
    prop_oneof![
        4 => (place.clone(), mk_span()).prop_map(|(place, span)| Step::Set(place, span)),
        1 => place.clone().prop_map(Step::Clear),
        1 => place.prop_map(Step::Remove),
        2 => mk_span().prop_map(Step::Pass),
    ]
}

/// The same in the plainest way.
#[derive(Default)]
struct Model(BTreeMap<Place, u64>);

impl Model {
    fn first(&self) -> Option<(u64, Place)> {
        self.0.iter().map(|(place, at)| (*at, *place)).min()
    }

    fn swap_remove(&mut self, place: Place, last: Place) {
        let moved = self.0.remove(&last).filter(|_| last != place);
        self.0.remove(&place);
        if let Some(at) = moved {
            self.0.insert(place, at);
        }
    }
}

proptest! {
    #[test]
    fn they_come_in_the_order_of_time_and_place(steps in proptest::collection::vec(mk_step(), 0..200)) {
        let (mut timers, mut model, mut now) = (Timers::default(), Model::default(), 0_u64);
        for step in steps {
            match step {
                Step::Set(place, span) => {
                    timers.set(place, Some(mono(now + span)));
                    model.0.insert(place, now + span);
                }
                Step::Clear(place) => {
                    timers.set(place, None);
                    model.0.remove(&place);
                }
                Step::Remove(place) => {
                    timers.swap_remove(place, 11);
                    model.swap_remove(place, 11);
                }
                Step::Pass(span) => {
                    now += span;
                    while let Some((_, place)) = model.first().filter(|(at, _)| *at <= now) {
                        prop_assert_eq!(timers.pop_due(mono(now)), Some(place));
                        model.0.remove(&place);
                    }
                    prop_assert_eq!(timers.pop_due(mono(now)), None);
                }
            }
            prop_assert_eq!(timers.first(), model.first().map(|(at, _)| mono(at)));
            for place in 0..12 {
                prop_assert_eq!(timers.get(place), model.0.get(&place).copied().map(mono));
            }
        }
    }

    #[test]
    fn a_key_has_one_deadline(steps in proptest::collection::vec(mk_step(), 0..200)) {
        let (mut timers, mut model, mut now) = (Keyed::default(), BTreeMap::new(), 0_u64);
        for step in steps {
            match step {
                Step::Set(key, span) => {
                    timers.set(key, mono(now + span));
                    model.insert(key, now + span);
                }
                Step::Clear(key) | Step::Remove(key) => {
                    timers.clear(&key);
                    model.remove(&key);
                }
                Step::Pass(span) => {
                    now += span;
                    let mut due = Vec::new();
                    while let Some(key) = timers.pop_due(mono(now)) {
                        due.push(model.remove(&key).expect("it was set"));
                    }
                    prop_assert!(due.is_sorted(), "{:?}", due);
                    prop_assert!(model.values().all(|at| *at > now));
                }
            }
            prop_assert_eq!(timers.first(), model.values().min().copied().map(mono));
            for key in 0..12 {
                prop_assert_eq!(timers.get(&key), model.get(&key).copied().map(mono));
            }
        }
    }
}

/// TE-120: a toleration of more seconds than there ever were.
#[test]
fn what_never_comes_is_not_waited_for() {
    let far = Mono::ORIGIN + Duration::from_secs(i64::MAX.unsigned_abs());
    let mut timers = Keyed::default();
    timers.set("a", Mono::FAR_FUTURE);
    timers.set("b", far);
    assert_eq!((timers.get(&"a"), timers.get(&"b"), timers.first()), (None, None, None));
    timers.set("a", mono(u64::MAX - 1));
    assert_eq!(timers.first(), Some(mono(u64::MAX - 1)));
    timers.set("a", far);
    assert_eq!((timers.pop_due(Mono::FAR_FUTURE), timers.first()), (None, None));
}

#[test]
fn many_of_one_moment_come_one_after_the_other() {
    let mut timers = Timers::default();
    let at = |place: Place| Some(mono(u64::from(place % 3) << 40));
    (0..1000).for_each(|place| timers.set(place, at(place)));
    (0..1000)
        .filter(|place| place % 7 == 0)
        .for_each(|place| timers.set(place, None));
    let came: Vec<Place> = std::iter::from_fn(|| timers.pop_due(Mono::FAR_FUTURE)).collect();
    let set: BTreeSet<_> = (0..1000)
        .filter(|place| place % 7 != 0)
        .map(|place| (at(place), place))
        .collect();
    assert_eq!(came, set.into_iter().map(|(_, place)| place).collect::<Vec<_>>());
}
