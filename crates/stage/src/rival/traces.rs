//! What a kube-controller-manager leaves on objects when it does one of our duties, and which of it is new. Pure.
//!
//! The server records in `managedFields` who wrote which field last: `kube-controller-manager` for all of its controllers. So a trace
//! is a field of the duty, owned by that manager, with the value it has; a new write is a trace that was not there before. A field that
//! somebody else writes changes its owner, and fields that other controllers own (addresses, volumes, annotations) are no traces. Times
//! are only compared for being other ones: no clock matters.
//!
//! # Guarantees
//! - What the first list shows is the past, whatever it is: only what changes later is news. Of the past the youngest trace is told, with
//!   its time as the rival wrote it, for whom it may concern.
//! - What we write is no trace: our requests name `bailiff`.
//! - While no traces are known, an object without that manager costs one search through its bytes; one with it, a reading of its
//!   managers. Nothing is allocated for either.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::LazyLock;

use bailiff_cluster::Encoded;
use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{Condition, Conditions, JsonText, Meta, TaintView, Taints, or_default, time};
use bailiff_model::{Wall, wellknown};
use memchr::memmem::Finder;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The manager's name in `managedFields`: the client's name up to the first slash.
pub const MANAGER: &str = "kube-controller-manager";

/// Finds it.
static NAMED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(MANAGER));

/// Reason of a pod's DisruptionTarget that taint eviction sets; other controllers of the same process set others.
const REASON_TAINT_EVICTION: &str = "DeletionByTaintManager";

/// Conditions of a node that say how it is.
const NODE_CONDITIONS: [&str; 4] = [
    wellknown::CONDITION_READY,
    wellknown::CONDITION_MEMORY_PRESSURE,
    wellknown::CONDITION_DISK_PRESSURE,
    wellknown::CONDITION_PID_PRESSURE,
];

/// Which traces are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// On nodes: conditions and taints of health.
    Nodes,
    /// On pods: Ready, and DisruptionTarget by taint eviction.
    Pods,
    /// On DaemonSets: the status.
    DaemonSets,
    /// On Events, of which only those of our controllers are watched: that there is one.
    Events,
}

/// What is known of one kind.
#[derive(Clone, Debug)]
pub struct Traces {
    what: What,
    /// By namespace and name. Objects without traces are not in it.
    known: BTreeMap<(String, String), Vec<u64>>,
    /// A list was seen whole.
    begun: bool,
    /// The youngest of the first list.
    youngest: Option<Past>,
}

/// A trace that was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// When the rival says it did it.
    pub at: Wall,
    /// What it did.
    pub what: String,
}

/// What the rival owns of a duty.
#[derive(Clone, Copy, Debug)]
struct Trace {
    value: u64,
    at: Option<Wall>,
    did: &'static str,
}

/// Who owns what, which is all that is read of most objects. Nothing in it is copied.
#[derive(Deserialize)]
struct Owned<'a> {
    #[serde(borrow)]
    metadata: Owners<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owners<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "of_the_rival")]
    managed_fields: Vec<Entry<'a>>,
}

/// An entry of `managedFields`.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(default, borrow)]
    manager: Cow<'a, str>,
    #[serde(default, borrow)]
    subresource: Cow<'a, str>,
    #[serde(default, deserialize_with = "time")]
    time: Option<Wall>,
    #[serde(default, rename = "fieldsV1", borrow)]
    fields: Option<JsonText<'a>>,
}

/// The values that its fields have.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Values {
    #[serde(deserialize_with = "or_default")]
    spec: Taints,
    #[serde(deserialize_with = "or_default")]
    status: Conditions,
    #[serde(rename = "reportingComponent", deserialize_with = "or_default")]
    reporter: String,
    #[serde(deserialize_with = "or_default")]
    source: EventSource,
}

/// As far as it tells of our fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:spec")]
    spec: SpecFields,
    #[serde(rename = "f:status")]
    status: StatusFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "f:taints")]
    taints: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusFields {
    #[serde(rename = "f:conditions")]
    conditions: BTreeMap<String, ConditionFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionFields {
    #[serde(rename = "f:status")]
    status: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventSource {
    component: String,
}

// === impl What ===

impl What {
    /// The table of their message, where they are watched in protobuf.
    const fn message(self) -> Option<&'static Message> {
        match self {
            Self::Nodes => Some(&schema::NODE),
            Self::Pods => Some(&schema::POD),
            Self::Events => Some(&schema::EVENT),
            Self::DaemonSets => None,
        }
    }
}

// === impl Traces ===

impl Traces {
    /// Nothing seen yet.
    pub const fn of(what: What) -> Self {
        Self {
            what,
            known: BTreeMap::new(),
            begun: false,
            youngest: None,
        }
    }

    /// An object as the server sent it; what the rival was seen to do, if it was.
    pub fn saw(&mut self, object: &Encoded<'_>) -> Option<String> {
        if self.known.is_empty() && NAMED.find(object.bytes()).is_none() {
            return None;
        }
        let message = self.what.message();
        // What cannot be read tells nothing; the watch's reader says that it cannot.
        let Owners {
            name,
            namespace,
            managed_fields: mut entries,
        } = object.read::<Owned<'_>>(message).ok()?.metadata;
        entries.retain(|entry| self.may_tell(entry));
        if entries.is_empty() && self.known.is_empty() {
            return None;
        }
        let key = (namespace.unwrap_or_default().into_owned(), name.into_owned());
        let values = if entries.is_empty() {
            Values::default()
        } else {
            object.read(message).ok()?
        };
        let found: Vec<_> = entries.iter().flat_map(|entry| self.traces(entry, &values)).collect();
        if found.is_empty() {
            // What it owned belongs to somebody else now; when it has it again, that is a write.
            self.known.remove(&key);
            return None;
        }
        if !self.begun {
            self.remember(&found, &key, &values);
        }
        let before = self.known.get(&key);
        let news = found
            .iter()
            .find(|trace| before.is_none_or(|before| !before.contains(&trace.value)));
        let said = news.filter(|_| self.begun).map(|trace| self.say(trace.did, &key, &values));
        self.known.insert(key, found.into_iter().map(|trace| trace.value).collect());
        said
    }

    /// The list is whole: what comes from now on is new. The youngest trace that was there, once.
    pub fn saw_all(&mut self) -> Option<Past> {
        self.begun = true;
        self.youngest.take()
    }

    fn remember(&mut self, found: &[Trace], key: &(String, String), values: &Values) {
        for (trace, at) in found.iter().filter_map(|trace| Some((trace, trace.at?))) {
            if self.youngest.as_ref().is_none_or(|youngest| youngest.at < at) {
                let what = self.say(trace.did, key, values);
                self.youngest = Some(Past { at, what });
            }
        }
    }

    /// An object is gone.
    pub fn gone(&mut self, meta: &Meta) {
        if !self.known.is_empty() {
            self.known.remove(&(meta.namespace.to_string(), meta.name.to_string()));
        }
    }

    /// False if the entry owns nothing of the duty for sure.
    fn may_tell(&self, entry: &Entry<'_>) -> bool {
        let owns = |field| entry.fields.is_some_and(|fields| fields.0.contains(field));
        match self.what {
            What::Nodes => owns("\"f:conditions\"") || owns("\"f:taints\""),
            What::Pods => owns("\"f:conditions\""),
            What::DaemonSets => entry.subresource == "status",
            What::Events => true,
        }
    }

    /// What the rival owns of the duty by this entry, what that is worth, and since when: the time of the value where there is one, since
    /// the same entry holds fields of other controllers.
    fn traces(&self, entry: &Entry<'_>, values: &Values) -> Vec<Trace> {
        let fields = entry.fields.and_then(|fields| serde_json::from_str::<Fields>(fields.0).ok());
        let fields = fields.unwrap_or_default();
        let of_the_entry = |did| {
            let (value, at) = (hash(&entry.time), entry.time);
            vec![Trace { value, at, did }]
        };
        let types: &[&str] = match self.what {
            What::Nodes => &NODE_CONDITIONS,
            What::Pods => &[wellknown::CONDITION_READY, wellknown::CONDITION_DISRUPTION_TARGET],
            What::DaemonSets => return of_the_entry("wrote the status of DaemonSet"),
            What::Events => return of_the_entry("emits Events as"),
        };
        let conditions = values.status.conditions.iter().filter(|condition| {
            types.contains(&&*condition.kind) && fields.status.owns(&condition.kind) && !is_of_another_controller(condition)
        });
        let did = match self.what {
            What::Nodes => "wrote health conditions of node",
            _ => "wrote conditions of pod",
        };
        let mut found: Vec<Trace> = conditions
            .map(|condition| Trace {
                value: value(condition),
                at: condition.last_transition_time,
                did,
            })
            .collect();
        let taints = fields.spec.taints.and_then(|_| health_taints(&values.spec.taints));
        found.extend(taints.filter(|_| self.what == What::Nodes).map(|(value, at)| Trace {
            value,
            at,
            did: "wrote health taints of node",
        }));
        found
    }

    fn say(&self, did: &str, (namespace, name): &(String, String), values: &Values) -> String {
        match self.what {
            What::Nodes => format!("{did} {name}"),
            What::Pods | What::DaemonSets => format!("{did} {namespace}/{name}"),
            What::Events if values.reporter.is_empty() => format!("{did} {}", values.source.component),
            What::Events => format!("{did} {}", values.reporter),
        }
    }
}

// === impl StatusFields ===

impl StatusFields {
    /// True if the status of the condition is among them.
    fn owns(&self, kind: &str) -> bool {
        let key = format!("k:{{\"type\":\"{kind}\"}}");
        self.conditions.get(&key).is_some_and(|fields| fields.status.is_some())
    }
}

/// Keeps the entries of the rival.
fn of_the_rival<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Entry<'a>>, D::Error> {
    struct Entries<'a>(PhantomData<&'a ()>);
    impl<'de: 'a, 'a> Visitor<'de> for Entries<'a> {
        type Value = Vec<Entry<'a>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("managedFields")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(entry) = entries.next_element::<Entry<'a>>()? {
                if entry.manager == MANAGER {
                    found.push(entry);
                }
            }
            Ok(found)
        }
    }
    deserializer.deserialize_any(Entries(PhantomData))
}

/// Pod garbage collection and others set DisruptionTarget too.
fn is_of_another_controller(condition: &Condition) -> bool {
    condition.kind == wellknown::CONDITION_DISRUPTION_TARGET && condition.reason != REASON_TAINT_EVICTION
}

/// The taints that tell of a node's health, and when the youngest was added; nothing if there are none.
fn health_taints(taints: &[TaintView]) -> Option<(u64, Option<Wall>)> {
    let keys = [wellknown::TAINT_NOT_READY, wellknown::TAINT_UNREACHABLE];
    let taints = taints.iter().filter(|taint| keys.contains(&&*taint.key));
    let facts: Vec<_> = taints.map(|taint| (&taint.key, &taint.effect, taint.time_added)).collect();
    let added = facts.iter().filter_map(|(_, _, added)| *added).max();
    (!facts.is_empty()).then(|| (hash(&facts), added))
}

fn value(condition: &Condition) -> u64 {
    hash(&(&condition.kind, &condition.status, condition.last_transition_time))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
