//! Two implementations beside each other: where they decide differently, and why.
//!
//! The *incumbent* does the work; the *candidate* is looked at beside it, and changes nothing. Both are brought into one form, answers to
//! questions about objects ([`answer`]), and compared by a pure state machine ([`compare`]). A side is a stage on a bus ([`stage`]), all
//! of an observing Bailiff ([`duties`]), or what the controllers of a cluster did ([`cluster`]).

pub mod answer;
pub mod cluster;
pub mod compare;
pub mod dry_run;
pub mod duties;
#[cfg(test)]
mod fixture;
mod records;
pub mod run;
pub mod score;
pub mod source;
pub mod stage;
mod stands;

pub use answer::{Answer, Key, Question, Side};
pub use compare::{Comparison, Finding, Tolerance};
pub use records::said;
pub use run::run;
pub use score::Score;
