//! W3C trace context of an incident.
//!
//! The trace id is a hash of what started the incident, so that every stage, and a stage that was restarted, finds the same trace.

use std::fmt;
use std::num::NonZeroU64;

use crate::hex;
use crate::ids::NodeUid;
use crate::time::Wall;

/// Trace and parent span of a record: `traceparent` of W3C Trace Context. Written as version 00, sampled; a later version is read as
/// far as version 00 goes, as the standard asks (§3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceContext {
    /// High and low half: a `u128` would lie at multiples of 16, and an `Option` of this take twice as much.
    trace_id: [u64; 2],
    span_id: NonZeroU64,
}

/// A text that is no `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a traceparent: wanted 00-<32 lower case hex digits>-<16 hex digits>-<2 hex digits>, ids not zero")]
pub struct ParseError(String);

impl TraceContext {
    /// This trace and parent span; `None` if an id is zero, which is none.
    pub fn new(trace_id: u128, span_id: u64) -> Option<Self> {
        let span_id = NonZeroU64::new(span_id)?;
        (trace_id != 0).then(|| Self::of(trace_id, span_id))
    }

    fn of(trace_id: u128, span_id: NonZeroU64) -> Self {
        Self {
            trace_id: [(trace_id >> 64) as u64, trace_id as u64],
            span_id,
        }
    }

    /// Trace id; not zero.
    pub fn trace_id(&self) -> u128 {
        let [high, low] = self.trace_id.map(u128::from);
        high << 64 | low
    }

    /// Id of the span that the receiver's spans are children of; not zero.
    pub const fn span_id(&self) -> u64 {
        self.span_id.get()
    }

    /// The trace of the incident that began with `node`'s last sign of life at `last_sign`.
    pub fn incident(node: &NodeUid, last_sign: Wall) -> Self {
        Self::derived(&[&node.to_string(), &last_sign.as_microsecond().to_string()])
    }

    /// The trace of something else that is identified by `parts`, such as a hand-made taint or a rollout.
    pub fn derived(parts: &[&str]) -> Self {
        // No byte of UTF-8 is 0xff: where one part ends and the next begins counts.
        let bytes = || parts.iter().flat_map(|part| part.bytes().chain([0xff]));
        // FNV-1a, 128 and 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
        let trace_id = bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        });
        let span_id = bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::of(trace_id.max(1), at_least_one(span_id))
    }

    /// The same trace with another parent span.
    pub fn child(self, span_id: u64) -> Self {
        Self {
            span_id: at_least_one(span_id),
            ..self
        }
    }
}

const fn at_least_one(id: u64) -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(id.saturating_sub(1))
}

/// Length of a text of version 00: two digits, 32, 16 and two, with dashes between.
const LEN: usize = 55;

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-01";
        let (trace, span) = (self.trace_id().to_be_bytes(), self.span_id().to_be_bytes());
        for (pair, byte) in text[3..35].as_chunks_mut::<2>().0.iter_mut().zip(trace) {
            *pair = hex::digits(byte);
        }
        for (pair, byte) in text[36..52].as_chunks_mut::<2>().0.iter_mut().zip(span) {
            *pair = hex::digits(byte);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl std::str::FromStr for TraceContext {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text.as_bytes()).ok_or_else(|| ParseError(text.to_owned()))
    }
}

/// Upper case is not allowed; version ff is none; only a later version may have more parts.
fn read(text: &[u8]) -> Option<TraceContext> {
    let (known, more) = text.split_at_checked(LEN)?;
    let [version] = hex::bytes(&known[..2])?;
    let has_form = [2, 35, 52].iter().all(|place| known[*place] == b'-') && hex::bytes::<1>(&known[53..]).is_some();
    let is_readable = version != 0xff && (more.is_empty() || (version != 0 && more[0] == b'-'));
    if !has_form || !is_readable {
        return None;
    }
    let trace_id = u128::from_be_bytes(hex::bytes(&known[3..35])?);
    let span_id = u64::from_be_bytes(hex::bytes(&known[36..52])?);
    TraceContext::new(trace_id, span_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_always_has_the_same_trace() {
        let at = |uid: &str, micros| {
            let wall = Wall::from_microsecond(micros).expect("in range");
            TraceContext::incident(&NodeUid::from(uid), wall)
        };
        assert_eq!(at("u", 1), at("u", 1));
        assert_ne!(at("u", 1).trace_id(), at("u", 2).trace_id());
        assert_ne!(at("u", 1).trace_id(), at("v", 1).trace_id());
        assert_eq!(at("u", 1).to_string().parse(), Ok(at("u", 1)));
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(TraceContext::derived(&["ab", "c"]), TraceContext::derived(&["a", "bc"]));
        assert_ne!(TraceContext::derived(&["a"]), TraceContext::derived(&["a", ""]));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let ids = "0000000000000000000000000000000a-000000000000000b";
        let wanted = TraceContext::new(10, 11).expect("ids are not zero");
        for text in [
            format!("00-{ids}-00"),
            format!("01-{ids}-01"),
            format!("cc-{ids}-01-what-the-future-brings"),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for text in [
            format!("ff-{ids}-01"),
            format!("00-{ids}-01-more"),
            format!("01-{ids}-01more"),
            format!("0-{ids}-01"),
        ] {
            assert!(text.parse::<TraceContext>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        let zero = "00-00000000000000000000000000000000-0000000000000001-01";
        let signed = "00-+0000000000000000000000000000001-0000000000000001-01";
        for text in ["", "00", "01-0-0-0", zero, signed, "00-a-b-c-d"] {
            assert!(text.parse::<TraceContext>().is_err(), "{text:?}");
        }
    }
}
