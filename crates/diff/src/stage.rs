//! One stage against another program for the same: both speak on the same topic, each on its own bus.

use std::collections::BTreeMap;

use bailiff_event_bus::{Body, Record};
use bailiff_model::{Mono, Topic};

use crate::answer::{Answer, Key, Question};
use crate::records;
use crate::source::{News, Reader};

/// Reads the topic of a stage.
#[derive(Debug)]
pub struct StageRecords {
    topic: [Topic; 1],
    /// What stands, by the bus's key.
    stands: BTreeMap<String, (Key, Option<Answer>)>,
}

impl StageRecords {
    /// Of the stage that publishes this topic.
    pub const fn of(topic: Topic) -> Self {
        Self {
            topic: [topic],
            stands: BTreeMap::new(),
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
            let is_past = |body: &Body| body.is_terminal() && !before.contains_key(&record.key);
            if let Some(body) = record.body.as_ref().filter(|body| !is_past(body)) {
                self.stands.insert(record.key.clone(), records::answer(body));
            }
        }
        let answers = self.stands.values();
        let answers = answers.filter_map(|(key, answer)| Some((key.clone(), answer.clone()?)));
        vec![News::All(Question::ALL.to_vec(), answers.collect())]
    }

    fn read(&mut self, record: &Record, _: Mono) -> Vec<News> {
        let Some(body) = &record.body else {
            return match self.stands.remove(&record.key) {
                Some((key, answer)) if records::is_final(record.topic, &key, answer.as_ref()) => vec![News::Over(key)],
                Some((key, _)) => vec![News::Says(key, None)],
                None => Vec::new(),
            };
        };
        let (key, answer) = records::answer(body);
        let before = self.stands.insert(record.key.clone(), (key.clone(), answer.clone()));
        let mut news = Vec::new();
        // A pod or a DaemonSet of the same name is another question.
        if let Some((before, _)) = before.filter(|(before, _)| *before != key) {
            news.push(News::Says(before, None));
        }
        news.push(News::Says(key, answer));
        news
    }
}
