//! Rules of the DaemonSet specification, played against a tiny cluster in memory.

mod changes;
mod claims;
mod crossing;
mod decoding;
mod dedupe;
mod history;
mod holds;
mod lanes;
mod late;
mod lifecycle;
mod model;
mod needless;
mod parts;
mod permissions;
mod policies;
mod properties;
mod refusals;
mod restarts;
mod retries;
mod rollout;
mod routing;
mod scopes;
mod telling;
mod unsent;
