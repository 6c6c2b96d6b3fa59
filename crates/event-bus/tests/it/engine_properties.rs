//! Properties of the engine, against the reference model, under any interleaving.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_event_bus::engine::{
    Answer, Command, Position, Refusal, Report, Selection, SessionId, SnapshotReason, Speaker, cursor,
};
use bailiff_event_bus::record::Incoming;
use bailiff_event_bus::{Body, Record};
use bailiff_model::{Revision, Topic};
use proptest::test_runner::{Config, TestRunner};

use crate::engine_model::{Counts, Model, Shard};
use crate::engine_ops::{Op, mk_limits, mk_record, op};
use crate::engine_rig::{Rig, mk_open};
use crate::engines::Kind;

/// The reader that never reads.
const SLEEPER: usize = 6;

const TOPICS: [Topic; 2] = [Topic::NodeHealth, Topic::EvictionOutcomes];

/// A subscriber: a position, and what it was told.
struct Reader {
    selection: Selection,
    position: Position,
    held: BTreeMap<(Topic, String), Body>,
    shards: BTreeMap<(Topic, u32), Shard>,
    seen: BTreeMap<(Topic, String), Revision>,
}

/// What the runs met, over all of them.
#[derive(Debug, Default)]
struct Premises {
    model: Counts,
    epochs_refused: usize,
    layouts_refused: usize,
    ended_refused: usize,
    left_filter: usize,
    left_out: usize,
    too_old: usize,
    foreign: usize,
    resumed: usize,
    coalesced: usize,
    slept_through: usize,
}

struct Run<'a> {
    rig: Rig,
    model: Model,
    sessions: Vec<(SessionId, Topic)>,
    readers: Vec<Reader>,
    premises: &'a RefCell<Premises>,
}

impl Reader {
    fn new(selection: Selection) -> Self {
        Self {
            selection,
            position: Position::Start(SnapshotReason::NoCursor),
            held: BTreeMap::new(),
            shards: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    fn take(&mut self, record: &Record, is_snapshot: bool) {
        let key = (record.topic, record.key.clone());
        let seen = self.seen.insert(key.clone(), record.revision);
        // A snapshot says again what is known already; it never goes back.
        let is_rising = seen < Some(record.revision) || (is_snapshot && seen == Some(record.revision));
        assert!(is_rising, "{key:?}: {seen:?} before {:?}", record.revision);
        assert_eq!(record.body.is_none(), record.tombstone.is_some());
        match &record.body {
            Some(body) => drop(self.held.insert(key, body.clone())),
            None => drop(self.held.remove(&key)),
        }
    }
}

impl Run<'_> {
    fn new(kind: Kind, premises: &RefCell<Premises>) -> Run<'_> {
        let route = |topic, route: &str| [(topic, [route.to_owned()].into())].into();
        let filtered = Selection {
            topics: TOPICS.into(),
            filters: route(Topic::NodeHealth, "eu:a"),
            except: None,
        };
        let narrow = Selection {
            topics: [Topic::EvictionOutcomes].into(),
            filters: route(Topic::EvictionOutcomes, "eu:node-1"),
            except: None,
        };
        let without_one = Selection {
            except: Some(Speaker {
                producer: "producer-2".to_owned(),
                epoch: 2,
            }),
            ..Selection::of(TOPICS)
        };
        let filtered_without_one = Selection {
            filters: filtered.filters.clone(),
            ..without_one.clone()
        };
        let sleeper = Selection::of(TOPICS);
        let selections = [
            Selection::of(TOPICS),
            Selection::of([Topic::NodeHealth]),
            filtered,
            narrow,
            without_one,
            filtered_without_one,
            sleeper,
        ];
        let mut run = Run {
            rig: Rig::new(kind, mk_limits()),
            model: Model::new(mk_limits()),
            sessions: Vec::new(),
            readers: selections.into_iter().map(Reader::new).collect(),
            premises,
        };
        // It is connected, and never reads again before the end.
        run.read(SLEEPER);
        run
    }

    /// One of the youngest sessions: of older ones little is left to learn.
    fn session(&self, index: usize) -> Option<(SessionId, Topic)> {
        let back = index.checked_rem(self.sessions.len().min(4))?;
        self.sessions.iter().rev().nth(back).copied()
    }

    fn step(&mut self, op: &Op) {
        let now = self.rig.now.mono;
        match op {
            Op::Open { .. } => self.open(op),
            Op::Publish { session, records } => self.publish(*session, records),
            Op::EndReplace { session } => {
                let Some((session, _)) = self.session(*session) else { return };
                let result = self.rig.apply(Command::EndReplace { session });
                let wanted = match (self.model.is_open(session), self.model.is_staging(session)) {
                    (false, _) => Err(Refusal::Ended),
                    (true, false) => Err(Refusal::NotReplacing),
                    (true, true) => Ok(()),
                };
                assert_eq!(result.map(drop), wanted);
                if wanted == Err(Refusal::NotReplacing) {
                    // It was heard of all the same.
                    self.model.publish(session, Vec::new(), now);
                }
                self.model.end_replace(session, now);
            }
            Op::Keepalive { session, tick, watch } => {
                let Some((session, _)) = self.session(*session) else { return };
                let report = Report {
                    tick_age: tick.map(Duration::from_secs),
                    watch_age: watch.map(Duration::from_secs),
                    detail: String::new(),
                };
                let result = self.rig.apply(Command::Keepalive { session, report });
                assert_eq!(result.is_ok(), self.model.is_open(session));
                self.model.keepalive(session, *tick, *watch, now);
            }
            Op::Close { session } => {
                let Some((session, _)) = self.session(*session) else { return };
                self.rig.apply(Command::Close { session }).unwrap();
                self.model.close(session, now);
            }
            Op::Reset { topic, shard } => {
                let (topic, shard) = (TOPICS[*topic], *shard);
                let result = self.rig.apply(Command::ResetEpoch { topic, shard });
                assert_eq!(result.is_ok(), self.model.reset(topic, shard, now));
            }
            Op::Pass { seconds } => {
                for _ in 0..*seconds {
                    self.rig.pass(1);
                    self.model.tick(self.rig.now.mono);
                }
            }
            Op::Read { reader } => self.read(*reader % SLEEPER),
            Op::Resume { reader } => {
                let incarnation = self.rig.engine.incarnation().to_owned();
                self.resume(*reader, &incarnation);
            }
            Op::Stray { reader } => self.resume(*reader, "bus-0"),
        }
    }

    fn open(&mut self, op: &Op) {
        let Op::Open {
            topic,
            shard,
            shard_count,
            epoch,
            replace,
        } = *op
        else {
            return;
        };
        let open = mk_open(TOPICS[topic], (shard, shard_count), epoch, replace);
        let wanted = self.model.admit(&open);
        let result = self.rig.open(open.clone());
        let mut premises = self.premises.borrow_mut();
        premises.epochs_refused += usize::from(wanted == Err("epoch"));
        premises.layouts_refused += usize::from(wanted == Err("layout"));
        match (result, wanted) {
            (Ok((session, epoch, complete)), Ok(wanted)) => {
                assert_eq!(epoch, wanted);
                let ended = self.rig.ended.len();
                let (is_complete, fenced) = self.model.open(session, &open, epoch, self.rig.now.mono);
                assert_eq!(complete, is_complete);
                if let Some(fenced) = fenced {
                    assert_eq!(self.rig.ended[ended - 1].0, fenced);
                }
                self.sessions.push((session, open.topic));
            }
            (Err(refusal), Err(wanted)) => assert_eq!(refusal.kind(), wanted),
            (result, wanted) => panic!("{result:?}, wanted {wanted:?}"),
        }
    }

    fn publish(&mut self, session: usize, records: &[(u8, u8, Option<u8>)]) {
        let Some((session, topic)) = self.session(session) else {
            return;
        };
        let records: Vec<Incoming> = records.iter().map(|record| mk_record(topic, *record)).collect();
        let command = Command::Publish {
            session,
            records: records.clone(),
        };
        match self.rig.apply(command) {
            Ok(Answer::Published { revisions }) => {
                let wanted = if self.model.is_staging(session) { 0 } else { records.len() };
                assert_eq!(revisions.len(), wanted);
                self.model.publish(session, records, self.rig.now.mono);
            }
            Err(Refusal::Ended) => {
                assert!(!self.model.is_open(session));
                self.premises.borrow_mut().ended_refused += 1;
            }
            result => panic!("{result:?}"),
        }
    }

    /// Takes one set, and checks everything that a set promises: whatever happened meanwhile, the reader now holds what is true now.
    /// So it never holds half a replace, and completeness never runs ahead of records.
    fn read(&mut self, index: usize) {
        let reader = &mut self.readers[index];
        let set = self.rig.engine.read(&reader.selection, reader.position, self.rig.now);
        let mut premises = self.premises.borrow_mut();
        if let Position::After(revision) = reader.position {
            premises.coalesced += usize::from(set.upto.0 > revision.0 + set.records.len() as u64 + 3);
        }
        let is_snapshot = set.snapshot.is_some();
        if is_snapshot {
            reader.held.clear();
            reader.shards.clear();
        }
        premises.too_old += usize::from(set.snapshot == Some(SnapshotReason::CursorTooOld));
        premises.foreign += usize::from(set.snapshot == Some(SnapshotReason::ForeignCursor));
        assert!(set.records.is_sorted_by_key(|record| record.revision()), "a set is in order");
        for kept in &set.records {
            let record = kept.to_record().unwrap();
            let left = Some(bailiff_event_bus::TombstoneReason::LeftFilter);
            premises.left_filter += usize::from(record.tombstone == left);
            let speaker = Speaker {
                producer: record.producer.clone(),
                epoch: record.epoch,
            };
            assert!(record.body.is_none() || reader.selection.except.as_ref() != Some(&speaker));
            reader.take(&record, is_snapshot);
        }
        for shard in set.shards {
            reader
                .shards
                .retain(|(topic, _), known| *topic != shard.topic || known.3 == shard.shard_count);
            let known = (shard.epoch, shard.complete, shard.live, shard.shard_count);
            reader.shards.insert((shard.topic, shard.shard), known);
        }
        reader.position = Position::After(set.upto);
        // Of what is left out it was told nothing but removals, and may hold what was said before.
        let left_out = self.model.left_out(&reader.selection);
        premises.left_out += left_out.len();
        reader.held.retain(|key, _| !left_out.contains(key));
        assert_eq!(reader.held, self.model.held(&reader.selection));
        let shards = self.model.shards(&reader.selection.topics, self.rig.now.mono);
        assert_eq!(reader.shards, shards);
    }

    fn resume(&mut self, index: usize, incarnation: &str) {
        let reader = &mut self.readers[index % SLEEPER];
        let Position::After(revision) = reader.position else { return };
        let fingerprint = reader.selection.fingerprint();
        let text = cursor::to_text(incarnation, revision, fingerprint);
        let engine = &self.rig.engine;
        reader.position = cursor::position(&text, engine.incarnation(), engine.head(), fingerprint).unwrap();
        self.premises.borrow_mut().resumed += 1;
    }

    /// At every moment memory is what keys cost, whoever reads and whoever does not; the number of kept keys.
    fn check_memory(&self) -> usize {
        let limits = mk_limits();
        let mut all = 0;
        for figures in self.rig.engine.figures() {
            let kept = figures.keys + figures.tombstones;
            assert!(figures.records <= kept * limits.history, "{figures:?}");
            assert!(figures.tombstones <= limits.tombstones, "{figures:?}");
            all += kept;
        }
        all
    }

    /// What a reader that never read has to catch up with: each key once, whatever it slept through.
    fn check_sleeper(&self) {
        let reader = &self.readers[SLEEPER];
        let Position::After(revision) = reader.position else { return };
        let set = self.rig.engine.read(&reader.selection, reader.position, self.rig.now);
        assert!(set.records.len() <= self.check_memory());
        let keys: BTreeSet<_> = set.records.iter().map(|record| (record.topic(), record.key())).collect();
        assert_eq!(keys.len(), set.records.len(), "each key once");
        let changes = self.rig.engine.head().0 - revision.0;
        self.premises.borrow_mut().slept_through += usize::from(changes > 20 + set.records.len() as u64);
    }

    /// At the end everybody reads.
    fn finish(mut self) {
        self.check_sleeper();
        for index in 0..self.readers.len() {
            self.read(index);
        }
        let (mut premises, counts) = (self.premises.borrow_mut(), self.model.counts);
        let all = &mut premises.model;
        all.fenced += counts.fenced;
        all.layouts += counts.layouts;
        all.left_behind += counts.left_behind;
        all.replaced += counts.replaced;
        all.exempted += counts.exempted;
        all.expired += counts.expired;
        all.silent += counts.silent;
    }
}

fn run_all(kind: Kind, cases: u32) -> Premises {
    let premises = RefCell::new(Premises::default());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let ops = proptest::collection::vec(op(), 1..150);
    let outcome = runner.run(&ops, |ops| {
        let mut run = Run::new(kind, &premises);
        for op in &ops {
            run.step(op);
            run.check_memory();
        }
        run.finish();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    premises.into_inner()
}

/// The same over etcd. Every step waits for a real etcd, so there are fewer.
#[test]
fn every_reader_holds_what_the_model_holds_over_etcd() {
    if crate::etcd_process::is_installed() {
        let premises = run_all(Kind::Etcd, 24);
        println!("{premises:?}");
        assert!(premises.resumed > 0 && premises.model.replaced > 0);
    }
}

#[test]
fn every_reader_holds_what_the_model_holds() {
    let premises = run_all(Kind::Memory, 512);
    println!("{premises:?}");
    let Premises {
        model,
        epochs_refused,
        layouts_refused,
        ended_refused,
        left_filter,
        left_out,
        too_old,
        foreign,
        resumed,
        coalesced,
        slept_through,
    } = premises;
    let Counts {
        fenced,
        layouts,
        left_behind,
        replaced,
        exempted,
        expired,
        silent,
    } = model;
    let met = [
        ("fenced", fenced),
        ("layouts", layouts),
        ("left_behind", left_behind),
        ("replaced", replaced),
        ("exempted", exempted),
        ("expired", expired),
        ("silent", silent),
        ("epochs_refused", epochs_refused),
        ("layouts_refused", layouts_refused),
        ("ended_refused", ended_refused),
        ("left_filter", left_filter),
        ("left_out", left_out),
        ("too_old", too_old),
        ("foreign", foreign),
        ("resumed", resumed),
        ("coalesced", coalesced),
        ("slept_through", slept_through),
    ];
    for (premise, times) in met {
        assert!(times > 0, "the runs never met: {premise}");
    }
}
