//! Where answers come from, and how they are kept up.

use std::collections::BTreeSet;
use std::future::Future;

use bailiff_event_bus::{Bus, Record, Shards, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::{Mono, Topic};
use bailiff_runtime::{Clock, Seed};

use crate::answer::{Answer, Key, Question};

/// News of a side.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// These are all the answers to these questions.
    All(Vec<Question>, Vec<(Key, Answer)>),
    /// An answer; `None`: nothing is wanted any more.
    Says(Key, Option<Answer>),
    /// The object is gone: what was answered last is what was decided.
    Over(Key),
    /// It is heard, or it is not, and why.
    Heard(Result<(), String>),
}

/// One side.
pub trait Source {
    /// The next news. Cancel-safe; never ends.
    fn next(&mut self) -> impl Future<Output = Vec<News>> + Send;
}

/// What the records of some topics answer.
pub trait Reader: Send {
    /// The topics that are read.
    fn topics(&self) -> &[Topic];

    /// These are all records.
    fn all(&mut self, records: &[Record], now: Mono) -> Vec<News>;

    /// A record, or a tombstone.
    fn read(&mut self, record: &Record, now: Mono) -> Vec<News>;

    /// When something follows from time alone.
    fn next_due(&self) -> Option<Mono> {
        None
    }

    /// What follows from the time.
    fn wake(&mut self, _now: Mono) -> Vec<News> {
        Vec::new()
    }
}

/// A side that speaks on a bus.
#[derive(Debug)]
pub struct OnBus<R> {
    subscription: Subscription,
    reader: R,
    shards: Shards,
    /// Keys whose latest record cannot be read.
    unread: BTreeSet<(Topic, String)>,
    clock: Clock,
    /// What was said last of whether it is heard.
    said: Option<Result<(), String>>,
}

impl<R: Reader> OnBus<R> {
    /// Follows `bus`.
    pub fn follow(bus: &Bus, reader: R, clock: &Clock, seed: &Seed) -> Self {
        let options = SubscribeOptions {
            topics: reader.topics().to_vec(),
            filters: Vec::new(),
            subscriber: format!("bailiff diff {}", std::process::id()),
        };
        Self {
            subscription: subscribe(bus, options, clock, seed),
            reader,
            shards: Shards::default(),
            unread: BTreeSet::new(),
            clock: clock.clone(),
            said: None,
        }
    }

    fn take(&mut self, update: Update) -> Vec<News> {
        let now = self.clock.now().mono;
        self.shards.take(&update);
        let (mut news, heard) = match update {
            Update::Snapshot { records, skipped, .. } => {
                self.unread = skipped.into_iter().map(|skipped| (skipped.topic, skipped.key)).collect();
                (self.reader.all(&records, now), self.hears())
            }
            Update::Changes { records, skipped, .. } => {
                for record in &records {
                    self.unread.remove(&(record.topic, record.key.clone()));
                }
                let skipped = skipped.into_iter().map(|skipped| (skipped.topic, skipped.key));
                self.unread.extend(skipped);
                let news = records.iter().flat_map(|record| self.reader.read(record, now)).collect();
                (news, self.hears())
            }
            Update::Status { .. } => (Vec::new(), self.hears()),
            Update::Lost { .. } => (Vec::new(), Err("its bus cannot be reached".to_owned())),
        };
        if self.said.as_ref() != Some(&heard) {
            self.said = Some(heard.clone());
            news.push(News::Heard(heard));
        }
        news
    }

    /// Every shard of every topic is complete and live.
    fn hears(&self) -> Result<(), String> {
        for topic in self.reader.topics() {
            if !self.shards.is_complete(*topic) {
                return Err(format!("not everything was published on {topic} yet"));
            }
        }
        // Nothing may be concluded from a record that is skipped, not even that there is none.
        if let Some((topic, key)) = self.unread.first() {
            let many = self.unread.len();
            return Err(format!(
                "{many} of its records are of a newer contract, {key} on {topic} among them: use a newer bailiff"
            ));
        }
        match self.shards.statuses().find(|shard| !shard.live) {
            Some(shard) => Err(format!("{} on {} is not live: {}", shard.producer, shard.topic, shard.detail)),
            None => Ok(()),
        }
    }
}

impl<R: Reader> Source for OnBus<R> {
    async fn next(&mut self) -> Vec<News> {
        let due = self.reader.next_due().unwrap_or(Mono::FAR_FUTURE);
        let due = self.clock.instant_of(due);
        tokio::select! {
            biased;
            update = self.subscription.next() => self.take(update),
            () = tokio::time::sleep_until(due) => self.reader.wake(self.clock.now().mono),
        }
    }
}
