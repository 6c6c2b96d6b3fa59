//! What a prober found, by what its file says and when that was seen to change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Error, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use bailiff_model::{Mono, NodeName};
use serde::Deserialize;

/// More than the results of any cluster: 100,000 lines.
const MOST_BYTES: u64 = 8 << 20;

/// One line of the file: `{"node": "n1", "up": true, "time": "2026-11-22T09:00:00Z"}`. Fields that are not known are passed over.
#[derive(Debug, Deserialize)]
struct Line {
    node: String,
    /// The prober reached it.
    up: bool,
    /// When it tried. Compared with what stood there before, never with a clock: nobody knows how the prober's goes.
    time: String,
}

#[derive(Debug)]
struct Probe {
    up: bool,
    time: String,
    /// When `time` was seen to change; `None`: it stood there at first sight, and may be of any age.
    seen: Option<Mono>,
}

/// The latest probe of each node.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    by_node: BTreeMap<NodeName, Probe>,
}

impl Probes {
    /// Takes in what the file says. What it does not say, or not so that it can be read, leaves what was known: that grows too old by
    /// itself, after `validity`.
    pub(crate) fn take(&mut self, said: BTreeMap<NodeName, (bool, String)>, now: Mono, validity: Duration) {
        self.by_node
            .retain(|name, probe| said.contains_key(name) || probe.age(now, validity).is_some());
        for (name, (up, time)) in said {
            let first = Probe { up, time, seen: None };
            match self.by_node.get_mut(&name) {
                None => drop(self.by_node.insert(name, first)),
                Some(known) if known.time == first.time => known.up &= up,
                Some(known) => {
                    *known = Probe {
                        seen: Some(now),
                        ..first
                    }
                }
            }
        }
    }

    /// How long ago the prober was seen to have reached the node, if that was within `validity` and is the last it said.
    pub(crate) fn reached(&self, name: &NodeName, now: Mono, validity: Duration) -> Option<Duration> {
        self.by_node.get(name).filter(|probe| probe.up)?.age(now, validity)
    }
}

impl Probe {
    fn age(&self, now: Mono, validity: Duration) -> Option<Duration> {
        let age = now.saturating_since(self.seen?);
        (age < validity).then_some(age)
    }
}

/// What a file says of each node, and what is wrong with it: how many lines, and the first of them.
pub(crate) type Said = (BTreeMap<NodeName, (bool, String)>, Option<String>);

pub(crate) fn parse(text: &str) -> Said {
    let (mut said, mut skipped, mut first) = (BTreeMap::new(), 0, None);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Line>(line) {
            // Of two lines about a node the last counts, and no other: what both say in turn is no news.
            Ok(Line { node, up, time }) => drop(said.insert(NodeName::from(node), (up, time))),
            Err(error) => {
                skipped += 1;
                first.get_or_insert_with(|| format!("line {number}: {error}"));
            }
        }
    }
    (said, first.map(|first| format!("{skipped} skipped: {first}")))
}

/// By what a file is known to have changed.
pub(crate) type Stamp = (SystemTime, u64);

/// What the file says, if it changed since it had this stamp.
///
/// # Errors
/// It is not there, no file, larger than 8 MiB, or cannot be read.
pub(crate) fn load(path: &Path, known: Option<Stamp>) -> io::Result<Option<(Stamp, Said)>> {
    // Before it is opened: a pipe would make whoever opens it wait.
    let about = std::fs::metadata(path)?;
    let stamp = (about.modified()?, about.len());
    if !about.is_file() || about.len() > MOST_BYTES {
        return Err(Error::other("it is no file, or one of more than 8 MiB"));
    }
    if known == Some(stamp) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(Some((stamp, parse(&String::from_utf8_lossy(&bytes)))))
}
