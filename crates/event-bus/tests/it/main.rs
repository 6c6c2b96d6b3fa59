//! Tests of the bus from outside: the engine by commands, the rest through client and server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod ages;
mod engine_liveness;
mod engine_model;
mod engine_ops;
mod engine_properties;
mod engine_retention;
mod engine_rig;
mod engine_rules;
mod engines;
mod etcd_binary;
mod etcd_process;
mod etcd_raw;
mod etcd_replicas;
mod etcd_restored;
mod etcd_setup;
mod foreign;
mod mtls;
mod publishing;
mod refused;
mod shadow;
mod stream_properties;
mod subscribing;
mod support;
mod tcp;
mod unread;
mod waiting;
mod wire_properties;
mod wire_rules;
