//! Chaos: whole systems in virtual time, to which everything happens that may happen, judged by the API's history alone.
//!
//! A [`Story`] says what is set up and what happens when; a seed makes one up ([`Story::from_seed`]), and [`situations`] are the
//! fixed ones in which a single fault is put at every place where one fits ([`Boundary`]). [`play`] plays a story through the real
//! stages, the real bus and the sandbox; [`invariants`] are what must hold whatever happened.

mod agreement;
mod boundary;
mod campaign;
mod enumerate;
mod faults;
pub mod invariants;
mod play;
mod situations;
mod story;
mod timeline;

pub use agreement::Agreement;
pub use boundary::{Boundary, Counts};
pub use campaign::Campaign;
pub use enumerate::Enumerated;
pub use faults::{Cut, Faults, Storm};
pub use play::{EndState, Ended, play, play_with};
pub use situations::{Situation, situations};
pub use story::{Deed, Method, Story, Terms};
pub use timeline::Timeline;
