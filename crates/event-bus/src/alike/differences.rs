//! What of an encoded message differs from another one, from which it can be had again with that.
//!
//! The two are held against each other field by field (Protocol Buffers, "Encoding"), and the fields of fields. What comes out is read
//! without that: pieces of the other message, in its order, and bytes between them. So whatever the two are, one comes out of the other
//! as it was; that they are alike decides how little it takes.

use std::ops::Range;

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_varint, skip_field};

/// An envelope, and the body in it. Below that all is taken or left as a whole.
const LEVELS: u32 = 1;

/// What `message` has that `other` has not, as steps: how many bytes of the other one to leave out, how many to take, and how many follow
/// here.
pub(crate) fn of(message: &[u8], other: &[u8]) -> Vec<u8> {
    let mut steps = Steps {
        other,
        taken: 0..0,
        own: Vec::new(),
        passed: 0,
        out: Vec::new(),
    };
    steps.compare(message, 0..other.len(), LEVELS);
    steps.end();
    steps.out
}

/// How long the message is of which these are the differences.
pub(crate) fn len(mut differences: &[u8]) -> usize {
    let mut len = 0_usize;
    while let Some(step) = Step::first(&mut differences) {
        len = len.saturating_add(step.taken).saturating_add(step.own.len());
    }
    len
}

/// The message again, in a vector with room for so much more; `None` if these are no differences from `other`.
pub(crate) fn applied(mut differences: &[u8], other: &[u8], room: usize) -> Option<Vec<u8>> {
    // Nothing is in it that is not here or there.
    let len = len(differences).min(differences.len() + other.len());
    let (mut message, mut rest) = (Vec::with_capacity(len.saturating_add(room)), other);
    while !differences.is_empty() {
        let step = Step::first(&mut differences)?;
        let (piece, after) = rest.split_at_checked(step.left_out)?.1.split_at_checked(step.taken)?;
        message.extend_from_slice(piece);
        message.extend_from_slice(step.own);
        rest = after;
    }
    Some(message)
}

/// The tag of the last field, 0 if there is none.
pub(super) fn last_tag(message: &[u8]) -> u32 {
    let (mut rest, mut last) = (message, 0);
    while let Some(field) = Field::first(rest) {
        (rest, last) = (&rest[field.bytes.len()..], field.tag);
    }
    last
}

/// How many bytes of the other message are left out, how many are taken, and what follows them.
struct Step<'a> {
    left_out: usize,
    taken: usize,
    own: &'a [u8],
}

impl<'a> Step<'a> {
    /// Takes the first off the front.
    fn first(differences: &mut &'a [u8]) -> Option<Self> {
        let mut number = || usize::try_from(decode_varint(differences).ok()?).ok();
        let (left_out, taken, own) = (number()?, number()?, number()?);
        let (own, rest) = differences.split_at_checked(own)?;
        *differences = rest;
        Some(Self { left_out, taken, own })
    }
}

/// Steps, the last of which may go on.
struct Steps<'a> {
    other: &'a [u8],
    /// Of the other one it takes this,
    taken: Range<usize>,
    /// and then has this of its own.
    own: Vec<u8>,
    /// What of the other one is behind the steps before it.
    passed: usize,
    out: Vec<u8>,
}

/// A field.
struct Field<'a> {
    tag: u32,
    /// What stands before its content, if that has a length, and may be a message.
    head: Option<usize>,
    bytes: &'a [u8],
}

impl Steps<'_> {
    fn compare(&mut self, message: &[u8], theirs: Range<usize>, levels: u32) {
        let (mut rest, mut at) = (message, theirs.start);
        while let Some(field) = Field::first(rest) {
            rest = &rest[field.bytes.len()..];
            let other = self.other;
            let found = std::iter::from_fn(|| {
                let found = Field::first(&other[at..theirs.end])?;
                at += found.bytes.len();
                Some((at - found.bytes.len(), found))
            })
            .find(|(_, found)| found.tag >= field.tag);
            match found {
                Some((begin, found)) if found.tag == field.tag => self.compare_field(&field, &found, begin, levels),
                // It may be what comes next here.
                Some((begin, _)) => {
                    at = begin;
                    self.own(field.bytes);
                }
                None => self.own(field.bytes),
            }
        }
        self.own(rest);
    }

    fn compare_field(&mut self, field: &Field<'_>, found: &Field<'_>, begin: usize, levels: u32) {
        if field.bytes == found.bytes {
            return self.take(begin..begin + found.bytes.len());
        }
        let (Some(ours), Some(theirs), Some(levels)) = (field.head, found.head, levels.checked_sub(1)) else {
            return self.own(field.bytes);
        };
        if field.bytes[..ours] == found.bytes[..theirs] {
            self.take(begin..begin + theirs);
        } else {
            self.own(&field.bytes[..ours]);
        }
        self.compare(&field.bytes[ours..], begin + theirs..begin + found.bytes.len(), levels);
    }

    fn take(&mut self, piece: Range<usize>) {
        if self.own.is_empty() && piece.start == self.taken.end {
            self.taken.end = piece.end;
        } else {
            self.end();
            self.taken = piece;
        }
    }

    fn own(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    fn end(&mut self) {
        if self.taken.is_empty() && self.own.is_empty() {
            return;
        }
        for number in [self.taken.start - self.passed, self.taken.len(), self.own.len()] {
            encode_varint(number as u64, &mut self.out);
        }
        self.out.append(&mut self.own);
        self.passed = self.taken.end;
        self.taken = self.passed..self.passed;
    }
}

impl<'a> Field<'a> {
    /// The field with which these bytes begin, if they do.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        let mut content = rest;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
        let head =
            (wire_type == WireType::LengthDelimited && decode_varint(&mut content).is_ok()).then(|| bytes.len() - content.len());
        Some(Self {
            tag,
            head,
            bytes: &bytes[..bytes.len() - rest.len()],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use prost::encoding::encode_key;

    use super::*;

    fn field(tag: u32, content: &[u8]) -> Vec<u8> {
        field_of(tag, WireType::LengthDelimited, content)
    }

    /// A field of this kind; a group has fields as its content.
    fn field_of(tag: u32, kind: WireType, content: &[u8]) -> Vec<u8> {
        let mut field = Vec::new();
        encode_key(tag, kind, &mut field);
        if kind == WireType::LengthDelimited {
            encode_varint(content.len() as u64, &mut field);
        }
        field.extend_from_slice(content);
        if kind == WireType::StartGroup {
            encode_key(tag, WireType::EndGroup, &mut field);
        }
        field
    }

    #[test]
    fn what_is_the_same_is_left_out() {
        let (long, other) = ([7; 100], [8; 100]);
        let message = |state: u8, name: &[u8]| [field(1, &long), vec![2 << 3, state], field(3, name)].concat();
        let cases = [
            ("nothing differs", message(1, &long), message(1, &long), 4),
            ("a number", message(1, &long), message(2, &long), 8),
            (
                "a number, and a text of another length",
                message(1, b"a"),
                message(2, b"ab"),
                8,
            ),
            ("a field is not there", field(3, &long), message(1, &long), 3),
            ("a field is there alone", message(1, &long), field(3, &long), 100 + 4 + 6),
            ("in a field", field(19, &message(1, &long)), field(19, &message(2, &long)), 9),
            (
                "in another field",
                field(19, &message(1, &long)),
                field(20, &message(1, &long)),
                214,
            ),
            ("a text", message(1, &long), message(1, &other), 107),
            ("there is no other", message(1, &long), Vec::new(), 211),
            ("it is empty", Vec::new(), message(1, &long), 0),
        ];
        for (what, message, other, most) in cases {
            let differences = of(&message, &other);
            assert_eq!(applied(&differences, &other, 0), Some(message), "{what}");
            assert!(differences.len() <= most, "{what}: {} bytes", differences.len());
        }
    }

    #[test]
    fn differences_from_something_else_are_none() {
        let (message, other) = (field(1, &[7; 100]), field(1, &[7; 100]));
        let differences = of(&message, &other);
        assert_eq!(applied(&differences, &other[..50], 0), None);
        assert_eq!(applied(&differences[..2], &other, 0), None);
        assert_eq!(applied(&[0, 0, 9], &other, 0), None);
        let far_too_long = [&[0][..], &varint(u64::MAX), &[0, 0], &varint(u64::MAX), &[0]].concat();
        assert_eq!(applied(&far_too_long, &other, 0), None);
    }

    fn varint(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_varint(number, &mut bytes);
        bytes
    }

    /// Fields of every kind in any order, some more than once. What they hold is often the same.
    fn fields(levels: u32) -> BoxedStrategy<Vec<u8>> {
        use WireType::{LengthDelimited, SixtyFourBit, StartGroup, ThirtyTwoBit, Varint};
        let few = |len| prop::collection::vec(7_u8..9, len);
        let mut content = prop_oneof![
            prop_oneof![0..3_u64, any::<u64>()].prop_map(|number| (Varint, varint(number))),
            few(4..5).prop_map(|bytes| (ThirtyTwoBit, bytes)),
            few(8..9).prop_map(|bytes| (SixtyFourBit, bytes)),
            prop::collection::vec(any::<u8>(), 0..4).prop_map(|bytes| (LengthDelimited, bytes)),
            (7_u8..9, 120_usize..140).prop_map(|(byte, len)| (LengthDelimited, vec![byte; len])),
        ]
        .boxed();
        if let Some(levels) = levels.checked_sub(1) {
            let within = prop_oneof![Just(LengthDelimited), Just(StartGroup)];
            content = prop_oneof![2 => content, 1 => (within, fields(levels))].boxed();
        }
        let tag = prop_oneof![1_u32..4, 15_u32..18];
        let field = (tag, content).prop_map(|(tag, (kind, content))| field_of(tag, kind, &content));
        prop::collection::vec(field, 0..6).prop_map(|fields| fields.concat()).boxed()
    }

    /// Fields, and bytes behind them.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        (fields(2), prop::collection::vec(any::<u8>(), 0..3)).prop_map(|(fields, more)| [fields, more].concat())
    }

    #[test]
    fn a_field_of_every_kind_is_taken_as_a_whole() {
        let long = [7; 100];
        let kinds = [
            (WireType::Varint, varint(u64::MAX)),
            (WireType::ThirtyTwoBit, vec![7; 4]),
            (WireType::SixtyFourBit, vec![7; 8]),
            (WireType::LengthDelimited, vec![7; 300]),
            (WireType::StartGroup, field(1, &long)),
        ];
        for (kind, content) in kinds {
            let message = |state| [field_of(17, kind, &content), field_of(18, WireType::Varint, &[state])].concat();
            let differences = of(&message(1), &message(2));
            assert_eq!(applied(&differences, &message(2), 0), Some(message(1)), "{kind:?}");
            assert!(differences.len() <= 7, "{kind:?}: {} bytes", differences.len());
        }
    }

    proptest! {
        #[test]
        fn whatever_the_two_are_it_comes_out_as_it_was(message in bytes(), other in bytes()) {
            for (message, other) in [(&message, &other), (&field(16, &message), &field(16, &other))] {
                let again = applied(&of(message, other), other, 0);
                prop_assert_eq!(again.as_ref(), Some(message));
            }
        }

        #[test]
        fn what_is_no_differences_does_no_harm(differences in bytes(), other in bytes()) {
            applied(&differences, &other, 0);
        }
    }

    #[test]
    fn envelopes_that_say_nearly_the_same_differ_little() {
        use bailiff_proto::v1 as pb;
        let said = |seconds, revision| pb::Envelope {
            derived_from: revision,
            derived_from_incarnation: "0f6cbb4e-5f02-4c8c-b8a2-9f0d6f2b0001".to_owned(),
            body: Some(pb::envelope::Body::NodeEviction(pb::NodeEviction {
                cause: "the node has been unreachable for longer than its pods tolerate".to_owned(),
                decided_at: Some(prost_types::Timestamp { seconds, nanos: 5 }),
                ..pb::NodeEviction::default()
            })),
            ..pb::Envelope::default()
        };
        let (earlier, later) = (said(1_700_000_000, 300).encode_to_vec(), said(0, 70_000).encode_to_vec());
        assert!(of(&earlier, &later).len() < 32, "{:?}", of(&earlier, &later));
    }
}
