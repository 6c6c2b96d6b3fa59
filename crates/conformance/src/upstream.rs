//! Stand-ins for the stages before the one that is judged: they publish what a situation wants said.

use std::sync::Arc;
use std::time::Duration;

use bailiff_event_bus::{Bus, Draft, PublishOptions, Publisher, publish};
use bailiff_model::Topic;
use bailiff_runtime::{Clock, Seed};
use tokio::task::AbortHandle;

/// How often a stand-in says that its loop turns: more often than the bus asks.
const BEAT: Duration = Duration::from_millis(500);

/// A producer of a topic. Dropping it ends its session.
#[derive(Debug)]
pub struct Upstream {
    publisher: Arc<Publisher>,
    beating: AbortHandle,
}

impl Upstream {
    /// A producer that is live, and says nothing yet.
    pub fn begin(bus: &Bus, topic: Topic, clock: &Clock, seed: &Seed) -> Self {
        let options = PublishOptions {
            topic,
            shard: 0,
            shard_count: 1,
            producer: "conformance".to_owned(),
            epoch: 0,
        };
        let publisher = Arc::new(publish(bus, options, clock, seed));
        let (beating, clock) = (Arc::clone(&publisher), clock.clone());
        // Ends with the producer, which aborts it.
        let beating = tokio::spawn(async move {
            let mut beat = tokio::time::interval(BEAT);
            loop {
                beat.tick().await;
                let now = clock.now().mono;
                beating.report(now, Some(now));
            }
        });
        Self {
            publisher,
            beating: beating.abort_handle(),
        }
    }

    /// What is true of a key.
    pub fn say(&self, draft: Draft) {
        self.publisher.set(draft);
    }

    /// Nothing is to be said of a key.
    pub fn withdraw(&self, key: &str) {
        self.publisher.remove(key);
    }

    /// What was said so far is all.
    pub fn complete(&self) {
        self.publisher.complete();
    }

    /// It does not count itself live, for this reason; an empty one ends that.
    pub fn trouble(&self, reason: &str) {
        self.publisher.set_trouble(reason);
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.beating.abort();
    }
}
