//! What holds a stage from outside: the ConfigMap of pauses, as every stage and every replica watches it (docs/adr/0002), and a rival.
//!
//! Here is how the ConfigMap is read, and how both are told; what a pause is and when it ends is [`pauses`]'; what a rival is and when
//! it is gone is [`crate::rival`]'s; what is held because of either is each core's to decide.
//!
//! # Guarantees
//! - Before the ConfigMap was read once, everything is held; while the watch is stale, too.
//! - A ConfigMap that cannot be read, whole or in part, holds everything. One that does not exist holds nothing.

pub mod pauses;
mod telling;

use std::collections::BTreeMap;

use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{Decode, View, Watch, views::Meta};
use bailiff_model::{Duties, Hold, HoldReason, HoldScope, Holds, Now, Wall};
use bailiff_runtime::{Alarm, Clock};
use serde::Deserialize;
use serde_json::Value;

use crate::env::Env;
use crate::rival::{Scout, Spy, What};
use pauses::Book;
use telling::Teller;

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
pub const NAME: &str = "bailiff-pauses";
/// Path of the ConfigMaps of its namespace.
pub const COLLECTION: &str = "/api/v1/namespaces/kube-system/configmaps";

/// Only the one ConfigMap is watched, so that a role may name it.
const SOURCE: Source = Source::all(COLLECTION).with_fields("metadata.name=bailiff-pauses");

/// The ConfigMap. It is decoded whatever it holds: what cannot be understood is a pause, not an object to be skipped.
#[derive(Debug, Deserialize)]
#[serde(from = "Raw")]
struct Pauses {
    meta: Meta,
    data: Value,
    binary: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    binary_data: Value,
}

impl From<Raw> for Pauses {
    fn from(raw: Raw) -> Self {
        Self {
            meta: serde_json::from_value(raw.metadata).unwrap_or_default(),
            data: raw.data,
            binary: raw.binary_data.as_object().is_some_and(|map| !map.is_empty()),
        }
    }
}

impl Pauses {
    /// True if it is the one that is meant. One that does not say who it is came by a selector that only that one meets.
    fn is_ours(&self) -> bool {
        self.meta.name == NAME || self.meta.name.is_empty()
    }
}

impl Decode for Pauses {}

impl View for Pauses {
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// How well the ConfigMap is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// Not read yet.
    Unread,
    /// What the book says is what the ConfigMap says.
    Fresh,
    /// It cannot be read: why, and since when. What the book says is old, or nothing.
    Lost { reason: String, ever: bool },
}

/// What holds one stage from outside.
#[derive(Debug)]
pub struct Brake {
    watch: Watch<Pauses>,
    clock: Clock,
    book: Book,
    sight: Sight,
    /// What was said last; `None` before anything was.
    told: Option<Holds>,
    alarm: Alarm,
    scout: Scout,
    observes: bool,
    teller: Teller,
}

impl Brake {
    /// Begins to watch for the stage called `name`, which has a part in these duties.
    pub fn start(env: &Env, name: &'static str, duties: Duties) -> Self {
        let teller = Teller::start(env, name);
        Self {
            watch: Watch::start(&env.api, SOURCE, &env.host.seed.fork("pauses")),
            clock: env.host.clock.clone(),
            book: Book::default(),
            sight: Sight::Unread,
            told: None,
            alarm: Alarm::new(&env.host.clock),
            // Whoever only observes does so beside those who do its duties.
            scout: Scout::start(
                env,
                if env.api.observes() { Duties::NONE } else { duties },
                teller.rival_signs(),
            ),
            observes: env.api.observes(),
            teller,
        }
    }

    /// Looks out for a rival in what a watch of the stage brings.
    pub fn spy(&self, what: What) -> Spy {
        self.scout.spy(what)
    }

    /// What is held from now on, each time it changes; the first time at once. Cancel-safe.
    pub async fn next(&mut self) -> Holds {
        loop {
            let now = self.clock.now();
            for over in self.book.ended(now) {
                self.teller.pause_ended(&over);
            }
            let holds = self.holds(now);
            if self.told.as_ref() != Some(&holds) {
                self.teller.tell(self.told.as_ref(), &holds, self.sight != Sight::Unread);
                self.told = Some(holds.clone());
                return holds;
            }
            let look = self.book.looked_at(now);
            self.alarm.set(look.into_iter().chain(self.scout.ends_at()).min());
            tokio::select! {
                biased;
                event = self.watch.next() => self.take(event),
                () = self.scout.turn() => {}
                () = self.alarm.due() => {}
            }
        }
    }

    fn take(&mut self, event: Event<Pauses>) {
        let now = self.clock.now();
        match event {
            Event::Snapshot(snapshot) => {
                let live = self.sight == Sight::Fresh;
                match snapshot.objects.into_iter().find(Pauses::is_ours) {
                    Some(object) => self.read(&object, live, now),
                    None if snapshot.malformed.is_empty() => self.book.clear(),
                    None => self.book.set_unreadable("it cannot be decoded".to_owned(), now),
                }
                self.sight = Sight::Fresh;
            }
            Event::Applied(object) if object.is_ours() => self.read(&object, true, now),
            Event::Deleted(meta) if meta.name == NAME => self.book.clear(),
            Event::Applied(_) | Event::Deleted(_) => {}
            Event::Stale { since, reason } => {
                let ever = since.is_some() && self.sight != Sight::Unread;
                self.sight = Sight::Lost { reason, ever };
            }
            Event::Fresh => self.sight = Sight::Fresh,
        }
    }

    fn read(&mut self, object: &Pauses, live: bool, now: Now) {
        if object.meta.name.is_empty() {
            return self.book.set_unreadable("its metadata cannot be decoded".to_owned(), now);
        }
        if object.binary {
            return self.book.set_unreadable("it has binaryData".to_owned(), now);
        }
        match entries(&object.data) {
            Ok(entries) => self.book.set(&entries, live, now),
            Err(what) => self.book.set_unreadable(what, now),
        }
    }

    fn holds(&mut self, now: Now) -> Holds {
        let mut holds = self.book.holds(now);
        if let Some(rival) = self.scout.hold() {
            holds.insert(HoldScope::All, rival);
        }
        if self.observes {
            let detail = "this process only observes (--observe)".to_owned();
            let since = self.since_of(HoldReason::Observing, now.wall);
            holds.insert(HoldScope::All, mk_hold(HoldReason::Observing, detail, since));
        }
        let since = self.since(now.wall);
        match &self.sight {
            Sight::Fresh => {}
            Sight::Unread => {
                let detail = format!("the ConfigMap {NAMESPACE}/{NAME} was not read yet");
                holds.insert(HoldScope::All, mk_hold(HoldReason::ApiStale, detail, since));
            }
            Sight::Lost { reason, ever } => {
                // What was never read may say anything; what was read is merely old.
                let kind = if *ever { HoldReason::ApiStale } else { HoldReason::Paused };
                let detail = format!("the ConfigMap {NAMESPACE}/{NAME} cannot be read: {reason}");
                holds.insert(HoldScope::All, mk_hold(kind, detail, self.since_of(kind, now.wall)));
            }
        }
        holds
    }

    fn since(&self, now: Wall) -> Wall {
        self.since_of(HoldReason::ApiStale, now)
    }

    /// A hold that goes on keeps its beginning.
    fn since_of(&self, reason: HoldReason, now: Wall) -> Wall {
        let before = self.told.as_ref().and_then(|told| told.get(&HoldScope::All, reason));
        before.map_or(now, |hold| hold.since)
    }
}

fn mk_hold(reason: HoldReason, detail: String, since: Wall) -> Hold {
    Hold {
        reason,
        detail,
        since,
        until: None,
    }
}

/// The entries of `data`, or what is wrong with it.
pub fn entries(data: &Value) -> Result<BTreeMap<String, String>, String> {
    match data {
        Value::Null => Ok(BTreeMap::new()),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => Ok((key.clone(), text.clone())),
                _ => Err(format!("entry {key:?} is no text")),
            })
            .collect(),
        _ => Err("its data is no map".to_owned()),
    }
}

#[cfg(test)]
mod tests;
