//! One stage against another program for the same: both speak on the same topic, each on its own bus.

use bailiff_event_bus::{Body, Record};
use bailiff_model::{Mono, Topic};

use crate::answer::Question;
use crate::source::{News, Reader};
use crate::stands::Stands;

/// Reads the topic of a stage.
#[derive(Debug)]
pub struct StageRecords {
    topic: [Topic; 1],
    stands: Stands,
}

impl StageRecords {
    /// Of the stage that publishes this topic.
    pub fn of(topic: Topic) -> Self {
        Self {
            topic: [topic],
            stands: Stands::default(),
        }
    }
}

impl Reader for StageRecords {
    fn topics(&self) -> &[Topic] {
        &self.topic
    }

    fn all(&mut self, records: &[Record], _: Mono) -> Vec<News> {
        let before = std::mem::take(&mut self.stands);
        for record in records {
            // What was done before anybody looked was done to pods that are gone: nobody else decides about them any more.
            let is_past = |body: &Body| body.is_terminal() && !before.knows(record);
            if !record.body.as_ref().is_some_and(is_past) {
                self.stands.read(record);
            }
        }
        vec![News::All(Question::ALL.to_vec(), self.stands.answers())]
    }

    fn read(&mut self, record: &Record, _: Mono) -> Vec<News> {
        self.stands.read(record)
    }
}
