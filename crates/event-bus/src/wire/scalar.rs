//! Texts, times and durations: what is allowed, and how it is clipped on the way out.

use std::time::Duration;

use bailiff_model::{Incarnation, Origin, Revision, TraceContext, Wall};

use super::Error;

/// Longest name of a Kubernetes object: a DNS subdomain.
pub const NAME_MAX: usize = 253;
/// Longest uid. A UUID has 36; the API server promises no form, so there is room.
pub const UID_MAX: usize = 128;
/// Longest resourceVersion: opaque, 20 digits in practice.
pub const VERSION_MAX: usize = 128;
/// Longest label value, taint value or hash.
pub const LABEL_MAX: usize = 63;
/// Longest qualified label name: prefix, slash, name.
pub const QUALIFIED_MAX: usize = 253 + 1 + 63;
/// Longest sentence for people: a few lines on a terminal. A longer one is clipped by who writes it.
pub const SENTENCE_MAX: usize = 1024;
/// Longest key: `zone/`, two label values and more room than any name needs.
pub const KEY_MAX: usize = 512;
/// Longest producer or subscriber name.
pub const IDENTITY_MAX: usize = 128;

// 0001-01-01T00:00:00Z, the earliest that a protobuf timestamp may say.
const EARLIEST_SECOND: i64 = -62_135_596_800;

/// A text of `least` to `most` printable ASCII characters without blanks.
pub fn token(field: &str, text: String, least: usize, most: usize) -> Result<String, Error> {
    check_token(field, &text, least, most)?;
    Ok(text)
}

/// That a text is a [`token`].
pub fn check_token(field: &str, text: &str, least: usize, most: usize) -> Result<(), Error> {
    let fits = (least..=most).contains(&text.len());
    if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let allowed = format!("{least} to {most} printable characters without blanks");
    Err(Error::new(field, text, allowed))
}

/// A token without `/`: names and uids, so that they can be part of a key.
pub fn segment(field: &str, text: String, most: usize) -> Result<String, Error> {
    let text = token(field, text, 1, most)?;
    if text.contains('/') {
        return Err(Error::new(field, text, "no '/'"));
    }
    Ok(text)
}

/// `metadata.name`.
pub fn name(field: &str, text: String) -> Result<String, Error> {
    segment(field, text, NAME_MAX)
}

/// `metadata.uid`.
pub fn uid(field: &str, text: String) -> Result<String, Error> {
    segment(field, text, UID_MAX)
}

/// A label value: may be empty; holds no colon, so that zone keys can be read back.
pub fn label(field: &str, text: String) -> Result<String, Error> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.len() <= LABEL_MAX && text.bytes().all(is_allowed) {
        return Ok(text);
    }
    Err(Error::new(field, text, "at most 63 letters, digits, '-', '_' or '.'"))
}

/// A sentence for people.
pub fn sentence(field: &str, text: String) -> Result<String, Error> {
    if text.len() <= SENTENCE_MAX {
        return Ok(text);
    }
    Err(Error::new(field, text, format!("at most {SENTENCE_MAX} bytes")))
}

/// Who publishes or subscribes; blanks are allowed inside.
pub fn identity(field: &str, text: String) -> Result<String, Error> {
    let fits = (1..=IDENTITY_MAX).contains(&text.len());
    let is_plain = || text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_printable = || text.chars().all(|c| !c.is_control()) && text.trim() == text;
    if fits && (is_plain() || is_printable()) {
        return Ok(text);
    }
    Err(Error::new(field, text, format!("1 to {IDENTITY_MAX} printable characters")))
}

/// The record that another one was derived from; none where revision and incarnation are both unset.
pub fn origin(revision: u64, incarnation: String) -> Result<Origin, Error> {
    const FIELD: &str = "derived_from_incarnation";
    if revision == 0 && incarnation.is_empty() {
        return Ok(Origin::default());
    }
    if revision == 0 {
        return Err(Error::new(FIELD, incarnation, "empty where derived_from is 0"));
    }
    let incarnation = identity(FIELD, incarnation)?;
    Ok(Origin::new(Incarnation::from(incarnation), Revision(revision)))
}

/// A time that may be absent.
pub fn time_if_any(field: &str, time: Option<prost_types::Timestamp>) -> Result<Option<Wall>, Error> {
    let Some(time) = time else { return Ok(None) };
    let in_range = time.seconds >= EARLIEST_SECOND && (0..1_000_000_000).contains(&time.nanos);
    let wall = in_range.then(|| Wall::new(time.seconds, time.nanos).ok()).flatten();
    wall.map(Some).ok_or_else(|| {
        let found = format_args!("{} s {} ns", time.seconds, time.nanos).to_string();
        Error::new(field, found, "year 1 to 9999, nanos 0 to 999999999")
    })
}

/// A time that must be there.
pub fn time(field: &str, time: Option<prost_types::Timestamp>) -> Result<Wall, Error> {
    time_if_any(field, time)?.ok_or_else(|| Error::absent(field))
}

/// A duration of zero or more that may be absent.
pub fn duration_if_any(field: &str, duration: Option<prost_types::Duration>) -> Result<Option<Duration>, Error> {
    let Some(duration) = duration else { return Ok(None) };
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    match (u64::try_from(duration.seconds), nanos) {
        (Ok(seconds), Some(nanos)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => {
            let found = format_args!("{} s {} ns", duration.seconds, duration.nanos).to_string();
            Err(Error::new(field, found, "zero or more, nanos 0 to 999999999"))
        }
    }
}

/// A duration of zero or more that must be there.
pub fn duration(field: &str, duration: Option<prost_types::Duration>) -> Result<Duration, Error> {
    duration_if_any(field, duration)?.ok_or_else(|| Error::absent(field))
}

/// A `traceparent`, or empty.
pub fn trace(field: &str, text: &str) -> Result<Option<TraceContext>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let allowed = "00-<32 hex digits>-<16 hex digits>-<2 hex digits>, or empty";
    text.parse().map(Some).map_err(|_| Error::new(field, text, allowed))
}

/// The wire form of a time; before year 1 is year 1.
pub fn to_time(wall: Wall) -> prost_types::Timestamp {
    let (mut seconds, mut nanos) = (wall.as_second(), wall.subsec_nanosecond());
    if nanos < 0 {
        (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
    }
    if seconds < EARLIEST_SECOND {
        (seconds, nanos) = (EARLIEST_SECOND, 0);
    }
    prost_types::Timestamp { seconds, nanos }
}

/// The wire form of a duration; what does not fit is the longest that does.
pub fn to_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).expect("below a thousand million"),
    }
}

/// The wire form of a sentence.
pub fn to_sentence(text: &str) -> String {
    text[..text.floor_char_boundary(SENTENCE_MAX)].to_owned()
}

/// The wire form of a trace.
pub fn to_trace(trace: Option<TraceContext>) -> String {
    trace.map(|trace| trace.to_string()).unwrap_or_default()
}
