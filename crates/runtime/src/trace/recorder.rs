//! Keeps finished spans in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Finished, Sink};

/// A day of incidents in the largest world; older spans are forgotten first.
const CAPACITY: usize = 100_000;

/// Finished spans, in the order they were emitted; cloning it gives the same recorder.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    spans: Arc<Mutex<VecDeque<Finished>>>,
}

// === impl Recorder ===

impl Recorder {
    /// The spans emitted since the last call.
    pub fn take(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.spans.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Sink for Recorder {
    fn emit(&self, span: Finished) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() == CAPACITY {
            spans.pop_front();
        }
        spans.push_back(span);
    }
}
