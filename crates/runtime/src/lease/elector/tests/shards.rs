//! Several shards: layouts, and who is preferred.

use super::*;

/// A candidate for the second of two shards that was told what the Lease of the first says.
fn mk_second(layout: Option<Layout>) -> (Elector, Vec<Effect>) {
    let mut elector = Elector::new("me".into(), Shard { index: 1, count: 2 }, periods());
    assert_eq!(acts(elector.apply(Input::Tick, at(0))), [Effect::GetLayout]);
    let effects = acts(elector.apply(Input::GotLayout(layout), at(500)));
    (elector, effects)
}

fn mk_layout(text: &str) -> Option<Layout> {
    Some(text.parse().expect("a layout"))
}

#[test]
fn another_shard_is_stood_for_in_its_own_layout_only() {
    for (layout, wanted) in [
        (None, standby("")),
        (Some(Layout::WHOLE), standby("")),
        (Some(Layout::UNKNOWN), standby("")),
        (mk_layout("3"), standby("")),
        (mk_layout("2 settling"), Effect::Get),
        (mk_layout("2"), Effect::Get),
    ] {
        assert_eq!(mk_second(layout).1, [wanted], "{layout:?}");
    }
    // While it settles it is looked at, so that a lease that nobody renews has run out when it may be taken.
    let (mut elector, _) = mk_second(mk_layout("2 settling"));
    let lease = mk_lease("other", 0, 4);
    assert_eq!(
        acts(elector.apply(Input::Got(Some(lease.clone())), at(600))),
        [standby("other")]
    );
    elector.apply(Input::Tick, at(15_700));
    elector.apply(Input::GotLayout(mk_layout("2")), at(15_700));
    let effects = acts(elector.apply(Input::Got(Some(lease)), at(15_700)));
    assert!(matches!(effects[..], [Effect::Replace(..)]), "{effects:?}");
    let (mut elector, _) = mk_second(mk_layout("2 settling"));
    assert_eq!(acts(elector.apply(Input::Got(None), at(600))), [standby("")]);
}

/// What was read of the layout was true when it was asked for, and leadership is worth no more.
#[test]
fn leadership_of_another_shard_counts_from_the_reading_of_the_layout() {
    let (mut elector, _) = mk_second(mk_layout("2"));
    elector.apply(Input::Got(None), at(1_000));
    let record = Record::new("me", LEASE, 0, at(1_000).wall);
    let effects = acts(elector.apply(Input::Wrote(mk_observed(record.clone(), 7)), at(1_500)));
    assert_eq!(effects, [leading(7, 10_000)]);
    for (layout, stops) in [
        (mk_layout("2"), false),
        (mk_layout("2 settling"), false),
        (None, false),
        (mk_layout("1"), true),
        (mk_layout("3 settling"), true),
    ] {
        let (mut elector, _) = mk_second(mk_layout("2"));
        elector.apply(Input::Got(None), at(1_000));
        elector.apply(Input::Wrote(mk_observed(record.clone(), 7)), at(1_500));
        elector.apply(Input::Tick, at(3_500));
        let effects = acts(elector.apply(Input::GotLayout(layout), at(3_600)));
        assert_eq!(effects.contains(&Effect::End), stops, "{layout:?}: {effects:?}");
        let renews = effects.iter().any(|effect| matches!(effect, Effect::Replace(..)));
        assert_eq!(renews, layout.is_some() && !stops, "{layout:?}: {effects:?}");
    }
}

/// After shards that overlap with ours were led, ours is led once nobody can act for them any more.
#[test]
fn a_layout_that_follows_another_one_settles_first() {
    for (before, settles) in [
        (None, false),
        (mk_layout("1"), false),
        (mk_layout("1 settling"), true),
        (mk_layout("3"), true),
        (mk_layout("2 settling"), true),
        (mk_layout("2"), false),
        (Some(Layout::UNKNOWN), true),
    ] {
        let mut elector = Elector::new("me".into(), Shard { index: 0, count: 2 }, periods());
        elector.apply(Input::Tick, at(0));
        let lease = Observed {
            layout: before,
            ..mk_lease("", 0, 4)
        };
        let effects = acts(elector.apply(Input::Got(Some(lease)), at(0)));
        let Some(Effect::Replace(draft, _)) = effects.last().cloned() else {
            panic!("{before:?}: the lease is free: {effects:?}");
        };
        let layout = Layout {
            shards: 2,
            is_settled: !settles,
        };
        assert_eq!(draft.layout, Some(layout), "{before:?}");
        let written = |layout, version| Observed {
            layout,
            ..mk_observed(draft.record.clone(), version)
        };
        let effects = acts(elector.apply(Input::Wrote(written(draft.layout, 5)), at(100)));
        assert_eq!(effects.contains(&leading(5, 10_000)), !settles, "{before:?}: {effects:?}");
        if !settles {
            continue;
        }
        for now in [5_000, 10_000, 14_999] {
            let effects = acts(elector.apply(Input::Tick, at(now)));
            assert!(
                matches!(&effects[..], [Effect::Replace(renewal, _)] if renewal.layout == Some(layout)),
                "{effects:?}"
            );
            assert_eq!(acts(elector.apply(Input::Wrote(written(Some(layout), now)), at(now))), []);
        }
        let effects = acts(elector.apply(Input::Tick, at(15_100)));
        let settled = mk_layout("2");
        assert!(
            matches!(&effects[..], [Effect::Replace(renewal, _)] if renewal.layout == settled),
            "{effects:?}"
        );
        let effects = acts(elector.apply(Input::Wrote(written(settled, 20_000)), at(15_200)));
        assert_eq!(effects, [leading(5, 25_100)]);
    }
}

/// Whoever leads nothing looks in the meantime.
#[test]
fn a_candidate_that_leads_another_shard_waits_a_little_longer() {
    for (holds, taken) in [(0, true), (1, false)] {
        let mut elector = mk_elector();
        elector.apply(Input::Holds(holds), at(0));
        for now in [0, 15_000] {
            elector.apply(Input::Tick, at(now));
            let effects = acts(elector.apply(Input::Got(Some(mk_lease("other", 0, 4))), at(now)));
            let takes = effects.iter().any(|effect| matches!(effect, Effect::Replace(..)));
            assert_eq!(takes, taken && now > 0, "{holds}, {now}: {effects:?}");
        }
        elector.apply(Input::Failed(Failure::Conflict), at(15_100));
        elector.apply(Input::Tick, at(15_800));
        let effects = acts(elector.apply(Input::Got(Some(mk_lease("other", 0, 4))), at(15_800)));
        assert!(matches!(effects[..], [Effect::Replace(..)]), "{holds}: {effects:?}");
    }
}

#[test]
fn a_candidate_asks_for_what_another_holds() {
    let mut elector = mk_elector();
    assert_eq!(elector.apply(Input::Ask, at(0)), [], "nothing was seen yet");
    elector.apply(Input::Tick, at(0));
    assert_eq!(elector.apply(Input::Ask, at(0)), [], "a request is under way");
    let lease = mk_lease("other", 0, 4);
    elector.apply(Input::Got(Some(lease.clone())), at(0));
    assert_eq!(acts(elector.apply(Input::Ask, at(0))), [Effect::Ask(mk_version(4))]);
    let asked = Observed {
        version: mk_version(5),
        wanted_by: Some("me".into()),
        ..lease
    };
    let effects = elector.apply(Input::Wrote(asked), at(100));
    assert_eq!(
        (wake(&effects).is_some(), acts(effects)),
        (true, vec![]),
        "that makes no leader"
    );

    let (mut leader, _) = mk_leader();
    assert_eq!(leader.apply(Input::Ask, at(200)), []);
}

/// Who goes on takes a wish off, so that it has to be asked for again; who hands over lets it stand until it is fulfilled.
#[test]
fn a_wish_stands_from_the_hand_over_until_it_is_fulfilled() {
    let (mut leader, record) = mk_leader();
    for (hands_over, second) in [(false, 2), (true, 4)] {
        if hands_over {
            leader.apply(Input::HandOver, at(second * 1000));
        }
        let effects = acts(leader.apply(Input::Tick, at(second * 1000)));
        let [Effect::Replace(draft, _)] = &effects[..] else {
            panic!("it renews: {effects:?}");
        };
        assert_eq!(draft.drops_wish, !hands_over);
        leader.apply(Input::Wrote(mk_observed(record.clone(), 10 + second)), at(second * 1000));
    }
    let effects = acts(leader.apply(Input::Release, at(5_000)));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Replace(draft, _) if !draft.drops_wish)),
        "{effects:?}"
    );
    let mut elector = mk_elector();
    elector.apply(Input::Tick, at(0));
    let effects = acts(elector.apply(Input::Got(Some(mk_lease("", 0, 4))), at(0)));
    let [.., Effect::Replace(draft, _)] = &effects[..] else {
        panic!("it takes it: {effects:?}");
    };
    assert!(draft.drops_wish);
}
