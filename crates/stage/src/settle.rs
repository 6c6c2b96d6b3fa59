//! The last words of a stage that ends.

use std::time::Duration;

use bailiff_event_bus::Publisher;

/// How long a stage that ends waits until the bus has its last words: some round trips. Who begins next inherits them; without them it
/// assumes the worse, so that more is not worth holding up a shutdown.
const LINGER: Duration = Duration::from_secs(2);

/// Waits until everything that was published is on the bus, a bounded time. Dropping the publisher loses what is not.
pub async fn settle(publisher: &Publisher) {
    if tokio::time::timeout(LINGER, publisher.settled()).await.is_err() {
        tracing::warn!("The bus did not take the last records within {LINGER:?}; the next instance does without them");
    }
}
