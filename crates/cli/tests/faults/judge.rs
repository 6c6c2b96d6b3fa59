//! What must hold, whatever went wrong.

mod daemons;
mod evictions;
mod leases;

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::clock;
use super::record::Record;
use super::witness::Witness;

/// Times in the API are whole seconds, cut off, and what is seen is seen a moment later.
const CUT_OFF: SignedDuration = SignedDuration::from_secs(1);

/// How often there was something for an invariant to be judged by.
#[derive(Clone, Debug, Default)]
pub struct Premises(BTreeMap<&'static str, usize>);

/// Judges everything that was seen.
pub fn judge(witness: &Witness, record: &Record) -> Premises {
    let mut premises = Premises::default();
    witness.with(|seen| {
        evictions::judge(seen, record.evictors_stopped, clock::wall(), &mut premises);
        daemons::judge(seen, &mut premises);
        leases::judge(seen, record, &mut premises);
    });
    premises
}

// === impl Premises ===

impl Premises {
    pub fn saw(&mut self, what: &'static str) {
        self.saw_so_many(what, 1);
    }

    pub fn saw_so_many(&mut self, what: &'static str, times: usize) {
        *self.0.entry(what).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.saw_so_many(what, *times);
        }
    }

    /// What was looked for, and never there.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0
            .iter()
            .filter(|(_, times)| **times == 0)
            .map(|(what, _)| *what)
            .collect()
    }
}

impl std::fmt::Display for Premises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>6}  {what}"))
    }
}
