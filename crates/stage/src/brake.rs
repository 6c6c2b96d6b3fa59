//! What a person may stop: the ConfigMap of pauses, as every stage and every replica watches it (docs/adr/0002).
//!
//! Here is how it is read; what a pause is and when it ends is [`pauses`]'; what is held because of one is each core's to decide.
//!
//! # Guarantees
//! - Before the ConfigMap was read once, everything is held; while the watch is stale, too.
//! - A ConfigMap that cannot be read, whole or in part, holds everything. One that does not exist holds nothing.

pub mod pauses;

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{View, Watch, views::Meta};
use bailiff_model::{Hold, HoldReason, HoldScope, Holds, Now, Wall};
use bailiff_runtime::Clock;
use bailiff_runtime::admin::Check;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde::Deserialize;
use serde_json::Value;

use crate::alarm::Alarm;
use crate::env::Env;
use pauses::Book;

/// Namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
pub const NAME: &str = "bailiff-pauses";
/// Path of the ConfigMaps of its namespace.
pub const COLLECTION: &str = "/api/v1/namespaces/kube-system/configmaps";

/// Only the one ConfigMap is watched, so that a role may name it.
const SOURCE: Source = Source {
    path: COLLECTION,
    label_selector: "",
    field_selector: "metadata.name=bailiff-pauses",
};

/// How often the ends of pauses are looked at while there is one: the wall clock may be set at any time.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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

/// The pauses as they are, for one stage.
#[derive(Debug)]
pub struct Brake {
    watch: Watch<Pauses>,
    clock: Clock,
    book: Book,
    sight: Sight,
    /// What was said last; `None` before anything was.
    told: Option<Holds>,
    alarm: Alarm,
    check: Check,
    metrics: Family<Labels, Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    scope: String,
    reason: &'static str,
}

impl Brake {
    /// Begins to watch for the stage called `name`.
    pub fn start(env: &Env, name: &'static str) -> Self {
        let metrics = Family::default();
        env.metrics.register(&name.replace('-', "_"), |registry| {
            let help = "1 while acts are held from outside the stage, by what is held and why";
            registry.register("braked", help, metrics.clone());
        });
        Self {
            watch: Watch::start(&env.api, SOURCE, &env.seed.fork("pauses")),
            clock: env.clock.clone(),
            book: Book::default(),
            sight: Sight::Unread,
            told: None,
            alarm: Alarm::new(&env.clock),
            check: env.readiness.check(format!("{name}: pauses")),
            metrics,
        }
    }

    /// What is held from now on, each time it changes; the first time at once. Cancel-safe.
    pub async fn next(&mut self) -> Holds {
        loop {
            let now = self.clock.now();
            let holds = self.holds(now);
            if self.told.as_ref() != Some(&holds) {
                self.tell(&holds);
                self.told = Some(holds.clone());
                return holds;
            }
            self.alarm.set((!self.book.is_empty()).then(|| now.mono + LOOK_EVERY));
            tokio::select! {
                biased;
                event = self.watch.next() => self.take(event),
                () = self.alarm.due() => {}
            }
        }
    }

    fn take(&mut self, event: Event<Pauses>) {
        let now = self.clock.now();
        match event {
            Event::Snapshot(snapshot) => {
                let live = self.sight == Sight::Fresh;
                match snapshot.objects.into_iter().find(|object| object.meta.name == NAME) {
                    Some(object) => self.read(&object, live, now),
                    None if snapshot.malformed.is_empty() => self.book.clear(),
                    None => self.book.set_unreadable("it cannot be decoded".to_owned(), now),
                }
                self.sight = Sight::Fresh;
            }
            Event::Applied(object) if object.meta.name == NAME => self.read(&object, true, now),
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
        if object.binary {
            return self.book.set_unreadable("it has binaryData".to_owned(), now);
        }
        match entries(&object.data) {
            Ok(entries) => self.book.set(&entries, live, now),
            Err(what) => self.book.set_unreadable(what, now),
        }
    }

    fn holds(&self, now: Now) -> Holds {
        let mut holds = self.book.holds(now);
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

    fn tell(&self, holds: &Holds) {
        let label = |scope: &HoldScope, hold: &Hold| Labels {
            scope: scope.to_string(),
            reason: hold.reason.as_str(),
        };
        for (scope, hold) in self.told.iter().flat_map(Holds::iter) {
            self.metrics.get_or_create(&label(scope, hold)).set(0);
            if holds.get(scope, hold.reason).is_none() {
                tracing::info!(%scope, reason = %hold.reason, "No longer held from outside");
            }
        }
        let mut said = Vec::new();
        for (scope, hold) in holds.iter() {
            self.metrics.get_or_create(&label(scope, hold)).set(1);
            if self.told.as_ref().and_then(|told| told.get(scope, hold.reason)) != Some(hold) && self.sight != Sight::Unread {
                tracing::warn!(%scope, reason = %hold.reason, detail = %hold.detail, "Held from outside");
            }
            said.push(format!("{scope}: {} ({})", hold.reason, hold.detail));
        }
        // A hold is no reason to send the process away: it ends by itself.
        if said.is_empty() {
            self.check.ok();
        } else {
            self.check.note(said.join("; "));
        }
    }
}

fn mk_hold(reason: HoldReason, detail: String, since: Wall) -> Hold {
    Hold { reason, detail, since }
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
