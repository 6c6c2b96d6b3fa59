use bailiff_model::{ResourceVersion, Wall};

use super::*;

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

fn periods() -> Periods {
    Periods {
        lease: LEASE,
        renew_deadline: RENEW,
        retry: RETRY,
    }
}

fn mk_elector() -> Elector {
    Elector::new("me".into(), Shard::WHOLE, periods())
}

/// A moment, in milliseconds.
fn at(millis: u64) -> Now {
    let wall = Wall::from_millisecond(1_700_000_000_000 + i64::try_from(millis).expect("small")).expect("in range");
    let mono = Mono::from_origin(Duration::from_millis(millis));
    Now { mono, wall }
}

fn mk_lease(holder: &str, renewed: u64, version: u64) -> Observed {
    let record = Record {
        holder: holder.into(),
        duration: LEASE,
        acquired: Some(at(0).wall),
        renewed: Some(at(renewed).wall),
        transitions: 4,
    };
    mk_observed(record, version)
}

fn mk_observed(record: Record, version: u64) -> Observed {
    Observed {
        record,
        version: mk_version(version),
        ..Observed::default()
    }
}

/// What is written to give the Lease up: the layout stays.
fn released(record: &Record, millis: u64) -> Draft {
    Draft {
        record: record.released(at(millis).wall),
        layout: None,
        drops_wish: false,
    }
}

/// What is written: the only shard's Lease says that it is the only one.
fn whole(record: Record) -> Draft {
    Draft {
        record,
        layout: Some(Layout::WHOLE),
        drops_wish: true,
    }
}

fn mk_version(version: u64) -> ResourceVersion {
    ResourceVersion::from(version)
}

/// The effects except for timers.
fn acts(effects: Vec<Effect>) -> Vec<Effect> {
    effects
        .into_iter()
        .filter(|effect| !matches!(effect, Effect::Wake { .. }))
        .collect()
}

fn wake(effects: &[Effect]) -> Option<(Mono, Duration)> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Wake { at, jitter, .. } => Some((*at, *jitter)),
        _ => None,
    })
}

fn leeway(effects: &[Effect]) -> Option<Duration> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Wake { leeway, .. } => Some(*leeway),
        _ => None,
    })
}

fn standby(holder: &str) -> Effect {
    let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
    Effect::Announce(State::Standby { holder })
}

fn leading(epoch: u64, until: u64) -> Effect {
    Effect::Announce(State::Leading {
        epoch,
        until: at(until).mono,
    })
}

/// An elector that leads in epoch 10 since a write that was sent at 0, and its record.
fn mk_leader() -> (Elector, Record) {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    let effects = elector.apply(Input::Got(None), at(0));
    let Some(Effect::Create(Draft { record, .. })) = acts(effects).pop() else {
        panic!("nobody holds the lease");
    };
    let effects = elector.apply(Input::Wrote(mk_observed(record.clone(), 10)), at(100));
    assert_eq!(wake(&effects), Some((at(2_100).mono, Duration::ZERO)));
    assert_eq!(
        leeway(&effects),
        Some(RETRY / 5),
        "it renews a little later if that is at hand"
    );
    assert_eq!(acts(effects), [leading(10, 10_000)]);
    (elector, record)
}

#[test]
fn a_lease_that_is_not_there_is_created() {
    let (_, record) = mk_leader();
    assert_eq!(record, Record::new("me", LEASE, 0, at(0).wall));
}

#[test]
fn a_lease_that_is_renewed_is_never_taken() {
    let mut elector = mk_elector();
    for round in 0..100 {
        let now = at(round * 2_000);
        assert_eq!(acts(elector.apply(Input::Tick, now)), [Effect::Get]);
        // Renewed every 14 s, by a clock that has nothing to do with ours.
        let effects = elector.apply(Input::Got(Some(mk_lease("other", round / 7, round / 7))), now);
        assert_eq!(wake(&effects), Some((now.mono + RETRY / 2, Duration::from_millis(100))));
        assert_eq!(acts(effects), if round == 0 { vec![standby("other")] } else { vec![] });
    }
}

#[test]
fn a_lease_is_taken_when_it_was_seen_unrenewed_for_its_own_duration() {
    let mut elector = mk_elector();
    let mut lease = mk_lease("other", 0, 5);
    lease.record.duration = Duration::from_secs(30);
    for (now, taken) in [(1_000, false), (16_500, false), (30_999, false), (31_000, true)] {
        elector.apply(Input::Tick, at(now));
        // What is not the record, such as a label, may change: that is no renewal.
        lease.version = mk_version(now);
        let effects = acts(elector.apply(Input::Got(Some(lease.clone())), at(now)));
        let record = Record::new("me", LEASE, 5, at(now).wall);
        let take = Effect::Replace(whole(record), mk_version(now));
        assert_eq!(effects.contains(&take), taken, "{now}: {effects:?}");
    }
    let record = Record::new("me", LEASE, 5, at(31_000).wall);
    let effects = acts(elector.apply(Input::Wrote(mk_observed(record, 40_000)), at(31_050)));
    assert_eq!(effects, [leading(40_000, 41_000)]);
}

#[test]
fn a_lease_that_was_given_up_is_taken_at_once() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    let released = mk_lease("other", 0, 5).record.released(at(0).wall);
    assert_eq!((released.holder.as_str(), released.duration), ("", Duration::from_secs(1)));
    let effects = acts(elector.apply(Input::Got(Some(mk_observed(released, 6))), at(0)));
    let record = Record::new("me", LEASE, 5, at(0).wall);
    assert_eq!(effects, [standby(""), Effect::Replace(whole(record), mk_version(6))]);
}

#[test]
fn whoever_loses_the_race_waits_again() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    elector.apply(Input::Got(None), at(0));
    let effects = elector.apply(Input::Failed(Failure::Conflict), at(0));
    assert_eq!(
        (wake(&effects), acts(effects)),
        (Some((at(1_000).mono, Duration::from_millis(100))), vec![])
    );
}

#[test]
fn an_acquisition_whose_answer_was_lost_is_repeated_and_counts_from_then() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    elector.apply(Input::Got(None), at(0));
    elector.apply(Input::Failed(Failure::Other), at(5_000));
    elector.apply(Input::Tick, at(7_000));
    let mine = mk_lease("me", 0, 3);
    let effects = acts(elector.apply(Input::Got(Some(mine.clone())), at(7_000)));
    let record = mine.record.renewed(LEASE, at(7_000).wall);
    assert_eq!((record.transitions, record.acquired), (4, mine.record.acquired));
    assert_eq!(
        effects,
        [standby("me"), Effect::Replace(whole(record.clone()), mk_version(3))]
    );
    assert_eq!(
        acts(elector.apply(Input::Wrote(mk_observed(record, 8)), at(7_500))),
        [leading(8, 17_000)]
    );
}

#[test]
fn an_acquisition_that_is_answered_too_late_makes_no_leader() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    elector.apply(Input::Got(None), at(0));
    let record = Record::new("me", LEASE, 0, at(0).wall);
    assert_eq!(acts(elector.apply(Input::Wrote(mk_observed(record, 8)), at(10_000))), []);
    assert_eq!(acts(elector.apply(Input::Tick, at(12_000))), [Effect::Get]);
}

#[test]
fn a_version_that_is_no_number_makes_no_leader() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    elector.apply(Input::Got(None), at(0));
    let version = ResourceVersion::from("abc");
    let record = Record::new("me", LEASE, 0, at(0).wall);
    assert_eq!(
        acts(elector.apply(
            Input::Wrote(Observed {
                record,
                version,
                ..Observed::default()
            }),
            at(0)
        )),
        []
    );
}

#[test]
fn a_holder_that_is_near_its_deadline_is_not_late() {
    for (failed, wanted) in [
        (6_000, RETRY / 5),
        (7_600, Duration::from_millis(100)),
        (9_000, Duration::ZERO),
    ] {
        let (mut elector, _) = mk_leader();
        elector.apply(Input::Tick, at(2_100));
        let effects = elector.apply(Input::Failed(Failure::Other), at(failed));
        assert_eq!(leeway(&effects), Some(wanted), "failed at {failed} ms");
    }
}

#[test]
fn a_renewal_is_one_request_and_moves_the_end_from_when_it_was_sent() {
    let (mut elector, record) = mk_leader();
    let renewed = record.renewed(LEASE, at(2_100).wall);
    let effects = elector.apply(Input::Tick, at(2_100));
    assert_eq!(wake(&effects), Some((at(10_000).mono, Duration::ZERO)));
    assert_eq!(leeway(&effects), Some(Duration::ZERO), "leadership ends on time");
    assert_eq!(acts(effects), [Effect::Replace(whole(renewed.clone()), mk_version(10))]);
    let effects = acts(elector.apply(Input::Wrote(mk_observed(renewed, 11)), at(4_000)));
    assert_eq!(effects, [leading(10, 12_100)], "the epoch stays that of the acquisition");
}

#[test]
fn a_leader_that_cannot_renew_ends_at_its_deadline_even_while_a_request_is_under_way() {
    let (mut elector, _) = mk_leader();
    for now in [2_100, 4_100, 6_100, 8_100] {
        elector.apply(Input::Tick, at(now));
        assert_eq!(acts(elector.apply(Input::Failed(Failure::Other), at(now))), []);
    }
    elector.apply(Input::Tick, at(9_999));
    assert_eq!(
        elector.apply(Input::Tick, at(10_000)),
        [Effect::Announce(State::Lost), Effect::End]
    );
    assert_eq!(
        elector.apply(Input::Wrote(mk_lease("me", 9, 12)), at(10_001)),
        [],
        "the end is final"
    );
}

#[test]
fn a_leader_that_was_stopped_past_its_end_ends_whatever_comes_first() {
    let renewed = |record: &Record| Input::Wrote(mk_observed(record.renewed(LEASE, at(2_100).wall), 11));
    for input in [
        Input::Tick,
        Input::Failed(Failure::Other),
        Input::Failed(Failure::Conflict),
        Input::Got(None),
    ] {
        let (mut elector, _) = mk_leader();
        elector.apply(Input::Tick, at(2_100));
        let effects = elector.apply(input.clone(), at(60_000));
        assert_eq!(effects, [Effect::Announce(State::Lost), Effect::End], "{input:?}");
    }
    let (mut elector, record) = mk_leader();
    elector.apply(Input::Tick, at(2_100));
    assert_eq!(
        elector.apply(renewed(&record), at(60_000)),
        [Effect::Announce(State::Lost), Effect::End]
    );
}

#[test]
fn a_leader_whose_write_conflicts_looks_who_wrote() {
    let (mut elector, record) = mk_leader();
    elector.apply(Input::Tick, at(2_100));
    assert_eq!(
        acts(elector.apply(Input::Failed(Failure::Conflict), at(2_200))),
        [Effect::Get]
    );
    // Somebody set a label, or its own write was done although the answer was lost.
    let effects = acts(elector.apply(Input::Got(Some(mk_observed(record.clone(), 12))), at(2_300)));
    let renewed = record.renewed(LEASE, at(2_300).wall);
    assert_eq!(effects, [Effect::Replace(whole(renewed), mk_version(12))]);

    for holder in ["other", ""] {
        let (mut elector, _) = mk_leader();
        elector.apply(Input::Tick, at(2_100));
        elector.apply(Input::Failed(Failure::Conflict), at(2_200));
        let effects = elector.apply(Input::Got(Some(mk_lease(holder, 2_150, 12))), at(2_300));
        assert_eq!(effects, [Effect::Announce(State::Lost), Effect::End], "{holder:?}");
    }
}

#[test]
fn a_leader_recreates_a_lease_that_was_deleted_and_stays_in_its_epoch() {
    let (mut elector, record) = mk_leader();
    elector.apply(Input::Tick, at(2_100));
    elector.apply(Input::Failed(Failure::Conflict), at(2_200));
    let renewed = record.renewed(LEASE, at(2_300).wall);
    assert_eq!(
        acts(elector.apply(Input::Got(None), at(2_300))),
        [Effect::Create(whole(renewed.clone()))]
    );
    let effects = acts(elector.apply(Input::Wrote(mk_observed(renewed, 99)), at(2_400)));
    assert_eq!(effects, [leading(10, 12_300)]);
}

#[test]
fn a_renewal_changes_the_record_whatever_the_wall_clock_does() {
    let record = Record::new("me", LEASE, 0, at(5).wall);
    assert_ne!(record.renewed(LEASE, at(5).wall), record);
    assert_ne!(record.renewed(LEASE, at(1).wall), record);
}

#[test]
fn a_release_stops_acting_before_it_writes() {
    let (mut elector, record) = mk_leader();
    let effects = acts(elector.apply(Input::Release, at(3_000)));
    let draft = released(&record, 3_000);
    let released = draft.record.clone();
    let replace = Effect::Replace(draft, mk_version(10));
    assert_eq!(effects, [Effect::Announce(State::Lost), replace]);
    assert_eq!(
        elector.apply(Input::Wrote(mk_observed(released, 11)), at(3_100)),
        [Effect::End]
    );
}

#[test]
fn a_release_waits_for_the_write_under_way() {
    let (mut elector, record) = mk_leader();
    elector.apply(Input::Tick, at(2_100));
    assert_eq!(
        acts(elector.apply(Input::Release, at(2_200))),
        [Effect::Announce(State::Lost)]
    );
    let renewed = record.renewed(LEASE, at(2_100).wall);
    let effects = acts(elector.apply(Input::Wrote(mk_observed(renewed, 11)), at(2_300)));
    assert_eq!(effects, [Effect::Replace(released(&record, 2_300), mk_version(11))]);
    assert_eq!(elector.apply(Input::Failed(Failure::Other), at(2_400)), [Effect::End]);
}

#[test]
fn a_candidate_that_stops_gives_up_what_it_gets() {
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    elector.apply(Input::Got(None), at(0));
    assert_eq!(acts(elector.apply(Input::Release, at(1))), [Effect::Announce(State::Lost)]);
    let record = Record::new("me", LEASE, 0, at(0).wall);
    let effects = acts(elector.apply(Input::Wrote(mk_observed(record.clone(), 3)), at(2)));
    assert_eq!(effects, [Effect::Replace(released(&record, 2), mk_version(3))]);

    let mut idle = mk_elector();
    assert_eq!(
        idle.apply(Input::Release, at(0)),
        [Effect::Announce(State::Lost), Effect::End]
    );
    assert_eq!(idle.apply(Input::Release, at(0)), []);
}

mod contest;
mod shards;
