//! The rules of the taint-manager, each against the whole state machine.

mod accounts;
mod afresh;
mod harness;
mod inheritance;
mod marking;
mod node_mode;
mod node_writes;
mod order;
mod properties;
mod taint_mode;
mod told;
mod wishes;
