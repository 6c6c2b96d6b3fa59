//! Decides what becomes of something said about an object: a new Event, one more of a series, or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bailiff_model::{Mono, Now, Wall};

use super::{Draft, Regarding};

/// Different things said about one object, of one severity, that go out at once; then one per [`REFILL`] (NL-132).
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// A series is written at most so often; repetitions in between are only counted, and the last count is written then.
const SERIES_EVERY: Duration = Duration::from_secs(30);

/// What was not said for so long begins a new Event; what differs only in its note within that time is similar (NL-132).
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// From this one on, similar Events are merged into one, whose note is that of the newest (NL-132): nine have an Event of their own.
const SIMILAR: u32 = 10;

/// What the note of merged Events begins with (NL-132).
const COMBINED: &str = "(combined from similar events): ";

/// Objects and texts remembered. Beyond that the least recently said ones are forgotten: it costs a repeated Event.
const MAX_ENTRIES: usize = 4096;

/// An Event that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    /// As said last.
    pub draft: Box<Draft>,
    /// Name of the Event.
    pub name: String,
    /// How often it was said, the first time included.
    pub count: u32,
    /// When it was said last: it may be written long after.
    pub at: Wall,
    /// It stands for several, so that its note changes.
    pub is_merged: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create an Event.
    Create(Saying),
    /// Write the series of an Event.
    Repeat(Saying),
    /// Nothing yet; it is counted in.
    Count,
    /// Too much was said about this object.
    Drop,
}

/// A hash of what is told apart. Of thousands of Events two are taken for one once in a million million times; to keep what they say
/// would be most of the memory of a stage that evicts much.
type Digest = u64;

/// Of object, severity and reason: what similar Events have in common.
type Kinship = Digest;

/// With the note; `None` for what was merged.
type Text = (Kinship, Option<Digest>);

#[derive(Debug)]
struct Said {
    name: Box<str>,
    count: u32,
    at: Wall,
    is_merged: bool,
    last: Mono,
    written: Mono,
    /// The count has grown since it was written.
    is_unwritten: bool,
    /// What is to be written, if that is to come: what was merged says it again with each count.
    draft: Option<Box<Draft>>,
}

impl Said {
    fn saying(&self, draft: Box<Draft>) -> Saying {
        Saying {
            draft,
            name: self.name.to_string(),
            count: self.count,
            at: self.at,
            is_merged: self.is_merged,
        }
    }

    fn say_again(&mut self, at: Now) {
        self.count = self.count.saturating_add(1);
        (self.at, self.last) = (at.wall, at.mono);
    }
}

#[derive(Debug)]
struct Similar {
    /// Distinct notes.
    notes: u32,
    last: Mono,
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
    similar: BTreeMap<Kinship, Similar>,
    /// By object and severity.
    buckets: BTreeMap<Digest, Bucket>,
    /// When the counts of which texts are to be written.
    due: BTreeSet<(Mono, Text)>,
}

impl Correlator {
    /// Takes in `draft`; `name` is the name to use should it become an Event of its own.
    pub fn apply(&mut self, mut draft: Box<Draft>, name: String, at: Now) -> Action {
        let now = at.mono;
        let own = (kinship(&draft), Some(digest(&draft.note)));
        let text = if self.is_said(own, now) || self.is_distinct(own.0, now) {
            own
        } else {
            draft.note.insert_str(0, COMBINED);
            (own.0, None)
        };
        let (is_said, is_merged) = (self.is_said(text, now), text.1.is_none());
        self.note_similar(text, !is_said, now);
        if is_said && !is_merged {
            return self.repeat(text, draft, at);
        }
        let is_granted = self.take_token(&draft, now);
        if is_said {
            return self.merge(text, draft, is_granted, at);
        }
        if !is_granted {
            return Action::Drop;
        }
        self.make_room();
        let said = Said {
            name: name.into(),
            count: 1,
            at: at.wall,
            is_merged,
            last: now,
            written: now,
            is_unwritten: false,
            draft: is_merged.then(|| draft.clone()),
        };
        let saying = said.saying(draft);
        self.said.insert(text, said);
        Action::Create(saying)
    }

    /// When [`Correlator::unwritten`] has something to answer.
    pub fn wake_at(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The series whose counts are to be written now.
    pub fn unwritten(&mut self, now: Mono) -> Vec<Saying> {
        let mut sayings = Vec::new();
        while self.due.first().is_some_and(|(at, _)| *at <= now)
            && let Some((at, text)) = self.due.pop_first()
        {
            let Some(said) = self.said.get_mut(&text).filter(|said| said.is_unwritten) else {
                continue;
            };
            (said.is_unwritten, said.written) = (false, at);
            let draft = if said.is_merged {
                said.draft.clone()
            } else {
                said.draft.take()
            };
            sayings.extend(draft.map(|draft| said.saying(draft)));
        }
        sayings
    }

    /// The Event of `draft` is gone from the server: it is created anew under its name, and counts from one.
    pub fn restart(&mut self, draft: &Draft, now: Mono) {
        let note = (!draft.note.starts_with(COMBINED)).then(|| digest(&draft.note));
        if let Some(said) = self.said.get_mut(&(kinship(draft), note)) {
            said.count = 1;
            (said.is_unwritten, said.written) = (false, now);
            if !said.is_merged {
                said.draft = None;
            }
        }
    }

    fn repeat(&mut self, text: Text, draft: Box<Draft>, at: Now) -> Action {
        let Some(said) = self.said.get_mut(&text) else {
            return Action::Drop;
        };
        said.say_again(at);
        if said.is_unwritten || (said.count > 2 && at.mono.saturating_since(said.written) < SERIES_EVERY) {
            said.draft = Some(draft);
            self.wait(text);
            return Action::Count;
        }
        said.written = at.mono;
        Action::Repeat(said.saying(draft))
    }

    /// What was merged says the newest, as soon as it may: a row of Events that differ should end with the last of them.
    fn merge(&mut self, text: Text, draft: Box<Draft>, is_granted: bool, at: Now) -> Action {
        let Some(said) = self.said.get_mut(&text) else {
            return Action::Drop;
        };
        said.say_again(at);
        if !is_granted {
            self.wait(text);
            return Action::Count;
        }
        said.draft = Some(draft.clone());
        if std::mem::take(&mut said.is_unwritten) {
            self.due.remove(&(said.written + SERIES_EVERY, text));
        }
        said.written = at.mono;
        Action::Repeat(said.saying(draft))
    }

    /// Has the count of `text` written once it may be.
    fn wait(&mut self, text: Text) {
        if let Some(said) = self.said.get_mut(&text)
            && !std::mem::replace(&mut said.is_unwritten, true)
        {
            self.due.insert((said.written + SERIES_EVERY, text));
        }
    }

    fn is_said(&self, text: Text, now: Mono) -> bool {
        let said = self.said.get(&text);
        said.is_some_and(|said| now.saturating_since(said.last) < FORGET_AFTER)
    }

    /// Not too much of the kind was said yet.
    fn is_distinct(&self, kinship: Kinship, now: Mono) -> bool {
        let similar = self.similar.get(&kinship);
        similar.is_none_or(|similar| similar.notes + 1 < SIMILAR || now.saturating_since(similar.last) >= FORGET_AFTER)
    }

    /// Something of the kind is said; it counts if it is new. While that goes on nothing is forgotten.
    fn note_similar(&mut self, text: Text, is_new: bool, now: Mono) {
        let similar = self.similar.entry(text.0).or_insert(Similar { notes: 0, last: now });
        if now.saturating_since(similar.last) >= FORGET_AFTER {
            similar.notes = 0;
        }
        similar.notes += u32::from(is_new && text.1.is_some());
        similar.last = now;
    }

    fn take_token(&mut self, draft: &Draft, now: Mono) -> bool {
        let key = digest(&(identity(&draft.regarding), draft.severity));
        let bucket = self.buckets.entry(key).or_insert(Bucket {
            tokens: BURST,
            refilled: now,
        });
        let due = now.saturating_since(bucket.refilled).as_secs() / REFILL.as_secs();
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        bucket.tokens = bucket.tokens.saturating_add(due).min(BURST);
        // What is left of the time counts for the next token.
        bucket.refilled = bucket.refilled + REFILL.saturating_mul(due);
        let granted = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        granted
    }

    /// Keeps everything bounded. The pass is paid for by the entries it removes: it runs once per quarter of the bound.
    fn make_room(&mut self) {
        if self.said.len() >= MAX_ENTRIES {
            let mut ages: Vec<Mono> = self.said.values().map(|said| said.last).collect();
            ages.sort_unstable();
            let oldest_kept = ages[ages.len() / 4];
            self.said.retain(|_, said| said.last > oldest_kept);
            self.due.retain(|(_, text)| self.said.contains_key(text));
        }
        // What is forgotten here gets a full budget again: a burst more, at most once per so many objects.
        if self.buckets.len() >= MAX_ENTRIES {
            self.buckets.clear();
        }
        if self.similar.len() >= MAX_ENTRIES {
            self.similar.clear();
        }
    }
}

fn kinship(draft: &Draft) -> Kinship {
    digest(&(identity(&draft.regarding), draft.severity, draft.reason))
}

/// The object without its resourceVersion: each write of an object would else begin a new series.
fn identity(regarding: &Regarding) -> impl Hash {
    let Regarding {
        api_version,
        kind,
        namespace,
        name,
        uid,
        resource_version: _,
    } = regarding;
    (api_version, kind, namespace, name, uid)
}

fn digest(what: &impl Hash) -> Digest {
    // With fixed keys: a seed replays.
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use bailiff_model::About;

    use super::*;
    use crate::events::Severity;

    fn mk_draft(object: &str, note: &str) -> Box<Draft> {
        Box::new(Draft {
            regarding: Regarding {
                kind: "Node",
                name: object.to_owned(),
                ..Regarding::default()
            },
            severity: Severity::Normal,
            reason: "R",
            action: "R",
            note: note.to_owned(),
            about: About::default(),
        })
    }

    fn at(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    fn now(seconds: u64) -> Now {
        Now {
            mono: at(seconds),
            wall: Wall::UNIX_EPOCH + Duration::from_secs(seconds),
        }
    }

    /// An action as text: what, name, count.
    fn text(action: Action) -> String {
        match action {
            Action::Create(saying) => format!("create {} {:?}", saying.name, saying.draft.note),
            Action::Repeat(saying) if saying.is_merged => {
                format!("repeat {} {} {:?}", saying.name, saying.count, saying.draft.note)
            }
            Action::Repeat(saying) => format!("repeat {} {}", saying.name, saying.count),
            Action::Count => "count".to_owned(),
            Action::Drop => "drop".to_owned(),
        }
    }

    fn counts(sayings: Vec<Saying>) -> Vec<u32> {
        sayings.into_iter().map(|saying| saying.count).collect()
    }

    /// NL-132
    #[test]
    fn repetitions_become_a_series_whose_last_count_is_written() {
        let mut correlator = Correlator::default();
        let say =
            |correlator: &mut Correlator, seconds| text(correlator.apply(mk_draft("n", "x"), format!("n.{seconds}"), now(seconds)));
        assert_eq!(say(&mut correlator, 0), r#"create n.0 "x""#);
        assert_eq!(say(&mut correlator, 1), "repeat n.0 2");
        assert_eq!(correlator.wake_at(), None);
        assert_eq!(say(&mut correlator, 2), "count");
        assert_eq!(say(&mut correlator, 3), "count");
        assert_eq!(correlator.wake_at(), Some(at(31)));
        assert_eq!(counts(correlator.unwritten(at(30))), Vec::<u32>::new());
        let sayings = correlator.unwritten(at(31));
        assert_eq!(sayings[0].at, now(3).wall, "when it was said, not when it is written");
        assert_eq!(counts(sayings), [4]);
        assert_eq!((correlator.wake_at(), counts(correlator.unwritten(at(90)))), (None, vec![]));
        assert_eq!(say(&mut correlator, 70), "repeat n.0 5");
        assert_eq!(say(&mut correlator, 900), r#"create n.900 "x""#);
    }

    #[test]
    fn what_is_gone_counts_anew() {
        let mut correlator = Correlator::default();
        let draft = || mk_draft("n", "x");
        correlator.apply(draft(), "n.0".to_owned(), now(0));
        correlator.apply(draft(), "n.1".to_owned(), now(1));
        correlator.restart(&draft(), at(32));
        assert_eq!(text(correlator.apply(draft(), "n.2".to_owned(), now(33))), "repeat n.0 2");
    }

    /// NL-132, DS-187
    #[test]
    fn the_tenth_of_similar_events_and_what_follows_are_one_that_says_the_newest() {
        let mut correlator = Correlator::default();
        let mut say = |note: &str, seconds| text(correlator.apply(mk_draft("n", note), format!("n.{note}"), now(seconds)));
        for n in 0..9 {
            assert_eq!(say(&n.to_string(), n), format!("create n.{n} \"{n}\""));
        }
        assert_eq!(say("3", 10), "repeat n.3 2");
        assert_eq!(say("x", 11), r#"create n.x "(combined from similar events): x""#);
        assert_eq!(say("y", 12), r#"repeat n.x 2 "(combined from similar events): y""#);
        assert_eq!(say("z", 13), r#"repeat n.x 3 "(combined from similar events): z""#);
        assert_eq!(say("3", 14), "count", "of its own");
        assert_eq!(
            say("late", 612),
            r#"repeat n.x 4 "(combined from similar events): late""#,
            "the kind was not silent for ten minutes"
        );
        assert_eq!(say("z", 1300), r#"create n.z "z""#, "long after");
    }

    /// NL-132
    #[test]
    fn what_is_merged_uses_the_budget_up_and_is_counted_beyond() {
        let mut correlator = Correlator::default();
        let say = |correlator: &mut Correlator, n: u32, seconds| {
            text(correlator.apply(mk_draft("n", &format!("note {n}")), format!("n.{n}"), now(seconds)))
        };
        for n in 1..=BURST {
            say(&mut correlator, n, 1);
        }
        for n in 26..40 {
            assert_eq!(say(&mut correlator, n, 2), "count");
        }
        let sayings = correlator.unwritten(at(31));
        assert_eq!(sayings.len(), 1);
        assert_eq!((sayings[0].count, &*sayings[0].name), (30, "n.10"));
        assert!(sayings[0].draft.note.ends_with("note 25"), "{:?}", sayings[0].draft.note);
        assert_eq!(say(&mut correlator, 40, 32), "count");
        assert_eq!(
            say(&mut correlator, 41, 301),
            r#"repeat n.10 32 "(combined from similar events): note 41""#
        );
        assert_eq!(correlator.wake_at(), None, "nothing is left to be written");
    }

    /// NL-132
    #[test]
    fn one_object_has_a_budget_and_others_do_not_share_it() {
        let mut correlator = Correlator::default();
        let mut say = |object: &str, n: u64, seconds| {
            // Each of a reason of its own: nothing is similar.
            let reason = ["A", "B", "C", "D", "E", "F"][(n % 6) as usize];
            let draft = Draft {
                reason,
                ..*mk_draft(object, &n.to_string())
            };
            let action = text(correlator.apply(Box::new(draft), format!("{object}.{n}"), now(seconds)));
            action.starts_with("create")
        };
        let created = (0..40).filter(|n| say("a", *n, 1)).count();
        assert_eq!(created, BURST as usize);
        assert!(say("b", 0, 1));
        assert!(!say("a", 100, 300));
        assert!(say("a", 101, 500), "one token came at 301");
        assert!(!say("a", 102, 500));
        assert!(say("a", 103, 602), "the next one at 601, not at 800");
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for n in 0..3 * MAX_ENTRIES {
            for _ in 0..3 {
                correlator.apply(mk_draft(&n.to_string(), "x"), n.to_string(), now(n as u64 / 1000));
            }
        }
        assert!(correlator.said.len() <= MAX_ENTRIES);
        assert!(correlator.due.len() <= MAX_ENTRIES);
        assert!(correlator.buckets.len() <= MAX_ENTRIES);
        assert!(correlator.similar.len() <= MAX_ENTRIES);
    }
}
