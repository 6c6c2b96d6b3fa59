//! Candidates contest one Lease on a server that is slow, forgets answers and fails, while processes are stopped and die.
//!
//! What must hold at every moment: at most one leads. At the end, when faults cease: one leads. Epochs only grow.

use std::collections::BTreeMap;

use super::*;
use crate::Seed;

struct Server {
    lease: Option<Observed>,
    version: u64,
}

struct Candidate {
    elector: Elector,
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
    epochs: Vec<u64>,
    faulty: bool,
    deletes: bool,
}

// === impl Server ===

impl Server {
    fn handle(&mut self, request: Effect) -> Input {
        let conflict = Input::Failed(Failure::Conflict);
        let record = match (request, &self.lease) {
            (Effect::Get, lease) => return Input::Got(lease.clone()),
            (Effect::Create(record), None) => record,
            (Effect::Replace(record, version), Some(lease)) if lease.version == version => record,
            _ => return conflict,
        };
        self.version += 1;
        let lease = mk_observed(record, self.version);
        self.lease = Some(lease.clone());
        Input::Wrote(lease)
    }
}

// === impl Contest ===

impl Contest {
    fn new(seed: u64, deletes: bool) -> Self {
        Self {
            seed: Seed::new(seed),
            server: Server { lease: None, version: 0 },
            candidates: BTreeMap::new(),
            born: 0,
            epochs: Vec::new(),
            faulty: true,
            deletes,
        }
    }

    fn one_in(&self, odds: u64) -> bool {
        self.seed.below(odds) == 0
    }

    fn bear(&mut self, now: u64) {
        self.born += 1;
        let candidate = Candidate {
            elector: Elector::new(format!("candidate-{}", self.born), periods()),
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
        if self.candidates.len() < 3 {
            self.bear(now);
        }
        if self.faulty && self.deletes && self.one_in(400) {
            self.server.lease = None;
            self.server.version += 1;
        }
        for id in self.candidates.keys().copied().collect::<Vec<_>>() {
            self.serve(id, now);
            self.turn(id, now);
        }
        let leaders = self.leaders(now);
        assert!(leaders.len() <= 1 || self.deletes, "{leaders:?} lead at {now}");
    }

    fn leaders(&self, now: u64) -> Vec<(u64, Option<(u64, u64)>)> {
        let leads = |candidate: &Candidate| candidate.leading.is_some_and(|(_, until)| now + candidate.skew < until);
        self.candidates
            .iter()
            .filter(|(_, one)| leads(one))
            .map(|(id, one)| (*id, one.leading))
            .collect()
    }

    fn serve(&mut self, id: u64, now: u64) {
        let (drop_request, drop_answer) = (self.faulty && self.one_in(10), self.faulty && self.one_in(10));
        let candidate = self.candidates.get_mut(&id).expect("it lives");
        if let Some((_, back, request)) = candidate.request.take_if(|(arrives, ..)| *arrives <= now) {
            let lost = Input::Failed(Failure::Other);
            let answer = if drop_request {
                lost.clone()
            } else {
                self.server.handle(request)
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
                Effect::Wake { at, jitter } => {
                    let jitter = self.seed.below(u64::try_from(jitter.as_millis()).expect("short") + 1);
                    let millis = u64::try_from(at.since_origin().as_millis()).unwrap_or(u64::MAX);
                    candidate.wake = millis.saturating_add(jitter).saturating_sub(skew);
                }
                Effect::Announce(State::Leading { epoch, until }) => {
                    let until = u64::try_from(until.since_origin().as_millis()).expect("soon");
                    if candidate.leading.is_none() {
                        self.epochs.push(epoch);
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

/// Lets candidates contest for 15 minutes, the last two without faults, and answers the epochs in which one led.
fn mk_contest(seed: u64, deletes: bool) -> Vec<u64> {
    const END: u64 = 900_000;
    let mut contest = Contest::new(seed, deletes);
    for now in (0..END).step_by(50) {
        contest.faulty = now < END - 120_000;
        contest.step(now);
    }
    assert_eq!(contest.leaders(END).len(), 1, "seed {seed}");
    contest.epochs
}

/// (A) and (C) of the module, and that leadership is found again when faults cease.
#[test]
fn at_most_one_leads_and_in_the_end_one_does() {
    let mut changes = 0;
    for seed in 0..20 {
        let epochs = mk_contest(seed, false);
        assert!(epochs.is_sorted_by(|old, new| old < new), "seed {seed}: {epochs:?}");
        changes += epochs.len();
    }
    assert!(changes > 100, "only {changes} changes of leaders: the contest proves little");
}

/// Whoever deletes a Lease lets another lead before the holder has noticed, upstream too. Epochs still tell them apart.
#[test]
fn epochs_are_never_given_twice_even_if_the_lease_is_deleted() {
    for seed in 0..5 {
        let mut epochs = mk_contest(seed, true);
        let count = epochs.len();
        epochs.sort_unstable();
        epochs.dedup();
        assert_eq!(epochs.len(), count, "seed {seed}");
    }
}
