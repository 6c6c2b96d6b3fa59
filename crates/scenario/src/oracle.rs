//! Recorded scenarios: what the real controllers did in a scripted cluster, played again with the stages in their place.
//!
//! A scenario file ([`file`]) has objects, steps and what a watcher of the API saw when kube-controller-manager ran. [`play`] sets up
//! the same cluster in a world of its own, does the same things at the same times, and [`observe`] draws up, from the API's history
//! alone, what was seen this time. [`compare`] says where the two differ, within the tolerances that a recording allows.
//! [`differences`] are the deviations that are meant: line by line, nothing else is accepted.
//!
//! Everything but [`play`] is a pure function. What a stage thinks is never asked.

pub mod compare;
pub mod differences;
pub mod file;
pub mod lines;
pub mod observe;
pub mod placeholders;
pub mod play;
mod sut;

pub use compare::{Difference, compare};
pub use differences::Profile;
pub use file::Scenario;
pub use observe::Observed;
pub use play::{Played, play, play_all, take_over, take_over_all, writes};

pub use crate::parallel::jobs;
