//! From verdicts to wishes for nodes, in taint mode.

use bailiff_model::health::{SignOfLife, Signal};
use bailiff_model::intent::{HealthTaint, Intent};
use bailiff_model::{Origin, Shard, Verdict};
use bailiff_taint_core::{Config, Duties, Effect, Input, Profile};

use crate::harness::{Harness, mk_config, mk_health, mk_origin, mk_tombstone, wall};

fn wanted(h: &Harness, name: &str) -> Option<HealthTaint> {
    match &h.published.get(&format!("node/{name}"))?.intent {
        Intent::Isolation(isolation) => Some(isolation.taint),
        other => unreachable!("{other:?}"),
    }
}

/// NL-070, NL-071, NL-073
#[test]
fn a_wish_follows_the_verdict() {
    use HealthTaint::{NotReady, Unreachable};
    let cases: [(&[Verdict], Option<HealthTaint>); 10] = [
        (&[Verdict::Healthy], None),
        (&[Verdict::NotReady], Some(NotReady)),
        (&[Verdict::Unreachable], Some(Unreachable)),
        (&[Verdict::NotReady, Verdict::Unreachable], Some(Unreachable)),
        (&[Verdict::Unreachable, Verdict::Healthy], None),
        (&[Verdict::NoStatus], None),
        (&[Verdict::NotReady, Verdict::NoStatus], Some(NotReady)),
        (&[Verdict::Healthy, Verdict::Late], None),
        (&[Verdict::Late, Verdict::Unreachable], Some(Unreachable)),
        (&[Verdict::Unreachable, Verdict::Late], None),
    ];
    for (verdicts, taint) in cases {
        let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
        for (revision, verdict) in (1..).zip(verdicts) {
            h.health(vec![mk_health("n1", revision, *verdict, 0, 1)]);
        }
        assert_eq!(wanted(&h, "n1"), taint, "{verdicts:?}");
    }
}

/// LATE while the kubelet reports Ready=False changes nothing by itself, but is answered, so that the wish is not older than it
#[test]
fn every_record_is_answered_by_a_standing_wish() {
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    h.health(vec![mk_health("n1", 3, Verdict::NotReady, 0, 1)]);
    let mut late = mk_health("n1", 4, Verdict::NotReady, 0, 1);
    late.health.as_mut().expect("a record").verdict = Verdict::Late;
    h.health(vec![late.clone()]);
    assert_eq!(wanted(&h, "n1"), Some(HealthTaint::NotReady));
    assert_eq!(h.published["node/n1"].derived_from, mk_origin(4));
    assert_eq!(h.published["node/n1"].trace, late.trace);
    let before = h.publications;
    h.apply(Input::Health {
        snapshot: true,
        complete: true,
        records: vec![late],
        unreadable: Vec::new(),
    });
    assert_eq!(h.publications, before, "the same record twice is no news");
}

/// A bus that lost its memory counts from 1 again: its records are news even if number and content are those of the old one
#[test]
fn a_wish_is_derived_again_from_the_records_of_a_new_bus() {
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    let mut record = mk_health("n1", 3, Verdict::Unreachable, 0, 1);
    h.health(vec![record.clone()]);
    let before = h.published["node/n1"].clone();
    record.origin = Origin::new("bus-2".into(), record.origin.revision);
    h.apply(Input::Health {
        snapshot: true,
        complete: true,
        records: vec![record.clone()],
        unreadable: Vec::new(),
    });
    let after = &h.published["node/n1"];
    assert_eq!(after.intent, before.intent);
    assert_eq!((&before.derived_from, &after.derived_from), (&mk_origin(3), &record.origin));
}

/// Another Node of the name: the wish for the old one goes
#[test]
fn a_wish_is_for_one_incarnation() {
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    h.health(vec![mk_health("n1", 3, Verdict::Unreachable, 0, 1)]);
    let mut new = mk_health("n1", 4, Verdict::NoStatus, 0, 1);
    new.health.as_mut().expect("a record").node.uid = "n1-2".into();
    h.health(vec![new]);
    assert_eq!(wanted(&h, "n1"), None);
}

/// Absence says nothing before the topic is complete, and neither does a tombstone
#[test]
fn nothing_is_withdrawn_by_absence_before_health_is_complete() {
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    h.health(vec![
        mk_health("n1", 3, Verdict::Unreachable, 0, 1),
        mk_health("n2", 4, Verdict::Unreachable, 0, 1),
    ]);
    let lost = h.apply(Input::Health {
        snapshot: true,
        complete: false,
        records: vec![mk_tombstone("n1", 9)],
        unreadable: Vec::new(),
    });
    assert_eq!(lost, []);
    let complete = h.apply(Input::Health {
        snapshot: false,
        complete: true,
        records: vec![mk_health("n2", 10, Verdict::Unreachable, 0, 1)],
        unreadable: Vec::new(),
    });
    let removed: Vec<_> = complete
        .iter()
        .filter(|effect| matches!(effect, Effect::Remove { .. }))
        .collect();
    assert_eq!(
        removed,
        [&Effect::Remove {
            key: "node/n1".to_owned()
        }]
    );
    h.health(vec![mk_tombstone("n2", 11)]);
    assert!(h.published.is_empty());
}

/// NL-009, TE-116: a duty that was not asked for is not done
#[test]
fn duties_are_separate() {
    let play = |duties: Duties| {
        let mut h = Harness::new(Config {
            duties,
            ..Config::default()
        });
        let node = crate::harness::mk_node("n1", &["m"]);
        let mut silent = crate::harness::mk_node("n2", &[]);
        silent.ready = crate::harness::mk_ready(bailiff_model::ReadyStatus::Unknown);
        let pods = vec![crate::harness::mk_pod("p", "n1", &[]), crate::harness::mk_pod("q", "n2", &[])];
        h.begin(vec![node, silent], pods, Vec::new());
        h.health(vec![mk_health("n2", 3, Verdict::Unreachable, 0, 1)]);
        let keys: Vec<String> = h.published.keys().cloned().collect();
        (keys.join(" "), h.patches.len(), h.marks.len())
    };
    let cases = [
        (true, true, "node/n2 pod/p", 1),
        (true, false, "node/n2", 1),
        (false, true, "pod/p", 0),
    ];
    for (node_lifecycle, taint_eviction, keys, writes) in cases {
        let duties = Duties {
            node_lifecycle,
            taint_eviction,
            ..Duties::ALL
        };
        assert_eq!(play(duties), (keys.to_owned(), writes, writes), "{duties:?}");
    }
}

/// Two shards together do what one does, and no node or pod is looked after twice
#[test]
fn shards_divide_the_nodes() {
    let play = |shard: Shard| {
        let mut h = Harness::new(Config {
            shard,
            ..Config::default()
        });
        let names: Vec<String> = (0..20).map(|index| format!("n{index}")).collect();
        let silent = |name: &String| {
            let mut node = crate::harness::mk_node(name, &["m"]);
            node.ready = crate::harness::mk_ready(bailiff_model::ReadyStatus::Unknown);
            node
        };
        let pods = names
            .iter()
            .map(|name| crate::harness::mk_pod(&format!("p-{name}"), name, &[]));
        h.begin(names.iter().map(silent).collect(), pods.collect(), Vec::new());
        h.health(
            names
                .iter()
                .map(|name| mk_health(name, 3, Verdict::Unreachable, 0, 1))
                .collect(),
        );
        h
    };
    let whole: Vec<String> = play(Shard::WHOLE).published.into_keys().collect();
    let halves: Vec<Harness> = (0..2).map(|index| play(Shard { index, count: 2 })).collect();
    let mut together: Vec<String> = halves.iter().flat_map(|half| half.published.keys().cloned()).collect();
    together.sort_unstable();
    assert_eq!((whole.len(), &whole), (40, &together));
    assert!(
        halves
            .iter()
            .all(|half| half.manager.stats().nodes == half.published.len() / 2)
    );
}

/// event_bus.proto, "Growth": no conclusion is drawn from a record that is not understood, neither from its key being missing
#[test]
fn a_wish_stands_while_the_newest_record_of_its_node_is_not_understood() {
    let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
    let records = vec![
        mk_health("n1", 3, Verdict::Unreachable, 0, 1),
        mk_health("n2", 4, Verdict::Unreachable, 0, 1),
    ];
    h.health(records.clone());
    let view = |snapshot, records, unreadable: &[&str]| Input::Health {
        snapshot,
        complete: true,
        records,
        unreadable: unreadable.iter().map(|name| (*name).into()).collect(),
    };
    assert_eq!(h.apply(view(true, records[1..].to_vec(), &["n1"])), []);
    assert_eq!(
        h.published["node/n1"].derived_from,
        mk_origin(3),
        "older than the node's newest record"
    );
    assert_eq!(h.apply(view(false, Vec::new(), &["n2"])), []);

    let mut after = Harness::new(mk_config(Profile::Bailiff));
    after.apply(view(true, Vec::new(), &["n1"]));
    after.begin(Vec::new(), Vec::new(), h.memory());
    assert_eq!(
        after.published.keys().collect::<Vec<_>>(),
        ["node/n1"],
        "inherited, as nothing newer is known"
    );
    after.health(vec![mk_health("n1", 9, Verdict::Healthy, 0, 1)]);
    assert!(after.published.is_empty());
    h.apply(view(true, Vec::new(), &[]));
    assert!(h.published.is_empty(), "gone is gone");
}

/// A wish says in a sentence what it is for
#[test]
fn a_wish_says_why() {
    let cases = [
        (Verdict::Unreachable, true, "No sign of life since "),
        (Verdict::Unreachable, false, "Ready is Unknown ("),
        (Verdict::NotReady, true, "The kubelet reports Ready=False ("),
    ];
    for (verdict, heard, wanted) in cases {
        let mut h = Harness::begun(Profile::Bailiff, Vec::new(), Vec::new());
        let mut record = mk_health("n1", 3, verdict, 0, 1);
        if let Some(health) = record.health.as_mut().filter(|_| heard) {
            health.last_sign_of_life = Some(SignOfLife {
                time: wall(0),
                signal: Signal::Lease,
                renew_time: None,
            });
        }
        h.health(vec![record]);
        let Intent::Isolation(wish) = &h.published["node/n1"].intent else {
            unreachable!("a wish to isolate")
        };
        assert!(wish.cause.starts_with(wanted), "{}", wish.cause);
    }
}
