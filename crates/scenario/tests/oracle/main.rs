//! The recorded scenarios beside the checkout: what the comparison makes of them, and what the stages do in them.

mod defaults;
mod faithful;
mod player;
mod recordings;
mod revisions;
mod takeover;
