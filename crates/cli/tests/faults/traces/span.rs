//! Spans as a collector shows them, whichever collector that is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use jiff::Timestamp;

/// A span as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenSpan {
    /// In hexadecimal, 32 digits.
    pub trace: String,
    /// In hexadecimal, 16 digits.
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    /// `internal`, `client`.
    pub kind: String,
    pub start: Timestamp,
    pub end: Timestamp,
    /// As texts.
    pub attributes: BTreeMap<String, String>,
    pub has_failed: bool,
    /// The stage that told it.
    pub stage: String,
    /// `service.name` of its resource.
    pub service: String,
    /// `service.instance.id` of its resource.
    pub instance: String,
}

/// A trace: its spans by their ids.
pub type Trace = BTreeMap<String, SeenSpan>;

/// Who takes spans, and shows them.
pub trait Collector: Send + Sync {
    /// Where it takes OTLP over gRPC.
    fn address(&self) -> SocketAddr;

    /// Waits until it has taken in all that it was told.
    fn settle(&self) {}

    /// All spans. Some may be there twice.
    fn all(&self) -> Vec<SeenSpan>;

    /// The traces in which this service told a span with all of these attributes.
    fn find(&self, service: &str, attributes: &[(&str, &str)]) -> BTreeSet<String>;
}

impl SeenSpan {
    /// An attribute, which it must have.
    pub fn get(&self, key: &str) -> &str {
        let value = self.attributes.get(key);
        value.unwrap_or_else(|| panic!("no {key}: {self:#?}"))
    }

    /// It has all of these attributes.
    pub fn has(&self, attributes: &[(&str, &str)]) -> bool {
        let mut all = attributes.iter();
        all.all(|(key, value)| self.attributes.get(*key).is_some_and(|found| found == value))
    }
}

/// Traces by their ids. A span that was told twice is one: told again it may have ended otherwise, and is the same in all else.
pub fn traces(spans: Vec<SeenSpan>) -> BTreeMap<String, Trace> {
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    for span in spans {
        let trace = traces.entry(span.trace.clone()).or_default();
        if let Some(other) = trace.get(&span.id) {
            let says = |span: &SeenSpan| (span.name.clone(), span.parent.clone(), span.start);
            assert_eq!(says(&span), says(other), "two spans have one id");
        }
        trace.insert(span.id.clone(), span);
    }
    traces
}
