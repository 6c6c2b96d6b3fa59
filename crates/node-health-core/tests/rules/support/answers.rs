//! How the API answers.

use std::sync::Arc;

use bailiff_model::{Load, Mono, NodeName, ReadyStatus};
use bailiff_node_health_core::{Input, Read, ReadBy, StatusWrite, WriteOutcome};

use super::{Answers, Pending, World};

impl World {
    pub(super) fn take(&mut self, request: Pending) {
        match self.answers {
            Answers::Later => self.pending.push(request),
            _ => self.answer(request),
        }
    }

    /// Answers a request as the API is now.
    pub fn answer(&mut self, request: Pending) {
        match request {
            Pending::Read(asked, by, nodes) => {
                let answer = self.read_now(asked, by, nodes);
                self.give(answer);
            }
            Pending::Write(write) => {
                let outcome = self.store(&write);
                let stored = matches!(outcome, WriteOutcome::Stored(_));
                self.give(Input::Written {
                    node: write.node.clone(),
                    outcome,
                });
                if stored {
                    self.tell_node(write.node.name.as_str());
                }
            }
        }
    }

    /// The answer to a read, as the API is now.
    pub fn read_now(&self, asked: Mono, by: ReadBy, nodes: Vec<NodeName>) -> Input {
        let fails = self.answers == Answers::Fails;
        let answers = nodes
            .into_iter()
            .map(|node| (node.clone(), self.read(&node, fails)))
            .collect();
        Input::Confirmed { asked, by, answers }
    }

    /// Answers everything kept, in order.
    pub fn answer_pending(&mut self) {
        for request in std::mem::take(&mut self.pending) {
            self.answer(request);
        }
    }

    fn read(&self, node: &NodeName, fails: bool) -> Read {
        if fails {
            return failed_read();
        }
        self.nodes.get(node).map_or(Read::Gone, |facts| Read::Found {
            node: Box::new(facts.clone()),
            lease: self.leases.get(node).cloned(),
        })
    }

    /// Makes a write, if it can be made; what the answer to it is.
    pub fn store(&mut self, write: &StatusWrite) -> WriteOutcome {
        if matches!(self.answers, Answers::Fails | Answers::FailsWrites) {
            return failed_write();
        }
        let version = self.next_version();
        let Some(facts) = self.nodes.get_mut(&write.node.name) else {
            return WriteOutcome::Gone;
        };
        if facts.uid != write.node.uid || facts.resource_version != write.node.resource_version {
            return WriteOutcome::Conflict;
        }
        for condition in &write.conditions {
            match condition.kind {
                "Ready" => {
                    facts.ready.status = ReadyStatus::Unknown;
                    facts.ready.reason = Arc::from(condition.reason);
                    facts.ready.since = Some(condition.since);
                    facts.ready.heartbeat = condition.heartbeat.or(facts.ready.heartbeat);
                }
                "MemoryPressure" => facts.pressures.memory = ReadyStatus::Unknown,
                "DiskPressure" => facts.pressures.disk = ReadyStatus::Unknown,
                "PIDPressure" => facts.pressures.pid = ReadyStatus::Unknown,
                other => panic!("{other} is not the monitor's"),
            }
        }
        facts.resource_version = version.clone();
        if self.answers == Answers::StoresInSilence {
            return failed_write();
        }
        WriteOutcome::Stored(version)
    }
}

fn failed_read() -> Read {
    Read::Failed {
        retry_after: None,
        load: Load::Overloaded,
        detail: Arc::from("no answer"),
    }
}

fn failed_write() -> WriteOutcome {
    WriteOutcome::Failed {
        retry_after: None,
        load: Load::Overloaded,
        detail: Arc::from("no answer"),
    }
}
