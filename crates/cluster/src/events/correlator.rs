//! Decides what becomes of something said about an object: a new Event, one more of a series, or nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::Mono;

use super::{Draft, Regarding, Severity};

/// Events about one object, of one severity, that go out at once; then one per [`REFILL`] (NL-132).
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// A series is written at most so often; repetitions in between are only counted.
const SERIES_EVERY: Duration = Duration::from_secs(30);

/// What was not said for so long begins a new Event.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Objects and texts remembered. Beyond that the least recently said ones are forgotten: it costs a repeated Event.
const MAX_ENTRIES: usize = 4096;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create an Event of this name.
    Create {
        /// Name.
        name: String,
    },
    /// Write the series of the Event of this name.
    Repeat {
        /// Name.
        name: String,
        /// How often it was said, the first time included.
        count: u32,
    },
    /// Nothing yet; it is counted in.
    Count,
    /// Too much was said about this object.
    Drop,
}

type Text = (Regarding, Severity, &'static str, String);

#[derive(Debug)]
struct Said {
    name: String,
    count: u32,
    last: Mono,
    written: Mono,
}

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    refilled: Mono,
}

/// The memory of what was said.
#[derive(Debug, Default)]
pub struct Correlator {
    said: BTreeMap<Text, Said>,
    buckets: BTreeMap<(Regarding, Severity), Bucket>,
}

impl Correlator {
    /// Takes in `draft`; `name` is the name to use should it become an Event of its own.
    pub fn apply(&mut self, draft: &Draft, name: String, now: Mono) -> Action {
        let text = text_of(draft);
        if let Some(said) = self.said.get_mut(&text)
            && now.saturating_since(said.last) < FORGET_AFTER
        {
            said.count = said.count.saturating_add(1);
            said.last = now;
            if said.count > 2 && now.saturating_since(said.written) < SERIES_EVERY {
                return Action::Count;
            }
            said.written = now;
            let (name, count) = (said.name.clone(), said.count);
            return Action::Repeat { name, count };
        }
        if !self.take_token(draft, now) {
            return Action::Drop;
        }
        self.make_room();
        let said = Said {
            name: name.clone(),
            count: 1,
            last: now,
            written: now,
        };
        self.said.insert(text, said);
        Action::Create { name }
    }

    /// Forgets a text: its Event is gone from the server.
    pub fn forget(&mut self, draft: &Draft) {
        self.said.remove(&text_of(draft));
    }

    fn take_token(&mut self, draft: &Draft, now: Mono) -> bool {
        let key = (identity(&draft.regarding), draft.severity);
        let bucket = self.buckets.entry(key).or_insert(Bucket {
            tokens: BURST,
            refilled: now,
        });
        let due = now.saturating_since(bucket.refilled).as_secs() / REFILL.as_secs();
        if due > 0 {
            bucket.tokens = bucket.tokens.saturating_add(u32::try_from(due).unwrap_or(BURST)).min(BURST);
            bucket.refilled = now;
        }
        let granted = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        granted
    }

    /// Keeps both maps bounded. The pass is paid for by the entries it removes: it runs once per quarter of the bound.
    fn make_room(&mut self) {
        if self.said.len() >= MAX_ENTRIES {
            let mut ages: Vec<Mono> = self.said.values().map(|said| said.last).collect();
            ages.sort_unstable();
            let oldest_kept = ages[ages.len() / 4];
            self.said.retain(|_, said| said.last > oldest_kept);
        }
        if self.buckets.len() >= MAX_ENTRIES {
            // What is forgotten here gets a full budget again: a burst more, at most once per so many objects.
            self.buckets.clear();
        }
    }
}

fn text_of(draft: &Draft) -> Text {
    (identity(&draft.regarding), draft.severity, draft.reason, draft.note.clone())
}

/// The object without its resourceVersion: each write of an object would else begin a new series.
fn identity(regarding: &Regarding) -> Regarding {
    Regarding {
        resource_version: String::new(),
        ..regarding.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_draft(object: &str, note: &str) -> Draft {
        Draft {
            regarding: Regarding {
                kind: "Node",
                name: object.to_owned(),
                ..Regarding::default()
            },
            severity: Severity::Normal,
            reason: "R",
            action: "R",
            note: note.to_owned(),
            annotations: Vec::new(),
        }
    }

    fn at(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn repetitions_become_a_series_that_is_written_now_and_then() {
        let mut correlator = Correlator::default();
        let mut say = |seconds| correlator.apply(&mk_draft("n", "x"), format!("n.{seconds}"), at(seconds));
        let name = || "n.0".to_owned();
        assert_eq!(say(0), Action::Create { name: name() });
        assert_eq!(say(1), Action::Repeat { name: name(), count: 2 });
        assert_eq!(say(2), Action::Count);
        assert_eq!(say(40), Action::Repeat { name: name(), count: 4 });
        assert_eq!(
            say(900),
            Action::Create {
                name: "n.900".to_owned()
            }
        );
    }

    /// NL-132
    #[test]
    fn one_object_has_a_budget_and_others_do_not_share_it() {
        let mut correlator = Correlator::default();
        let mut created = 0;
        for n in 0..40 {
            let action = correlator.apply(&mk_draft("a", &n.to_string()), n.to_string(), at(1));
            created += u32::from(matches!(action, Action::Create { .. }));
        }
        assert_eq!(created, BURST);
        let other = correlator.apply(&mk_draft("b", "x"), "b".to_owned(), at(1));
        assert_eq!(other, Action::Create { name: "b".to_owned() });
        let later = correlator.apply(&mk_draft("a", "later"), "later".to_owned(), at(302));
        assert_eq!(
            later,
            Action::Create {
                name: "later".to_owned()
            }
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for n in 0..3 * MAX_ENTRIES {
            correlator.apply(&mk_draft(&n.to_string(), "x"), n.to_string(), at(n as u64));
        }
        assert!(correlator.said.len() <= MAX_ENTRIES);
        assert!(correlator.buckets.len() <= MAX_ENTRIES);
    }
}
