//! Whole systems in one process: worlds in virtual time, the demonstration, and figures computed from an API's history.

pub mod answers;
pub mod chaos;
pub mod demo;
pub mod fixture;
pub mod oracle;
mod parallel;
pub mod report;
pub mod stages;
mod views;
pub mod world;

pub use fixture::{Fixture, StageName, Transport};
pub use report::{Figures, Reader};
pub use stages::StageOptions;
