//! A replica of a stage: a process that is started again when it ends, as the kubelet would.

use std::collections::BTreeSet;
use std::sync::mpsc::SyncSender;

use super::Stage;
use crate::faketime::WallClock;
use crate::program::{How, Program, Word};
use crate::proxy::Proxy;

pub struct Replica {
    /// The number of its first start.
    pub id: u64,
    pub stage: Stage,
    /// How many shards it counts.
    pub shards: u32,
    pub how: How,
    pub api: Proxy,
    /// The ways to all replicas of the bus.
    pub bus: Vec<Proxy>,
    /// Its wall clock, where it can be stepped.
    pub clock: Option<WallClock>,
    pub program: Program,
    /// Leases it says it holds.
    pub leads: BTreeSet<String>,
    /// It has said so of any, be it that it holds none any more.
    pub has_led: bool,
    /// Leases it says it stands by for.
    pub stands_by: BTreeSet<String>,
    /// It says that it publishes.
    pub publishes: bool,
    /// How often it began to publish, or lost the bus.
    pub changes: usize,
    /// It ends in order when it is told to.
    pub minds_signals: bool,
    /// It stays dead for now.
    pub is_down: bool,
}

impl Replica {
    /// Takes note of what its process says.
    pub fn hear(&mut self, line: &serde_json::Value) {
        let lease = line["lease"].as_str().unwrap_or_default().to_owned();
        match line["message"].as_str() {
            Some("leading") => {
                self.has_led = true;
                self.leads.insert(lease);
            }
            Some("leading no more") => drop(self.leads.remove(&lease)),
            Some("standing by") => {
                self.leads.remove(&lease);
                self.stands_by.insert(lease);
            }
            // Right after it has said what signals mean.
            Some("Admin port is open") => self.minds_signals = true,
            Some("Session was lost") => {
                self.publishes = false;
                self.changes += 1;
            }
            Some(message) if message.starts_with("Publishing ") => {
                self.publishes = true;
                self.changes += 1;
            }
            _ => {}
        }
    }

    /// Its process has ended.
    pub fn ended(&mut self) {
        self.leads.clear();
        self.has_led = false;
        self.stands_by.clear();
        self.publishes = false;
        self.minds_signals = false;
    }

    /// Its process begins anew.
    pub fn start(&mut self, start: u64, tell: SyncSender<(u64, Word)>) {
        self.is_down = false;
        self.program = Program::start(&self.how, start, tell);
    }
}
