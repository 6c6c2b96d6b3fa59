//! Watching a table from inside the process.
//!
//! A [`Watch`] is a cursor into the table's log. It holds no events of its own, so one that is never read costs nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;

use crate::Sandbox;
use crate::store::{Event, Interest, Lookup};

/// All changes of one resource after a revision.
#[derive(Debug)]
pub struct Watch {
    sandbox: Sandbox,
    resource: Arc<str>,
    id: u64,
    after: u64,
}

impl Watch {
    pub(crate) fn new(sandbox: &Sandbox, resource: &str, after: u64) -> Self {
        let id = sandbox.store().enlist();
        Self {
            sandbox: sandbox.clone(),
            resource: resource.into(),
            id,
            after,
        }
    }

    /// The next change; nothing once the watch fell behind what is remembered, which calls for a new list.
    ///
    /// # Cancellation
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// A change that is there already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        let event = self.sandbox.store().table(&self.resource)?.after(self.after)?.clone();
        self.after = event.revision;
        Some(event)
    }

    /// The revision of the last change that was handed out.
    pub fn seen(&self) -> u64 {
        self.after
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        let found = self
            .sandbox
            .store()
            .poll(&self.resource, self.id, &Interest::All, self.after, context.waker());
        match found {
            Lookup::Found(event) => {
                self.after = event.revision;
                Poll::Ready(Some(event))
            }
            Lookup::Waiting(_) => Poll::Pending,
            Lookup::Behind => Poll::Ready(None),
        }
    }
}

impl Stream for Watch {
    type Item = Arc<Event>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.sandbox.store().discharge(&self.resource, self.id);
    }
}
