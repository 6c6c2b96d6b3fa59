//! What many nodes and pods have in common, kept once.

use std::sync::Arc;

use bailiff_model::intent::EvictionCause;
use bailiff_model::{Incarnation, Origin, Shared, Zone};

/// The values that there are. What is asked for is answered in the memory that others have.
#[derive(Debug, Default)]
pub(super) struct Common {
    texts: Shared<str>,
    zones: Shared<Zone>,
    causes: Shared<EvictionCause>,
    /// The bus that the last record came from: as a rule they all do.
    bus: Incarnation,
}

// === impl Common ===

impl Common {
    pub(super) fn share(&mut self, text: &mut Arc<str>) {
        *text = self.texts.share(text.clone());
    }

    pub(super) fn zone(&mut self, zone: &Zone) -> Arc<Zone> {
        self.zones.share(Arc::new(zone.clone()))
    }

    pub(super) fn cause(&mut self, cause: &Arc<EvictionCause>) -> Arc<EvictionCause> {
        self.causes.share(Arc::clone(cause))
    }

    pub(super) fn origin(&mut self, origin: Origin) -> Origin {
        if self.bus != origin.incarnation {
            self.bus = origin.incarnation;
        }
        let incarnation = self.bus.clone();
        Origin { incarnation, ..origin }
    }
}
