//! Rules of the DaemonSet specification, played against a tiny cluster in memory.

mod claims;
mod decoding;
mod history;
mod holds;
mod lifecycle;
mod model;
mod properties;
mod retries;
mod rollout;
mod routing;
