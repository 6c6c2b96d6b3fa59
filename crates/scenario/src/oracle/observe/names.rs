//! Names that differ from run to run, and the names that recordings have for them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::changes::target;
use super::{Kind, What, Write, at, meta};

/// Label of pods and revisions that carries the hash of a template.
const HASH: &str = "/metadata/labels/controller-revision-hash";
/// Characters of generated names.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";
/// How many of them a generated name ends in.
const SUFFIX: usize = 5;

/// What is known of names so far.
#[derive(Debug, Default)]
pub struct Names {
    /// Public names of daemon pods, by their own.
    pods: BTreeMap<String, String>,
    /// How many pods were created so far, by namespace, DaemonSet and target.
    pods_made: BTreeMap<(String, String, String), usize>,
    /// Public hashes, by hash.
    hashes: BTreeMap<String, String>,
    /// How many hashes were seen, by namespace and DaemonSet.
    hashes_made: BTreeMap<(String, String), usize>,
    /// Identifiers, by uid.
    identifiers: BTreeMap<String, String>,
    /// How many objects had an identifier so far.
    uses: BTreeMap<String, usize>,
    /// Prefixes of pods that DaemonSets create.
    prefixes: Vec<String>,
}

impl Names {
    /// The identifier of a written object. Must be told of every write, oldest first.
    pub fn identify(&mut self, write: &Write) -> String {
        let object = &write.object;
        let uid = meta(object, "uid");
        if let Some(known) = self.identifiers.get(uid) {
            return known.clone();
        }
        if write.kind == Kind::DaemonSet {
            self.prefixes.push(format!("{}-", meta(object, "name")));
        }
        let is_made = write.by_controllers && write.what == What::Created;
        let name = match (write.kind, daemon_set(object)) {
            (Kind::Pod, Some(set)) if is_made => self.pod_made(object, set),
            (Kind::ControllerRevision, Some(set)) if is_made => self.revision_made(object, set),
            _ => meta(object, "name").to_owned(),
        };
        let kind = match write.kind {
            Kind::Node => "node",
            Kind::Pod => "pod",
            Kind::DaemonSet => "daemonset",
            Kind::ControllerRevision => "controllerrevision",
            Kind::Event => "event",
        };
        let identifier = match meta(object, "namespace") {
            "" => format!("{kind}/{name}"),
            namespace => format!("{kind}/{namespace}/{name}"),
        };
        let uses = self.uses.entry(identifier.clone()).or_default();
        let again = *uses;
        *uses += 1;
        let identifier = if again == 0 {
            identifier
        } else {
            format!("{identifier}/recreated-{again}")
        };
        self.identifiers.insert(uid.to_owned(), identifier.clone());
        identifier
    }

    fn pod_made(&mut self, pod: &Value, set: &str) -> String {
        let node = target(pod);
        let key = (meta(pod, "namespace").to_owned(), set.to_owned(), node.clone());
        let count = self.pods_made.entry(key).or_default();
        *count += 1;
        let public = format!("{set}@{node}#{count}");
        self.pods.insert(meta(pod, "name").to_owned(), public.clone());
        public
    }

    fn revision_made(&mut self, revision: &Value, set: &str) -> String {
        let hash = at(revision, HASH);
        if hash.is_empty() {
            return meta(revision, "name").to_owned();
        }
        if !self.hashes.contains_key(hash) {
            let count = self
                .hashes_made
                .entry((meta(revision, "namespace").to_owned(), set.to_owned()))
                .or_default();
            *count += 1;
            self.hashes.insert(hash.to_owned(), format!("<{set}-hash-{count}>"));
        }
        format!("{set}-{}", self.hashes[hash])
    }

    /// A text with the public names of everything that is known.
    pub fn public(&self, text: &str) -> String {
        words(text, |word| {
            let bare = word.trim_end_matches('.');
            let public = self.word(bare)?;
            Some(format!("{public}{}", &word[bare.len()..]))
        })
    }

    fn word(&self, word: &str) -> Option<String> {
        if let Some(public) = self.pods.get(word).or_else(|| self.hashes.get(word)) {
            return Some(public.clone());
        }
        if is_uid(word) {
            return Some("<uid>".to_owned());
        }
        let (start, end) = word.rsplit_once('-')?;
        let public = self.hashes.get(end)?;
        Some(format!("{start}-{public}"))
    }

    /// A text with names of pods that were never created replaced.
    pub fn refused(&self, text: &str) -> String {
        words(text, |word| {
            let is_generated = |prefix: &&String| {
                let suffix = word.strip_prefix(prefix.as_str()).unwrap_or_default();
                suffix.len() == SUFFIX && suffix.chars().all(|one| GENERATED.contains(one))
            };
            let prefix = self.prefixes.iter().find(is_generated)?;
            Some(format!("{prefix}<random>"))
        })
    }
}

/// The DaemonSet that owns an object.
fn daemon_set(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| at(owner, "/kind") == "DaemonSet")?;
    Some(at(owner, "/name"))
}

/// Replaces words of a text: what names and uids can consist of.
fn words(text: &str, change: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '.';
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|one| !is_part(one)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match change(word) {
            Some(new) if !word.is_empty() => result.push_str(&new),
            _ => result.push_str(word),
        }
        let next = after.find(is_part).unwrap_or(after.len());
        result.push_str(&after[..next]);
        rest = &after[next..];
    }
    result
}

fn is_uid(word: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = word.split('-');
    let is_hex = |part: &str, length| part.len() == length && part.chars().all(|one| one.is_ascii_hexdigit());
    lengths
        .iter()
        .all(|length| parts.next().is_some_and(|part| is_hex(part, *length)))
        && parts.next().is_none()
}
