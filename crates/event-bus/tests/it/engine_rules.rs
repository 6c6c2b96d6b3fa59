//! Rules of the engine, by commands; of what it keeps, and how long, see `engine_retention`.

use bailiff_event_bus::TombstoneReason;
use bailiff_event_bus::engine::{Answer, Command, Limits, Position, Refusal, Selection, SessionId, SnapshotReason, Speaker};
use bailiff_event_bus::record::Incoming;
use bailiff_model::Topic;
use bailiff_model::outcome::PodOutcomeState;

use crate::engine_rig::{Rig, mk_incoming, mk_open, mk_removal, node, pod, reasons};
use crate::engines::{Kind, on_every_engine};
use crate::support::mk_health;

const HEALTH: Topic = Topic::NodeHealth;
const OUTCOMES: Topic = Topic::EvictionOutcomes;

on_every_engine!(one_sequence_numbers_all_topics_and_shards);
fn one_sequence_numbers_all_topics_and_shards(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let health = rig.session(HEALTH, (0, 1), 1, false);
    let outcomes = rig.session(OUTCOMES, (0, 1), 1, false);
    let before = rig.engine.head();
    let first = rig.publish(health, vec![node("n1", 1), node("n2", 1)]);
    let second = rig.publish(outcomes, vec![pod("p1", PodOutcomeState::Evicting)]);
    let all: Vec<u64> = first.iter().chain(&second).map(|revision| revision.0 - before.0).collect();
    assert_eq!(all, [1, 2, 3]);
    let set = rig.after(before);
    assert!(set.records.is_sorted_by_key(|record| record.revision()));
    assert_eq!(set.records.len(), 3);
}

on_every_engine!(what_is_the_same_changes_nothing);
fn what_is_the_same_changes_nothing(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, true);
    rig.publish(session, vec![node("n1", 1)]);
    rig.end(session);
    let first = rig.snapshot().records[0].revision();
    let head = rig.engine.head();
    assert_eq!(rig.publish(session, vec![node("n1", 1)]), [first]);
    assert_eq!(rig.publish(session, vec![mk_removal("stranger")]), [head]);
    assert_eq!(rig.engine.head(), head);
    rig.publish(session, vec![mk_removal("n1")]);
    let head = rig.engine.head();
    rig.publish(session, vec![mk_removal("n1")]);
    assert_eq!(rig.engine.head(), head, "gone is gone");
    // A replace with the same content only changes the shard.
    rig.publish(session, vec![node("n2", 1)]);
    let again = rig.session(HEALTH, (0, 1), 2, true);
    rig.publish(again, vec![node("n2", 1)]);
    let head = rig.engine.head();
    rig.end(again);
    assert_eq!(rig.engine.head(), head);
}

on_every_engine!(a_set_is_coalesced_per_key_and_atomic);
fn a_set_is_coalesced_per_key_and_atomic(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let cursor = rig.engine.head();
    for content in 0..100 {
        rig.publish(session, vec![node("n1", content), node("n2", content)]);
    }
    let set = rig.after(cursor);
    assert_eq!((set.records.len(), set.upto), (2, rig.engine.head()));
    assert_eq!(rig.after(set.upto).records.len(), 0);
}

on_every_engine!(epochs_fence);
fn epochs_fence(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let (first, epoch, _) = rig.open(mk_open(HEALTH, (0, 1), 5, false)).unwrap();
    assert_eq!(epoch, 5);
    let refused = rig.open(mk_open(HEALTH, (0, 1), 4, false)).unwrap_err();
    assert!(
        matches!(
            refused,
            Refusal::Epoch {
                found: 4,
                current: 5,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(rig.ended.is_empty());
    let (second, ..) = rig.open(mk_open(HEALTH, (0, 1), 5, false)).unwrap();
    let (third, ..) = rig.open(mk_open(HEALTH, (0, 1), 6, false)).unwrap();
    let (fourth, issued, _) = rig.open(mk_open(HEALTH, (0, 1), 0, false)).unwrap();
    assert_eq!(issued, 7, "issued above what was there");
    let ended: Vec<SessionId> = rig.ended.iter().map(|(session, _)| *session).collect();
    assert_eq!(ended, [first, second, third]);
    assert!(matches!(rig.ended[2].1, Refusal::Fenced { epoch: 7, .. }));
    let records = vec![node("n1", 1)];
    let late = rig.apply(Command::Publish { session: first, records });
    assert_eq!(late, Err(Refusal::Ended), "a fenced session writes nothing");
    rig.apply(Command::Close { session: second }).unwrap();
    assert_eq!(rig.publish(fourth, vec![node("n1", 1)]).len(), 1);
}

on_every_engine!(a_replace_is_one_change_and_tombstones_what_it_does_not_mention);
fn a_replace_is_one_change_and_tombstones_what_it_does_not_mention(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let zero = rig.session(HEALTH, (0, 2), 1, true);
    let one = rig.session(HEALTH, (1, 2), 1, true);
    rig.publish(zero, vec![node("n1", 1), node("n2", 1), node("n3", 1)]);
    rig.publish(one, vec![node("m1", 1)]);
    assert!(rig.keys().is_empty(), "staged");
    assert!(!rig.shard(HEALTH, 0).complete);
    rig.end(zero);
    assert!(rig.shard(HEALTH, 0).complete && !rig.shard(HEALTH, 1).complete);
    rig.end(one);

    let again = rig.session(HEALTH, (0, 2), 2, true);
    let cursor = rig.engine.head();
    rig.publish(again, vec![node("n1", 2), node("n2", 1), node("n4", 1)]);
    rig.publish(again, vec![mk_removal("n4")]);
    assert_eq!(rig.after(cursor).records.len(), 0);
    let revision = rig.end(again);
    assert_eq!(revision.0, cursor.0 + 1, "one revision");
    let set = rig.after(cursor);
    let replaced = Some(TombstoneReason::Replaced);
    assert_eq!(
        reasons(&set.records),
        [("n1", None), ("n3", replaced)],
        "the same is not sent again"
    );
    assert_eq!(rig.keys(), ["m1", "n1", "n2"], "another shard's keys are not touched");
    let refused = rig.apply(Command::EndReplace { session: again });
    assert_eq!(refused, Err(Refusal::NotReplacing));
}

on_every_engine!(a_replace_that_was_cut_off_leaves_nothing);
fn a_replace_that_was_cut_off_leaves_nothing(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, true);
    rig.publish(session, vec![node("n1", 1)]);
    rig.apply(Command::Close { session }).unwrap();
    let session = rig.session(HEALTH, (0, 1), 1, true);
    rig.end(session);
    assert!(rig.keys().is_empty());
    assert!(rig.shard(HEALTH, 0).complete);
}

on_every_engine!(completeness_is_ordered_with_the_records_it_speaks_of);
fn completeness_is_ordered_with_the_records_it_speaks_of(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, true);
    rig.publish(session, vec![node("n1", 1)]);
    let cursor = rig.engine.head();
    rig.end(session);
    let set = rig.after(cursor);
    assert_eq!((set.records.len(), set.shards.len()), (1, 1));
    assert!(set.shards[0].complete);
    let rest = rig.after(set.upto);
    assert!(rest.records.is_empty() && rest.shards.is_empty());
}

on_every_engine!(the_layout_is_fixed_while_a_session_is_open);
fn the_layout_is_fixed_while_a_session_is_open(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, true);
    rig.end(session);
    let refused = rig.open(mk_open(HEALTH, (0, 2), 2, true)).unwrap_err();
    assert!(
        matches!(
            refused,
            Refusal::Layout {
                found: 2,
                current: 1,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(rig.open(mk_open(OUTCOMES, (0, 2), 2, true)).is_ok(), "each topic has its own");
    rig.apply(Command::Close { session }).unwrap();
    assert!(rig.open(mk_open(HEALTH, (0, 2), 2, true)).is_ok());
}

on_every_engine!(a_new_layout_settles_when_its_last_shard_is_complete);
fn a_new_layout_settles_when_its_last_shard_is_complete(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let old = rig.session(HEALTH, (0, 1), 10, true);
    rig.publish(old, vec![node("n1", 1), node("n2", 1), node("n3", 1)]);
    rig.end(old);
    rig.apply(Command::Close { session: old }).unwrap();

    let zero = rig.session(HEALTH, (0, 2), 11, true);
    assert!(!rig.shard(HEALTH, 0).complete, "every shard of the new layout starts anew");
    rig.publish(zero, vec![node("n1", 1)]);
    let cursor = rig.engine.head();
    rig.end(zero);
    assert_eq!(
        rig.after(cursor).records.len(),
        0,
        "the same content stays; the rest is not judged yet"
    );
    assert_eq!(rig.keys(), ["n1", "n2", "n3"]);
    let status = rig.shard(HEALTH, 1);
    assert_eq!((status.shard_count, status.complete, status.live), (2, false, false));

    let one = rig.session(HEALTH, (1, 2), 11, true);
    rig.publish(one, vec![node("n2", 2)]);
    let cursor = rig.engine.head();
    rig.end(one);
    let set = rig.after(cursor);
    let changed = Some(TombstoneReason::LayoutChanged);
    assert_eq!(
        reasons(&set.records),
        [("n2", None), ("n3", changed)],
        "with completeness, as one change"
    );
    assert_eq!(set.shards.len(), 1);
    assert_eq!(rig.keys(), ["n1", "n2"]);

    // Back again: the epoch of shard 0 has not been forgotten.
    for session in [zero, one] {
        rig.apply(Command::Close { session }).unwrap();
    }
    let refused = rig.open(mk_open(HEALTH, (0, 1), 10, true)).unwrap_err();
    assert!(matches!(refused, Refusal::Epoch { .. }), "{refused:?}");
    assert_eq!(
        rig.engine.shards(&[HEALTH].into(), rig.now).len(),
        2,
        "a refusal changes nothing"
    );
    assert!(rig.open(mk_open(HEALTH, (0, 1), 12, true)).is_ok());
}

on_every_engine!(leaving_a_filter_is_a_removal);
fn leaving_a_filter_is_a_removal(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1, false);
    let selection = Selection {
        topics: [HEALTH].into(),
        filters: [(HEALTH, ["eu:a".to_owned()].into())].into(),
        except: None,
    };
    let read = |rig: &Rig, position| rig.engine.read(&selection, position, rig.now);
    let start = Position::Start(SnapshotReason::NoCursor);
    let at = |name: &str, zone: &str| mk_incoming(mk_health(name, zone, 1));
    rig.publish(session, vec![at("n1", "a"), at("n2", "b")]);
    let set = read(&rig, start);
    assert_eq!(reasons(&set.records), [("n1", None)]);
    rig.publish(session, vec![at("n1", "c"), at("n2", "d")]);
    let left = Some(TombstoneReason::LeftFilter);
    let next = read(&rig, Position::After(set.upto));
    assert_eq!(
        reasons(&next.records),
        [("n1", left), ("n2", left)],
        "a stranger's removal does no harm"
    );
    assert!(next.records.iter().all(|record| record.tombstone().is_some()));
    assert!(read(&rig, start).records.is_empty(), "a snapshot needs no removals");
    // Removed while outside: told, because it was inside once.
    rig.publish(session, vec![mk_removal("n1")]);
    let last = read(&rig, Position::After(next.upto));
    assert_eq!(reasons(&last.records), [("n1", Some(TombstoneReason::Withdrawn))]);
    // No route passes every filter.
    let bare = Incoming {
        route: String::new(),
        ..at("n9", "z")
    };
    rig.publish(session, vec![bare]);
    assert_eq!(reasons(&read(&rig, start).records), [("n9", None)]);
}

on_every_engine!(what_a_reader_says_itself_is_left_out);
fn what_a_reader_says_itself_is_left_out(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let speaker = |epoch: u64| Speaker {
        producer: format!("producer-{epoch}"),
        epoch,
    };
    let told = |rig: &Rig, except: Speaker, position| {
        let selection = Selection {
            except: Some(except),
            ..Selection::of([HEALTH])
        };
        let set = rig.engine.read(&selection, position, rig.now);
        let told = set.records.iter().map(|record| record.key().to_owned());
        (told.collect::<Vec<_>>(), set.upto)
    };
    let start = Position::Start(SnapshotReason::NoCursor);
    let before = rig.session(HEALTH, (0, 1), 1, false);
    rig.publish(before, vec![node("n1", 1), node("n2", 1)]);
    let session = rig.session(HEALTH, (0, 1), 2, false);
    rig.publish(session, vec![node("n2", 2), node("n3", 2)]);

    let (keys, upto) = told(&rig, speaker(2), start);
    assert_eq!(keys, ["n1"], "in a snapshot");
    assert_eq!(told(&rig, speaker(1), start).0, ["n2", "n3"]);
    let same_name = Speaker {
        producer: "producer-2".to_owned(),
        epoch: 1,
    };
    assert_eq!(
        told(&rig, same_name, start).0,
        ["n1", "n2", "n3"],
        "another epoch is another process"
    );

    rig.publish(session, vec![node("n1", 3), node("n2", 3)]);
    let (keys, upto) = told(&rig, speaker(2), Position::After(upto));
    assert!(keys.is_empty(), "in what follows: {keys:?}");
    rig.publish(session, vec![mk_removal("n1")]);
    let (keys, upto) = told(&rig, speaker(2), Position::After(upto));
    assert_eq!(keys, ["n1"], "what is gone is gone");
    let after = rig.session(HEALTH, (0, 1), 3, false);
    rig.publish(after, vec![node("n2", 4)]);
    assert_eq!(told(&rig, speaker(2), Position::After(upto)).0, ["n2"]);
}

on_every_engine!(resetting_an_epoch_ends_the_session_and_lets_a_lower_one_in);
fn resetting_an_epoch_ends_the_session_and_lets_a_lower_one_in(kind: Kind) {
    let mut rig = Rig::new(kind, Limits::default());
    let session = rig.session(HEALTH, (0, 1), 1_000, true);
    rig.end(session);
    let reset = Command::ResetEpoch { topic: HEALTH, shard: 0 };
    assert_eq!(rig.apply(reset), Ok(Answer::EpochReset { previous: 1_000 }));
    assert!(matches!(rig.ended.as_slice(), [(ended, Refusal::Reset { .. })] if *ended == session));
    let (_, epoch, complete) = rig.open(mk_open(HEALTH, (0, 1), 3, true)).unwrap();
    assert_eq!((epoch, complete), (3, true));
    let unknown = Command::ResetEpoch { topic: HEALTH, shard: 9 };
    assert!(matches!(rig.apply(unknown), Err(Refusal::Shard { .. })));
}

on_every_engine!(bounds_are_kept_and_refusals_leave_nothing_behind);
fn bounds_are_kept_and_refusals_leave_nothing_behind(kind: Kind) {
    let mut rig = Rig::new(
        kind,
        Limits {
            keys: 3,
            sessions: 2,
            shards: 4,
            batch: 4,
            ..Limits::default()
        },
    );
    let session = rig.session(HEALTH, (0, 4), 1, false);
    let many = |from: u32, to: u32| (from..to).map(|number| node(&format!("n{number}"), 1)).collect::<Vec<_>>();
    let publish = |rig: &mut Rig, session, records| rig.apply(Command::Publish { session, records });
    assert_eq!(
        publish(&mut rig, session, Vec::new()),
        Err(Refusal::Batch { found: 0, most: 4 })
    );
    assert_eq!(
        publish(&mut rig, session, many(0, 5)),
        Err(Refusal::Batch { found: 5, most: 4 })
    );
    let keys = |found, most| {
        Err(Refusal::Keys {
            topic: HEALTH,
            found,
            most,
            of: 3,
            share: 0,
        })
    };
    assert_eq!(publish(&mut rig, session, many(0, 4)), keys(4, 3));
    assert!(rig.keys().is_empty(), "all or none");
    assert!(publish(&mut rig, session, many(0, 3)).is_ok());
    assert!(publish(&mut rig, session, many(0, 3)).is_ok(), "the same keys need no room");

    let staging = rig.session(HEALTH, (1, 4), 1, true);
    assert!(publish(&mut rig, staging, many(10, 13)).is_ok());
    assert_eq!(publish(&mut rig, staging, many(13, 14)), keys(4, 3));
    let end = Command::EndReplace { session: staging };
    assert_eq!(rig.apply(end.clone()), keys(6, 3));
    assert_eq!(rig.keys(), ["n0", "n1", "n2"]);
    assert!(publish(&mut rig, session, vec![mk_removal("n0"), mk_removal("n1"), mk_removal("n2")]).is_ok());
    assert!(rig.apply(end).is_ok(), "now there is room for what was staged");
    assert_eq!(rig.keys(), ["n10", "n11", "n12"]);

    assert_eq!(
        rig.open(mk_open(HEALTH, (2, 4), 1, false)),
        Err(Refusal::Sessions { most: 2 })
    );
    assert!(
        rig.open(mk_open(HEALTH, (1, 4), 2, false)).is_ok(),
        "taking over needs no room"
    );
    for (shard, shard_count) in [(0, 5), (4, 4), (0, 0)] {
        let refused = rig.open(mk_open(HEALTH, (shard, shard_count), 1, false)).unwrap_err();
        assert!(matches!(refused, Refusal::Shard { .. }), "{refused:?}");
    }
}

on_every_engine!(no_topic_takes_the_keys_that_others_are_sure_of);
/// Of 32 keys each topic is sure of two: one that is out of hand leaves them to the others, live ones and staged ones.
fn no_topic_takes_the_keys_that_others_are_sure_of(kind: Kind) {
    let limits = Limits {
        keys: 32,
        batch: 100,
        ..Limits::default()
    };
    let mut rig = Rig::new(kind, limits);
    let publish = |rig: &mut Rig, session, records| rig.apply(Command::Publish { session, records });
    let nodes = |from: u32, to: u32| (from..to).map(|number| node(&format!("n{number}"), 1)).collect::<Vec<_>>();
    let pods = |from: u32, to: u32| {
        let pod = |number| pod(&format!("p{number}"), PodOutcomeState::Evicting);
        (from..to).map(pod).collect::<Vec<_>>()
    };
    let refused = |topic, found, most| {
        Err(Refusal::Keys {
            topic,
            found,
            most,
            of: 32,
            share: 2,
        })
    };
    for replace in [false, true] {
        let health = rig.session(HEALTH, (0, 1), 1 + u64::from(replace), replace);
        let outcomes = rig.session(OUTCOMES, (0, 1), 1 + u64::from(replace), replace);
        assert_eq!(publish(&mut rig, health, nodes(0, 27)), refused(HEALTH, 27, 26));
        assert!(publish(&mut rig, health, nodes(0, 26)).is_ok());
        assert_eq!(publish(&mut rig, outcomes, pods(0, 3)), refused(OUTCOMES, 3, 2));
        assert!(publish(&mut rig, outcomes, pods(0, 2)).is_ok());
        let allowed: Vec<_> = rig
            .engine
            .figures()
            .iter()
            .map(|figures| (figures.keys, figures.most_keys))
            .collect();
        assert_eq!(allowed, [(26, 26), (0, 2), (2, 2), (0, 2)]);
        for session in [health, outcomes].into_iter().filter(|_| replace) {
            assert!(rig.apply(Command::EndReplace { session }).is_ok());
        }
    }
}
