//! Writes that the core may call off as long as they are not sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiff_zone_core::Ticket;

/// True as long as a write is wanted. Asked right before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// What the core says now.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The writes that are not answered yet: as many as the core has in flight.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    wanted: BTreeMap<Ticket, Wanted>,
}

impl Recalls {
    /// A new write.
    pub(crate) fn wanted(&mut self, ticket: Ticket) -> Wanted {
        let wanted = Wanted(Arc::new(AtomicBool::new(true)));
        self.wanted.insert(ticket, wanted.clone());
        wanted
    }

    /// It is not wanted any more.
    pub(crate) fn call_off(&mut self, ticket: Ticket) {
        if let Some(wanted) = self.wanted.get(&ticket) {
            wanted.0.store(false, Ordering::Relaxed);
        }
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, ticket: Ticket) {
        self.wanted.remove(&ticket);
    }
}
