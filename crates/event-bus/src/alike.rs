//! Encoded messages that are nearly alike, kept as what differs from one of them.
//!
//! What is said of thousands of pods of one incident, or of all nodes that are well, differs in names and uids and little else.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) mod differences;

/// A message, and others as what differs from it; by the default, which is none, they are kept whole. Cloning it gives the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern(
    /// A pointer in each record, and not one with a length.
    Option<Arc<Vec<u8>>>,
);

/// The present pattern of each kind of message. Of one kind are those whose last field is the same one: an envelope's is its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(BTreeMap<u32, Present>);

/// A pattern, and how many messages came since it is one, itself included.
#[derive(Clone, Debug, Default)]
struct Present {
    pattern: Pattern,
    came: usize,
}

/// So many messages come before another one takes a pattern's place: where each is a pattern, nothing is gained.
const WORTH_A_PATTERN: usize = 16;

/// A pattern is at most so many times as long as what is kept by it, which keeps it alive.
const TIMES_AS_LONG: usize = 2;

// === impl Patterns ===

impl Patterns {
    /// What a message is kept by, and what of it differs from that. One that has little in common with the pattern is that of those that
    /// come.
    pub(crate) fn keep(&mut self, message: &[u8]) -> (Pattern, Vec<u8>) {
        let present = self.0.entry(differences::last_tag(message)).or_default();
        let mut pattern = present.pattern.fitting(message);
        let mut differences = pattern.differences(message);
        let may_change = present.came == 0 || present.came >= WORTH_A_PATTERN;
        if may_change && differences.len() > message.len() / 2 {
            pattern = Pattern(Some(Arc::new(message.to_vec())));
            differences = pattern.differences(message);
            *present = Present {
                pattern: pattern.clone(),
                came: 0,
            };
        }
        present.came += 1;
        (pattern, differences)
    }
}

// === impl Pattern ===

impl Pattern {
    fn bytes(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// This one, or none if it is too long for the message.
    pub(crate) fn fitting(&self, message: &[u8]) -> Self {
        let fits = self.bytes().len() <= TIMES_AS_LONG * message.len();
        if fits { self.clone() } else { Self::default() }
    }

    /// What of a message differs.
    pub(crate) fn differences(&self, message: &[u8]) -> Vec<u8> {
        differences::of(message, self.bytes())
    }

    /// The message of which these are the differences, in a vector with room for so much more.
    pub(crate) fn message(&self, differences: &[u8], room: usize) -> Vec<u8> {
        differences::applied(differences, self.bytes(), room).expect("they are of this pattern")
    }

    /// True if it is the same one, not just one like it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
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
                assert_eq!(pattern.message(&differences, 9).capacity(), message.len() + 9);
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
    fn what_is_short_keeps_nothing_long_alive() {
        let mut patterns = Patterns::default();
        let (long, short) = (mk_said(&"unreachable".repeat(99), 1), mk_said("", 2));
        for (message, is_kept_whole) in [(&long, false), (&short, true), (&long, false), (&short, true)] {
            let (pattern, differences) = patterns.keep(message);
            assert_eq!(pattern.message(&differences, 0), *message);
            assert_eq!(pattern.is(&Pattern::default()), is_kept_whole);
        }
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
