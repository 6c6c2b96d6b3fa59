//! Candidates contest Leases on a server that is slow, forgets answers and fails, while processes are stopped and die, and while the
//! work is divided into more and fewer shards.
//!
//! What must hold at every moment: of shards that have anything in common at most one is led. At the end, when faults cease: each shard
//! of the last layout is led. The epochs of a shard only grow.

use std::collections::BTreeMap;

use super::*;
use crate::Seed;

struct Server {
    /// By shard.
    leases: BTreeMap<u32, Observed>,
    version: u64,
}

struct Candidate {
    elector: Elector,
    shard: Shard,
    /// What its monotonic clock is ahead of true time, in milliseconds.
    skew: u64,
    wake: u64,
    /// When the request reaches the server, and when the answer is back.
    request: Option<(u64, u64, Effect)>,
    answer: Option<(u64, Input)>,
    leading: Option<(u64, u64)>,
    /// Stopped until then.
    stopped: u64,
}

struct Contest {
    seed: Seed,
    server: Server,
    candidates: BTreeMap<u64, Candidate>,
    born: u64,
    /// Shard and epoch of each leadership.
    epochs: Vec<(Shard, u64)>,
    faulty: bool,
    deletes: bool,
    /// The numbers of shards that candidates are told. The last is that of the end.
    layouts: &'static [u32],
}

// === impl Server ===

impl Server {
    fn handle(&mut self, shard: u32, request: Effect) -> Input {
        let conflict = Input::Failed(Failure::Conflict);
        let before = self.leases.get(&shard);
        let (draft, before) = match (request, before) {
            (Effect::Get, lease) => return Input::Got(lease.cloned()),
            (Effect::GetLayout, _) => {
                let lease = self.leases.get(&0);
                return Input::GotLayout(lease.map(|lease| lease.layout.unwrap_or(Layout::WHOLE)));
            }
            (Effect::Create(draft), None) => (draft, Observed::default()),
            (Effect::Replace(draft, version), Some(lease)) if lease.version == version => (draft, lease.clone()),
            _ => return conflict,
        };
        self.version += 1;
        let lease = Observed {
            layout: draft.layout.or(before.layout),
            ..mk_observed(draft.record, self.version)
        };
        self.leases.insert(shard, lease.clone());
        Input::Wrote(lease)
    }
}

// === impl Contest ===

impl Contest {
    fn new(seed: u64, layouts: &'static [u32], deletes: bool) -> Self {
        Self {
            seed: Seed::new(seed),
            server: Server {
                leases: BTreeMap::new(),
                version: 0,
            },
            candidates: BTreeMap::new(),
            born: 0,
            epochs: Vec::new(),
            faulty: true,
            deletes,
            layouts,
        }
    }

    fn one_in(&self, odds: u64) -> bool {
        self.seed.below(odds) == 0
    }

    fn bear(&mut self, shard: Shard, now: u64) {
        self.born += 1;
        let candidate = Candidate {
            elector: Elector::new(format!("candidate-{}", self.born), shard, periods()),
            shard,
            skew: self.seed.below(100_000),
            wake: now,
            request: None,
            answer: None,
            leading: None,
            stopped: 0,
        };
        self.candidates.insert(self.born, candidate);
    }

    /// One step of 50 ms.
    fn step(&mut self, now: u64) {
        self.fill(now);
        if self.faulty && self.deletes && self.one_in(400) {
            self.server.leases.pop_first();
            self.server.version += 1;
        }
        for id in self.candidates.keys().copied().collect::<Vec<_>>() {
            self.serve(id, now);
            self.turn(id, now);
        }
        let leaders = self.leaders(now);
        let two = leaders
            .iter()
            .enumerate()
            .find_map(|(nth, one)| Some((one, leaders[..nth].iter().find(|other| overlap(**other, *one))?)));
        assert!(two.is_none() || self.deletes, "{two:?} lead at {now}");
    }

    /// Three candidates for each shard: of the last layout in the end, before that of any.
    fn fill(&mut self, now: u64) {
        let last = self.layouts[self.layouts.len() - 1];
        if !self.faulty {
            self.candidates.retain(|_, candidate| candidate.shard.count == last);
        }
        let count = if self.faulty {
            self.layouts[usize::try_from(self.seed.below(self.layouts.len() as u64)).expect("few")]
        } else {
            last
        };
        for index in 0..count {
            let shard = Shard { index, count };
            let standing = self.candidates.values().filter(|candidate| candidate.shard == shard).count();
            if standing < 3 && (self.layouts.len() == 1 || !self.faulty || self.one_in(200)) {
                self.bear(shard, now);
            }
        }
    }

    fn leaders(&self, now: u64) -> Vec<Shard> {
        let leads = |candidate: &&Candidate| candidate.leading.is_some_and(|(_, until)| now + candidate.skew < until);
        self.candidates.values().filter(leads).map(|one| one.shard).collect()
    }

    fn serve(&mut self, id: u64, now: u64) {
        let (drop_request, drop_answer) = (self.faulty && self.one_in(10), self.faulty && self.one_in(10));
        let candidate = self.candidates.get_mut(&id).expect("it lives");
        if let Some((_, back, request)) = candidate.request.take_if(|(arrives, ..)| *arrives <= now) {
            let lost = Input::Failed(Failure::Other);
            let answer = if drop_request {
                lost.clone()
            } else {
                self.server.handle(candidate.shard.index, request)
            };
            candidate.answer = Some((back, if drop_answer { lost } else { answer }));
        }
    }

    fn turn(&mut self, id: u64, now: u64) {
        let (stops, dies, leaves) = (self.one_in(3_000), self.one_in(10_000), self.one_in(5_000));
        let stop = self.seed.below(60_000);
        let candidate = self.candidates.get_mut(&id).expect("it lives");
        if self.faulty && stops {
            candidate.stopped = now + stop;
        }
        if self.faulty && dies {
            self.candidates.remove(&id);
            return;
        }
        if candidate.stopped > now {
            return;
        }
        if let Some((_, input)) = candidate.answer.take_if(|(back, _)| *back <= now) {
            self.apply(id, input, now);
        } else if self.faulty && leaves {
            self.apply(id, Input::Release, now);
        } else if candidate.wake <= now {
            candidate.wake = u64::MAX;
            self.apply(id, Input::Tick, now);
        }
    }

    fn apply(&mut self, id: u64, input: Input, now: u64) {
        let candidate = self.candidates.get_mut(&id).expect("it lives");
        let skew = candidate.skew;
        for effect in candidate.elector.apply(input, at(now + skew)) {
            match effect {
                Effect::Wake { at, jitter, leeway } => {
                    let later = u64::try_from((jitter + leeway).as_millis()).expect("short");
                    let jitter = self.seed.below(later + 1);
                    let millis = u64::try_from(at.since_origin().as_millis()).unwrap_or(u64::MAX);
                    candidate.wake = millis.saturating_add(jitter).saturating_sub(skew);
                }
                Effect::Announce(State::Leading { epoch, until }) => {
                    let until = u64::try_from(until.since_origin().as_millis()).expect("soon");
                    if candidate.leading.is_none() {
                        self.epochs.push((candidate.shard, epoch));
                    }
                    candidate.leading = Some((epoch, until));
                }
                Effect::Announce(_) => candidate.leading = None,
                Effect::End => {
                    self.candidates.remove(&id);
                    return;
                }
                request => {
                    assert!(
                        candidate.request.is_none() && candidate.answer.is_none(),
                        "one request at a time"
                    );
                    let slow = self.faulty && self.seed.below(5) == 0;
                    let (there, back) = if slow { (2_500, 2_500) } else { (50, 50) };
                    let arrives = now + self.seed.below(there);
                    candidate.request = Some((arrives, arrives + self.seed.below(back), request));
                }
            }
        }
    }
}

/// Have two shards anything in common? Keys belong to them by a remainder.
fn overlap(one: Shard, other: Shard) -> bool {
    (0..one.count * other.count).any(|key| key % one.count == one.index && key % other.count == other.index)
}

/// Lets candidates contest for 15 minutes, the last two without faults, and answers the epochs in which one led.
fn mk_contest(seed: u64, layouts: &'static [u32], deletes: bool) -> Vec<(Shard, u64)> {
    const END: u64 = 900_000;
    let mut contest = Contest::new(seed, layouts, deletes);
    for now in (0..END).step_by(50) {
        contest.faulty = now < END - 120_000;
        contest.step(now);
    }
    let count = layouts[layouts.len() - 1];
    let mut leaders = contest.leaders(END);
    leaders.sort_by_key(|shard| shard.index);
    let all: Vec<_> = (0..count).map(|index| Shard { index, count }).collect();
    assert_eq!(leaders, all, "seed {seed}");
    contest.epochs
}

/// (A) and (C) of the module, and that leadership is found again when faults cease.
#[test]
fn at_most_one_leads_and_in_the_end_one_does() {
    let mut changes = 0;
    for seed in 0..20 {
        let epochs = mk_contest(seed, &[1], false);
        assert!(epochs.is_sorted_by(|(_, old), (_, new)| old < new), "seed {seed}: {epochs:?}");
        changes += epochs.len();
    }
    assert!(changes > 100, "only {changes} changes of leaders: the contest proves little");
}

/// Shards of two layouts are never led at one time, whoever dies, stops or is late in the meantime.
#[test]
fn layouts_follow_each_other_and_never_overlap() {
    let mut changes = 0;
    for (layouts, seeds) in [(&[2][..], 2), (&[1, 2], 5), (&[2, 1], 5), (&[2, 3], 5), (&[3, 1, 4], 3)] {
        for seed in 0..seeds {
            let epochs = mk_contest(seed, layouts, false);
            let counts: Vec<_> = epochs.iter().map(|(shard, _)| shard.count).collect();
            changes += counts.windows(2).filter(|pair| pair[0] != pair[1]).count();
        }
    }
    assert!(changes > 100, "only {changes} changes of layouts: the contest proves little");
}

/// Whoever deletes a Lease lets another lead before the holder has noticed, upstream too. Epochs still tell them apart.
#[test]
fn epochs_are_never_given_twice_even_if_the_lease_is_deleted() {
    for seed in 0..5 {
        let mut epochs = mk_contest(seed, &[1], true);
        let count = epochs.len();
        epochs.sort_by_key(|(_, epoch)| *epoch);
        epochs.dedup();
        assert_eq!(epochs.len(), count, "seed {seed}");
    }
}
