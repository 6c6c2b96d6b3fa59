//! Encoded messages that are nearly alike, kept as what differs from one of them.
//!
//! What is said of thousands of pods of one incident, or of all nodes that are well, differs in names and uids and little else.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) mod differences;

/// A message, and others as what differs from it. Cloning it gives the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern(Arc<Vec<u8>>);

/// The present pattern of each kind of message. Of one kind are those whose last field is the same one: an envelope's is its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(BTreeMap<u32, Present>);

/// A pattern, and how many messages are kept by it.
#[derive(Clone, Debug, Default)]
struct Present {
    pattern: Pattern,
    kept: usize,
}

/// So many messages are kept by a pattern before another one takes its place: where each is a pattern, nothing is gained.
const WORTH_A_PATTERN: usize = 16;

// === impl Patterns ===

impl Patterns {
    /// What a message is kept by, and what of it differs from that. One that has little in common with the pattern is that of those that
    /// come.
    pub(crate) fn keep(&mut self, message: &[u8]) -> (Pattern, Vec<u8>) {
        let present = self.0.entry(differences::last_tag(message)).or_default();
        let mut differences = present.pattern.differences(message);
        let may_change = present.kept == 0 || present.kept >= WORTH_A_PATTERN;
        if may_change && differences.len() > message.len() / 2 {
            let pattern = Pattern(Arc::new(message.to_vec()));
            differences = pattern.differences(message);
            *present = Present { pattern, kept: 0 };
        }
        present.kept += 1;
        (present.pattern.clone(), differences)
    }
}

// === impl Pattern ===

impl Pattern {
    /// What of a message differs.
    pub(crate) fn differences(&self, message: &[u8]) -> Vec<u8> {
        differences::of(message, &self.0)
    }

    /// The message of which these are the differences, in a vector with room for so much more.
    pub(crate) fn message(&self, differences: &[u8], room: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.0.len() + differences.len() + room);
        differences::apply(differences, &self.0, &mut message).expect("they are of this pattern");
        message
    }

    /// True if it is the same one, not just one like it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use bailiff_proto::v1 as pb;
    use prost::Message as _;

    use super::*;

    fn mk_said(cause: &str, uid: usize) -> Vec<u8> {
        let node = pb::NodeRef {
            name: format!("node-{uid}"),
            ..pb::NodeRef::default()
        };
        let eviction = pb::NodeEviction {
            node: Some(node),
            cause: cause.repeat(20),
            ..pb::NodeEviction::default()
        };
        let envelope = pb::Envelope {
            body: Some(pb::envelope::Body::NodeEviction(eviction)),
            ..pb::Envelope::default()
        };
        envelope.encode_to_vec()
    }

    #[test]
    fn what_many_say_alike_is_kept_once_and_each_comes_out_as_it_was() {
        let mut patterns = Patterns::default();
        let none = pb::Envelope::default().encode_to_vec();
        let removal = pb::Envelope {
            route: "eu:a".to_owned(),
            ..pb::Envelope::default()
        };
        let (removal, mut evictions) = (removal.encode_to_vec(), Vec::new());
        for uid in 0..3 * WORTH_A_PATTERN {
            let cause = if uid < WORTH_A_PATTERN { "unreachable" } else { "not ready" };
            for message in [mk_said(cause, uid), removal.clone(), none.clone()] {
                let (pattern, differences) = patterns.keep(&message);
                assert_eq!(pattern.message(&differences, 9), message);
                assert!(differences.len() < 32, "{differences:?}");
                if message.len() > 100 {
                    evictions.push(pattern);
                }
            }
        }
        let (before, after) = evictions.split_at(WORTH_A_PATTERN);
        assert!(
            before.iter().all(|pattern| pattern.is(&before[0])),
            "other kinds do not drive it out"
        );
        assert!(after.iter().all(|pattern| pattern.is(&after[0])), "what comes is alike again");
    }

    #[test]
    fn where_each_is_another_few_are_patterns() {
        let mut patterns = Patterns::default();
        let kept: Vec<Pattern> = (0..3 * WORTH_A_PATTERN)
            .map(|nth| patterns.keep(&mk_said(&nth.to_string(), nth)).0)
            .collect();
        assert_eq!(kept.windows(2).filter(|pair| !pair[0].is(&pair[1])).count(), 2);
    }
}
