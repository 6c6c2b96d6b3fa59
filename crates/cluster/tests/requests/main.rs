//! Single requests and Events against a scripted API server, in paused time.

mod api;
mod events;
mod server;
