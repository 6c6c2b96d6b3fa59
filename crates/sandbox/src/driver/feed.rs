//! Changes of many resources as one sequence, in the order of the writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::StreamExt;

use super::Options;
use crate::api::kinds::Kinds;
use crate::gc::Resource;
use crate::store::{Change, Object};
use crate::{Event, Sandbox, Watch};

/// What happened, in one table.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Where.
    pub resource: Arc<Resource>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// An object exists and is as follows.
    Exists(Arc<Object>),
    /// An object is gone; its last state.
    Gone(Arc<Object>),
    /// These are all objects of the resource; whatever else was known is gone.
    All(Vec<Arc<Object>>),
}

/// The changes of some resources. Starts with what exists.
#[derive(Debug)]
pub struct Feed {
    sandbox: Sandbox,
    sources: Vec<Source>,
    /// Not handed out yet, by revision; a list comes after the write that it was taken after. No larger than the logs it is read from.
    buffer: BTreeMap<(u64, Rank), Occurrence>,
    /// The revision up to which all logs were read.
    read: u64,
    options: Options,
    /// What the sources were opened for.
    kinds: Arc<Kinds>,
}

#[derive(Debug)]
struct Source {
    resource: Arc<Resource>,
    watch: Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Event,
    List(usize),
}

// === impl Feed ===

impl Feed {
    /// The resources that the parts look at.
    pub fn new(sandbox: &Sandbox, options: &Options) -> Self {
        let mut feed = Self {
            sandbox: sandbox.clone(),
            sources: Vec::new(),
            buffer: BTreeMap::new(),
            read: 0,
            options: options.clone(),
            kinds: sandbox.kinds(),
        };
        for (nth, resource) in resources(&feed.kinds, options).into_iter().enumerate() {
            let watch = feed.open(nth, &resource);
            feed.sources.push(Source { resource, watch });
        }
        feed
    }

    /// Resolves when there may be something to take.
    ///
    /// # Cancellation
    /// Nothing is lost.
    pub async fn ready(&mut self) {
        std::future::poll_fn(|context| {
            if self.sandbox.store().revision() > self.read {
                return Poll::Ready(());
            }
            self.read(context);
            if self.buffer.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// The next changes, at most `limit`. None are left if there are fewer.
    pub fn take(&mut self, limit: usize) -> Vec<Occurrence> {
        // A write may be read before an earlier one of another table while both are being made: only what is no newer than this has
        // all of its predecessors in the logs.
        let complete = self.sandbox.store().revision();
        if complete > self.read {
            self.extend();
            self.read(&mut Context::from_waker(Waker::noop()));
            self.read = complete;
        }
        let mut taken = Vec::new();
        while taken.len() < limit {
            match self.buffer.first_entry() {
                Some(entry) if entry.key().0 <= complete => taken.push(entry.remove()),
                _ => break,
            }
        }
        taken
    }

    /// Follows resources that came to be served, before anything is handed out that was written since.
    fn extend(&mut self) {
        let kinds = self.sandbox.kinds();
        if Arc::ptr_eq(&kinds, &self.kinds) {
            return;
        }
        self.kinds = kinds;
        for resource in resources(&self.kinds, &self.options) {
            let known = self
                .sources
                .iter()
                .position(|source| source.resource.storage == resource.storage);
            match known {
                Some(nth) if self.sources[nth].resource == resource => {}
                Some(nth) => {
                    self.sources[nth].resource = resource;
                    self.reopen(nth);
                }
                None => {
                    let watch = self.open(self.sources.len(), &resource);
                    self.sources.push(Source { resource, watch });
                }
            }
        }
    }

    /// Reads all logs to their end.
    fn read(&mut self, context: &mut Context<'_>) {
        for nth in 0..self.sources.len() {
            while let Poll::Ready(event) = self.sources[nth].watch.poll_next_unpin(context) {
                match event {
                    Some(event) => self.keep(nth, &event),
                    None => self.reopen(nth),
                }
            }
        }
    }

    fn keep(&mut self, nth: usize, event: &Event) {
        let what = match event.change {
            Change::Added | Change::Modified => What::Exists(Arc::clone(&event.object)),
            Change::Deleted => What::Gone(Arc::clone(&event.object)),
        };
        let resource = Arc::clone(&self.sources[nth].resource);
        self.buffer
            .insert((event.revision, Rank::Event), Occurrence { resource, what });
    }

    /// Starts again with a list: the watch fell behind.
    fn reopen(&mut self, nth: usize) {
        let resource = Arc::clone(&self.sources[nth].resource);
        self.buffer
            .retain(|_, occurrence| occurrence.resource.storage != resource.storage);
        self.sources[nth].watch = self.open(nth, &resource);
    }

    fn open(&mut self, nth: usize, resource: &Arc<Resource>) -> Watch {
        let (revision, objects) = self.sandbox.list(&resource.storage);
        let list = Occurrence {
            resource: Arc::clone(resource),
            what: What::All(objects),
        };
        self.buffer.insert((revision, Rank::List(nth)), list);
        self.sandbox.watch(&resource.storage, revision)
    }
}

/// Nodes and Pods are for everyone; the garbage collector looks at everything that is stored.
fn resources(kinds: &Kinds, options: &Options) -> Vec<Arc<Resource>> {
    let is_wanted = |resource: &Arc<Resource>| match &*resource.storage {
        "nodes" | "pods" => true,
        "replicasets.apps" => options.replica_sets || options.collect_garbage || options.budgets,
        "poddisruptionbudgets.policy" => options.budgets || options.collect_garbage,
        _ => options.collect_garbage,
    };
    Resource::stored(kinds).into_iter().filter(is_wanted).collect()
}
