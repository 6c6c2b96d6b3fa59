//! A second opinion on nodes that are about to be judged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_cluster::Recorder;
use bailiff_model::{Load, Mono, NodeName, Now};
use bailiff_node_health_core::{Input, Read, ReadBy};

use crate::telling;

/// Somebody besides Leases and statuses who may know that a silent node lives.
///
/// What they say never hastens a verdict, and takes none back: it can only be in the way of one.
pub trait SecondOpinion: Send {
    /// What speaks against judging this node, of which no sign of life came for its grace, in a sentence for people; `None` if nothing does.
    ///
    /// Asked before the node is read again, and so before each verdict. A doubt counts as a read that failed: no verdict and no vote
    /// follow, the node stays `LATE`, its incident and an Event about it tell the sentence, and the question comes again, after a monitor
    /// period at most. Must not wait: nothing else is decided meanwhile.
    fn on(&mut self, node: &NodeName, now: Now) -> Option<String>;
}

/// Nobody is asked.
impl SecondOpinion for () {
    fn on(&mut self, _: &NodeName, _: Now) -> Option<String> {
        None
    }
}

/// How often it is said of a node that it is doubted: API servers forget Events after an hour.
const SAY_EVERY: Duration = Duration::from_secs(600);

/// Somebody who is asked, and what was said of the answers.
pub(crate) struct Doubts {
    opinion: Box<dyn SecondOpinion>,
    /// When it was last said of a node that it is doubted: of late ones, at most.
    told: BTreeMap<NodeName, Mono>,
}

// === impl Doubts ===

impl Doubts {
    pub(crate) fn new(opinion: impl SecondOpinion + 'static) -> Self {
        Self {
            opinion: Box::new(opinion),
            told: BTreeMap::new(),
        }
    }

    /// Takes the nodes that somebody speaks for out of those that are to be read; answers their reads.
    pub(crate) fn take(&mut self, nodes: &mut Vec<NodeName>, recorder: &Recorder, now: Now) -> Vec<(NodeName, Read)> {
        let mut answers = Vec::new();
        nodes.retain(|name| {
            let Some(why) = self.opinion.on(name, now) else { return true };
            let told = self.told.get(name);
            if told.is_none_or(|told| now.mono.saturating_since(*told) >= SAY_EVERY) {
                telling::doubted(recorder, name, &why);
                self.told.insert(name.clone(), now.mono);
            }
            let read = Read::Failed {
                retry_after: None,
                load: Load::None,
                detail: Arc::from(why),
            };
            answers.push((name.clone(), read));
            false
        });
        answers
    }

    /// There is nothing to doubt any more: the node is healthy, judged, or gone.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.told.remove(node);
    }
}

/// One answer for all nodes of a confirming read, once those that are `reading`, if any, were read.
pub(crate) async fn joined(
    mut answers: Vec<(NodeName, Read)>,
    reading: Option<impl Future<Output = Input>>,
    asked: Mono,
    by: ReadBy,
) -> Input {
    if let Some(reading) = reading
        && let Input::Confirmed { answers: read, .. } = reading.await
    {
        answers.extend(read);
    }
    Input::Confirmed { asked, by, answers }
}
