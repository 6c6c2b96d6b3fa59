//! Pauses: what an entry of the ConfigMap says, and when it is over. Pure: time is an argument.
//!
//! An entry says `until` by the wall clock of whoever wrote it. Wall clocks are stepped; a pause must not end early because one was.
//! So the monotonic clock decides from when an entry is first seen:
//! - seen to appear, it lasts as long as it was asked for (`until` less `since`), whatever any wall clock shows then or later;
//! - found at the start, it lasts at least what is left of it by the wall clock, and on until that clock shows `until`;
//! - in no case longer than it was asked for in full, counted from when this process first saw it.
//!
//! What is left: a process that *starts* with a wall clock that is ahead takes an entry for over until the clock is right again.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::{Hold, HoldReason, HoldScope, Holds, Mono, NodeName, Now, Wall, Zone};
use serde::{Deserialize, Serialize};

/// The longest pause: a year. What is asked for longer is meant for ever, and then the duty should not be taken at all.
pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Longest reason, in bytes: it becomes part of records and Events.
pub const LONGEST_REASON: usize = 256;

/// How often the wall clock is looked at where it decides whether a pause stands.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is paused, why and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// What is paused.
    pub scope: HoldScope,
    /// Since when, by the clock of who paused it.
    pub since: Option<Wall>,
    /// Until when, by the same clock.
    pub until: Wall,
    /// Why. Never empty.
    pub reason: String,
    /// Who paused it, for people.
    pub by: String,
}

/// An entry as it is written: exactly one of `all`, `zone` and `node`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Wall>,
    until: Wall,
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    by: String,
}

/// Why an entry is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the JSON that is wanted.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A zone key that is none.
    #[error("{0}")]
    Zone(#[from] bailiff_model::zone::ParseError),
    /// Nothing, or several things, are paused by it.
    #[error("wanted exactly one of \"all\": true, \"zone\" and \"node\"")]
    Scope,
    /// No reason.
    #[error("\"reason\" is empty")]
    NoReason,
}

impl Pause {
    /// Reads an entry.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let entry: Entry = serde_json::from_str(text)?;
        let scope = match (entry.all, entry.zone, entry.node) {
            (Some(true), None, None) => HoldScope::All,
            (None, Some(zone), None) => HoldScope::Zone(zone.parse::<Zone>()?),
            (None, None, Some(node)) if !node.is_empty() => HoldScope::Node(NodeName::from(node)),
            _ => return Err(Error::Scope),
        };
        if entry.reason.trim().is_empty() {
            return Err(Error::NoReason);
        }
        Ok(Self {
            scope,
            since: entry.since,
            until: entry.until,
            reason: entry.reason,
            by: entry.by,
        })
    }

    /// The entry that says this.
    pub fn to_entry(&self) -> String {
        let (mut all, mut zone, mut node) = (None, None, None);
        match &self.scope {
            HoldScope::All => all = Some(true),
            HoldScope::Zone(of) => zone = Some(of.to_string()),
            HoldScope::Node(of) => node = Some(of.to_string()),
        }
        let entry = Entry {
            all,
            zone,
            node,
            since: self.since,
            until: self.until,
            reason: self.reason.clone(),
            by: self.by.clone(),
        };
        serde_json::to_string(&entry).expect("texts and times are JSON")
    }

    /// The key that `bailiff pause` writes it under: one per scope. What is paused is said by the entry, whatever its key.
    pub fn key(&self) -> String {
        match &self.scope {
            HoldScope::All => "all".to_owned(),
            // Label values are made of what keys may hold; the length tells where the region ends.
            HoldScope::Zone(zone) => format!("zone.{}.{}.{}", zone.region.len(), zone.region, zone.zone),
            HoldScope::Node(name) => format!("node.{name}"),
        }
    }

    /// How long it was asked for; `None` if the entry does not say when it began.
    fn asked_for(&self) -> Option<Duration> {
        let asked = self.until.duration_since(self.since?);
        (!asked.is_negative()).then(|| asked.unsigned_abs())
    }

    /// One sentence for people.
    fn detail(&self) -> String {
        let reason: String = self.reason.chars().take(LONGEST_REASON).collect();
        let by = if self.by.is_empty() {
            String::new()
        } else {
            format!(" by {}", self.by)
        };
        format!("paused{by} until {:.0}: {reason}", self.until)
    }
}

/// An entry, and how long it lasts on the monotonic clock.
#[derive(Clone, Debug)]
struct Known {
    text: String,
    pause: Pause,
    /// Not over before.
    earliest: Mono,
    /// Over by then.
    latest: Mono,
    seen: Wall,
    /// Its end was said, or it was over when it was first seen.
    is_over_said: bool,
}

impl Known {
    fn new(text: &str, pause: Pause, live: bool, now: Now) -> Self {
        let left = pause.until.duration_since(now.wall);
        let left = if left.is_negative() {
            Duration::ZERO
        } else {
            left.unsigned_abs()
        };
        let full = pause.asked_for().unwrap_or(left).min(LONGEST);
        let least = if live { full } else { left.min(full) };
        let mut known = Self {
            text: text.to_owned(),
            earliest: now.mono + least,
            latest: now.mono + full,
            seen: now.wall,
            is_over_said: false,
            pause,
        };
        known.is_over_said = known.is_over(now);
        known
    }

    fn is_over(&self, now: Now) -> bool {
        now.mono >= self.latest || (now.mono >= self.earliest && now.wall >= self.pause.until)
    }

    /// When to look whether it is over, or stands again; `None` if it never will. In between the wall clock decides, which may be set
    /// at any time.
    fn looked_at(&self, now: Now) -> Option<Mono> {
        if now.mono >= self.latest {
            None
        } else if now.mono < self.earliest {
            Some(self.earliest)
        } else {
            Some(self.latest.min(now.mono + LOOK_EVERY))
        }
    }
}

/// The entries of the ConfigMap, as they were when each was first seen.
#[derive(Clone, Debug, Default)]
pub struct Book {
    known: BTreeMap<String, Known>,
    unreadable: Option<(String, Wall)>,
}

impl Book {
    /// When to look again without being told anything; `None` if time alone changes nothing any more.
    pub fn looked_at(&self, now: Now) -> Option<Mono> {
        self.known.values().filter_map(|known| known.looked_at(now)).min()
    }

    /// The ConfigMap is not there.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// It cannot be read.
    pub fn set_unreadable(&mut self, what: String, now: Now) {
        let since = self.unreadable.as_ref().map_or(now.wall, |(_, since)| *since);
        self.unreadable = Some((what, since));
    }

    /// It says this; `live` if it was seen to change.
    pub fn set(&mut self, entries: &BTreeMap<String, String>, live: bool, now: Now) {
        let mut known = BTreeMap::new();
        let mut wrong = Vec::new();
        for (key, text) in entries {
            match (self.known.remove(key), Pause::parse(text)) {
                (Some(entry), _) if entry.text == *text => drop(known.insert(key.clone(), entry)),
                (_, Ok(pause)) => drop(known.insert(key.clone(), Known::new(text, pause, live, now))),
                (_, Err(error)) => wrong.push(format!("entry {key:?}: {error}")),
            }
        }
        self.known = known;
        if wrong.is_empty() {
            self.unreadable = None;
        } else {
            self.set_unreadable(wrong.join("; "), now);
        }
    }

    /// The pauses that ended by themselves, each said once. One that was over when it was first seen is none of them.
    pub fn ended(&mut self, now: Now) -> Vec<Pause> {
        let over = self
            .known
            .values_mut()
            .filter(|known| !known.is_over_said && known.is_over(now));
        over.map(|known| {
            known.is_over_said = true;
            known.pause.clone()
        })
        .collect()
    }

    /// What is held now.
    pub fn holds(&self, now: Now) -> Holds {
        let mut holds = Holds::NONE;
        let standing = self.known.values().filter(|known| !known.is_over(now));
        for known in standing {
            let scope = known.pause.scope.clone();
            // Of several for one scope, the one that lasts longest is said.
            let longer = self.longest(&scope, now).is_some_and(|longest| longest.pause == known.pause);
            if longer {
                let since = known.pause.since.map_or(known.seen, |since| since.min(known.seen));
                holds.insert(scope, mk_hold(known.pause.detail(), since, Some(known.pause.until)));
            }
        }
        if let Some((what, since)) = &self.unreadable {
            let detail = format!("the ConfigMap {}/{} cannot be read: {what}", super::NAMESPACE, super::NAME);
            holds.insert(HoldScope::All, mk_hold(detail, *since, None));
        }
        holds
    }

    fn longest(&self, scope: &HoldScope, now: Now) -> Option<&Known> {
        let standing = self
            .known
            .values()
            .filter(|known| known.pause.scope == *scope && !known.is_over(now));
        standing.max_by_key(|known| known.pause.until)
    }
}

fn mk_hold(detail: String, since: Wall, until: Option<Wall>) -> Hold {
    Hold {
        reason: HoldReason::Paused,
        detail,
        since,
        until,
    }
}

#[cfg(test)]
mod tests;
