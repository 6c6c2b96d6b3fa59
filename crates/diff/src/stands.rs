//! What the records of the bus answer at the moment, by where they stand there.

use std::collections::BTreeMap;

use bailiff_event_bus::Record;
use bailiff_model::Topic;

use crate::answer::{Answer, Key};
use crate::records;
use crate::source::News;

/// The questions and answers of records, by topic and key.
#[derive(Debug, Default)]
pub(crate) struct Stands(BTreeMap<(Topic, String), (Key, Option<Answer>)>);

impl Stands {
    /// Takes a record, or a tombstone.
    pub(crate) fn read(&mut self, record: &Record) -> Vec<News> {
        let place = (record.topic, record.key.clone());
        let Some(body) = &record.body else {
            return match self.0.remove(&place) {
                Some((key, answer)) if records::is_final(record.topic, &key, answer.as_ref()) => vec![News::Over(key)],
                Some((key, _)) => vec![News::Says(key, None)],
                None => Vec::new(),
            };
        };
        let (key, answer) = records::answer(body);
        let before = self.0.insert(place, (key.clone(), answer.clone()));
        // A pod or a DaemonSet of the same name is another question.
        let before = before.filter(|(before, _)| *before != key);
        let taken_back = before.map(|(before, _)| News::Says(before, None));
        taken_back.into_iter().chain([News::Says(key, answer)]).collect()
    }

    /// Something stands where this record does.
    pub(crate) fn knows(&self, record: &Record) -> bool {
        self.0.contains_key(&(record.topic, record.key.clone()))
    }

    /// All answers to something that is wanted.
    pub(crate) fn answers(&self) -> Vec<(Key, Answer)> {
        let answers = self.0.values();
        answers
            .filter_map(|(key, answer)| Some((key.clone(), answer.clone()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bailiff_event_bus::Body;
    use bailiff_model::Wall;
    use bailiff_model::rollout::{Counts, DaemonSetSync};

    use super::*;
    use crate::fixture;

    fn mk_record(body: Option<Body>) -> Record {
        fixture::mk_record(body, "default/agent", Topic::DaemonRollouts, (0, 0))
    }

    fn mk_sync(uid: &str) -> Record {
        mk_record(Some(Body::DaemonSetSync(Box::new(DaemonSetSync {
            namespace: "default".into(),
            name: "agent".to_owned(),
            uid: uid.to_owned(),
            observed_generation: 1,
            current_revision: "r".to_owned(),
            revision: 1,
            counts: Counts::default(),
            reasons: Vec::new(),
            nodes: Vec::new(),
            held: None,
            synced_at: Wall::UNIX_EPOCH,
            revision_since: None,
            rolled_out_at: None,
        }))))
    }

    /// The uid of each question that was answered, and whether anything is wanted.
    fn read(stands: &mut Stands, record: &Record) -> Vec<(String, bool)> {
        let one = |news| match news {
            News::Says(key, answer) => (key.uid, answer.is_some()),
            other => panic!("{other:?}"),
        };
        stands.read(record).into_iter().map(one).collect()
    }

    #[test]
    fn of_what_was_made_anew_under_its_name_nothing_is_wanted_any_more() {
        let mut stands = Stands::default();
        let said = |uid: &str, wanted| (uid.to_owned(), wanted);
        assert_eq!(read(&mut stands, &mk_sync("u1")), [said("u1", true)]);
        assert_eq!(read(&mut stands, &mk_sync("u1")), [said("u1", true)], "the same again");
        assert_eq!(read(&mut stands, &mk_sync("u2")), [said("u1", false), said("u2", true)]);
        assert!(stands.knows(&mk_sync("u1")) && stands.answers().len() == 1);
        assert_eq!(read(&mut stands, &mk_record(None)), [said("u2", false)]);
        assert_eq!(read(&mut stands, &mk_record(None)), []);
    }
}
