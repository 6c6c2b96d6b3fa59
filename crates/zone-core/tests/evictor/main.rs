//! The evictor against a small model of the API and of the stages before it.

mod budgets;
mod histories;
mod holds;
mod isolation;
mod node_mode;
mod once;
mod pods;
mod rates;
mod recall;
mod restarts;
mod upstream;
mod world;
