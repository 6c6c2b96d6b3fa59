//! An engine that does as another one does, but for what a test wants otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiff_model::{Now, Revision, Topic};

use super::ShardStatus;
use super::engine::{Command, Effect, Engine, Kept, Position, Selection, Set, Ticket, TopicFigures};

/// An engine of a test, and the one that it hands on to. What a test does not want otherwise is left as it is here.
pub trait HandsOn: Send + 'static {
    type To: Engine;

    fn to(&self) -> &Self::To;

    fn to_mut(&mut self) -> &mut Self::To;

    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        self.to_mut().apply(ticket, command, now)
    }

    fn poll(&mut self, now: Now) -> Vec<Effect> {
        self.to_mut().poll(now)
    }

    fn may_lag(&self) -> bool {
        self.to().may_lag()
    }

    fn is_cut_off(&self, now: Now) -> bool {
        self.to().is_cut_off(now)
    }

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        self.to().read(selection, position, now)
    }
}

/// Such an engine, as the bus has it.
pub struct Handing<T>(pub T);

impl<T: HandsOn> Engine for Handing<T> {
    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        self.0.apply(ticket, command, now)
    }

    fn poll(&mut self, now: Now) -> Vec<Effect> {
        self.0.poll(now)
    }

    fn time(&self, now: Now) -> Now {
        self.0.to().time(now)
    }

    fn incarnation(&self) -> &str {
        self.0.to().incarnation()
    }

    fn may_lag(&self) -> bool {
        self.0.may_lag()
    }

    fn is_cut_off(&self, now: Now) -> bool {
        self.0.is_cut_off(now)
    }

    fn head(&self) -> Revision {
        self.0.to().head()
    }

    fn oldest_resumable(&self) -> Revision {
        self.0.to().oldest_resumable()
    }

    fn read(&self, selection: &Selection, position: Position, now: Now) -> Set {
        self.0.read(selection, position, now)
    }

    fn shards(&self, topics: &BTreeSet<Topic>, now: Now) -> Vec<ShardStatus> {
        self.0.to().shards(topics, now)
    }

    fn history(&self, topic: Topic, key: &str) -> Vec<Arc<Kept>> {
        self.0.to().history(topic, key)
    }

    fn figures(&self) -> Vec<TopicFigures> {
        self.0.to().figures()
    }
}
