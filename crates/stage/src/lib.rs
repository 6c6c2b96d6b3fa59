//! What the four stage shells share: the surroundings a stage runs in, the parts its loop is made of, and the way from a command
//! line to a running stage.
//!
//! Nothing here knows a particular stage, decides anything about the cluster, or sees a record's meaning.

pub mod beacon;
pub mod brake;
pub mod env;
pub mod flags;
pub mod health;
pub mod process;
pub mod recalls;
pub mod requests;
pub mod rival;
pub mod service;
pub mod settle;
pub mod shards;

pub use bailiff_model::Shard;
pub use bailiff_runtime::{Alarm, Pace};
pub use beacon::Beacon;
pub use brake::Brake;
pub use env::{Env, Error, Host, Stage, idle};
pub use flags::{SharedArgs, SharedFlags};
pub use process::Process;
pub use recalls::Recalls;
pub use requests::Requests;
pub use settle::settle;
