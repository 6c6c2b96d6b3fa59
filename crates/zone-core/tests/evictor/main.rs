//! The evictor against a small model of the API and of the stages before it.

mod afresh;
mod budgets;
mod conflicts;
mod echoes;
mod histories;
mod holds;
mod incarnations;
mod inheritance;
mod isolation;
mod lost_nodes;
mod node_mode;
mod once;
mod pace;
mod pods;
mod rates;
mod recall;
mod restarts;
mod shards;
mod sure;
mod told;
mod traces;
mod until;
mod upstream;
mod waiting;
mod world;
